//! Startup, readiness and liveness probes. Decides when to check and what an answer means; whoever
//! holds the container's control socket runs the commands.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{interval, sleep, timeout};

use super::pod::{Container, GRACE_SECS};
use super::request::ContainerRequest;
use crate::local::stages::CONNECT;

/// Longest time between two checks before the first success: on this machine a check costs little,
/// and waiting for the period would delay every job.
const FIRST_PERIOD_MAX: Duration = Duration::from_millis(100);
/// More of an HTTP answer is not read.
const ANSWER_BYTES_MAX: usize = 1024;

/// The three probes of a container.
#[derive(Clone, Debug, Default)]
pub(crate) struct Probes {
    startup: Option<Probe>,
    readiness: Option<Probe>,
    liveness: Option<Probe>,
}

#[derive(Clone, Debug)]
struct Probe {
    check: Check,
    delay: Duration,
    period: Duration,
    timeout_secs: u64,
    successes: u64,
    failures: u64,
}

#[derive(Clone, Debug)]
enum Check {
    Exec(Vec<String>),
    Tcp(String),
    Http {
        address: String,
        request: String,
    },
    /// A kind of probe that local mode does not support counts as success.
    Unknown,
}

impl Probes {
    /// Those of the container. With `connect_program`, that program checks ports from inside the
    /// container.
    pub(crate) fn of(container: Container<'_>, ip: &str, connect_program: Option<&Path>) -> Self {
        let probe = |field: &str| {
            let probe = container.0.get(field).filter(|probe| probe.is_object())?;
            let mut probe = Probe::of(probe, container, ip);
            if let Some(connect_program) = connect_program {
                probe.check.run_inside(connect_program);
            }
            Some(probe)
        };
        Self {
            startup: probe("startupProbe"),
            readiness: probe("readinessProbe"),
            liveness: probe("livenessProbe"),
        }
    }

    /// No probe at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.startup.is_none() && self.readiness.is_none() && self.liveness.is_none()
    }
}

impl Probe {
    fn of(probe: &Value, container: Container<'_>, ip: &str) -> Self {
        let number = |field: &str, default: u64| probe[field].as_u64().unwrap_or(default);
        Self {
            check: Check::of(probe, container, ip),
            delay: Duration::from_secs(number("initialDelaySeconds", 0)),
            period: Duration::from_secs(number("periodSeconds", 10).max(1)),
            timeout_secs: number("timeoutSeconds", 1).max(1),
            successes: number("successThreshold", 1).max(1),
            failures: number("failureThreshold", 3).max(1),
        }
    }

    async fn check_once(&self, requests: &mpsc::UnboundedSender<ContainerRequest>) -> bool {
        let limit = Duration::from_secs(self.timeout_secs);
        match &self.check {
            Check::Exec(words) => {
                let (answer, code) = oneshot::channel();
                let request = ContainerRequest::Exec {
                    words: words.clone(),
                    timeout_secs: self.timeout_secs,
                    answer,
                };
                requests.send(request).is_ok() && code.await == Ok(Some(0))
            }
            Check::Tcp(address) => {
                matches!(timeout(limit, TcpStream::connect(address)).await, Ok(Ok(_)))
            }
            Check::Http { address, request } => {
                matches!(
                    timeout(limit, http(address, request)).await,
                    Ok(Some(200..=399))
                )
            }
            Check::Unknown => true,
        }
    }
}

impl Check {
    /// From inside only whether an HTTP server listens is checked.
    fn run_inside(&mut self, connect_program: &Path) {
        if let Self::Tcp(address) | Self::Http { address, .. } = self {
            let words = [&connect_program.to_string_lossy(), CONNECT, address];
            *self = Self::Exec(words.map(str::to_owned).to_vec());
        }
    }

    fn of(probe: &Value, container: Container<'_>, ip: &str) -> Self {
        if let Some(exec) = probe.get("exec") {
            let words = exec["command"].as_array().into_iter().flatten();
            return Self::Exec(words.filter_map(Value::as_str).map(str::to_owned).collect());
        }
        let place = |target: &Value| {
            let port = port(&target["port"], container)?;
            let host = target["host"].as_str().unwrap_or(ip);
            Some(format!("{host}:{port}"))
        };
        if let Some(address) = probe.get("tcpSocket").and_then(place) {
            return Self::Tcp(address);
        }
        let http = probe.get("httpGet");
        if let (Some(http), Some(address)) = (http, http.and_then(place)) {
            if http["scheme"] == "HTTPS" {
                return Self::Tcp(address);
            }
            let path = http["path"].as_str().unwrap_or("/");
            let path = if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            };
            let request = format!(
                "GET {path} HTTP/1.1\r\nHost: {address}\r\nUser-Agent: kube-probe/muster\r\n\
                 Connection: close\r\n\r\n"
            );
            return Self::Http { address, request };
        }
        Self::Unknown
    }
}

/// A number, or the name of one of the container's ports.
fn port(value: &Value, container: Container<'_>) -> Option<u64> {
    if let Some(name) = value.as_str() {
        let mut ports = container.list("ports");
        let named = ports.find(|port| port["name"] == name);
        return named.map_or_else(|| name.parse().ok(), |port| port["containerPort"].as_u64());
    }
    value.as_u64()
}

async fn http(address: &str, request: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = vec![0; ANSWER_BYTES_MAX];
    let mut read = 0;
    while !answer[..read].contains(&b'\n') && read < answer.len() {
        match stream.read(&mut answer[read..]).await.ok()? {
            0 => break,
            bytes => read += bytes,
        }
    }
    let head = String::from_utf8_lossy(&answer[..read]).into_owned();
    head.split_whitespace().nth(1)?.parse().ok()
}

/// Checks until the container ends. `tell` is called with every change of readiness.
pub(crate) async fn run(
    probes: Probes,
    requests: mpsc::UnboundedSender<ContainerRequest>,
    tell: impl Fn(bool) + Send + Sync,
) {
    if let Some(startup) = &probes.startup {
        if !wait_for_startup(startup, &requests).await {
            let _ = requests.send(ContainerRequest::Stop {
                grace_secs: GRACE_SECS,
            });
            return;
        }
        if probes.readiness.is_none() {
            tell(true);
        }
    }
    let ready = async {
        if let Some(probe) = &probes.readiness {
            watch_readiness(probe, &requests, &tell).await;
        }
    };
    let alive = async {
        if let Some(probe) = &probes.liveness {
            watch_liveness(probe, &requests).await;
        }
    };
    tokio::join!(ready, alive);
}

/// Until the first success, or as many failures as are allowed at the probe's own pace.
async fn wait_for_startup(
    probe: &Probe,
    requests: &mpsc::UnboundedSender<ContainerRequest>,
) -> bool {
    sleep(probe.delay).await;
    let patience = probe.period * u32::try_from(probe.failures).unwrap_or(u32::MAX);
    let mut ticks = interval(FIRST_PERIOD_MAX.min(probe.period));
    let attempt = async {
        loop {
            ticks.tick().await;
            if requests.is_closed() || probe.check_once(requests).await {
                return;
            }
        }
    };
    timeout(patience, attempt).await.is_ok()
}

async fn watch_readiness(
    probe: &Probe,
    requests: &mpsc::UnboundedSender<ContainerRequest>,
    tell: &(impl Fn(bool) + Send + Sync),
) {
    sleep(probe.delay).await;
    let (mut ready, mut streak) = (false, 0);
    let mut ever = false;
    loop {
        if requests.is_closed() {
            return;
        }
        let answer = probe.check_once(requests).await;
        streak = if answer == ready { 0 } else { streak + 1 };
        let needed = if ready {
            probe.failures
        } else {
            probe.successes
        };
        if streak >= needed {
            ready = answer;
            ever |= ready;
            streak = 0;
            tell(ready);
        }
        sleep(if ever {
            probe.period
        } else {
            FIRST_PERIOD_MAX.min(probe.period)
        })
        .await;
    }
}

async fn watch_liveness(probe: &Probe, requests: &mpsc::UnboundedSender<ContainerRequest>) {
    sleep(probe.delay).await;
    let mut failures = 0;
    while !requests.is_closed() {
        failures = if probe.check_once(requests).await {
            0
        } else {
            failures + 1
        };
        if failures >= probe.failures {
            let _ = requests.send(ContainerRequest::Stop {
                grace_secs: GRACE_SECS,
            });
            return;
        }
        sleep(probe.period).await;
    }
}
