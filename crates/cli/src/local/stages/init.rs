//! Stage two, the init process of a container: builds its root directory, starts the program, forwards
//! signals, reaps orphans, and ends when the program does. The kernel then kills everything else in
//! the container.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command as Process, ExitCode, Stdio};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper,
    set_parent_process_death_signal,
};

use super::protocol::{Command, ContainerEvent, ContainerSpec, Isolation, Program};
use super::{descendants, rootfs};

/// Exit codes as a shell has them.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
const SIGNAL: i32 = 128;

/// Runs until the program ends or the runner closes the socket.
pub(super) fn run(mode: &str) -> ExitCode {
    if mode == "probe" {
        return match rootfs::probe() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let Some(isolation) = Isolation::parse(mode) else {
        return ExitCode::FAILURE;
    };
    // With a PID namespace the kernel kills the rest; without one this process must live to do it.
    if isolation == Isolation::Bare {
        let _ = set_child_subreaper(Some(rustix::process::getpid()));
    } else {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
    }
    let _ = rustix::process::setsid();
    let Some((mut reader, control)) = control() else {
        eprintln!("muster: this command is internal to `muster run`");
        return ExitCode::FAILURE;
    };
    let Some(Command::Run(spec)) = next(&mut reader) else {
        return ExitCode::FAILURE;
    };
    let init = Init {
        control,
        isolation,
        program: Mutex::default(),
        execs: Mutex::default(),
    };
    Arc::new(init).run_program(reader, &spec)
}

fn control() -> Option<(BufReader<UnixStream>, UnixStream)> {
    let socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned().ok()?);
    socket.peer_addr().ok()?;
    Some((BufReader::new(socket.try_clone().ok()?), socket))
}

fn next(reader: &mut BufReader<UnixStream>) -> Option<Command> {
    let mut line = String::new();
    let bytes = reader.read_line(&mut line).ok()?;
    (bytes > 0).then(|| serde_json::from_str(&line).ok())?
}

struct Init {
    control: UnixStream,
    isolation: Isolation,
    program: Mutex<Option<Pid>>,
    /// What runs beside the program, by process.
    execs: Mutex<BTreeMap<i32, u64>>,
}

impl Init {
    fn run_program(
        self: Arc<Self>,
        reader: BufReader<UnixStream>,
        spec: &ContainerSpec,
    ) -> ExitCode {
        if self.isolation != Isolation::Bare
            && let Err(error) = rootfs::enter(spec)
        {
            self.send(&ContainerEvent::SetupFailed {
                message: format!("{error:#}"),
            });
            return ExitCode::FAILURE;
        }
        if self.isolation == Isolation::User {
            let _ = rustix::thread::clear_ambient_capability_set();
        }
        // Locked during the start: the reaper must know the program's PID before the program can end.
        let started = {
            let mut slot = lock(&self.program);
            let started = start(&spec.program);
            *slot = started.as_ref().ok().copied();
            started
        };
        let program = match started {
            Ok(program) => program,
            Err(event) => {
                self.send(&event);
                return ExitCode::FAILURE;
            }
        };
        self.send(&ContainerEvent::Started);
        let listener = Arc::clone(&self);
        let shared = spec.program.clone();
        thread::spawn(move || listener.listen(reader, &shared));
        self.reap(program)
    }

    /// Until the program ends.
    fn reap(&self, program: Pid) -> ExitCode {
        loop {
            let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::empty()) else {
                // Only when there is no child at all, and the program is one.
                return ExitCode::FAILURE;
            };
            let code = status
                .exit_status()
                .unwrap_or_else(|| SIGNAL + status.terminating_signal().unwrap_or(0));
            if pid == program {
                if self.isolation == Isolation::Bare {
                    descendants::kill_all();
                }
                self.send(&ContainerEvent::Exited {
                    code,
                    signal: status.terminating_signal(),
                });
                return ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX));
            }
            let mut execs = lock(&self.execs);
            if let Some(id) = execs.remove(&pid.as_raw_nonzero().get()) {
                self.send(&ContainerEvent::ExecExited {
                    id,
                    code: Some(code),
                });
            }
        }
    }

    /// Carries out commands until the runner closes the socket, then kills everything.
    fn listen(&self, mut reader: BufReader<UnixStream>, program: &Program) {
        while let Some(command) = next(&mut reader) {
            match command {
                Command::Signal(number) => self.signal(number),
                Command::Kill => break,
                Command::Exec {
                    id,
                    words,
                    timeout_secs,
                } => self.exec(id, words, timeout_secs, program),
                Command::Run(_) => {}
            }
        }
        if self.isolation == Isolation::Bare {
            descendants::kill_all();
        }
        self.send(&ContainerEvent::Exited {
            code: SIGNAL + Signal::KILL.as_raw(),
            signal: Some(Signal::KILL.as_raw()),
        });
        std::process::exit(SIGNAL + Signal::KILL.as_raw());
    }

    fn signal(&self, number: i32) {
        let program = *lock(&self.program);
        if let (Some(pid), Some(signal)) = (program, Signal::from_named_raw(number)) {
            let _ = kill_process_group(pid, signal);
        }
    }

    fn exec(&self, id: u64, words: Vec<String>, timeout_secs: u64, program: &Program) {
        let exec = Program {
            words,
            ..program.clone()
        };
        let mut running = lock(&self.execs);
        match start(&exec) {
            Ok(pid) => {
                running.insert(pid.as_raw_nonzero().get(), id);
                thread::spawn(move || {
                    thread::park_timeout(Duration::from_secs(timeout_secs.max(1)));
                    // The PID is not reused this soon, and inside a PID namespace it can only be a
                    // process of this container.
                    let _ = kill_process(pid, Signal::KILL);
                });
            }
            Err(_) => self.send(&ContainerEvent::ExecExited { id, code: None }),
        }
    }

    /// A write after the runner has gone fails; the listener notices that.
    fn send(&self, event: &ContainerEvent) {
        let line = serde_json::to_string(event).expect("events are plain data") + "\n";
        let _ = (&self.control).write_all(line.as_bytes());
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no thread panics with the lock held")
}

fn start(program: &Program) -> Result<Pid, ContainerEvent> {
    let (name, arguments) = program
        .words
        .split_first()
        .expect("the runner refuses a container without a command");
    let mut process = Process::new(name);
    process
        .args(arguments)
        .env_clear()
        .envs(program.variables.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .process_group(0);
    if let Some(directory) = &program.directory {
        process.current_dir(directory);
    }
    if let Some(group) = program.group {
        process.gid(group);
    }
    if let Some(user) = program.user {
        process.uid(user);
    }
    match process.spawn() {
        Ok(child) => {
            let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
            Ok(id.expect("the kernel numbers processes from 1 and within i32"))
        }
        Err(error) => Err(not_started(program, name, &error)),
    }
}

fn not_started(program: &Program, name: &str, error: &std::io::Error) -> ContainerEvent {
    let path = program.variables.iter().find(|(key, _)| key == "PATH");
    let path = path.map_or("(not set)", |(_, value)| value.as_str());
    let directory = program.directory.as_ref().filter(|path| !path.is_dir());
    // A directory of PATH without permission yields PermissionDenied even if no other has the program.
    let nowhere = !name.contains('/')
        && path
            .split(':')
            .all(|directory| !Path::new(directory).join(name).exists());
    let (code, message) = match (directory, error.kind()) {
        (Some(directory), _) => (
            NOT_FOUND,
            format!("working directory {} does not exist", directory.display()),
        ),
        (None, std::io::ErrorKind::NotFound) if name.contains('/') => {
            (NOT_FOUND, format!("{name} does not exist"))
        }
        (None, _) if nowhere => (NOT_FOUND, format!("{name} is not in PATH={path}")),
        (None, std::io::ErrorKind::PermissionDenied) => {
            (NOT_EXECUTABLE, format!("{name} may not be executed"))
        }
        (None, _) => (
            NOT_EXECUTABLE,
            format!("{name} cannot be executed: {error}"),
        ),
    };
    ContainerEvent::NotStarted { code, message }
}
