//! `spec.muster`: settings of muster itself, the same in every API. Reads and checks them; their defaults
//! are in the dialects.

mod recovery;

use planner::job::{GangChoice, Login, Placement, Recovery};
use planner::site::{FoundGang, GangApi, Transport};

use self::recovery::{GRACE_MAX_SECS, REASONS, RESET_MIN_SECS, RecoveryFields, SIGNALS};
use crate::FieldError;
use crate::definition::Rule;
use crate::field::Literal::EmptyObject;
use crate::field::{BOOLEAN, Field, INT32, INT64, OBJECT, Shape, TEXT, fields};
use crate::reader::{Place, Reader};

pub(crate) use self::recovery::check_job;

const ON: &str = "On";
const OFF: &str = "Off";

/// Those that mean the same in every API.
pub(crate) const FIELDS: &[Field] = fields! {
    "spec.muster": OBJECT.or(EmptyObject) => "Settings of muster that the API has no field for.";
    Honoured "spec.muster.elastic": BOOLEAN, "true"
        => "True: the program calls discover_hosts.sh while it runs, so muster updates the script when workers start or stop. If not set, true if the launcher's command contains discover_hosts.sh.";
    Honoured "spec.muster.gate": SWITCH, r#""Off""#
        => "On: the launcher's program starts when every worker has answered. Off: it does not wait. On if not set.";
    Honoured "spec.muster.gang": TEXT.one_of(&GANGS), r#""Native""#
        => "Who places all pods of the job at once, or none of them. None: nobody. Auto: the first of Native, Volcano, SchedulerPlugins and T9k whose API the cluster serves, or nobody. Native: Kubernetes 1.37 or newer with the feature gate GenericWorkload. Volcano, SchedulerPlugins, T9k: that scheduler. If not set, what the operator's flag --gang-scheduling names.";
    Honoured "spec.muster.placement": TEXT.one_of(&PLACEMENTS), r#""Spread""#
        => "On which nodes the workers go, and the launcher if it takes ranks. OnePerNode: never two on one node. Pack: on few nodes, if there is room. Spread: on many nodes, as evenly as there is room. If not set, the scheduler decides. Adds to the affinity of the templates.";
    "spec.muster.recovery": OBJECT => "When muster starts a program that failed again in the pods that it has: it ends every rank, waits until all of them are gone, and runs the launcher's command again. Never if not set. Needs transport Agent, and a launcher whose template has a command.";
    Honoured "spec.muster.recovery.restarts": INT32.at_least(0).required(), "3"
        => "How often the program is started again at most.";
    Honoured "spec.muster.recovery.reasons": REASONS, r#"["RankKilled", "WorkerLost"]"#
        => "The reasons for which it is: RankKilled, CommandFailed, WorkerLost, Unreachable. All of them if not set.";
    Honoured "spec.muster.recovery.resetAfterSeconds": INT64.at_least(RESET_MIN_SECS), "600"
        => "When the program has run for this many seconds, all restarts are left again. They never are if not set.";
    Honoured "spec.muster.recovery.signal": TEXT.one_of(&SIGNALS), r#""SIGUSR1""#
        => "The signal that all ranks get when a worker or the launcher has to leave its node: SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1 or SIGUSR2. SIGTERM if not set. A program that was stopped for a worker is started again, and that uses up no restart.";
    Honoured "spec.muster.recovery.graceSeconds": INT32.between(1, GRACE_MAX_SECS), "120"
        => "How long ranks have to end after that signal, from 1 to 3600 seconds. 30 if not set.";
    Honoured "spec.muster.census": SWITCH, r#""Off""#
        => "On: a program that exits with 0 on fewer hosts than there are workers has failed. Off: it has succeeded. On if not set. Has no effect in transport SSH.";
    Honoured "spec.muster.networkPolicy": SWITCH, r#""On""#
        => "On: muster creates a NetworkPolicy, so that only pods of the job can connect to its pods, where the cluster's network enforces such policies. Off: it creates none. Off if not set. Has no effect on pods with hostNetwork.";
    Honoured "spec.muster.sshPort": INT32.between(1, 65_535), "2200"
        => "Port of the workers' sshd. The gate connects to it. If not set, the gate takes the port from the templates, or tries 22 and 2222.";
    Honoured "spec.muster.startupTimeoutSeconds": INT64.at_least(1), "30"
        => "The job fails if its program has not started within this many seconds. No limit if not set.";
};

/// `gang`, spelled as users know the schedulers.
const GANGS: [&str; 6] = [
    NOBODY,
    AUTO,
    GangApi::Native.as_str(),
    GangApi::Volcano.as_str(),
    GangApi::SchedulerPlugins.as_str(),
    GangApi::T9k.as_str(),
];
const NOBODY: &str = FoundGang::Nobody.as_str();
const AUTO: &str = "Auto";
/// `placement`.
const PLACEMENTS: [&str; 3] = ["OnePerNode", "Pack", "Spread"];
/// `transport`. What it means where it is absent differs between APIs.
pub(crate) const TRANSPORT: Shape = TEXT.one_of(&["SSH", "Agent"]);
const SWITCH: Shape = TEXT.one_of(&[ON, OFF]);

/// `spec.muster`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Muster {
    /// `dialect`: the API that the job was written in.
    pub dialect: String,
    /// `elastic`: whether the program asks for hosts while it runs.
    pub elastic: Option<bool>,
    /// `transport`: how mpirun reaches the workers.
    pub transport: String,
    /// `gate`: whether the launcher waits for its workers.
    pub gate: String,
    /// `gang`: who places the pods together.
    pub gang: String,
    /// `placement`: on which nodes the hosts go.
    pub placement: String,
    /// `recovery`: when the program is started again in place.
    pub recovery: Option<RecoveryFields>,
    /// `census`: whether hosts are counted at the end.
    pub census: String,
    /// `networkPolicy`: whether only the job's own pods may connect to its pods.
    pub network_policy: String,
    /// `sshPort`: where the workers' sshd listens.
    pub ssh_port: Option<i64>,
    /// `startupTimeoutSeconds`: how long the job may take until its program starts.
    pub startup_timeout_seconds: Option<i64>,
}

impl Muster {
    /// How mpirun reaches the workers, if the job sets it.
    pub(crate) fn transport(&self) -> Option<Transport> {
        Transport::named(&self.transport)
    }

    /// How mpirun logs in to workers, with the key pair mounted here.
    pub(crate) fn login(&self, ssh_mount_path: &str) -> Login {
        Login {
            gate: self.gate != OFF,
            census: self.census != OFF,
            ssh_port: within(self.ssh_port),
            ssh_mount_path: ssh_mount_path.to_owned(),
            discovery_has_slots: false,
            exec_script: false,
        }
    }

    /// Only pods of the job may connect to its pods.
    pub(crate) fn is_isolated(&self) -> bool {
        self.network_policy == ON
    }

    /// Who places the pods together, if the job sets it.
    pub(crate) fn gang(&self) -> GangChoice {
        let word = self.gang.as_str();
        let api = match (word, GangApi::named(word)) {
            (NOBODY, _) => return GangChoice::Nobody,
            (AUTO, _) => return GangChoice::Found,
            (_, Some(api)) => api,
            (_, None) => return GangChoice::Site,
        };
        GangChoice::Scheduler(api.usual_scheduler())
    }

    /// On which nodes the hosts go.
    pub(crate) fn placement(&self) -> Placement {
        match self.placement.as_str() {
            "OnePerNode" => Placement::OnePerNode,
            "Pack" => Placement::Pack,
            "Spread" => Placement::Spread,
            _ => Placement::Anywhere,
        }
    }

    /// When the program is started again in place.
    pub(crate) fn recovery(&self) -> Option<Recovery> {
        self.recovery.as_ref().map(RecoveryFields::recovery)
    }

    /// How long the job may take until its program starts.
    pub(crate) fn startup_secs(&self) -> Option<u64> {
        within(self.startup_timeout_seconds)
    }
}

/// Reads the fields.
pub(crate) fn read(reader: &mut Reader, spec: &Place<'_>) -> Muster {
    let place = reader.group(spec, "muster");
    Muster {
        dialect: reader.string(&place.field("dialect")),
        elastic: reader.boolean(&place.field("elastic")),
        transport: reader.string(&place.field("transport")),
        gate: reader.string(&place.field("gate")),
        gang: reader.string(&place.field("gang")),
        placement: reader.string(&place.field("placement")),
        recovery: recovery::read(reader, &place),
        census: reader.string(&place.field("census")),
        network_policy: reader.string(&place.field("networkPolicy")),
        ssh_port: reader.int32(&place.field("sshPort")),
        startup_timeout_seconds: reader.integer(&place.field("startupTimeoutSeconds"), i64::MAX),
    }
}

/// Everything that is wrong with them; none of them has a value when it is empty.
pub(crate) fn check(muster: &Muster, errors: &mut Vec<FieldError>) {
    for (name, value, words) in [
        (
            "transport",
            &muster.transport,
            &[Transport::Ssh.as_str(), Transport::Agent.as_str()][..],
        ),
        ("gang", &muster.gang, &GANGS),
        ("placement", &muster.placement, &PLACEMENTS),
        ("gate", &muster.gate, &[ON, OFF]),
        ("census", &muster.census, &[ON, OFF]),
        ("networkPolicy", &muster.network_policy, &[ON, OFF]),
    ] {
        if !value.is_empty() && !words.contains(&value.as_str()) {
            let path = format!("spec.muster.{name}");
            errors.push(FieldError::unsupported(&path, value, words));
        }
    }
    if let Some(port) = muster.ssh_port.filter(|port| !(1..=65535).contains(port)) {
        let detail = "must be between 1 and 65535, inclusive";
        let path = "spec.muster.sshPort";
        errors.push(FieldError::invalid(path, &port.into(), detail));
    }
    if let Some(recovery) = &muster.recovery {
        recovery::check(recovery, errors);
    }
    if let Some(secs) = muster.startup_timeout_seconds.filter(|secs| *secs < 1) {
        let detail = "must be greater than or equal to 1";
        let path = "spec.muster.startupTimeoutSeconds";
        errors.push(FieldError::invalid(path, &secs.into(), detail));
    }
}

/// The number in a smaller type. One that does not fit was refused before.
pub(crate) fn within<T: TryFrom<i64>>(number: Option<i64>) -> Option<T> {
    number.and_then(|number| T::try_from(number).ok())
}

/// Once there are keys, the launcher mounts those of one transport.
pub(crate) fn transport_rule() -> Rule {
    let chosen = |object: &str| format!("{object}.spec.muster.transport");
    let is_chosen = |object: &str| {
        format!(
            "has({object}.spec) && has({object}.spec.muster) && has({})",
            chosen(object)
        )
    };
    let (now, before) = (chosen("self"), chosen("oldSelf"));
    let rule = format!(
        "!({}) || ({} && {now} == {before}) || !has(oldSelf.status) || !has(oldSelf.status.muster) || \
         !has(oldSelf.status.muster.keys) || {now} == oldSelf.status.muster.transport",
        is_chosen("self"),
        is_chosen("oldSelf"),
    );
    let message = "spec.muster.transport: cannot be changed, as the launcher cannot; delete the job and create it again";
    Rule::new("", rule, message)
}
