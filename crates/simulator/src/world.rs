//! The world around the operators: a cluster, its network, and an agenda of what happens when. Decides in
//! which order things happen; `storm` decides what goes wrong, the laws what may not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use controller::stepwise::{JobRef, PassEnd};
use http::Request;
use minicluster::kubelet::{PodRef, PodReport};
use minicluster::{Answer, Cluster};
use tokio::sync::{Notify, oneshot};

use crate::call::Call;
use crate::jobs::{self, Template};
use crate::kubelet::{Due, Kubelet};
use crate::laws::Laws;
use crate::machine::Machine;
use crate::random::Random;
use crate::reply::{self, Reply};
use crate::schedule::Schedule;
use crate::trace::Trace;
use crate::{clock, objects, sets, users};

mod storm;
mod watches;

/// The world, shared by the operators and whoever drives it.
#[derive(Clone)]
pub(crate) struct World(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    news: Notify,
}

/// Everything there is.
pub(crate) struct State {
    pub(crate) cluster: Cluster,
    pub(crate) kubelet: Kubelet,
    pub(crate) laws: Laws,
    pub(crate) trace: Trace,
    pub(crate) schedule: Schedule,
    pub(crate) machines: Vec<Machine>,
    /// What the driver must do to replicas.
    pub(crate) commands: Vec<Command>,
    /// The first law that was broken, and how.
    pub(crate) violation: Option<String>,
    /// When an operator wrote last.
    pub(crate) written_at: u64,
    /// No more faults.
    pub(crate) calm: bool,
    /// Faults that struck.
    pub(crate) struck: Vec<crate::fault::Fault>,
    job: &'static Template,
    agenda: BTreeMap<(u64, u64), Happening>,
    sequence: u64,
    latency: Random,
    /// The process of each replica that is alive; 0 for none.
    processes: Vec<u64>,
    writes: Vec<u32>,
    weather: storm::Weather,
    requests: BTreeMap<u64, Sent>,
    watches: BTreeMap<u64, watches::Open>,
    /// When controllers act next.
    tick_at: Option<u64>,
}

/// What the driver must do.
pub(crate) enum Command {
    Kill(usize),
    Start(usize, u64),
}

enum Happening {
    Arrive(u64),
    Answer(oneshot::Sender<Reply>, Box<Reply>),
    Deliver(u64),
    Look(u64),
    Tick,
    Report(Due),
    /// The node of this pod.
    NodeBack(PodRef),
    User(usize),
    Start(usize),
    Wake(usize),
}

/// A request on its way.
struct Sent {
    replica: usize,
    process: u64,
    call: Call,
    request: Request<Vec<u8>>,
    reply: oneshot::Sender<Reply>,
}

impl World {
    pub(crate) fn new(schedule: &Schedule, keep_trace: bool) -> Self {
        let state = State {
            cluster: jobs::cluster(),
            kubelet: Kubelet::new(schedule.seed, schedule.fate),
            laws: Laws::new(schedule),
            trace: Trace::new(keep_trace),
            schedule: schedule.clone(),
            machines: Vec::new(),
            commands: Vec::new(),
            violation: None,
            written_at: 0,
            calm: false,
            struck: Vec::new(),
            job: jobs::template(schedule.job),
            agenda: BTreeMap::new(),
            sequence: 0,
            latency: Random::new(schedule.seed, "latency"),
            processes: vec![0; schedule.replicas],
            writes: vec![0; schedule.replicas],
            weather: storm::Weather::default(),
            requests: BTreeMap::new(),
            watches: BTreeMap::new(),
            tick_at: None,
        };
        let world = Self(Arc::new(Shared {
            state: Mutex::new(state),
            news: Notify::new(),
        }));
        let mut state = world.lock();
        for index in 0..schedule.script.len() {
            let after = schedule.script[index].0 + 10;
            state.plan(after, Happening::User(index));
        }
        for replica in 0..schedule.replicas {
            state.machines.push(Machine::default());
            state.plan(0, Happening::Start(replica));
        }
        drop(state);
        world
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns once something is to happen, or something new was planned.
    pub(crate) async fn wait(&self) {
        let next = self.lock().agenda.keys().next().map(|(at, _)| *at);
        let next = next
            .unwrap_or(u64::MAX / 2)
            .min(clock::millis() + 3_600_000);
        tokio::select! {
            biased;
            () = self.0.news.notified() => {}
            () = tokio::time::sleep_until(clock::instant(next)) => {}
        }
    }

    /// A replica sends a request.
    pub(crate) fn send(
        &self,
        replica: usize,
        process: u64,
        request: Request<Vec<u8>>,
    ) -> oneshot::Receiver<Reply> {
        let (reply, answer) = oneshot::channel();
        let mut state = self.lock();
        if state.processes[replica] == process {
            let call = Call::of(&request);
            let (id, after) = (state.sequence, 1 + state.latency.skewed(0, 40));
            state.requests.insert(
                id,
                Sent {
                    replica,
                    process,
                    call,
                    request,
                    reply,
                },
            );
            state.plan(after, Happening::Arrive(id));
        }
        drop(state);
        self.0.news.notify_one();
        answer
    }

    /// A replica found out that others may lead by now.
    pub(crate) fn lost_lease(&self, replica: usize, process: u64) {
        let mut state = self.lock();
        if state.processes[replica] == process {
            let who = format!("muster-{replica}");
            state.trace.say(&who, "has lost its lease", "");
            state.kill(replica);
        }
        drop(state);
        self.0.news.notify_one();
    }

    /// A pass of a replica ended.
    pub(crate) fn pass_ended(&self, replica: usize, job: &JobRef, end: &PassEnd) {
        let mut state = self.lock();
        let came = match (&end.error, end.requeue_after) {
            (Some(error), _) => format!("failed: {error}"),
            (None, Some(after)) => format!("again after {} ms", after.as_millis()),
            (None, None) => "done".to_owned(),
        };
        let who = format!("muster-{replica}");
        state
            .trace
            .say(&who, &format!("pass over {}", job.name), &came);
        if end.is_bug {
            state.break_law("I23 isolation", &came);
        }
    }
}

impl State {
    /// The next thing on the agenda, if it is time for it. Returns false if it is not.
    pub(crate) fn step(&mut self) -> bool {
        let Some(entry) = self.agenda.first_entry() else {
            return false;
        };
        if entry.key().0 > clock::millis() {
            return false;
        }
        match entry.remove() {
            Happening::Arrive(id) => self.arrive(id),
            Happening::Answer(to, reply) => _ = to.send(*reply),
            Happening::Deliver(id) => self.deliver(id),
            Happening::Look(id) => self.look(id),
            Happening::Tick => self.tick(),
            Happening::Report(due) if !self.kubelet.still_holds(&due) => {}
            Happening::Report(due) if self.weather.silent_until > clock::millis() => {
                let after = self.weather.silent_until - clock::millis();
                self.plan(after, Happening::Report(due));
            }
            Happening::Report(due) if self.kubelet.starts_again(&due.report) => {
                let what = format!("{} starts its program again", due.report.pod().name);
                self.trace.say("kubelet", &what, "");
                self.resume();
            }
            Happening::Report(due) => self.report(due.report),
            Happening::NodeBack(pod) => self.node_back(&pod),
            Happening::User(index) => self.user(index),
            Happening::Start(replica) => self.start(replica),
            Happening::Wake(replica) => {
                self.trace.say(&format!("muster-{replica}"), "wakes up", "");
                self.machines[replica].wake();
            }
        }
        true
    }

    fn plan(&mut self, after_ms: u64, what: Happening) {
        self.sequence += 1;
        self.agenda
            .insert((clock::millis() + after_ms, self.sequence), what);
    }

    pub(crate) fn break_law(&mut self, law: &str, how: &str) {
        self.trace.say("law", law, how);
        if self.violation.is_none() {
            self.violation = Some(format!("{law}: {how}"));
        }
    }

    /// The weather is calm from now on: no faults, everybody runs, everything is seen soon.
    pub(crate) fn calm_down(&mut self) {
        self.calm = true;
        self.trace.say("weather", "calm", "");
        self.weather = storm::Weather::default();
        if let Err((law, how)) = self.laws.before_calm(&self.cluster, &self.kubelet) {
            self.break_law(law, &how);
        }
        self.take_planted_away();
        for replica in 0..self.processes.len() {
            self.machines[replica].wake();
            self.set_clock(replica, 0);
            if self.processes[replica] == 0 {
                self.plan(1, Happening::Start(replica));
            }
        }
        let ids: Vec<u64> = self.watches.keys().copied().collect();
        ids.into_iter()
            .for_each(|id| self.plan(1, Happening::Deliver(id)));
    }

    fn start(&mut self, replica: usize) {
        if self.processes[replica] != 0 {
            return;
        }
        self.sequence += 1;
        let process = self.sequence;
        self.processes[replica] = process;
        self.trace.say(&format!("muster-{replica}"), "starts", "");
        self.commands.push(Command::Start(replica, process));
    }

    fn arrive(&mut self, id: u64) {
        let Some(sent) = self.requests.remove(&id) else {
            return;
        };
        let (group, resource) = (sent.call.group.as_str(), sent.call.resource());
        if !sent.call.is_discovery()
            && !crate::role::allows(group, &resource, sent.call.rbac_verb())
        {
            let how = format!(
                "{} {resource} of {group:?} is not in the shipped role",
                sent.call.rbac_verb()
            );
            self.break_law("role", &how);
        }
        if sent.call.is_watch {
            self.open_watch(sent);
        } else if sent.call.is_write() && !self.calm {
            self.write_in_storm(sent);
        } else {
            let answer = match self.weather.refuses(sent.replica, &sent.call) {
                Some(answer) => answer,
                None => self.carry_out(&sent),
            };
            self.answer(sent, reply::whole(answer));
        }
    }

    /// The API server carries a request out.
    fn carry_out(&mut self, sent: &Sent) -> http::Response<Vec<u8>> {
        let before = match sent.call.is_write() {
            true => Laws::target(&self.cluster, &sent.call),
            false => None,
        };
        let revision = self.cluster.revision();
        let answer = match self.cluster.handle(clock::now(), sent.request.clone()) {
            Answer::Whole(answer) => answer,
            Answer::Watch(_) | Answer::Log(_) => {
                reply::status(500, "InternalError", "not simulated")
            }
        };
        if sent.call.is_write() {
            let code = answer.status().as_u16();
            let who = format!("muster-{}", sent.replica);
            self.trace.say(&who, &sent.call.line(), &code.to_string());
            self.written_at = clock::millis();
            let around = (&self.cluster, &self.kubelet);
            let body = sent.request.body();
            if let Err((law, how)) =
                self.laws
                    .after_write(around, &sent.call, body, before.as_deref(), code)
            {
                self.break_law(law, &how);
            }
        }
        if self.cluster.revision() != revision {
            self.changed();
        }
        answer
    }

    fn answer(&mut self, sent: Sent, reply: Reply) {
        let after = 1 + self.latency.skewed(0, 40);
        if self.processes[sent.replica] == sent.process {
            self.plan(after, Happening::Answer(sent.reply, Box::new(reply)));
        }
    }

    /// Something was stored: controllers and watches see it soon.
    fn changed(&mut self) {
        let after = self.latency.skewed(1, 60);
        self.plan_tick(after);
        let mut due = Vec::new();
        for (id, open) in &mut self.watches {
            if !open.delivery_due && self.cluster.has_news(&open.watch) {
                open.delivery_due = true;
                due.push((*id, self.weather.lag_ms(open.replica, &open.plural)));
            }
        }
        for (id, lag) in due {
            let after = lag + self.latency.skewed(1, 30);
            self.plan(after, Happening::Deliver(id));
        }
    }

    fn plan_tick(&mut self, after_ms: u64) {
        let at = clock::millis() + after_ms;
        if self.tick_at.is_none_or(|planned| planned > at) {
            self.tick_at = Some(at);
            self.plan(after_ms, Happening::Tick);
        }
    }

    fn tick(&mut self) {
        self.tick_at = self.tick_at.filter(|at| *at > clock::millis());
        let revision = self.cluster.revision();
        sets::reconcile(&mut self.cluster, clock::now());
        for order in self.cluster.tick(clock::now()) {
            for due in self.kubelet.obey(order) {
                self.plan(due.after_ms, Happening::Report(due));
            }
        }
        self.resume();
        if self.cluster.revision() != revision || self.cluster.is_restless() {
            // Pods may be ready now, and not any more when the next write comes.
            self.ask_laws();
            self.changed();
        }
        if let Some(at) = self.cluster.next_wake() {
            let after = at.duration_since(clock::now()).as_millis();
            self.plan_tick(u64::try_from(after).unwrap_or(0) + 1);
        }
    }

    fn report(&mut self, report: PodReport) {
        let uid = report.pod().uid.clone();
        let pod = objects::pods(&self.cluster)
            .find(|pod| objects::uid(pod) == uid)
            .cloned();
        for due in self.kubelet.reported(&report, pod.as_deref()) {
            self.plan(due.after_ms, Happening::Report(due));
        }
        if let PodReport::Exited {
            pod,
            container,
            code,
            ..
        } = &report
        {
            let what = format!("{}/{container} exits", pod.name);
            self.trace.say("kubelet", &what, &code.to_string());
        }
        self.cluster.report(clock::now(), report);
        self.ask_laws();
        self.changed();
    }

    /// Programs go on whose workers are there again.
    fn resume(&mut self) {
        let cluster = &self.cluster;
        let resumed = self
            .kubelet
            .resume(|job| objects::has_all_workers(cluster, job));
        for due in resumed {
            self.plan(due.after_ms, Happening::Report(due));
        }
    }

    fn ask_laws(&mut self) {
        if let Err((law, how)) = self.laws.after_report(&self.cluster, &self.kubelet) {
            self.break_law(law, &how);
        }
    }

    fn user(&mut self, index: usize) {
        let action = self.schedule.script[index].1;
        let workers = self.schedule.workers;
        let code = users::act(&mut self.cluster, clock::now(), self.job, workers, action);
        self.trace
            .say("user", &format!("{action:?}"), &code.to_string());
        if let Some(beside) = self.schedule.beside.filter(|_| index == 0) {
            let beside = jobs::template(beside);
            let code = users::submit_beside(&mut self.cluster, clock::now(), beside);
            self.trace
                .say("user", "Submit the second job", &code.to_string());
        }
        self.changed();
    }

    fn kill(&mut self, replica: usize) {
        self.trace.say(&format!("muster-{replica}"), "dies", "");
        self.processes[replica] = 0;
        self.machines[replica].wake();
        self.drop_watches(|_| true, replica);
        self.commands.push(Command::Kill(replica));
        let after = self.latency.skewed(10, 20_000);
        self.plan(after, Happening::Start(replica));
    }

    pub(crate) fn set_clock(&mut self, replica: usize, offset_ms: i64) {
        let offset = &self.machines[replica].offset;
        offset.store(offset_ms, std::sync::atomic::Ordering::Relaxed);
    }

    /// Writes of each replica during the storm.
    pub(crate) fn writes(&self) -> &[u32] {
        &self.writes
    }

    /// Whether users have done all they do.
    pub(crate) fn script_over(&self) -> bool {
        !self
            .agenda
            .values()
            .any(|what| matches!(what, Happening::User(_)))
    }

    /// Checks what must hold once nothing happens any more.
    pub(crate) fn at_rest(&mut self) {
        let around = (&self.cluster, &self.kubelet);
        if let Err((law, how)) = self.laws.at_rest(around, &self.schedule, &self.struck) {
            self.break_law(law, &how);
        }
    }
}
