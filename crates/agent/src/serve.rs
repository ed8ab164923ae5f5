//! `serve`: the main container of a worker. Decides how long the container runs: as long as the user's
//! own command, or until a signal if there is none. Must not know what a session does.

mod attempts;
mod handshakes;
mod request;
mod session;

use std::ffi::OsString;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, Result};
use contract::{env, protocol};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd};
use rustix::process::Signal;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use crate::children::{Child, Children};
use crate::frame::Ending;
use crate::identity::WorkerTls;
use crate::poll::poll;
use crate::signals::Signals;
use crate::tree::{Process, below_this_process, value_in};
use crate::{settings, spawn_error};
use attempts::Attempts;
use handshakes::Handshakes;

/// Sessions at the same time; a launcher needs one or two per host.
const SESSIONS_MAX: usize = 256;
const BACKLOG: i32 = 1024;
/// Threads hold little: TLS keeps its buffers on the heap.
const THREAD_STACK_BYTES: usize = 256 * 1024;
/// When no connection can be accepted, for example because descriptors ran out, others must end first.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// With no command there is nothing to wait for but signals.
const IDLE_WAIT: Duration = Duration::from_secs(3600);

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) tls: Arc<rustls::ServerConfig>,
    /// Nobody is served from then on.
    valid_until: SystemTime,
    pub(crate) children: Children,
    pub(crate) handshakes: Handshakes,
    pub(crate) attempts: Arc<Attempts>,
    /// The user's own command, which is no launcher's.
    own: Option<Process>,
    /// Readable as soon as the agent was told to end, and from then on.
    leaving: OwnedFd,
    /// Readable as soon as the agent stops, and from then on.
    pub(crate) stopping: OwnedFd,
    open: Mutex<usize>,
    closed: Condvar,
}

impl Shared {
    /// A slot for one more session, freed when dropped.
    fn session_slot(self: &Arc<Self>) -> Option<SessionSlot> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        (*open < SESSIONS_MAX).then(|| {
            *open += 1;
            SessionSlot(self.clone())
        })
    }

    /// The agent was told to end.
    fn is_leaving(&self) -> bool {
        let mut leaving = [PollFd::new(&self.leaving, PollFlags::IN)];
        poll(&mut leaving, Duration::ZERO).is_ok() && !leaving[0].revents().is_empty()
    }

    /// Everything that runs for a launcher, or what one left behind.
    fn leftovers(own: Option<Process>) -> Vec<Process> {
        below_this_process(|child| {
            own.is_some_and(|own| {
                // An orphan without the mark may be the own command's.
                let is_marked = value_in(&child.environment(), env::SESSION_MARK).is_some();
                child.is(&own) || !is_marked
            })
        })
    }

    fn wait_until_all_closed(&self, until: Instant) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        while *open > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let waited = self.closed.wait_timeout(open, left);
            open = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

/// One of the sessions that may be open.
pub(crate) struct SessionSlot(Arc<Shared>);

impl Drop for SessionSlot {
    fn drop(&mut self) {
        let mut open = self.0.open.lock().unwrap_or_else(PoisonError::into_inner);
        *open -= 1;
        self.0.closed.notify_all();
    }
}

/// Serves until the user's command ends, or a signal stops the container. Returns its exit code.
pub(crate) fn run(command: &[OsString]) -> Result<u8> {
    let signals = Signals::watch(&[SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2])?;
    let children = Children::adopt()?;
    let server = WorkerTls::new()?;
    let listener = listen()?;
    // Longer than std's: when many clients connect at once, the launcher loses no packet.
    rustix::net::listen(&listener, BACKLOG)?;
    eprintln!("muster-agent: serving on {}", listener.local_addr()?);
    let own = match start_own(&children, command) {
        Ok(own) => own,
        Err((sentence, exit)) => {
            eprintln!("muster-agent: the worker's own command: {sentence}");
            return Ok(exit);
        }
    };
    let shared = Arc::new(Shared {
        tls: server.config,
        valid_until: server.valid_until,
        children: children.clone(),
        handshakes: Handshakes::default(),
        attempts: Arc::default(),
        own: own.as_ref().map(|own| own.process),
        leaving: eventfd(0, EventfdFlags::CLOEXEC)?,
        stopping: eventfd(0, EventfdFlags::CLOEXEC)?,
        open: Mutex::new(0),
        closed: Condvar::new(),
    });
    let accepting = shared.clone();
    std::thread::Builder::new()
        .stack_size(THREAD_STACK_BYTES)
        .spawn(move || accept_all(&listener, &accepting))?;

    let code = wait_for_end(&signals, own.as_ref());
    rustix::io::write(&shared.leaving, &1_u64.to_ne_bytes())?;
    // Launchers that can stop their programs in good order have this time.
    if let Some(grace) = settings::seconds(env::STOP_GRACE).filter(|_| own.is_none()) {
        shared.wait_until_all_closed(Instant::now() + grace);
    }
    rustix::io::write(&shared.stopping, &1_u64.to_ne_bytes())?;
    let patience = settings::grace() + protocol::PEER_SILENCE_MAX;
    shared.wait_until_all_closed(Instant::now() + patience);
    Ok(code)
}

fn listen() -> Result<TcpListener> {
    let port = settings::port();
    let cannot = |address: &dyn std::fmt::Display| {
        let (name, other) = (env::PORT, env::LISTEN);
        format!("cannot listen on {address} port {port}; {name} and {other} choose where")
    };
    if let Some(address) = settings::variable(env::LISTEN) {
        let ip: IpAddr = address
            .parse()
            .with_context(|| format!("{} is not an IP address: {address}", env::LISTEN))?;
        return TcpListener::bind((ip, port)).with_context(|| cannot(&ip));
    }
    let everywhere: [SocketAddr; 2] = [
        (Ipv6Addr::UNSPECIFIED, port).into(),
        (Ipv4Addr::UNSPECIFIED, port).into(),
    ];
    TcpListener::bind(&everywhere[..]).with_context(|| cannot(&"all addresses"))
}

/// Starts the user's own command, without our variables in its environment.
fn start_own(children: &Children, words: &[OsString]) -> Result<Option<Child>, (String, u8)> {
    let Some((program, arguments)) = words.split_first() else {
        return Ok(None);
    };
    let mut command = Command::new(program);
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.as_encoded_bytes().starts_with(env::PREFIX.as_bytes()) {
            command.env_remove(name);
        }
    }
    let child = children.spawn(&mut command);
    child
        .map(Some)
        .map_err(|error| spawn_error::explain(program, &error))
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let Ok((socket, source)) = listener.accept() else {
            std::thread::sleep(ACCEPT_PAUSE);
            continue;
        };
        if SystemTime::now() >= shared.valid_until {
            continue;
        }
        let Ok(pass) = shared.handshakes.enter(&socket, source.ip()) else {
            continue;
        };
        let session = shared.clone();
        // Without a thread the socket is dropped; the client sees that and retries.
        let _ = std::thread::Builder::new()
            .stack_size(THREAD_STACK_BYTES)
            .spawn(move || session::run(&session, socket, source, pass));
    }
}

/// Waits for the end of the command, or for a signal if there is none. Passes signals on to the command.
fn wait_for_end(signals: &Signals, own: Option<&Child>) -> u8 {
    loop {
        if let Some(ending) = own.and_then(|child| child.exit.ending()) {
            return ending.shell_code();
        }
        let mut fds = vec![PollFd::new(signals, PollFlags::IN)];
        if let Some(child) = own {
            fds.push(PollFd::new(&*child.exit, PollFlags::IN));
        }
        // If poll fails, the loop goes on.
        let _ = poll(&mut fds, IDLE_WAIT);
        for signal in signals.take() {
            match own {
                Some(child) => {
                    if let Some(signal) = Signal::from_named_raw(signal) {
                        child.process.signal(signal);
                    }
                }
                None if matches!(signal, SIGTERM | SIGINT | SIGQUIT) => {
                    return Ending::Code(0).shell_code();
                }
                None => {}
            }
        }
    }
}
