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
use serde::{Deserialize, Serialize};

use super::identity::Identity;
use crate::frame::RankState;
use crate::settings;
use crate::tree::Process;

/// A program is worth more than its report: a session that takes longer goes without.
const SEND_MAX: Duration = Duration::from_secs(2);
const REPORT_BYTES_MAX: usize = 1024;

/// What a wrapper reports.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Report {
    /// The session's secret.
    pub(crate) mark: String,
    pub(crate) identity: Identity,
    /// The wrapper, which becomes the program where it can.
    pub(crate) process: Process,
    pub(crate) state: RankState,
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
    report: Report,
}

impl Reporter {
    /// Nothing for a rank that no session of ours started.
    pub(crate) fn of_environment(identity: Identity) -> Option<Self> {
        let mark = settings::variable(env::SESSION_MARK)?;
        let flags = SocketFlags::CLOEXEC;
        let socket = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).ok()?;
        set_socket_timeout(&socket, Timeout::Send, Some(SEND_MAX)).ok()?;
        Some(Self {
            socket,
            address: address(&mark).ok()?,
            report: Report {
                mark,
                identity,
                process: Process::read(std::process::id().cast_signed())?,
                state: RankState::Running,
            },
        })
    }

    /// The handle is for the session, which learns from it how the process will end. If the session
    /// does not take the report, nobody waits for it either.
    pub(crate) fn send(&mut self, state: RankState, handle: Option<&OwnedFd>) {
        let handles: Vec<BorrowedFd<'_>> = handle.iter().map(|handle| handle.as_fd()).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !handles.is_empty() {
            control.push(SendAncillaryMessage::ScmRights(&handles));
        }
        self.report.state = state;
        let bytes = serde_json::to_vec(&self.report).unwrap_or_default();
        let bytes = [IoSlice::new(&bytes)];
        let flags = SendFlags::NOSIGNAL;
        let _ = sendmsg_addr(&self.socket, &self.address, &bytes, &mut control, flags);
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

    /// Those that came in, with the handles that came with them.
    pub(crate) fn take(&self) -> Vec<(Report, Option<OwnedFd>)> {
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
            let report = serde_json::from_slice(&bytes[..received.bytes]).ok();
            let report = report.filter(|report: &Report| report.mark == self.mark);
            reports.extend(report.map(|report| (report, handle)));
        }
    }
}

impl AsFd for Reports {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
