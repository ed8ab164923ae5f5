//! `muster run FILE`: a job on this machine, from its file to its exit code. Decides what is asked
//! before anything starts, what Ctrl-C means, and that nothing is left running.

use std::time::Duration;

use anyhow::{Context as _, Result};
use planner::site::Transport;
use serde_json::{Value, json};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::{Global, LocalArgs, RunArgs};
use crate::backend::Backend;
use crate::exit::{self, Failure};
use crate::follow::Follower;
use crate::local::cluster::Local;
use crate::local::host;
use crate::local::output::Output;
use crate::local::runner::{Settings, Tee};
use crate::local::stages::protocol::{Isolation, Mount};
use crate::manifest::{self, Manifest};
use crate::state::{Record, Run};
use crate::view::{JobView, PodView};
use crate::{lint, out};

const SIGINT: i32 = 2;
const LAUNCHER: &str = "/spec/mpiReplicaSpecs/Launcher";

pub(crate) async fn run(global: &Global, args: &RunArgs) -> Result<u8> {
    let manifest = manifest::read(args.file.name())?;
    let mut objects = checked(&manifest)?;
    let namespace = namespace(global, &objects);
    let (job, added) = prepare(&mut objects, args, &namespace, &manifest)?;
    if args.local_args.root.is_none() && args.local_args.mounts.is_empty() {
        require_program(&job)?;
    }
    let run = Run::begin()?;
    // A directory that cannot be written to is better known now than when the job is over.
    run.record(&Record::of(vec![job.clone()], Vec::new(), Vec::new()))?;
    let settings = runner_settings(&run, &args.local_args, wants_sshd(&job))?;
    print_summary(global, &manifest, &job, &settings);
    print_changes(global, &added);
    let output = Output::open(args.output.is_some());
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
    output: Output,
}

/// How following ended.
enum Ending {
    Finished(Result<Value>),
    Interrupted(u8),
    ReaderGone,
    TimedOut,
}

impl Session<'_> {
    async fn follow(self, objects: &[Value], job: &Value, namespace: String) -> Result<u8> {
        let backend = Backend::of(self.local.client(), namespace);
        for object in objects {
            if let Err(error) = backend.create(object, false).await {
                self.local.end().await;
                return Err(Failure {
                    code: exit::NEVER_STARTED,
                    text: format!("{error:#}"),
                }
                .into());
            }
        }
        let mut follower = Follower::new(self.global, &backend);
        follower.shares_terminal = true;
        let name = super::render::typed_name(job);
        let ending = self.watch(&follower, &name).await?;
        if self.run.record(&self.local.record()).is_err() {
            out::note("warning: this run cannot be recorded: the state directory is full\n");
        }
        self.local.end().await;
        // All that the program wrote comes before what we say of it.
        self.output.finish();
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
                out::note("error[DeadlineExceeded]: --timeout is finished; the job was stopped\n");
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
            let _ = self.run.record(&self.local.record());
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

/// Signals that end us, as the exit codes they stand for.
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
    super::render::checked(manifest).map_err(|_| {
        Failure {
            code: exit::NEVER_STARTED,
            text: String::new(),
        }
        .into()
    })
}

fn namespace(global: &Global, objects: &[Value]) -> String {
    let written = objects.iter().find_map(manifest::namespace);
    let given = global.namespace.as_deref().or(written);
    given.unwrap_or("default").to_owned()
}

/// Makes the job fit this machine, and returns it with what was added: no retries unless the file
/// asks for some, because whoever waits at a terminal wants to see the first failure.
fn prepare(
    objects: &mut [Value],
    args: &RunArgs,
    namespace: &str,
    manifest: &Manifest,
) -> Result<(Value, Vec<&'static str>)> {
    let mut jobs = 0;
    let mut found = None;
    let mut added = Vec::new();
    for object in objects.iter_mut() {
        object["metadata"]["namespace"] = namespace.into();
        if manifest::api(object).is_none() {
            continue;
        }
        jobs += 1;
        if object["spec"]["runPolicy"]["suspend"] == true {
            return Err(never_started(format!(
                "error[Suspended]: {} is suspended, so nothing would run\n  do: set \
                 spec.runPolicy.suspend to false, or use `muster up` and resume it with kubectl",
                manifest::name(object)
            )));
        }
        require_transport(object)?;
        if object.pointer(LAUNCHER).is_some() {
            let policy = &mut object["spec"]["runPolicy"];
            if policy["backoffLimit"].is_null() {
                policy["backoffLimit"] = 0.into();
                added.push("backoffLimit: 0");
            }
        }
        if let Some(launcher) = object.pointer_mut(LAUNCHER) {
            if launcher["restartPolicy"].is_null() {
                launcher["restartPolicy"] = "Never".into();
                added.push("restartPolicy: Never");
            }
            if !args.command.is_empty() {
                let container = &mut launcher["template"]["spec"]["containers"][0];
                // Dollars of this command line are the program's, not for `$(NAME)`.
                let words = args.command.iter().map(|word| word.replace('$', "$$"));
                container["command"] = json!(words.collect::<Vec<String>>());
                container["args"] = json!([]);
            }
        }
        found = Some(object.clone());
    }
    match (found, jobs) {
        (Some(job), 1) => Ok((job, added)),
        (None, _) => Err(never_started(format!(
            "{} holds no job to run",
            manifest.name
        ))),
        (Some(_), _) => Err(never_started(format!(
            "{} holds {jobs} jobs, and one is run at a time; `muster up` takes many",
            manifest.name
        ))),
    }
}

/// Commands can be run in pods here by the agent and by sshd, not through an API server.
fn require_transport(object: &Value) -> Result<()> {
    match manifest::lower(object) {
        Some(Ok(job)) if job.transport == Some(Transport::Exec) => Err(never_started(format!(
            "error[TransportNotHere]: {} of {} reaches its workers, which a StatefulSet makes, by \
             transport Exec: through pods/exec of an API server, which this machine has not\n  do: \
             apply it to a cluster, or write it as kubeflow.org/v2beta1, whose workers run the agent",
            manifest::name(object),
            manifest::text(object, "apiVersion"),
        ))),
        _ => Ok(()),
    }
}

fn never_started(text: String) -> anyhow::Error {
    let code = exit::NEVER_STARTED;
    Failure { code, text }.into()
}

/// That the launcher's program is not there is known before anything starts.
fn require_program(job: &Value) -> Result<()> {
    let container = job.pointer(&format!("{LAUNCHER}/template/spec/containers/0"));
    let word = |list: &str| container.and_then(|container| container[list][0].as_str());
    let Some(program) = word("command").or_else(|| word("args")) else {
        return Ok(());
    };
    // What a volume brings along cannot be looked for here.
    let mounts = container.and_then(|container| container["volumeMounts"].as_array());
    let mounted = mounts.into_iter().flatten().any(|mount| {
        let path = mount["mountPath"].as_str().unwrap_or("/");
        program.starts_with(path)
    });
    if mounted || program.contains("$(") || host::find_program(program).is_some() {
        return Ok(());
    }
    let (local_args, advice) = match program.contains('/') {
        true => (
            "on this machine".to_owned(),
            "install it, or use --root DIR",
        ),
        false => {
            let path = std::env::var("PATH").unwrap_or_default();
            (format!("in PATH={path}"), install_advice(program))
        }
    };
    Err(Failure {
        code: exit::NOT_FOUND,
        text: format!(
            "error[CommandNotFound]: {program} is not {local_args}\n  do: {advice}; images are not used \
             here, programs of this machine are"
        ),
    }
    .into())
}

fn install_advice(program: &str) -> &'static str {
    match program {
        "mpirun" | "mpiexec" => "install an MPI: `apt install openmpi-bin`",
        "mpirun.mpich" | "mpiexec.mpich" | "mpiexec.hydra" => "install MPICH: `apt install mpich`",
        _ => "install it, or write its full path",
    }
}

/// Settings of the runner.
pub(crate) fn runner_settings(run: &Run, local_args: &LocalArgs, sshd: bool) -> Result<Settings> {
    let (isolation, refusal) = host::isolation()?;
    if isolation == Isolation::Bare {
        out::note(&format!(
            "note: this machine allows no namespaces ({refusal}), so pods share host name, files \
             and processes; volumes are reached through variables only\n"
        ));
    }
    let root = match &local_args.root {
        Some(_) if isolation == Isolation::Bare => {
            return Err(never_started(
                "--root needs namespaces, and none are allowed".to_owned(),
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
                    Failure::usage(format!("--env {variable}: this shell has no such variable"))
                })?;
                variables.push((variable.clone(), value));
            }
        }
    }
    Ok(Settings {
        directory: run.directory.clone(),
        binary: host::binary()?,
        agent: host::agent(),
        isolation,
        root,
        mounts: mounts(&local_args.mounts)?,
        variables,
        isolated: is_isolated(local_args, isolation, sshd)?,
        seed: std::process::id(),
    })
}

/// Every sshd takes the same port, so each needs a network of its own.
fn wants_sshd(job: &Value) -> bool {
    if manifest::text(job, "kind") == dialects::openmpi_v1alpha1::KIND {
        return true;
    }
    match job["spec"]["muster"]["transport"].as_str() {
        Some(transport) => transport == "SSH",
        None => host::agent().is_none(),
    }
}

fn is_isolated(local_args: &LocalArgs, isolation: Isolation, sshd: bool) -> Result<bool> {
    let can = isolation != Isolation::Bare && host::find_program("ip").is_some();
    match local_args.network.as_deref() {
        Some("isolated") if !can => Err(never_started(
            "--network isolated needs namespaces and the program `ip`: `apt install iproute2`"
                .to_owned(),
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

/// What runs here must not differ from the file in silence.
fn print_changes(global: &Global, added: &[&str]) {
    if !global.quiet && !added.is_empty() {
        out::note(&format!(
            "note: the launcher is tried once ({}), as the file does not say otherwise\n",
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
    let transport = match (&settings.agent, job["spec"]["muster"]["transport"].as_str()) {
        (_, Some(transport)) => transport,
        _ if wants_sshd(job) => "SSH",
        (Some(_), None) => "Agent",
        (None, None) => "SSH",
    };
    if out::is_live() && !global.no_progress {
        let version = manifest::text(job, "apiVersion");
        let ranks = view.ranks().unwrap_or(0);
        out::note(&format!(
            "{}  {version} → this machine   {ranks} ranks   transport {transport}\n",
            view.name()
        ));
        if settings.root.is_none() {
            out::note("  images are not used here: programs of this machine run (--root DIR)\n");
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
