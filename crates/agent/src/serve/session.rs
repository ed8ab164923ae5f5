//! One connection: who is it, what does it want, run that, and end all of it when the connection
//! ends. Decides when a session is over; must not know other sessions.
//!
//! A command that ended with 0 may leave processes behind (daemons ask for that); one that failed,
//! or whose connection ended first, leaves none.

use std::collections::VecDeque;
use std::io::Read;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::ChildStdin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use contract::env;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process_group};
use rustls::{Connection, ServerConnection};
use thiserror::Error;

use super::Shared;
use super::handshakes::HandshakeSlot;
use super::request::{Asked, Request, RequestError};
use crate::children::Child;
use crate::frame::{DATA_BYTES_MAX, Ending, Frame};
use crate::frame_stream::FrameStream;
use crate::poll::poll;
use crate::ranks::{self, RankWatch, Reports};
use crate::settings;
use crate::socket::StreamError;
use crate::tree::{Tree, new_mark};

const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
const GOODBYE_MAX: Duration = Duration::from_secs(2);
/// Whoever ends an attempt waits for an answer for a second longer than this, and asks again.
const CLEAR_MAX: Duration = Duration::from_secs(3);
/// Input that the command has not taken; beyond this we do not read more from the peer.
const STDIN_QUEUE_BYTES_MAX: usize = 64 * 1024;

/// Serves one connection from its first byte to its last.
pub(super) fn run(
    shared: &Arc<Shared>,
    socket: TcpStream,
    source: SocketAddr,
    handshake: HandshakeSlot,
) {
    // Strangers are many and say nothing of interest; whoever proved to be the launcher is logged.
    let Some(mut stream) = greet(shared, socket, handshake) else {
        return;
    };
    let Some(place) = shared.session_slot() else {
        refuse(stream, "this worker serves as many sessions as it can");
        return;
    };
    let request = match Request::read(&mut stream) {
        Ok(Asked::Run(request)) => request,
        Ok(Asked::End(attempt)) => return end_attempt(shared, stream, attempt),
        Ok(Asked::Tell(signal, attempt)) => return tell_ranks(shared, stream, signal, &attempt),
        Ok(Asked::Nothing) => return,
        Err(error) => return refuse(stream, &error.to_string()),
    };
    let mark = new_mark();
    // The daemon's ranks may report before we know that it runs.
    let reports = request.daemon.and_then(|_| Reports::open(&mark).ok());
    let mut command = request.command(&mark);
    let start = || shared.children.spawn(&mut command);
    let leftovers = || Shared::leftovers(shared.own);
    let started = shared
        .attempts
        .start(request.attempt.as_deref(), leftovers, start);
    let child = match started {
        Ok(Ok(child)) => child,
        Ok(Err(error)) => return refuse(stream, &RequestError::Shell(error).to_string()),
        Err(error) => return refuse(stream, &error.to_string()),
    };
    let session = Session::new(shared, stream, child, mark, &request, reports);
    if let Err(error) = session.serve() {
        eprintln!("muster-agent: session of {source} ended: {error}; its processes are gone");
    }
    drop(place);
}

fn greet(shared: &Shared, socket: TcpStream, handshake: HandshakeSlot) -> Option<FrameStream> {
    let tls = ServerConnection::new(shared.tls.clone()).ok()?;
    let mut stream = FrameStream::new(socket, Connection::Server(tls)).ok()?;
    stream.handshake(Instant::now() + HANDSHAKE_MAX).ok()?;
    handshake.succeeded();
    let hello = Frame::Hello(env!("CARGO_PKG_VERSION").to_owned());
    stream.send(&hello).ok()?;
    Some(stream)
}

/// Says that nothing is left of an attempt, or, soon enough to be heard, that something still is.
fn end_attempt(shared: &Shared, mut stream: FrameStream, attempt: String) {
    // Whoever hears that all is gone here counts on this worker for the next attempt.
    if shared.is_leaving() {
        return refuse(stream, &SessionEnd::Stopping.to_string());
    }
    let own = shared.own;
    let until = Instant::now() + CLEAR_MAX;
    let grace = settings::grace();
    let leftovers = move || Shared::leftovers(own);
    if let Err(why) = shared.attempts.end(attempt, leftovers, grace, until) {
        return refuse(stream, &why.to_string());
    }
    // The peer asks again if it does not hear this.
    let _ = stream.send(&Frame::Clear);
    stream.close(Instant::now() + GOODBYE_MAX);
}

/// Whoever does not hear that they were told tells them again, so a rank may get the signal twice.
fn tell_ranks(shared: &Shared, mut stream: FrameStream, signal: u8, attempt: &str) {
    if !shared.attempts.has_worker(attempt) {
        return refuse(stream, "that attempt does not run here any more");
    }
    let number = signal.into();
    if let Some(signal) = Signal::from_named_raw(number) {
        for process in ranks::stopped_by(Shared::leftovers(shared.own), number, true) {
            process.signal(signal);
        }
    }
    let _ = stream.send(&Frame::Told);
    stream.close(Instant::now() + GOODBYE_MAX);
}

fn refuse(mut stream: FrameStream, why: &str) {
    // The peer may be gone; then nobody needs the sentence.
    let _ = stream.send(&Frame::Refusal(why.to_owned()));
    stream.close(Instant::now() + GOODBYE_MAX);
}

/// A command that runs.
struct Session<'s> {
    shared: &'s Shared,
    stream: FrameStream,
    child: Child,
    tree: Arc<Tree>,
    input: VecDeque<u8>,
    input_ended: bool,
    ranks: Option<RankWatch>,
    /// What the command left behind is being ended, or may stay.
    settled: bool,
    /// The peer was told how the command ended.
    finished: bool,
    /// The peer wants to know that this worker leaves, and was not told yet.
    announces_leave: bool,
}

impl<'s> Session<'s> {
    fn new(
        shared: &'s Shared,
        stream: FrameStream,
        child: Child,
        mark: String,
        request: &Request,
        reports: Option<Reports>,
    ) -> Self {
        let tree = Arc::new(Tree::new(child.process, env::SESSION_MARK, mark));
        let ranks = request.daemon.map(|daemon| {
            let reported = ranks::wrapper_variable(daemon).is_some();
            RankWatch::new(tree.clone(), reports, reported)
        });
        let session = Self {
            shared,
            stream,
            child,
            tree,
            input: VecDeque::new(),
            input_ended: false,
            ranks,
            settled: false,
            finished: false,
            announces_leave: request.attempt.is_some()
                && settings::variable(env::STOP_GRACE).is_some(),
        };
        if let Some(stdin) = &session.child.stdin {
            // A pipe of our own: nobody else is surprised. If it fails, writes may wait.
            let _ = fcntl_setfl(stdin, OFlags::NONBLOCK);
        }
        session
    }

    /// Until the command and its output have ended. An error is the end of the connection.
    fn serve(mut self) -> Result<(), SessionEnd> {
        loop {
            // Before waiting: some may have come with the request.
            while let Some(frame) = self.stream.next_frame()? {
                self.obey(frame)?;
            }
            if self.input_ended && self.input.is_empty() {
                self.child.stdin = None;
            }
            if let Some(ending) = self.child.exit.ending() {
                self.settle(ending)?;
                let drained = self.child.stdout.is_none() && self.child.stderr.is_none();
                if drained && !self.stream.socket.has_backlog() {
                    return self.finish(ending);
                }
            }
            self.turn()?;
        }
    }

    /// What the command leaves behind, once it has ended. The peer must hear from us meanwhile.
    fn settle(&mut self, ending: Ending) -> Result<(), SessionEnd> {
        if self.settled {
            return Ok(());
        }
        self.settled = true;
        if ending != Ending::Code(0) {
            self.stream.send(&Frame::Failed(ending))?;
            let tree = self.tree.clone();
            // If no thread can be had, the end of the session does it.
            self.settled = std::thread::Builder::new()
                .spawn(move || tree.end(settings::grace()))
                .is_ok();
        }
        Ok(())
    }

    fn finish(mut self, ending: Ending) -> Result<(), SessionEnd> {
        self.report_ranks()?;
        self.stream.send(&Frame::Exit(ending))?;
        while self.stream.socket.has_backlog() {
            self.linger()?;
        }
        self.finished = true;
        // Closing with a ping unread would throw away what the peer has not read yet; its own end
        // is soon, or it says why not.
        while self.linger().is_ok() {}
        Ok(())
    }

    /// Waits for the peer with nothing more to say.
    fn linger(&mut self) -> Result<(), SessionEnd> {
        let left = self.stream.keep_alive(true)?;
        let mut fds = [PollFd::new(
            &self.stream.socket,
            self.stream.socket.interest(true),
        )];
        poll(&mut fds, left)?;
        let ready = fds[0].revents();
        self.stream.pump(ready)?;
        while self.stream.next_frame()?.is_some() {}
        Ok(())
    }

    /// Waits for anything to happen and deals with it.
    fn turn(&mut self) -> Result<(), SessionEnd> {
        let listening = self.input.len() < STDIN_QUEUE_BYTES_MAX;
        let mut wait = self.stream.keep_alive(listening)?;
        if let Some(look) = self.ranks.as_ref().and_then(RankWatch::due_in) {
            wait = wait.min(look);
        }
        let [ready, stopping, stdin, stdout, stderr] = self.wait(listening, wait)?;
        if !stopping.is_empty() {
            return Err(SessionEnd::Stopping);
        }
        if self.announces_leave && self.shared.is_leaving() {
            self.announces_leave = false;
            self.stream.send(&Frame::Leaving)?;
        }
        self.stream.pump(ready)?;
        if !stdin.is_empty() {
            feed(&mut self.child.stdin, &mut self.input);
        }
        if !stdout.is_empty() {
            let bytes = read_some(&mut self.child.stdout);
            self.pass_on(bytes, Frame::Stdout)?;
        }
        if !stderr.is_empty() {
            let bytes = read_some(&mut self.child.stderr);
            self.pass_on(bytes, Frame::Stderr)?;
        }
        self.report_ranks()
    }

    fn wait(&self, listening: bool, wait: Duration) -> Result<[PollFlags; 5], SessionEnd> {
        let room = !self.stream.socket.has_backlog();
        let unused = PollFlags::empty();
        let output = if room { PollFlags::IN } else { unused };
        let input = if self.input.is_empty() {
            unused
        } else {
            PollFlags::OUT
        };
        let mut fds = vec![
            PollFd::new(&self.stream.socket, self.stream.socket.interest(listening)),
            PollFd::new(&self.shared.stopping, PollFlags::IN),
        ];
        let mut places = [0; 3];
        let streams = [
            self.child.stdin.as_ref().map(|s| (s.as_fd(), input)),
            self.child.stdout.as_ref().map(|s| (s.as_fd(), output)),
            self.child.stderr.as_ref().map(|s| (s.as_fd(), output)),
        ];
        for (place, stream) in places.iter_mut().zip(streams) {
            // A closed pipe reports itself even when nobody asks; it must wait for its turn.
            if let Some((fd, events)) = stream.filter(|(_, events)| !events.is_empty()) {
                *place = fds.len();
                fds.push(PollFd::from_borrowed_fd(fd, events));
            }
        }
        if self.child.exit.ending().is_none() {
            fds.push(PollFd::new(&*self.child.exit, PollFlags::IN));
        }
        if self.announces_leave {
            fds.push(PollFd::new(&self.shared.leaving, PollFlags::IN));
        }
        fds.extend(self.ranks.iter().flat_map(RankWatch::poll_fds));
        poll(&mut fds, wait)?;
        let ready = |at: usize| match at {
            0 => PollFlags::empty(),
            at => fds[at].revents(),
        };
        let [stdin, stdout, stderr] = places.map(ready);
        Ok([fds[0].revents(), fds[1].revents(), stdin, stdout, stderr])
    }

    fn obey(&mut self, frame: Frame) -> Result<(), SessionEnd> {
        match frame {
            Frame::Stdin(bytes) if self.child.stdin.is_some() => self.input.extend(bytes),
            Frame::Stdin(_) | Frame::Ping => {}
            Frame::StdinEnd => self.input_ended = true,
            Frame::Signal(signal) => self.signal(signal),
            _ => return Err(SessionEnd::Order),
        }
        Ok(())
    }

    fn signal(&self, signal: u8) {
        let group = Pid::from_raw(self.child.process.number);
        let signal = Signal::from_named_raw(signal.into());
        // Until its status is known the leader's number, and so its group's, is not given away.
        if let (Some(group), Some(signal), None) = (group, signal, self.child.exit.ending()) {
            // The group may have ended by itself.
            let _ = kill_process_group(group, signal);
        }
    }

    fn pass_on(&mut self, bytes: Vec<u8>, frame: fn(Vec<u8>) -> Frame) -> Result<(), SessionEnd> {
        if !bytes.is_empty() {
            self.stream.send(&frame(bytes))?;
        }
        Ok(())
    }

    fn report_ranks(&mut self) -> Result<(), SessionEnd> {
        let news = self.ranks.as_mut().map(RankWatch::news);
        for frame in news.into_iter().flatten() {
            self.stream.send(&frame)?;
        }
        Ok(())
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        let succeeded = self.child.exit.ending() == Some(Ending::Code(0));
        if !(self.finished && succeeded) {
            self.tree.end(settings::grace());
        }
    }
}

/// Why a session ended before its command.
#[derive(Debug, Error)]
enum SessionEnd {
    #[error("{0}")]
    Stream(#[from] StreamError),
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("the peer sent a frame out of turn")]
    Order,
    #[error("this worker is stopping")]
    Stopping,
}

/// Gives the command what it takes now.
fn feed(stdin: &mut Option<ChildStdin>, input: &mut VecDeque<u8>) {
    let Some(pipe) = stdin else {
        input.clear();
        return;
    };
    let (front, _) = input.as_slices();
    if !front.is_empty() {
        match rustix::io::write(&*pipe, front) {
            Ok(written) => drop(input.drain(..written)),
            Err(error) if retry(error) => {}
            // The command does not want more.
            Err(_) => {
                input.clear();
                *stdin = None;
            }
        }
    }
}

fn retry(error: rustix::io::Errno) -> bool {
    matches!(error, rustix::io::Errno::AGAIN | rustix::io::Errno::INTR)
}

/// What a pipe has; drops it at its end. Poll said that a read does not wait.
fn read_some<R: Read + AsFd>(pipe: &mut Option<R>) -> Vec<u8> {
    let Some(open) = pipe else {
        return Vec::new();
    };
    let fd: BorrowedFd<'_> = open.as_fd();
    let mut bytes = vec![0; DATA_BYTES_MAX];
    match rustix::io::read(fd, &mut bytes[..]) {
        Ok(taken) if taken > 0 => bytes.truncate(taken),
        Err(error) if retry(error) => bytes.clear(),
        Ok(_) | Err(_) => {
            bytes.clear();
            *pipe = None;
        }
    }
    bytes
}
