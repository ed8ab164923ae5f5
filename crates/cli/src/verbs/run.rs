//! `muster run FILE`: a job on this machine, from its file to its exit code. Decides what is checked
//! before anything starts, what Ctrl-C means, and that nothing is left running. Must not know where
//! a dialect keeps its fields: the dialect's row does.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use dialects::Dialect;
use planner::site::Transport;
use serde_json::Value;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{Global, LocalArgs, RunArgs};
use crate::backend::Backend;
use crate::exit::{self, Failure};
use crate::follow::Follower;
use crate::local::cluster::{self, Local, Objects};
use crate::local::host;
use crate::local::output::OutputWriter;
use crate::local::runner::{Settings, Tee};
use crate::local::stages::protocol::{Isolation, Mount};
use crate::manifest::{self, Manifest};
use crate::state::{Record, Run};
use crate::view::{JobView, PodView};
use crate::{lint, out};

const SIGINT: i32 = 2;

pub(crate) async fn run(global: &Global, args: &RunArgs) -> Result<u8> {
    let manifest = manifest::read(args.file.name())?;
    refuse_exec_transport(&manifest.objects())?;
    let mut objects = checked(&manifest)?;
    let namespace = namespace(global, &objects);
    let (job, added) = prepare(&mut objects, args, &namespace, &manifest)?;
    if args.local_args.root.is_none() && args.local_args.mounts.is_empty() {
        require_program(&job)?;
    }
    require_agent(&job)?;
    let uses_ssh = transport(&job) == Transport::Ssh.as_str();
    let settings = runner_settings(&args.local_args, uses_ssh)?;
    let run = Run::begin()?;
    // A directory that cannot be written to is better known now than when the job is over.
    run.record(&Record::of(Objects {
        jobs: vec![job.clone()],
        ..Objects::default()
    }))?;
    let settings = settings(&run);
    print_summary(global, &manifest, &job, &settings);
    print_changes(global, &added);
    let output = OutputWriter::open(args.output.is_some());
    let sender = output.sender();
    let tee: Box<Tee> = Box::new(move |pod, container| {
        let pod = PodView(pod);
        let watched = pod.is_launcher() && pod.main_container() == container;
        watched.then(|| sender.clone())
    });
    let local = Local::start(settings, crate::schema::definitions().iter().collect(), tee).await?;
    let session = Session {
        global,
        args,
        run,
        local,
        output,
    };
    session.follow(&objects, &job, namespace).await
}

struct Session<'a> {
    global: &'a Global,
    args: &'a RunArgs,
    run: Run,
    local: Local,
    output: OutputWriter,
}

/// Why `muster run` stopped watching its job.
enum Ending {
    Finished(Result<Value>),
    Interrupted(u8),
    ReaderGone,
    TimedOut,
}

impl Session<'_> {
    async fn follow(self, objects: &[Value], job: &Value, namespace: String) -> Result<u8> {
        let backend = Backend::of_run(self.local.client(), namespace);
        let began = Instant::now();
        for object in objects {
            if let Err(error) = backend.create(object, false).await {
                self.local.end().await;
                return Err(never_started(format!("{error:#}")));
            }
        }
        let mut follower = Follower::new(self.global, &backend);
        follower.shares_terminal = true;
        let name = manifest::typed_name(job);
        let mut ending = self.watch(&follower, &name).await?;
        let mut record = Record::of(self.local.objects());
        if let Ending::Finished(Ok(job)) = &mut ending {
            // A status has whole seconds, which is coarse for a run of two.
            job["status"]["muster"]["seconds"] = tenths(began.elapsed()).into();
            record.jobs = vec![job.clone()];
        }
        if self.run.record(&record).is_err() {
            out::note("warning: this run cannot be recorded: the state directory is full\n");
        }
        self.local.end().await;
        // The program's output comes before the summary of its run.
        self.output.finish();
        if let Some(path) = &self.args.report {
            let backend = Backend::of_record(record.over(&self.run));
            super::report::of_run(&backend, &name, path).await;
        }
        match ending {
            Ending::Finished(Ok(job)) => {
                let finished = follower.conclude(JobView(&job)).await?;
                if self.args.output.is_some() {
                    out::data(&format!("{:#}\n", finished.json));
                }
                Ok(finished.code)
            }
            Ending::Finished(Err(error)) => Err(error),
            Ending::Interrupted(code) => {
                out::note("interrupted; nothing was left running\n");
                Ok(code)
            }
            Ending::ReaderGone => Ok(exit::PIPE_CLOSED),
            Ending::TimedOut => {
                let command = format!("muster logs {}", backend.address(&name));
                out::note(&format!(
                    "error[DeadlineExceeded]: the job was stopped, because --timeout has passed\n  \
                     do       look at its output: {command}\n"
                ));
                Ok(exit::DEADLINE)
            }
        }
    }

    async fn watch(&self, follower: &Follower<'_>, name: &str) -> Result<Ending> {
        let mut signals = Signals::listen()?;
        let closed = self.output.closed();
        let limit = self.args.timeout.map(Duration::from_secs);
        let deadline = async {
            match limit {
                Some(limit) => tokio::time::sleep(limit).await,
                None => std::future::pending().await,
            }
        };
        let record = |_: &Value| {
            let _ = self.run.record(&Record::of(self.local.objects()));
        };
        let finished = follower.until(name, record);
        tokio::pin!(deadline, finished);
        let mut interrupted = None;
        loop {
            tokio::select! {
                job = &mut finished => {
                    return Ok(match interrupted {
                        Some(code) => Ending::Interrupted(code),
                        None => Ending::Finished(job),
                    });
                }
                code = signals.next() => {
                    if interrupted.is_some() || code != exit::INTERRUPTED {
                        return Ok(Ending::Interrupted(code));
                    }
                    interrupted = Some(code);
                    out::note("\ninterrupting the program; again to kill it\n");
                    self.local.signal_launchers(SIGINT);
                }
                () = closed.notified() => return Ok(Ending::ReaderGone),
                () = &mut deadline => return Ok(Ending::TimedOut),
            }
        }
    }
}

fn tenths(time: Duration) -> f64 {
    (time.as_secs_f64() * 10.0).round() / 10.0
}

/// Signals that end this process, as the exit codes they stand for.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    pub(crate) fn listen() -> Result<Self> {
        let listen = |kind| signal(kind).context("cannot listen for signals");
        Ok(Self {
            interrupt: listen(SignalKind::interrupt())?,
            terminate: listen(SignalKind::terminate())?,
            hang_up: listen(SignalKind::hangup())?,
        })
    }

    pub(crate) async fn next(&mut self) -> u8 {
        let number: i32 = tokio::select! {
            _ = self.interrupt.recv() => SignalKind::interrupt().as_raw_value(),
            _ = self.terminate.recv() => SignalKind::terminate().as_raw_value(),
            _ = self.hang_up.recv() => SignalKind::hangup().as_raw_value(),
        };
        exit::SIGNAL + u8::try_from(number).unwrap_or(0)
    }
}

fn checked(manifest: &Manifest) -> Result<Vec<Value>> {
    super::render::checked(manifest).map_err(|_| never_started(""))
}

fn namespace(global: &Global, objects: &[Value]) -> String {
    let written = objects.iter().find_map(manifest::namespace);
    let given = global.namespace.as_deref().or(written);
    given.unwrap_or("default").to_owned()
}

/// Makes the one job of a file fit this machine, and returns it with what was added: no retries
/// unless the file asks for some, because whoever waits at a terminal wants to see the first failure.
fn prepare(
    objects: &mut [Value],
    args: &RunArgs,
    namespace: &str,
    manifest: &Manifest,
) -> Result<(Value, Vec<&'static str>)> {
    for object in objects.iter_mut() {
        object["metadata"]["namespace"] = namespace.into();
    }
    let jobs = objects.iter_mut().filter_map(|object| {
        let dialect = manifest::dialect(object)?;
        Some((object, dialect))
    });
    let mut jobs: Vec<_> = jobs.collect();
    let [(job, dialect)] = jobs.as_mut_slice() else {
        return Err(never_started(match jobs.len() {
            0 => format!("{} holds no job to run", manifest.name),
            count => format!(
                "{} holds {count} jobs, and `muster run` runs one; use `muster up` and submit them",
                manifest.name
            ),
        }));
    };
    refuse_suspended(job, dialect)?;
    let added = (dialect.set_no_retries)(job);
    if !args.command.is_empty() && !(dialect.set_command)(job, &args.command) {
        return Err(never_started(format!(
            "{} has no launcher whose command could be replaced",
            manifest::name(job)
        )));
    }
    Ok((job.clone(), added))
}

fn refuse_suspended(job: &Value, dialect: &Dialect) -> Result<()> {
    let Some(field) = dialect.suspend_field else {
        return Ok(());
    };
    match manifest::lower(job) {
        Some(Ok(lowered)) if lowered.lifecycle.suspended => Err(never_started(format!(
            "error[Suspended]: {} is suspended, so nothing would run\n  do: set {field} to false, or \
             use `muster up` and resume it with kubectl",
            manifest::name(job)
        ))),
        _ => Ok(()),
    }
}

/// The agent and sshd can start ranks in local pods; pods/exec of an API server is not there.
fn refuse_exec_transport(objects: &[Value]) -> Result<()> {
    let is_exec = |object: &&Value| {
        let dialect = manifest::dialect(object);
        dialect.is_some_and(|dialect| dialect.fixed_transport == Some(planner::site::EXEC))
    };
    match objects.iter().find(is_exec) {
        None => Ok(()),
        Some(object) => Err(never_started(format!(
            "error[TransportNotHere]: {} of {} cannot run locally: its launcher reaches the workers \
             through pods/exec, which local mode does not support\n  do: submit it to a cluster, or \
             write it as kubeflow.org/v2beta1",
            manifest::name(object),
            manifest::text(object, "apiVersion"),
        ))),
    }
}

fn never_started(text: impl Into<String>) -> anyhow::Error {
    Failure::new(exit::NEVER_STARTED, text)
}

/// A job that needs an agent that is missing would wait until somebody ends it.
fn require_agent(job: &Value) -> Result<()> {
    let site = cluster::site(host::agent().is_some());
    match manifest::lower(job) {
        Some(Ok(lowered)) if lowered.lacks_agent(&site) => {
            let text = format!(
                "error[AgentNotFound]: {} needs muster's agent, and there is no file {}\n  do: put \
                 muster-agent beside muster (`cargo build -p cli -p agent` builds both), or set {} to \
                 its path",
                manifest::name(job),
                host::agent_path()?.display(),
                contract::env::AGENT,
            );
            Err(never_started(text))
        }
        _ => Ok(()),
    }
}

/// A launcher program that is missing is reported before anything starts.
fn require_program(job: &Value) -> Result<()> {
    let Some(Ok(lowered)) = manifest::lower(job) else {
        return Ok(());
    };
    let container = &lowered.launcher.role.template["spec"]["containers"][0];
    let word = |list: &str| container[list][0].as_str();
    let Some(program) = word("command").or_else(|| word("args")) else {
        return Ok(());
    };
    // A volume may bring the program along.
    let mut mounts = container["volumeMounts"].as_array().into_iter().flatten();
    let mounted = mounts.any(|mount| {
        let path = mount["mountPath"].as_str().unwrap_or("/");
        program.starts_with(path)
    });
    if mounted || program.contains("$(") || host::find_program(program).is_some() {
        return Ok(());
    }
    let (place, advice) = match program.contains('/') {
        true => (
            "on this machine".to_owned(),
            "install it, or use --root DIR",
        ),
        false => {
            let path = std::env::var("PATH").unwrap_or_default();
            (format!("in PATH={path}"), install_advice(program))
        }
    };
    let text = format!(
        "error[CommandNotFound]: {program} is not {place}\n  do: {advice}; local mode runs programs \
         of this machine and ignores images"
    );
    Err(Failure::new(exit::NOT_FOUND, text))
}

fn install_advice(program: &str) -> &'static str {
    match program {
        "mpirun" | "mpiexec" => "install an MPI: `apt install openmpi-bin`",
        "mpirun.mpich" | "mpiexec.mpich" | "mpiexec.hydra" => "install MPICH: `apt install mpich`",
        _ => "install it, or write its full path",
    }
}

/// What the flags say. A run begins, and is recorded, only once they are right.
pub(crate) fn runner_settings(
    local_args: &LocalArgs,
    sshd: bool,
) -> Result<impl FnOnce(&Run) -> Settings> {
    let (isolation, refusal) = host::isolation()?;
    if isolation == Isolation::Bare {
        out::note(&format!(
            "note: this machine allows no namespaces ({refusal}). Pods share its host name, files and \
             processes, and find volumes only through arguments and variables.\n"
        ));
    }
    let root = match &local_args.root {
        Some(_) if isolation == Isolation::Bare => {
            return Err(never_started(
                "--root needs namespaces, and this machine allows none",
            ));
        }
        Some(root) => {
            let path = root.canonicalize();
            Some(path.with_context(|| format!("cannot use --root {}", root.display()))?)
        }
        None => None,
    };
    let mut variables = Vec::new();
    for variable in &local_args.variables {
        match variable.split_once('=') {
            Some((name, value)) => variables.push((name.to_owned(), value.to_owned())),
            None => {
                let value = std::env::var(variable).map_err(|_| {
                    Failure::usage(format!(
                        "--env {variable}: the environment has no such variable"
                    ))
                })?;
                variables.push((variable.clone(), value));
            }
        }
    }
    let binary = host::binary()?;
    let mounts = mounts(&local_args.mounts)?;
    let isolated = is_isolated(local_args, isolation, sshd)?;
    Ok(move |run: &Run| Settings {
        directory: run.directory.clone(),
        binary,
        agent: host::agent(),
        isolation,
        root,
        mounts,
        variables,
        isolated,
        seed: std::process::id(),
    })
}

/// The word for how the launcher will reach the workers.
fn transport(job: &Value) -> &'static str {
    let site = cluster::site(host::agent().is_some());
    let lowered = manifest::lower(job).and_then(Result::ok);
    lowered.map_or(site.transport.as_str(), |lowered| lowered.transport(&site))
}

fn is_isolated(local_args: &LocalArgs, isolation: Isolation, sshd: bool) -> Result<bool> {
    let can = isolation != Isolation::Bare && host::find_program("ip").is_some();
    match local_args.network.as_deref() {
        Some("isolated") if !can => Err(never_started(
            "--network isolated needs namespaces and the program `ip`: `apt install iproute2`",
        )),
        Some(network) => Ok(network == "isolated"),
        None => Ok(can && (sshd || host::has_only_loopback())),
    }
}

/// `SOURCE:TARGET[:ro]`.
fn mounts(given: &[String]) -> Result<Vec<Mount>> {
    let mount = |text: &String| {
        let mut parts = text.split(':');
        let (source, target, mode) = (parts.next(), parts.next(), parts.next());
        let (Some(source), Some(target)) = (source, target.filter(|to| to.starts_with('/'))) else {
            let text = format!("--mount {text}: write SOURCE:/ABSOLUTE/TARGET, or add :ro");
            return Err(Failure::usage(text).into());
        };
        let path = std::path::Path::new(source).canonicalize();
        Ok(Mount {
            source: path.with_context(|| format!("cannot mount {source}"))?,
            target: target.into(),
            read_only: mode == Some("ro"),
        })
    };
    given.iter().map(mount).collect()
}

/// Says how the job differs from its file.
fn print_changes(global: &Global, added: &[&str]) {
    if !global.quiet && !added.is_empty() {
        out::note(&format!(
            "note: the launcher is not retried ({}), because the file does not say otherwise\n",
            added.join(", ")
        ));
    }
}

fn print_summary(global: &Global, manifest: &Manifest, job: &Value, settings: &Settings) {
    if global.quiet {
        return;
    }
    let view = JobView(job);
    let findings = lint::check(manifest).len();
    let transport = transport(job);
    if out::is_live() && !global.no_progress {
        let version = manifest::text(job, "apiVersion");
        let ranks = view.ranks().unwrap_or(0);
        out::note(&format!(
            "{}  {version} → this machine   {ranks} ranks   transport {transport}\n",
            view.name()
        ));
        if settings.root.is_none() {
            out::note(
                "  local mode runs programs of this machine and ignores images (--root DIR)\n",
            );
        }
    } else {
        out::note(&format!(
            "{:.0} {} checked file={} errors=0 notes={findings} transport={transport} \
             images=ignored\n",
            jiff::Timestamp::now(),
            view.name(),
            manifest.name
        ));
    }
}
