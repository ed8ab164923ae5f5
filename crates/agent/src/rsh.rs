//! `rsh`: the shim that launchers call instead of ssh. Decides the exit code: the command's own, or 255
//! with one sentence when we failed; never 0 unless the command exited with 0, since launchers wait
//! forever for the daemon of a shim that exited with 0. Must not know how a worker serves.

mod callback_address;
mod session;

use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use contract::mpi::MpiLauncher;
use contract::{env, exit_code};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::caller::{Caller, ticks_since_boot};
use crate::frame::Frame;
use crate::frame_stream::FrameStream;
use crate::host_name::Need;
use crate::hosts::{self, Host, HostsFile};
use crate::identity::Client;
use crate::session_record::{SessionRecord, State};
use crate::signals::Signals;
use crate::ssh_args::{self, RemoteCommand, SshArgs};
use crate::{daemon, dial, settings};
use session::{ShimEnd, WorkerEvent};

const CONNECT_MAX: Duration = Duration::from_secs(30);

/// Runs one command. Returns the exit code of the process.
pub(crate) fn run(words: &[Vec<u8>]) -> u8 {
    match ssh_args::parse(words) {
        Ok(SshArgs::Version) => {
            eprintln!("muster-agent {}, for ssh", env!("CARGO_PKG_VERSION"));
            0
        }
        Ok(SshArgs::Run(call)) => Shim::new(call).run(),
        Err(error) => {
            print_error(&error.to_string());
            exit_code::SHIM_FAILED
        }
    }
}

fn print_error(sentence: &str) {
    eprintln!("muster-agent: {sentence}");
}

struct Shim {
    call: RemoteCommand,
    directory: Option<PathBuf>,
    record: SessionRecord,
    /// The host name to run the command under, if not the worker's own.
    host_name: Option<(Need, String)>,
}

impl Shim {
    fn new(call: RemoteCommand) -> Self {
        let record = SessionRecord {
            host: call.host.clone(),
            shim: std::process::id(),
            caller: Caller::of_this_process(),
            caller_seen: 0,
            daemon: daemon::in_command(&call.command).map(str::to_owned),
            state: State::Calling,
            is_leaving: false,
            rank_count: None,
            ranks: [].into(),
            failed: Vec::new(),
            reports: 0,
            news_bytes: 0,
        };
        Self {
            call,
            directory: settings::variable(env::RUN_DIR).map(PathBuf::from),
            record,
            host_name: None,
        }
    }

    fn run(mut self) -> u8 {
        self.note(State::Calling);
        let signals = match Signals::watch(&[SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2]) {
            Ok(signals) => signals,
            Err(error) => return self.unreachable(&error.into()),
        };
        let mut stream = match self.reach() {
            Ok(stream) => stream,
            Err(error) => return self.unreachable(&error),
        };
        if let Err(error) = self.request(&mut stream) {
            return self.unreachable(&error);
        }
        self.note(State::Started);
        let reads_input = !self.call.no_stdin;
        let end = session::run(stream, &signals, reads_input, |event| {
            let is_news = match event {
                WorkerEvent::Rank(rank, state) => self.record.saw(rank, state),
                WorkerEvent::RankCount(count) => self.record.counted(count),
                WorkerEvent::Leaving => !std::mem::replace(&mut self.record.is_leaving, true),
                WorkerEvent::Failed(ending) => {
                    let state = State::Ended(ending);
                    let is_first = !matches!(self.record.state, State::Ended(_));
                    self.record.state = state;
                    is_first
                }
            };
            if is_news {
                self.write_with(SessionRecord::write_news);
            }
        });
        self.conclude(end)
    }

    /// Finds the worker in the list and connects, all within one deadline.
    fn reach(&mut self) -> Result<FrameStream> {
        let patience = self.call.connect_timeout;
        let patience = patience.or_else(|| settings::seconds(env::CONNECT_TIMEOUT));
        let patience = patience.unwrap_or(CONNECT_MAX);
        let until = Instant::now() + patience;
        let client = Client::new()?;
        let file = HostsFile::of_environment();
        let host = file.wait_for(&self.call.host, until)?;
        self.record.host.clone_from(&host.name);
        let launcher = self
            .record
            .daemon
            .as_deref()
            .and_then(MpiLauncher::of_daemon);
        if launcher.is_some_and(|launcher| launcher.needs_host_names) {
            let need = need_of_name(&file.read(), &host);
            self.host_name = need.map(|need| (need, host.short_name().to_owned()));
        }
        let address = host.socket_address(settings::port())?;
        dial::patiently(&client, &host.name, address, until).with_context(|| {
            let seconds = patience.as_secs();
            format!(
                "{} at {address} did not answer within {seconds} s",
                host.name
            )
        })
    }

    fn request(&self, stream: &mut FrameStream) -> Result<()> {
        if let Some((need, name)) = &self.host_name {
            stream.send(&Frame::Variable {
                name: env::HOST_NAME.into(),
                value: format!("{} {name}", need.word()).into(),
            })?;
        }
        let chosen = settings::variable(env::FORWARD_ENV).unwrap_or_default();
        let chosen = chosen.split(',').map(str::trim);
        let mut names: Vec<&str> = of_attempt().collect();
        names.extend(chosen.filter(|name| !name.is_empty()));
        for name in names {
            if let Some(value) = std::env::var_os(name) {
                let variable = Frame::Variable {
                    name: name.as_bytes().to_vec(),
                    value: value.as_bytes().to_vec(),
                };
                anyhow::ensure!(variable.fits(), "the variable {name} is too long to carry");
                stream.send(&variable)?;
            }
        }
        let start = Frame::Start(self.command(stream)?);
        anyhow::ensure!(start.fits(), "the command is longer than a request may be");
        Ok(stream.send(&start)?)
    }

    fn command(&self, stream: &FrameStream) -> Result<Vec<u8>> {
        let command = &self.call.command;
        if self.record.daemon.is_none() {
            return Ok(command.clone());
        }
        let host = rustix::system::uname();
        let name = host.nodename().to_string_lossy();
        Ok(callback_address::by_address(
            command,
            &name,
            stream.socket.local_address()?,
        ))
    }

    fn unreachable(&mut self, error: &anyhow::Error) -> u8 {
        let why = format!("{error:#}");
        print_error(&format!("cannot run on {}: {why}", self.call.host));
        self.note(State::Unreachable(why));
        exit_code::SHIM_FAILED
    }

    fn conclude(&mut self, end: ShimEnd) -> u8 {
        match end {
            ShimEnd::Remote(Ok(ending)) => {
                self.note(State::Ended(ending));
                ending.shell_code()
            }
            ShimEnd::Remote(Err(why)) => self.unreachable(&anyhow::Error::msg(why)),
            ShimEnd::Lost(error) => {
                print_error(&format!("lost {}: {error}", self.call.host));
                self.note(State::Lost(error.to_string()));
                exit_code::SHIM_FAILED
            }
            ShimEnd::Signal(signal) => {
                self.note(State::Stopped);
                128 | u8::try_from(signal & 0x7f).unwrap_or_default()
            }
        }
    }

    /// Keeps how the command ended, even if the rest of its session was cut off.
    fn note(&mut self, state: State) {
        if !matches!(self.record.state, State::Ended(_)) {
            self.record.state = state;
        }
        self.write_with(|record, directory| record.write(directory));
    }

    /// A record that cannot be written does not end the session.
    fn write_with(&mut self, write: impl FnOnce(&mut SessionRecord, &Path) -> io::Result<()>) {
        if self.record.caller.is_some_and(Caller::lives) {
            self.record.caller_seen = ticks_since_boot();
        }
        if let Some(directory) = &self.directory
            && let Err(error) = write(&mut self.record, directory)
        {
            let directory = directory.display();
            print_error(&format!("cannot note the session in {directory}: {error}"));
        }
    }
}

/// What workers and ranks of a job that can be restarted need to know of its attempt.
fn of_attempt() -> impl Iterator<Item = &'static str> {
    let is_one_of_several = settings::variable(env::ATTEMPT).is_some();
    let names = [env::EXEC_MARK].into_iter().chain(env::OF_ATTEMPT);
    names.filter(move |_| is_one_of_several)
}

/// Workers that share an address are on one node's network, and so is a worker that has our address: all
/// of them have that node's name. The launcher's name matters only if it runs ranks too.
fn need_of_name(list: &str, host: &Host) -> Option<Need> {
    if hosts::shares_address(list, host) {
        Some(Need::Needed)
    } else {
        let here = host.ip().is_ok_and(hosts::is_own);
        here.then_some(Need::Wanted)
    }
}
