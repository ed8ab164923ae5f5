//! `spec.muster`: what users may say to muster itself, the same in every API. Reads and judges; what
//! a field means where it is absent is for the dialects.

use planner::job::Transport;

use crate::FieldError;
use crate::field::Field;
use crate::reader::{Place, Reader};

const ON: &str = "On";
const OFF: &str = "Off";

/// Those that mean the same in every API.
pub(crate) const FIELDS: &[Field] = &[
    Field::honoured(
        "spec.muster.elastic",
        r#"true"#,
        "The program asks for hosts while it runs; found out if not set.",
    ),
    Field::honoured(
        "spec.muster.gate",
        r#""Off""#,
        "Off: the launcher's program does not wait for its workers.",
    ),
    Field::honoured(
        "spec.muster.census",
        r#""Off""#,
        "Off: fewer hosts than workers is no failure.",
    ),
    Field::honoured(
        "spec.muster.sshPort",
        r#"2200"#,
        "Port of the workers' sshd.",
    ),
    Field::honoured(
        "spec.muster.startupTimeoutSeconds",
        r#"30"#,
        "The job fails when its program has not started by then.",
    ),
];

/// `spec.muster`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Muster {
    /// `dialect`: the API that the job was written in.
    pub dialect: String,
    /// `elastic`: says whether the program asks for hosts while it runs.
    pub elastic: Option<bool>,
    /// `transport`: how mpirun reaches the workers.
    pub transport: String,
    /// `gate`: whether the launcher waits for its workers.
    pub gate: String,
    /// `census`: whether hosts are counted at the end.
    pub census: String,
    /// `sshPort`: where the workers' sshd listens.
    pub ssh_port: Option<i64>,
    /// `startupTimeoutSeconds`: how long the job may take until its program starts.
    pub startup_timeout_seconds: Option<i64>,
}

impl Muster {
    /// How mpirun reaches the workers, if the job says so.
    pub(crate) fn transport(&self) -> Option<Transport> {
        Transport::named(&self.transport)
    }

    /// The launcher waits for its workers.
    pub(crate) fn is_gated(&self) -> bool {
        self.gate != OFF
    }

    /// Hosts are counted.
    pub(crate) fn has_census(&self) -> bool {
        self.census != OFF
    }
}

/// Reads the fields.
pub(crate) fn read(reader: &mut Reader, place: &Place<'_>) -> Muster {
    if reader.object(place).is_none() {
        return Muster::default();
    }
    Muster {
        dialect: reader.string(&place.field("dialect")),
        elastic: reader.boolean(&place.field("elastic")),
        transport: reader.string(&place.field("transport")),
        gate: reader.string(&place.field("gate")),
        census: reader.string(&place.field("census")),
        ssh_port: reader.integer(&place.field("sshPort"), i32::MAX.into()),
        startup_timeout_seconds: reader.integer(&place.field("startupTimeoutSeconds"), i64::MAX),
    }
}

/// Everything that is wrong with them; none of them has a value when it is empty.
pub(crate) fn check(muster: &Muster, errors: &mut Vec<FieldError>) {
    for (name, value, words) in [
        (
            "transport",
            &muster.transport,
            &[Transport::Ssh.as_str(), Transport::Agent.as_str()],
        ),
        ("gate", &muster.gate, &[ON, OFF]),
        ("census", &muster.census, &[ON, OFF]),
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
    if let Some(secs) = muster.startup_timeout_seconds.filter(|secs| *secs < 1) {
        let detail = "must be greater than or equal to 1";
        let path = "spec.muster.startupTimeoutSeconds";
        errors.push(FieldError::invalid(path, &secs.into(), detail));
    }
}
