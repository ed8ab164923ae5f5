//! The laws of the weather: what must hold after every write of an operator, and what must hold once the
//! weather is calm and nothing happens any more. One file each; this one calls them all.

use std::collections::BTreeSet;
use std::sync::Arc;

use minicluster::Cluster;
use serde_json::Value;

use crate::call::Call;
use crate::fault::{Fault, FaultKind};
use crate::job_view::{JobView, JobViews};
use crate::kubelet::Kubelet;
use crate::schedule::Schedule;
use crate::{clock, objects};

mod bounded;
mod cleaned_up;
mod converged;
mod counted_first;
mod deadlines_bind;
mod deletes_name_uids;
mod exact_attempts;
mod gate_holds;
mod generations_grow;
mod hands_off;
mod key_hygiene;
mod no_finalizers;
mod no_orphans;
mod no_rerun;
mod one_launcher;
mod one_pod_per_rank;
mod own_namespace;
mod replaced_soon;
mod sane_times;
mod says_why;
mod survivors_stay;
mod suspended_is_empty;
mod terminal_is_terminal;
mod truthful_verdict;

/// A broken law: how.
type Broken = String;

/// A law. Most say something about one of the two moments only.
trait Law: Send {
    /// A container started or ended, or controllers of the cluster acted.
    fn after_report(&mut self, _view: &View<'_>) -> Result<(), Broken> {
        Ok(())
    }

    /// After a write that the API server carried out.
    fn after_write(&mut self, _view: &View<'_>, _write: &Write<'_>) -> Result<(), Broken> {
        Ok(())
    }

    /// The weather becomes calm, and others are about to take away what they planted.
    fn before_calm(&mut self, _view: &View<'_>, _foreign: &Foreign) -> Result<(), Broken> {
        Ok(())
    }

    /// Once the weather is calm and nothing happens any more.
    fn at_rest(&mut self, _view: &View<'_>, _rest: &Rest<'_>) -> Result<(), Broken> {
        Ok(())
    }
}

macro_rules! laws {
    ($($name:literal: $module:ident::$law:ident,)*) => {
        /// All laws: what each is called, and what it says. Those without a file are checked where the
        /// simulator sees them.
        pub const LAWS: &[(&str, &str)] = &[
            $(($name, $module::SENTENCE),)*
            (
                "I19 stillness",
                "Once nothing happens any more, the operator writes nothing for ten minutes.",
            ),
            (
                "I20 transparency",
                "Faults of the operator and its connection do not change how a job ends.",
            ),
            (
                "I21 history",
                "A job that was edited has what it would have if it had been submitted like that.",
            ),
            (
                "I23 isolation",
                "No pass panics, and no plan violates a law of the planner.",
            ),
            (
                "role",
                "The operator asks for nothing that its shipped role does not allow.",
            ),
        ];

        fn all() -> Vec<(&'static str, Box<dyn Law>)> {
            vec![$(($name, Box::<$module::$law>::default()),)*]
        }
    };
}

laws! {
    "I1 one launcher": one_launcher::OneLauncher,
    "I2 one pod per rank": one_pod_per_rank::OnePodPerRank,
    "I3 gate holds": gate_holds::GateHolds,
    "I4 hands off": hands_off::HandsOff,
    "I5 deletes name UIDs": deletes_name_uids::DeletesNameUids,
    "I6 own namespace": own_namespace::OwnNamespace,
    "I7 terminal is terminal": terminal_is_terminal::TerminalIsTerminal,
    "I8 truthful verdict": truthful_verdict::TruthfulVerdict,
    "I9 no rerun": no_rerun::NoRerun,
    "I10 exact attempts": exact_attempts::ExactAttempts,
    "I11 sane times": sane_times::SaneTimes,
    "I12 generations grow": generations_grow::GenerationsGrow,
    "I13 cleaned up": cleaned_up::CleanedUp,
    "I14 no orphans": no_orphans::NoOrphans,
    "I15 suspended is empty": suspended_is_empty::SuspendedIsEmpty,
    "I16 key hygiene": key_hygiene::KeyHygiene,
    "I17 no finalizers": no_finalizers::NoFinalizers,
    "I18 converged": converged::Converged,
    "I22 deadlines bind": deadlines_bind::DeadlinesBind,
    "I24 bounded": bounded::Bounded,
    "I25 says why": says_why::SaysWhy,
    "I26 counted first": counted_first::CountedFirst,
    "I27 survivors stay": survivors_stay::SurvivorsStay,
    "I28 replaced soon": replaced_soon::ReplacedSoon,
}

/// What a law may look at.
struct View<'a> {
    cluster: &'a Cluster,
    kubelet: &'a Kubelet,
    jobs: &'a [Arc<JobView>],
    /// Jobs of which others deleted or ended something.
    disturbed: &'a BTreeSet<String>,
    weather: Weather,
    /// Of all operators until now, with those that failed.
    writes: u32,
}

/// A write that was carried out.
struct Write<'a> {
    call: &'a Call,
    body: &'a Value,
    /// The body as it was sent.
    text: &'a str,
    /// What it changed or deleted, as it was before.
    before: Option<&'a Value>,
    foreign: &'a Foreign,
}

/// What the weather of a run excuses.
#[derive(Clone, Copy)]
struct Weather {
    /// What an operator sees may be old: it lags, its watches break, it sleeps, or another one acts.
    stale_views: bool,
    /// The clock of an operator may be wrong.
    wrong_clocks: bool,
    /// How many processes of operators there are at most, one after the other.
    processes: usize,
    /// The user submits one job and leaves it alone, and no operator sleeps.
    is_left_alone: bool,
    /// One operator, one fault, and a user who submits one job.
    only_one_fault: bool,
    /// The user changes the number of workers.
    was_scaled: bool,
    /// When a fault struck last, in milliseconds.
    struck_at: Option<u64>,
}

impl Weather {
    /// No fault has an effect any more that struck before this time.
    fn is_quiet_since(self, at: u64) -> bool {
        self.struck_at
            .is_none_or(|struck| struck + AFTERMATH_MS <= at)
    }
}

/// An operator that nothing disturbs does what the user asked for within this time.
const PROMPT_MS: u64 = 5_000;
/// The longest fault lasts two and a half minutes. Whatever it delayed is done soon after.
const AFTERMATH_MS: u64 = 180_000;

/// The end of a run.
struct Rest<'a> {
    schedule: &'a Schedule,
    struck: &'a [Fault],
    writes: u32,
}

/// All laws, and what they remember.
pub(crate) struct Laws {
    laws: Vec<(&'static str, Box<dyn Law>)>,
    jobs: JobViews,
    weather: Weather,
    disturbed: BTreeSet<String>,
    foreign: Foreign,
    writes: u32,
}

impl Laws {
    pub(crate) fn new(schedule: &Schedule) -> Self {
        let crashes = schedule.faults.iter().filter(|one| one.kind.is_crash());
        let struck = |of: fn(FaultKind) -> bool| schedule.faults.iter().any(|one| of(one.kind));
        Self {
            laws: all(),
            jobs: JobViews::default(),
            weather: Weather {
                stale_views: schedule.replicas > 1 || struck(FaultKind::makes_views_stale),
                wrong_clocks: struck(FaultKind::is_of_clock),
                processes: schedule.replicas + crashes.count(),
                is_left_alone: schedule.script.len() == 1
                    && schedule.beside.is_none()
                    && !struck(|kind| kind == FaultKind::Paused),
                only_one_fault: schedule.replicas == 1
                    && schedule.faults.len() == 1
                    && schedule.script.len() == 1
                    && schedule.beside.is_none(),
                was_scaled: schedule.scales(),
                struck_at: None,
            },
            disturbed: BTreeSet::new(),
            foreign: Foreign::default(),
            writes: 0,
        }
    }

    /// Asks each law, until one is broken.
    fn ask(
        &mut self,
        (cluster, kubelet): (&Cluster, &Kubelet),
        holds: impl Fn(&mut dyn Law, &View<'_>, &Foreign) -> Result<(), Broken>,
    ) -> Result<(), (&'static str, String)> {
        let view = View {
            cluster,
            kubelet,
            jobs: self.jobs.look(cluster),
            disturbed: &self.disturbed,
            weather: self.weather,
            writes: self.writes,
        };
        for (name, law) in &mut self.laws {
            holds(law.as_mut(), &view, &self.foreign).map_err(|how| (*name, how))?;
        }
        Ok(())
    }

    /// A container started or ended, or controllers of the cluster acted.
    pub(crate) fn after_report(
        &mut self,
        cluster: &Cluster,
        kubelet: &Kubelet,
    ) -> Result<(), (&'static str, String)> {
        self.ask((cluster, kubelet), |law, view, _| law.after_report(view))
    }

    /// What a write is about to change or delete.
    pub(crate) fn target(cluster: &Cluster, call: &Call) -> Option<Arc<Value>> {
        if call.name.is_empty() {
            return None;
        }
        let mut objects = cluster.objects(&call.group, &call.plural);
        let named = |object: &&Arc<Value>| {
            objects::name(object) == call.name
                && object["metadata"]["namespace"] == call.namespace.as_str()
        };
        objects.find(named).cloned()
    }

    /// The API server answered a write with this code.
    pub(crate) fn after_write(
        &mut self,
        (cluster, kubelet): (&Cluster, &Kubelet),
        call: &Call,
        body: &[u8],
        before: Option<&Value>,
        code: u16,
    ) -> Result<(), (&'static str, String)> {
        self.writes += 1;
        if code >= 300 || call.plural == "events" {
            return Ok(());
        }
        let text = str::from_utf8(body).unwrap_or_default();
        let body = serde_json::from_str(text).unwrap_or(Value::Null);
        self.ask((cluster, kubelet), |law, view, foreign| {
            let write = Write {
                call,
                body: &body,
                text,
                before,
                foreign,
            };
            law.after_write(view, &write)
        })
    }

    /// The weather becomes calm.
    pub(crate) fn before_calm(
        &mut self,
        cluster: &Cluster,
        kubelet: &Kubelet,
    ) -> Result<(), (&'static str, String)> {
        self.ask((cluster, kubelet), |law, view, foreign| {
            law.before_calm(view, foreign)
        })
    }

    /// Nothing happens any more.
    pub(crate) fn at_rest(
        &mut self,
        (cluster, kubelet): (&Cluster, &Kubelet),
        schedule: &Schedule,
        struck: &[Fault],
    ) -> Result<(), (&'static str, String)> {
        let rest = Rest {
            schedule,
            struck,
            writes: self.writes,
        };
        self.ask((cluster, kubelet), |law, view, _| law.at_rest(view, &rest))
    }

    /// A fault struck.
    pub(crate) fn fault_struck(&mut self) {
        self.weather.struck_at = Some(clock::millis());
    }

    /// Somebody else changed what a job has.
    pub(crate) fn disturbed(&mut self, job_uid: &str) {
        self.disturbed.insert(job_uid.to_owned());
    }

    /// Somebody else created an object that looks as if it were a job's, or has a name that a job needs.
    pub(crate) fn planted(
        &mut self,
        path: String,
        call: &Call,
        object: &Value,
        takes_a_name: bool,
    ) {
        self.foreign.0.push(Planted {
            path,
            takes_a_name,
            kind: (call.group.clone(), call.plural.clone()),
            uid: objects::uid(object).to_owned(),
            contents: contents(object),
            at: clock::millis(),
        });
    }

    /// Everything that others planted. Nobody minds any more what becomes of it.
    pub(crate) fn give_up_planted(&mut self) -> Vec<Planted> {
        std::mem::take(&mut self.foreign.0)
    }
}

/// Objects of others.
#[derive(Debug, Default)]
struct Foreign(Vec<Planted>);

/// An object of others, as they left it.
#[derive(Debug)]
pub(crate) struct Planted {
    /// Where requests find it.
    pub(crate) path: String,
    /// A job needs its name.
    takes_a_name: bool,
    /// Group and plural.
    kind: (String, String),
    uid: String,
    contents: Value,
    /// When it was created.
    at: u64,
}

/// What others would notice if it changed; the status is the kubelet's.
fn contents(object: &Value) -> Value {
    let mut contents = object.clone();
    if let Some(fields) = contents.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = contents["metadata"].as_object_mut() {
        metadata.retain(|field, _| {
            !matches!(
                field.as_str(),
                "resourceVersion" | "managedFields" | "generation"
            )
        });
    }
    if let Some(spec) = contents["spec"].as_object_mut() {
        // The scheduler's.
        spec.remove("nodeName");
    }
    contents
}
