//! One start of one container, from its process to its termination message. Decides what is reported
//! to the cluster and when; what the container looks like from inside is in its spec.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use minicluster::kubelet::{PodRef, PodReport};
use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, BufReader,
};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedWriteHalf;
use tokio::process::{Child, Command as Process};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::live_logs::Live;
use super::log::{self, Log, Stream};
use super::probe::{self, Probes};
use super::request::{Chunk, ContainerRequest};
use crate::local::stages;
use crate::local::stages::protocol::{Command, ContainerEvent, ContainerSpec, Isolation};

/// Bytes of a termination message that the kubelet keeps.
const MESSAGE_BYTES_MAX: usize = 4096;
/// Lines and bytes of the log that it keeps where the log serves as message.
const FALLBACK_LINES: usize = 80;
const FALLBACK_BYTES: usize = 2048;
const CHUNK_BYTES: usize = 64 * 1024;
const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// Everything that one start needs.
pub(crate) struct Launch {
    pub(crate) pod: PodRef,
    pub(crate) container: String,
    /// This binary.
    pub(crate) binary: PathBuf,
    pub(crate) isolation: Isolation,
    /// The process that holds the pod's own network.
    pub(crate) network: Option<u32>,
    pub(crate) spec: ContainerSpec,
    pub(crate) log: PathBuf,
    /// File of the termination message.
    pub(crate) message: PathBuf,
    pub(crate) falls_back_to_log: bool,
    pub(crate) probes: Probes,
    pub(crate) tee: Option<mpsc::Sender<Chunk>>,
    pub(crate) reports: mpsc::UnboundedSender<PodReport>,
}

/// Runs until the container ends, and reports how it did.
pub(crate) async fn run(launch: Launch, requests: mpsc::UnboundedReceiver<ContainerRequest>) {
    let report = run_to_end(&launch, requests).await.unwrap_or_else(|error| {
        cannot_start(&launch, format!("cannot start a process for it: {error}"))
    });
    let _ = launch.reports.send(report);
}

async fn run_to_end(
    launch: &Launch,
    requests: mpsc::UnboundedReceiver<ContainerRequest>,
) -> io::Result<PodReport> {
    let oom_before = oom_kills();
    let log = Arc::new(Mutex::new(Log::open(&launch.log)?));
    let _live = Live::begin(&launch.log);
    let (mut child, control) = spawn(launch)?;
    let pumps = [
        child.stdout.take().map(|pipe| {
            let (log, tee) = (Arc::clone(&log), launch.tee.clone());
            tokio::spawn(pump(pipe, Stream::Stdout, log, tee))
        }),
        child.stderr.take().map(|pipe| {
            let (log, tee) = (Arc::clone(&log), launch.tee.clone());
            tokio::spawn(pump(pipe, Stream::Stderr, log, tee))
        }),
    ];
    let (events, mut commands) = control.into_split();
    send(&mut commands, &Command::Run(Box::new(launch.spec.clone()))).await;
    let mut watch = Watch {
        launch,
        probing: JoinSet::new(),
        commands,
        kill_at: None,
        asked: BTreeMap::new(),
        next_id: 0,
        stopped: false,
    };
    let end = watch.until_end(BufReader::new(events), requests).await;
    let stopped = watch.stopped;
    drop(watch);
    // The container is over once the kernel has ended every process in it.
    let _ = child.wait().await;
    for pump in pumps.into_iter().flatten() {
        let _ = pump.await;
    }
    let write = |text: &str| {
        let mut log = log.lock().expect("no task panics with the lock held");
        let now = Timestamp::now();
        // A failure to write the log has been reported already.
        let _ = log.write(now, Stream::Stderr, text.as_bytes());
        let _ = log.finish(now);
    };
    Ok(match end {
        End::SetupFailed(message) => cannot_start(launch, message),
        End::NotStarted { code, message } => {
            let line = format!("muster: {message}\n");
            write(&line);
            if let Some(tee) = &launch.tee {
                let (stream, bytes) = (Stream::Stderr, line.into_bytes());
                let _ = tee.send(Chunk { stream, bytes }).await;
            }
            let _ = launch.reports.send(started(launch));
            exited(launch, code, None, message, false)
        }
        End::Exited { code, signal } => {
            write("");
            let oom = signal == Some(SIGKILL) && !stopped && oom_kills() > oom_before;
            let message = termination_message(launch, code);
            exited(launch, code, signal, message, oom)
        }
    })
}

enum End {
    Exited { code: i32, signal: Option<i32> },
    NotStarted { code: i32, message: String },
    SetupFailed(String),
}

struct Watch<'a> {
    launch: &'a Launch,
    /// Ends with this watch.
    probing: JoinSet<()>,
    commands: OwnedWriteHalf,
    kill_at: Option<Instant>,
    asked: BTreeMap<u64, oneshot::Sender<Option<i32>>>,
    next_id: u64,
    /// This program killed it.
    stopped: bool,
}

impl Watch<'_> {
    async fn until_end(
        &mut self,
        events: BufReader<tokio::net::unix::OwnedReadHalf>,
        mut requests: mpsc::UnboundedReceiver<ContainerRequest>,
    ) -> End {
        let mut events = events.lines();
        let (prober, mut probed) = mpsc::unbounded_channel();
        let killed = End::Exited {
            code: 128 + SIGKILL,
            signal: Some(SIGKILL),
        };
        let mut wanted = true;
        loop {
            let kill_at = self.kill_at;
            let due = async {
                match kill_at {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                line = events.next_line() => {
                    let Ok(Some(line)) = line else { return killed };
                    let Ok(event) = serde_json::from_str(&line) else { continue };
                    if let Some(end) = self.on_event(event, &prober) {
                        return end;
                    }
                }
                request = requests.recv(), if wanted => match request {
                    Some(request) => self.handle(request).await,
                    // Nobody can stop it any more: the runner has gone.
                    None => {
                        wanted = false;
                        self.kill_at = Some(Instant::now());
                    }
                },
                Some(request) = probed.recv() => self.handle(request).await,
                () = due => {
                    self.kill_at = None;
                    self.stopped = true;
                    send(&mut self.commands, &Command::Kill).await;
                }
            }
        }
    }

    fn on_event(
        &mut self,
        event: ContainerEvent,
        prober: &mpsc::UnboundedSender<ContainerRequest>,
    ) -> Option<End> {
        match event {
            ContainerEvent::Started => {
                let _ = self.launch.reports.send(started(self.launch));
                self.probe(prober.clone());
                None
            }
            ContainerEvent::NotStarted { code, message } => Some(End::NotStarted { code, message }),
            ContainerEvent::SetupFailed { message } => Some(End::SetupFailed(message)),
            ContainerEvent::Exited { code, signal } => Some(End::Exited { code, signal }),
            ContainerEvent::ExecExited { id, code } => {
                if let Some(answer) = self.asked.remove(&id) {
                    let _ = answer.send(code);
                }
                None
            }
        }
    }

    fn probe(&mut self, requests: mpsc::UnboundedSender<ContainerRequest>) {
        if self.launch.probes.is_empty() {
            return;
        }
        let (pod, container) = (self.launch.pod.clone(), self.launch.container.clone());
        let reports = self.launch.reports.clone();
        let tell = move |ready| {
            let (pod, container) = (pod.clone(), container.clone());
            let _ = reports.send(PodReport::Ready {
                pod,
                container,
                ready,
            });
        };
        self.probing
            .spawn(probe::run(self.launch.probes.clone(), requests, tell));
    }

    async fn handle(&mut self, request: ContainerRequest) {
        match request {
            ContainerRequest::Stop { grace_secs } => {
                let at = Instant::now() + Duration::from_secs(grace_secs);
                self.kill_at = Some(self.kill_at.map_or(at, |earlier| earlier.min(at)));
                if grace_secs > 0 {
                    send(&mut self.commands, &Command::Signal(SIGTERM)).await;
                }
            }
            ContainerRequest::Signal(number) => {
                send(&mut self.commands, &Command::Signal(number)).await
            }
            ContainerRequest::Exec {
                words,
                timeout_secs,
                answer,
            } => {
                let id = self.next_id;
                self.next_id += 1;
                self.asked.insert(id, answer);
                let command = Command::Exec {
                    id,
                    words,
                    timeout_secs,
                };
                send(&mut self.commands, &command).await;
            }
        }
    }
}

/// A write to a container that has ended fails; reading its events reports the end.
async fn send(commands: &mut OwnedWriteHalf, command: &Command) {
    let line = serde_json::to_string(command).expect("commands are plain data") + "\n";
    let _ = commands.write_all(line.as_bytes()).await;
}

fn spawn(launch: &Launch) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let stage = match launch.isolation {
        Isolation::Bare => stages::FIRST,
        Isolation::Root | Isolation::User => stages::ENTER,
    };
    let child = Process::new(&launch.binary)
        .arg(stage)
        .arg(launch.isolation.as_str())
        .args(launch.network.map(|holder| holder.to_string()))
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // Ctrl-C at a terminal is for us to pass on.
        .process_group(0)
        .kill_on_drop(launch.isolation != Isolation::Bare)
        .spawn()?;
    Ok((child, UnixStream::from_std(ours)?))
}

async fn pump(
    mut from: impl AsyncRead + Unpin,
    stream: Stream,
    log: Arc<Mutex<Log>>,
    tee: Option<mpsc::Sender<Chunk>>,
) {
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut complained = false;
    while let Ok(bytes @ 1..) = from.read(&mut buffer).await {
        let chunk = &buffer[..bytes];
        let kept = log
            .lock()
            .expect("no task panics with the lock held")
            .write(Timestamp::now(), stream, chunk);
        if let (Err(error), false) = (kept, complained) {
            // The program keeps running, and its output still reaches the terminal.
            complained = true;
            crate::out::note(&format!(
                "warning: cannot keep a container's log: {error}\n"
            ));
        }
        if let Some(tee) = &tee {
            let bytes = chunk.to_vec();
            let _ = tee.send(Chunk { stream, bytes }).await;
        }
    }
}

fn cannot_start(launch: &Launch, message: String) -> PodReport {
    PodReport::CannotStart {
        pod: launch.pod.clone(),
        container: launch.container.clone(),
        reason: "CreateContainerError".to_owned(),
        message,
        retry: false,
    }
}

fn started(launch: &Launch) -> PodReport {
    PodReport::Started {
        pod: launch.pod.clone(),
        container: launch.container.clone(),
    }
}

fn exited(
    launch: &Launch,
    code: i32,
    signal: Option<i32>,
    message: String,
    oom: bool,
) -> PodReport {
    PodReport::Exited {
        pod: launch.pod.clone(),
        container: launch.container.clone(),
        code,
        signal,
        message,
        oom,
    }
}

fn termination_message(launch: &Launch, code: i32) -> String {
    let words = std::fs::read(&launch.message).unwrap_or_default();
    if words.is_empty() && code != 0 && launch.falls_back_to_log {
        return tail(&launch.log);
    }
    String::from_utf8_lossy(&words[..words.len().min(MESSAGE_BYTES_MAX)]).into_owned()
}

fn tail(path: &Path) -> String {
    let lines = log::read(path).unwrap_or_default();
    let from = lines.len().saturating_sub(FALLBACK_LINES);
    let text: Vec<u8> = lines[from..]
        .iter()
        .flat_map(|line| line.text.iter().copied())
        .collect();
    let from = text.len().saturating_sub(FALLBACK_BYTES);
    String::from_utf8_lossy(&text[from..]).into_owned()
}

/// How many processes the kernel has killed because memory ran out.
fn oom_kills() -> u64 {
    let statistics = std::fs::read_to_string("/proc/vmstat").unwrap_or_default();
    let line = statistics
        .lines()
        .find_map(|line| line.strip_prefix("oom_kill "));
    line.and_then(|count| count.trim().parse().ok())
        .unwrap_or(0)
}
