//! What goes wrong: carries out the faults of the schedule at the writes that they name. Knows nothing of
//! what the operator should do about it.

use std::collections::BTreeSet;
use std::sync::Arc;

use dialects::RESOURCES;
use http::Request;
use minicluster::kubelet::{PodRef, PodReport};
use serde_json::{Value, json};

use super::{Happening, Sent, State};
use crate::call::Call;
use crate::fault::{Fault, FaultKind};
use crate::reply::{self, Reply};
use crate::{clock, objects, sets};

const POD: &[&str] = &["pods"];
const CHILDREN: &[&str] = &["jobs", "statefulsets"];
const CONFIG: &[&str] = &["configmaps", "services"];

/// How wrong the clock of a replica goes.
const CLOCK_MS: i64 = 600_000;
/// How long nothing is heard of the node.
const SILENCE_MS: u64 = 60_000;
/// How long the node of a worker is gone: longer than the operator waits before it gives up a pod.
const NODE_GONE_MS: u64 = 150_000;
/// How long a replica sleeps.
const SLEEP_MS: u64 = 60_000;

/// Weather that lasts for a while.
#[derive(Debug, Default)]
pub(super) struct Weather {
    lags: Vec<Spell>,
    doubled: Vec<Spell>,
    refused: Vec<Spell>,
    /// Kinds that the API server does not know.
    missing: Vec<Spell>,
    /// Until when nothing is heard of the node.
    pub(super) silent_until: u64,
    rewind: BTreeSet<usize>,
    quota_until: u64,
}

/// What became of a fault.
enum Strike {
    /// It did what it does.
    Hit,
    /// There was nothing that it could do it to.
    Missed,
    /// It is about the write itself.
    OfWrite,
}

#[derive(Debug)]
struct Spell {
    replica: usize,
    /// All kinds, if there are none.
    plurals: BTreeSet<&'static str>,
    until: u64,
}

impl Spell {
    fn holds(&self, replica: usize, plural: &str) -> bool {
        let concerned = self.plurals.is_empty() || self.plurals.contains(plural);
        concerned && self.replica == replica && self.until > clock::millis()
    }
}

impl Weather {
    /// How much later a replica sees a kind.
    pub(super) fn lag_ms(&self, replica: usize, plural: &str) -> u64 {
        let lags = self.lags.iter().filter(|lag| lag.holds(replica, plural));
        let until = lags.map(|lag| lag.until).max();
        until.map_or(0, |until| until.saturating_sub(clock::millis()))
    }

    /// The lines of a watch, maybe twice.
    pub(super) fn doubled(&self, replica: usize, plural: &str, mut lines: Vec<u8>) -> Vec<u8> {
        if self
            .doubled
            .iter()
            .any(|spell| spell.holds(replica, plural))
        {
            lines.extend_from_within(..);
        }
        lines
    }

    /// What the API server answers instead, to a read or a watch.
    pub(super) fn refuses(&self, replica: usize, call: &Call) -> Option<http::Response<Vec<u8>>> {
        if let Some(answer) = self.misses(replica, call) {
            return Some(answer);
        }
        if call.is_write() {
            return None;
        }
        let refused = self
            .refused
            .iter()
            .any(|spell| spell.holds(replica, &call.plural));
        refused.then(|| reply::status(503, "ServiceUnavailable", "the server is overloaded"))
    }

    /// Whether the API server does not know the kind of a request, as it would say it.
    pub(super) fn misses(&self, replica: usize, call: &Call) -> Option<http::Response<Vec<u8>>> {
        let mut missing = self.missing.iter();
        let is_missing = missing.any(|spell| spell.holds(replica, &call.plural));
        is_missing.then(|| {
            reply::status(
                404,
                "NotFound",
                "the server could not find the requested resource",
            )
        })
    }

    /// A watch, maybe from an older version than it asked for.
    pub(super) fn rewound(
        &mut self,
        replica: usize,
        call: &Call,
        mut request: Request<Vec<u8>>,
    ) -> Request<Vec<u8>> {
        if call.plural != "pods" || !self.rewind.remove(&replica) {
            return request;
        }
        let uri = request.uri().to_string();
        let from = |text: &str| text.strip_prefix("resourceVersion=")?.parse::<u64>().ok();
        let asked = call.query.split('&').find_map(from);
        if let Some(version) = asked {
            let older = format!("resourceVersion={}", version.saturating_sub(25).max(1));
            let uri = uri.replace(&format!("resourceVersion={version}"), &older);
            *request.uri_mut() = uri.parse().expect("it was a URI before");
        }
        request
    }
}

impl State {
    /// A write in the storm.
    pub(super) fn write_in_storm(&mut self, sent: Sent) {
        let replica = sent.replica;
        let write = self.writes[replica];
        self.writes[replica] += 1;
        let due = |fault: &&Fault| fault.replica == replica && fault.write == write;
        let faults: Vec<Fault> = self.schedule.faults.iter().filter(due).cloned().collect();
        let mut of_write = None;
        for fault in faults {
            self.trace.say("weather", &fault.to_string(), "");
            match self.strike(&sent, fault.kind) {
                Strike::Missed => continue,
                Strike::Hit => {}
                Strike::OfWrite => of_write = Some(fault.kind),
            }
            self.laws.fault_struck();
            self.struck.push(fault);
        }
        if self.processes[replica] != sent.process {
            // It died after the request was sent.
            self.carry_out(&sent);
            return;
        }
        if of_write.is_none()
            && let Some(answer) = self.weather.misses(replica, &sent.call)
        {
            let line = sent.call.line();
            self.trace
                .say(&format!("muster-{replica}"), &line, "404 not served");
            return self.answer(sent, reply::whole(answer));
        }
        let quota = sent.call.plural == "pods"
            && sent.call.rbac_verb() == "create"
            && self.weather.quota_until > clock::millis();
        if quota && of_write.is_none() {
            let message = "pods \"x\" is forbidden: exceeded quota: small, requested: pods=1, used: pods=0, limited: pods=0";
            let answer = reply::status(403, "Forbidden", message);
            self.trace
                .say(&format!("muster-{replica}"), &sent.call.line(), "403 quota");
            return self.answer(sent, reply::whole(answer));
        }
        self.disturbed(sent, of_write);
    }

    fn disturbed(&mut self, sent: Sent, fault: Option<FaultKind>) {
        let replica = sent.replica;
        let refusal = |code: u16, reason: &str| {
            reply::whole(reply::status(code, reason, "the weather is bad"))
        };
        let (acts, reply): (bool, Option<Reply>) = match fault {
            None => {
                let answer = self.carry_out(&sent);
                return self.answer(sent, reply::whole(answer));
            }
            Some(FaultKind::CrashBefore) => return self.kill(replica),
            Some(FaultKind::CrashAfter) => {
                self.carry_out(&sent);
                return self.kill(replica);
            }
            Some(FaultKind::AnswerLost) => (true, Some(reply::broken())),
            Some(FaultKind::Unanswered) => (true, None),
            Some(FaultKind::RequestLost) => (false, Some(reply::broken())),
            Some(FaultKind::Conflict) => (false, Some(refusal(409, "Conflict"))),
            Some(FaultKind::TooMany) => (false, Some(refusal(429, "TooManyRequests"))),
            Some(FaultKind::Internal) => (false, Some(refusal(500, "InternalError"))),
            Some(FaultKind::InternalAfter) => (true, Some(refusal(500, "InternalError"))),
            Some(FaultKind::TimeoutAfter) => (true, Some(refusal(504, "Timeout"))),
            Some(other) => unreachable!("{other:?} is no fault of a write"),
        };
        if acts {
            self.carry_out(&sent);
        } else {
            let what = format!("{} (not carried out)", sent.call.line());
            self.trace.say(&format!("muster-{replica}"), &what, "");
        }
        match reply {
            Some(reply) => self.answer(sent, reply),
            // The connection stays open; the receiver must not see it dropped.
            None => self.weather_keeps(sent),
        }
    }

    /// An answer that never comes: whoever waits must give up by itself.
    fn weather_keeps(&mut self, sent: Sent) {
        self.plan(
            u64::from(u32::MAX),
            Happening::Answer(sent.reply, Box::new(reply::broken())),
        );
    }

    /// Carries out a fault that is not one of the write itself.
    fn strike(&mut self, sent: &Sent, kind: FaultKind) -> Strike {
        let replica = sent.replica;
        let until = clock::millis() + 1 + self.latency.skewed(0, 15_000);
        let spell = |names: &[&'static str]| Spell {
            replica,
            plurals: names.iter().copied().collect(),
            until,
        };
        match kind {
            FaultKind::PodsLag => self.weather.lags.push(spell(POD)),
            FaultKind::JobsLag => self.weather.lags.push(spell(CHILDREN)),
            FaultKind::ConfigLag => self.weather.lags.push(spell(CONFIG)),
            FaultKind::OwnLag => {
                let own: Vec<_> = RESOURCES.iter().map(|served| served.plural).collect();
                self.weather.lags.push(spell(&own));
            }
            FaultKind::ApiMissing => {
                let own: Vec<_> = RESOURCES.iter().map(|served| served.plural).collect();
                self.weather.missing.push(spell(&own));
                self.drop_watches(|plural| own.contains(&plural), replica);
            }
            FaultKind::NodeSilent => self.weather.silent_until = clock::millis() + SILENCE_MS,
            FaultKind::PodsDoubled => self.weather.doubled.push(spell(POD)),
            FaultKind::AllDoubled => self.weather.doubled.push(spell(&[])),
            FaultKind::PodsRewound => {
                self.weather.rewind.insert(replica);
                self.drop_watches(|plural| plural == "pods", replica);
            }
            FaultKind::WatchesCut => self.drop_watches(|_| true, replica),
            FaultKind::PodsCut => {
                self.weather.refused.push(spell(POD));
                self.drop_watches(|plural| plural == "pods", replica);
            }
            FaultKind::ReadsFail => self.weather.refused.push(spell(&[])),
            FaultKind::Compacted => self.compact(),
            FaultKind::PodDeleted => return self.delete_some("", "pods"),
            FaultKind::ChildDeleted => {
                let plural = *self.latency.pick(&["configmaps", "services", "secrets"]);
                return self.delete_some("", plural);
            }
            FaultKind::LauncherDeleted => return self.delete_some("batch", "jobs"),
            FaultKind::Squatter => return self.squat(sent),
            FaultKind::LookAlike => return self.imitate_worker(),
            FaultKind::PodKilled => return self.kill_some_pod(),
            FaultKind::WorkerEvicted => return self.evict(),
            FaultKind::NodeLost => return self.lose_node(),
            FaultKind::Quota => self.weather.quota_until = until,
            FaultKind::ClockAhead => self.set_clock(replica, CLOCK_MS),
            FaultKind::ClockBehind => self.set_clock(replica, -CLOCK_MS),
            FaultKind::Paused => {
                self.machines[replica].sleep();
                self.plan(SLEEP_MS, Happening::Wake(replica));
            }
            _ => return Strike::OfWrite,
        }
        Strike::Hit
    }

    /// Somebody deletes an object of a job.
    fn delete_some(&mut self, group: &str, plural: &str) -> Strike {
        let ours = |object: &&Arc<Value>| objects::controller(object).is_some();
        let found: Vec<_> = self
            .cluster
            .objects(group, plural)
            .filter(ours)
            .cloned()
            .collect();
        if found.is_empty() {
            return Strike::Missed;
        }
        let object = self.latency.pick(&found).clone();
        let root = match group {
            "" => "/api/v1".to_owned(),
            group => format!("/apis/{group}/v1"),
        };
        let path = format!(
            "{root}/namespaces/default/{plural}/{}",
            objects::name(&object)
        );
        let body = json!({"propagationPolicy": "Background"});
        sets::send(&mut self.cluster, clock::now(), "DELETE", &path, &body);
        self.trace.say(
            "somebody",
            &format!("deletes {plural}/{}", objects::name(&object)),
            "",
        );
        self.laws.disturbed(objects::job_uid(&object));
        self.changed();
        Strike::Hit
    }

    /// Somebody creates what the replica wants to create, a moment earlier.
    fn squat(&mut self, sent: &Sent) -> Strike {
        let body = serde_json::from_slice(sent.request.body()).unwrap_or(Value::Null);
        let is_create = sent.call.rbac_verb() == "create" && sent.call.plural != "events";
        // Whoever has the recorded name of a Secret loses it (decision 38). Another operator may be about to
        // record it.
        let query = sent.request.uri().query().unwrap_or("");
        let may_be_recorded = !query.contains("dryRun") || self.schedule.replicas > 1;
        let is_recorded = sent.call.plural == "secrets" && may_be_recorded;
        if !is_create || is_recorded || objects::name(&body).is_empty() {
            return Strike::Missed;
        }
        let mut squatter = body;
        squatter["metadata"] = json!({"name": objects::name(&squatter)});
        // Nothing that its own controllers could do with it matters here.
        match sent.call.plural.as_str() {
            "jobs" => squatter["spec"]["suspend"] = true.into(),
            "statefulsets" => squatter["spec"]["replicas"] = 0.into(),
            _ => {}
        }
        self.plant(sent.request.uri().path(), &sent.call, &squatter, true)
    }

    /// Somebody copies a worker, with its labels.
    fn imitate_worker(&mut self) -> Strike {
        let worker = objects::pods(&self.cluster)
            .find(|pod| !objects::is_launcher(pod))
            .cloned();
        let Some(worker) = worker else {
            return Strike::Missed;
        };
        let copy = json!({
            "metadata": {"name": "look-alike", "labels": worker["metadata"]["labels"]},
            "spec": {"containers": [{"name": "own", "image": "none"}]},
        });
        let path = "/api/v1/namespaces/default/pods";
        let request = Request::post(path).body(());
        let call = Call::of(&request.expect("the parts are valid"));
        self.plant(path, &call, &copy, false)
    }

    fn plant(&mut self, path: &str, call: &Call, object: &Value, takes_a_name: bool) -> Strike {
        if sets::send(&mut self.cluster, clock::now(), "POST", path, object) != 201 {
            return Strike::Missed;
        }
        let name = objects::name(object);
        let stored = self
            .cluster
            .objects(&call.group, &call.plural)
            .find(|one| objects::name(one) == name)
            .cloned()
            .expect("it was just created");
        self.trace
            .say("somebody", &format!("creates {}/{name}", call.plural), "");
        let path = format!("{path}/{name}");
        self.laws.planted(path, call, &stored, takes_a_name);
        self.changed();
        Strike::Hit
    }

    /// Others take away what they planted, so that the job can go on.
    pub(super) fn take_planted_away(&mut self) {
        for planted in self.laws.give_up_planted() {
            let body = json!({});
            sets::send(
                &mut self.cluster,
                clock::now(),
                "DELETE",
                &planted.path,
                &body,
            );
            self.changed();
        }
    }

    /// The kernel kills the program of a pod.
    fn kill_some_pod(&mut self) -> Strike {
        let Some(pod) = self.pick_running(|_| true) else {
            return Strike::Missed;
        };
        self.laws.disturbed(objects::job_uid(&pod));
        self.ends(&pod, 137);
        Strike::Hit
    }

    /// The kubelet tells a worker to leave, for want of room.
    fn evict(&mut self) -> Strike {
        let Some(pod) = self.pick_running(|pod| !objects::is_launcher(pod)) else {
            return Strike::Missed;
        };
        self.trace
            .say("kubelet", &format!("evicts {}", objects::name(&pod)), "");
        self.laws.disturbed(objects::job_uid(&pod));
        self.report(PodReport::CannotStart {
            pod: PodRef::of(&pod),
            container: String::new(),
            reason: "Evicted".to_owned(),
            message: "The node was low on resource: memory.".to_owned(),
            retry: false,
        });
        self.ends(&pod, 137);
        Strike::Hit
    }

    /// The node of a worker is gone: the pod is not Ready any more, and deleted, and nobody ends it.
    fn lose_node(&mut self) -> Strike {
        let Some(pod) = self.pick_running(|pod| !objects::is_launcher(pod)) else {
            return Strike::Missed;
        };
        let name = objects::name(&pod);
        self.trace
            .say("weather", &format!("the node of {name} is gone"), "");
        self.laws.disturbed(objects::job_uid(&pod));
        for container in containers(&pod) {
            self.report(PodReport::Ready {
                pod: PodRef::of(&pod),
                container,
                ready: false,
            });
        }
        for due in self.kubelet.lose(&pod) {
            self.plan(due.after_ms, Happening::Report(due));
        }
        let path = format!("/api/v1/namespaces/default/pods/{name}");
        sets::send(&mut self.cluster, clock::now(), "DELETE", &path, &json!({}));
        self.changed();
        self.plan(NODE_GONE_MS, Happening::NodeBack(PodRef::of(&pod)));
        Strike::Hit
    }

    /// The node is there again, and ends what the API server does not know or wants ended.
    pub(super) fn node_back(&mut self, pod: &PodRef) {
        self.trace
            .say("weather", &format!("the node of {} is back", pod.name), "");
        self.kubelet.find(&pod.uid);
        let same = |one: &&Arc<Value>| objects::uid(one) == pod.uid;
        let known = objects::pods(&self.cluster).find(same).cloned();
        if let Some(pod) = known {
            self.ends(&pod, 143);
        }
    }

    fn pick_running(&mut self, is_meant: impl Fn(&Value) -> bool) -> Option<Arc<Value>> {
        let runs = |pod: &&Arc<Value>| pod["status"]["phase"] == "Running" && is_meant(pod);
        let found: Vec<_> = objects::pods(&self.cluster).filter(runs).cloned().collect();
        (!found.is_empty()).then(|| self.latency.pick(&found).clone())
    }

    /// All of a pod's containers end.
    fn ends(&mut self, pod: &Value, code: i32) {
        for container in containers(pod) {
            self.report(PodReport::Exited {
                pod: PodRef::of(pod),
                container,
                code,
                signal: (code > 128).then_some(code - 128),
                message: String::new(),
                oom: code == 137,
            });
        }
    }
}

fn containers(pod: &Value) -> Vec<String> {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let names = containers.filter_map(|one| one["name"].as_str());
    names.map(str::to_owned).collect()
}
