//! A whole cluster in this process: drives the steps of minicluster, passes its orders to the runner
//! and the runner's reports back, and runs the real controller. Decides in which order these start, and
//! that nothing outlives them.

use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use controller::Scope;
use futures::stream;
use jiff::Timestamp;
use kube::Client;
use kube::api::LogParams;
use minicluster::kubelet::PodReport;
use minicluster::service::{LogStream, Shared};
use minicluster::{Cluster, Config, LogQuery};
use planner::site::{Site, Transport};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::host;
use super::runner::config_source::{ConfigLookup, ConfigSource};
use super::runner::{AGENT_IMAGE, Runner, Settings, Tee, live_logs, log};

/// How often volumes are compared with their ConfigMaps and Secrets.
const REFRESH: Duration = Duration::from_secs(2);
/// How often a followed log is read.
const LOOK: Duration = Duration::from_millis(50);
/// Jobs that the controller reconciles at a time.
const CONCURRENCY: u16 = 16;

/// What a caller may ask of the runner.
pub(crate) enum Request {
    /// Send a signal to the launchers' programs.
    SignalLaunchers(i32),
    /// Kill everything; answered when that is done.
    End(oneshot::Sender<()>),
}

/// A cluster that runs on this machine.
pub(crate) struct Local {
    pub(crate) shared: Shared,
    requests: mpsc::UnboundedSender<Request>,
    controller: JoinHandle<Result<()>>,
    driver: JoinHandle<()>,
    stop: oneshot::Sender<()>,
}

impl Local {
    /// Starts everything; the definitions are installed when this returns.
    pub(crate) async fn start(
        settings: Settings,
        definitions: Vec<&Value>,
        tee: Box<Tee>,
    ) -> Result<Self> {
        Self::start_at(Timestamp::now, settings, definitions, tee).await
    }

    async fn start_at(
        clock: impl Fn() -> Timestamp + Send + Sync + 'static,
        settings: Settings,
        definitions: Vec<&Value>,
        tee: Box<Tee>,
    ) -> Result<Self> {
        let mut seed = [0; 8];
        getrandom::fill(&mut seed).context("this machine has no random numbers")?;
        let config = Config {
            seed: u64::from_le_bytes(seed),
            created_at: clock(),
            node: Some(host::node()),
            ..Config::default()
        };
        let logs = settings.directory.clone();
        let open = move |query: LogQuery| open_log(logs.clone(), query);
        let shared = Shared::new(Cluster::new(config), clock, open);
        install(&shared, &definitions)?;
        let site = site(settings.agent.is_some());
        let (reporter, reports) = mpsc::unbounded_channel();
        let lookup = lookup(shared.clone());
        let runner = Runner::new(settings, lookup, reporter, tee);
        let (requests, received) = mpsc::unbounded_channel();
        let driver = tokio::task::spawn(drive(shared.clone(), runner, reports, received));
        let scope = Scope {
            site,
            namespace: None,
            concurrency: CONCURRENCY,
            clock: Timestamp::now,
            nonce: controller::nonce,
            keys: controller::KeySource::FRESH,
        };
        let (stop, stopped) = oneshot::channel();
        let client = client(&shared);
        let controller = tokio::spawn(async move {
            let stopped = async {
                let _ = stopped.await;
            };
            controller::operate(client, scope, stopped).await
        });
        Ok(Self {
            shared,
            requests,
            controller,
            driver,
            stop,
        })
    }

    /// A client of its API.
    pub(crate) fn client(&self) -> Client {
        client(&self.shared)
    }

    /// A signal to the programs of all launchers.
    pub(crate) fn signal_launchers(&self, number: i32) {
        let _ = self.requests.send(Request::SignalLaunchers(number));
    }

    /// Ends every process, and everything else with them.
    pub(crate) async fn end(self) {
        let (done, ended) = oneshot::channel();
        if self.requests.send(Request::End(done)).is_ok() {
            let _ = ended.await;
        }
        drop(self.stop);
        self.controller.abort();
        self.driver.abort();
    }

    /// The objects that are recorded for later commands.
    pub(crate) fn objects(&self) -> Objects {
        let all = |path: &str| {
            let list = read(&self.shared, path).unwrap_or_default();
            list["items"].as_array().cloned().unwrap_or_default()
        };
        let stored = crate::manifest::apis().iter().filter(|api| api.is_stored);
        let jobs = stored.flat_map(|dialect| {
            let jobs = all(&format!(
                "/apis/{}/{}/{}",
                dialect.group, dialect.version, dialect.plural
            ));
            jobs.into_iter().map(|mut job| {
                job["apiVersion"] = crate::manifest::api_version(dialect).into();
                job["kind"] = dialect.kind.into();
                job
            })
        });
        Objects {
            jobs: jobs.collect(),
            pods: all("/api/v1/pods"),
            events: all("/api/v1/events"),
        }
    }
}

/// What there is to record.
#[derive(Default)]
pub(crate) struct Objects {
    pub(crate) jobs: Vec<Value>,
    pub(crate) pods: Vec<Value>,
    pub(crate) events: Vec<Value>,
}

/// The controller's settings for local jobs, with the agent or without.
pub(crate) fn site(agent: bool) -> Site {
    Site {
        agent_image: agent.then(|| AGENT_IMAGE.to_owned()),
        transport: match agent {
            true => Transport::Agent,
            false => Transport::Ssh,
        },
        machine_cores: Some(machine_cores()),
        ..Site::default()
    }
}

fn client(shared: &Shared) -> Client {
    Client::new(shared.service(), "default")
}

fn install(shared: &Shared, definitions: &[&Value]) -> Result<()> {
    for definition in definitions {
        let request = http::Request::post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions?fieldManager=muster",
        )
        .header("content-type", "application/json")
        .body(serde_json::to_vec(definition)?)?;
        let answer = shared.handle(request);
        if !answer.status().is_success() {
            bail!(
                "the local cluster refused a definition of this version: {}",
                answer.status()
            );
        }
    }
    Ok(())
}

fn read(shared: &Shared, path: &str) -> Option<Value> {
    let request = http::Request::get(path).body(Vec::new()).ok()?;
    let answer = shared.handle(request);
    if !answer.status().is_success() {
        return None;
    }
    match answer.into_body() {
        minicluster::service::Body::Whole(Some(bytes)) => serde_json::from_slice(&bytes).ok(),
        _ => None,
    }
}

fn lookup(shared: Shared) -> Arc<ConfigLookup> {
    Arc::new(move |kind: ConfigSource, namespace: &str, name: &str| {
        let plural = match kind {
            ConfigSource::ConfigMap => "configmaps",
            ConfigSource::Secret => "secrets",
        };
        read(
            &shared,
            &format!("/api/v1/namespaces/{namespace}/{plural}/{name}"),
        )
    })
}

async fn drive(
    shared: Shared,
    mut runner: Runner,
    mut reports: mpsc::UnboundedReceiver<PodReport>,
    mut requests: mpsc::UnboundedReceiver<Request>,
) {
    let mut refresh = tokio::time::interval(REFRESH);
    loop {
        for order in shared.tick() {
            runner.apply(order);
        }
        let wake = shared.with(|cluster, now| {
            let at = cluster.next_wake()?;
            // A time in the past means now.
            Some(Duration::try_from(at.duration_since(now)).unwrap_or_default())
        });
        let alarm = async {
            match wake {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = shared.changed() => {}
            Some(report) = reports.recv() => {
                shared.report(report);
                while let Ok(report) = reports.try_recv() {
                    shared.report(report);
                }
            }
            request = requests.recv() => match request {
                Some(Request::SignalLaunchers(number)) => runner.signal_launchers(number),
                Some(Request::End(done)) => {
                    runner.end().await;
                    let _ = done.send(());
                    return;
                }
                None => return,
            },
            () = alarm => {}
            _ = refresh.tick() => runner.refresh_all(),
        }
        // Other tasks must get their turn, also while the cluster is busy.
        tokio::task::yield_now().await;
    }
}

/// A container's log, and what is added to it if the query follows it.
fn open_log(directory: PathBuf, query: LogQuery) -> LogStream {
    let number = |given: Option<u64>| given.and_then(|given| i64::try_from(given).ok());
    let params = LogParams {
        tail_lines: number(query.tail_lines),
        since_seconds: number(query.since_seconds),
        timestamps: query.timestamps,
        ..LogParams::default()
    };
    let Some(path) = log::last(&directory, &query.pod, &query.container, query.previous) else {
        return Box::pin(stream::empty());
    };
    // Checked before reading: lines that are written after this check are found by the next read.
    let running = query.follow && live_logs::is_live(&path);
    let start = LogReader {
        offset: std::fs::metadata(&path).map_or(0, |meta| meta.len()),
        path,
        params,
        running,
    };
    let first = log::read(&start.path)
        .map(|lines| log::select(&lines, &start.params))
        .unwrap_or_default();
    let limit = query
        .limit_bytes
        .and_then(|bytes| usize::try_from(bytes).ok())
        .unwrap_or(usize::MAX);
    let first = Bytes::from(first[..first.len().min(limit)].to_vec());
    let rest = stream::unfold(start, LogReader::next);
    Box::pin(futures::StreamExt::chain(
        stream::once(async move { first }),
        rest,
    ))
}

struct LogReader {
    path: PathBuf,
    offset: u64,
    params: LogParams,
    running: bool,
}

impl LogReader {
    async fn next(mut self) -> Option<(Bytes, Self)> {
        while self.running {
            self.running = live_logs::is_live(&self.path);
            if let Some(text) = self.more() {
                return Some((text.into(), self));
            }
            if self.running {
                tokio::time::sleep(LOOK).await;
            }
        }
        None
    }

    fn more(&mut self) -> Option<Vec<u8>> {
        let bytes = tail_of(&self.path, &mut self.offset).ok()?;
        let lines = log::parse(&bytes);
        let used: usize = bytes
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |end| end + 1);
        self.offset += used as u64;
        let params = LogParams {
            timestamps: self.params.timestamps,
            ..LogParams::default()
        };
        Some(log::select(&lines, &params)).filter(|text| !text.is_empty())
    }
}

/// At least one.
fn machine_cores() -> u32 {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    u32::try_from(cores).unwrap_or(u32::MAX)
}

/// What was added to a file after `offset`; from its beginning when it was replaced by a new one.
fn tail_of(path: &Path, offset: &mut u64) -> std::io::Result<Vec<u8>> {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let mut file = std::fs::File::open(path)?;
    if file.metadata()?.len() < *offset {
        *offset = 0;
    }
    file.seek(SeekFrom::Start(*offset))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
