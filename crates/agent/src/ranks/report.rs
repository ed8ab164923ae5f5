//! Reports of the wrappers in front of ranks to the session of their daemon. Decides the address and
//! the words; must not know what either side does with them.
//!
//! They are datagrams to an abstract Unix socket: daemons close inherited descriptors, and a worker's
//! file systems may all be read-only.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use contract::env;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, recvmsg,
    sendmsg_addr, socket_with,
};

use super::identity::Identity;
use crate::frame::RankState;
use crate::settings;
use crate::tree::Process;

/// A program is worth more than its report: a session that takes longer goes without.
const SEND_MAX: Duration = Duration::from_secs(2);
const REPORT_BYTES_MAX: usize = 1024;

/// What a wrapper reports.
pub(crate) struct Report {
    pub(crate) identity: Identity,
    /// Of which the number and the start are known.
    pub(crate) process: Process,
    pub(crate) state: RankState,
    /// From which the session learns how a rank that runs will end, if its wrapper does not stay.
    pub(crate) handle: Option<OwnedFd>,
}

/// Anybody on the host's network can see the address. So it has half of the mark only, and a report
/// must have all of it.
fn address(mark: &str) -> io::Result<SocketAddrUnix> {
    let half = mark.get(..mark.len() / 2).unwrap_or_default();
    let name = format!("muster-ranks-{half}");
    Ok(SocketAddrUnix::new_abstract_name(name.as_bytes())?)
}

/// The wrapper's side.
pub(crate) struct Reporter {
    socket: OwnedFd,
    address: SocketAddrUnix,
    head: String,
}

impl Reporter {
    /// Nothing for a rank that no session of ours started.
    pub(crate) fn of_environment(identity: Identity) -> Option<Self> {
        let mark = settings::variable(env::SESSION_MARK)?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?;
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_MAX)).ok()?;
        let Identity {
            rank,
            local_size,
            world,
        } = identity;
        let local_size = local_size.unwrap_or_default();
        let Process {
            number, started, ..
        } = Process::read(std::process::id().cast_signed())?;
        Some(Self {
            socket,
            address: address(&mark).ok()?,
            head: format!("{mark}\n{world}\n{rank}\n{local_size}\n{number}\n{started}\n"),
        })
    }

    /// If the session does not take it, nobody waits for it either.
    pub(crate) fn send(&self, state: RankState, handle: Option<&OwnedFd>) {
        let handles: Vec<BorrowedFd<'_>> = handle.iter().map(|handle| handle.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !handles.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&handles));
        }
        let text = format!("{}{state}", self.head);
        let text = [IoSlice::new(text.as_bytes())];
        let flags = SendFlags::NOSIGNAL;
        let _ = sendmsg_addr(&self.socket, &self.address, &text, &mut control, flags);
    }
}

/// The session's side.
pub(crate) struct Reports {
    socket: OwnedFd,
    mark: String,
}

impl Reports {
    pub(crate) fn open(mark: &str) -> io::Result<Self> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        bind(&socket, &address(mark)?)?;
        Ok(Self {
            socket,
            mark: mark.to_owned(),
        })
    }

    /// Those that came in.
    pub(crate) fn take(&self) -> Vec<Report> {
        let mut reports = Vec::new();
        let mut bytes = [0; REPORT_BYTES_MAX];
        loop {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut into = [IoSliceMut::new(&mut bytes)];
            let flags = RecvFlags::CMSG_CLOEXEC;
            let Ok(received) = recvmsg(&self.socket, &mut into, &mut control, flags) else {
                return reports;
            };
            let handle = control.drain().find_map(|message| match message {
                RecvAncillaryMessage::ScmRights(mut handles) => handles.next(),
                _ => None,
            });
            reports.extend(parse(&self.mark, &bytes[..received.bytes], handle));
        }
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn parse(mark: &str, bytes: &[u8], handle: Option<OwnedFd>) -> Option<Report> {
    let mut lines = std::str::from_utf8(bytes).ok()?.split('\n');
    let mut line = || lines.next();
    if line()? != mark {
        return None;
    }
    let world = line()?.to_owned();
    let rank = line()?.parse().ok()?;
    let local_size = line()?.parse().ok().filter(|size| *size > 0);
    Some(Report {
        identity: Identity {
            rank,
            local_size,
            world,
        },
        process: Process {
            number: line()?.parse().ok()?,
            started: line()?.parse().ok()?,
            parent: 0,
            zombie: false,
            status: 0,
        },
        state: line()?.parse().ok()?,
        handle,
    })
}
