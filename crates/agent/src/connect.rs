//! `connect HOST PORT`: connects a real ssh to a worker, as its ProxyCommand. Decides which address a
//! name has: the one that the operator wrote, which changes with a worker that is replaced, while DNS
//! may hold the old one for half a minute. Must not know the protocol on the connection.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use contract::env;
use rustix::net::sockopt;

use crate::hosts::{self, HostsFile};
use crate::settings;

/// A worker that is being replaced is back by then.
const PATIENCE: Duration = Duration::from_secs(60);
const ATTEMPT_MAX: Duration = Duration::from_secs(3);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// A worker whose node is gone sends nothing more. ssh would notice by its own probes, but it is
/// connected to us.
const PROBE_AFTER: Duration = Duration::from_secs(60);
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
const PROBES_MAX: u32 = 4;
/// How long the worker may take to acknowledge what was sent.
const UNCONFIRMED_MAX_MS: u32 = 120_000;

/// Copies bytes until the worker closes the connection.
pub(crate) fn run(words: &[OsString]) -> Result<u8> {
    let [host, port] = words else {
        bail!("connect needs a host and a port");
    };
    let (host, port) = (host.to_string_lossy(), port.to_string_lossy());
    let port: u16 = port
        .parse()
        .with_context(|| format!("{port:?} is not a port"))?;
    let patience = settings::seconds(env::CONNECT_TIMEOUT).unwrap_or(PATIENCE);
    let socket = reach(&host, port, Instant::now() + patience)
        .with_context(|| format!("cannot reach {host} on port {port}"))?;
    copy_both_ways(&socket)?;
    Ok(0)
}

/// Retries a listed worker until the deadline, each time at its current address. Tries any other name
/// once, at the addresses that DNS has for it.
fn reach(name: &str, port: u16, until: Instant) -> Result<TcpStream> {
    let file = HostsFile::of_environment();
    loop {
        let listed = hosts::find(&file.read(), name)?.map(|host| host.socket_address(port));
        let Some(address) = listed else {
            let resolved: Vec<SocketAddr> = (name, port).to_socket_addrs()?.collect();
            return Ok(TcpStream::connect(&*resolved)?);
        };
        match TcpStream::connect_timeout(&SocketAddr::new(address?.ip(), port), ATTEMPT_MAX) {
            Ok(socket) => return Ok(socket),
            Err(error) if Instant::now() >= until => return Err(error.into()),
            Err(_) => std::thread::sleep(RETRY_INTERVAL),
        }
    }
}

fn copy_both_ways(socket: &TcpStream) -> Result<()> {
    socket.set_nodelay(true)?;
    if let Err(error) = detect_loss(socket) {
        eprintln!("muster-agent: cannot detect the loss of the worker: {error}");
    }
    let (mut to, mut from) = (socket.try_clone()?, socket.try_clone()?);
    std::thread::Builder::new().spawn(move || {
        // Either end may close at any time; the other direction then ends by itself.
        let _ = io::copy(&mut io::stdin().lock(), &mut to);
        let _ = to.shutdown(Shutdown::Write);
    })?;
    // Not Rust's own stdout: it would hold the end of a key exchange back until the next line.
    let mut stdout = File::from(rustix::stdio::stdout().try_clone_to_owned()?);
    // Behind `dyn`: between a socket and a pipe io::copy calls splice(2), which holds the pipe's lock
    // while it waits for the worker, so that ssh could not read what has arrived.
    let from: &mut dyn io::Read = &mut from;
    io::copy(from, &mut stdout)?;
    Ok(())
}

fn detect_loss(socket: &TcpStream) -> io::Result<()> {
    sockopt::set_tcp_keepidle(socket, PROBE_AFTER)?;
    sockopt::set_tcp_keepintvl(socket, PROBE_INTERVAL)?;
    sockopt::set_tcp_keepcnt(socket, PROBES_MAX)?;
    sockopt::set_socket_keepalive(socket, true)?;
    Ok(sockopt::set_tcp_user_timeout(socket, UNCONFIRMED_MAX_MS)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_worker_is_probed_for_a_minute_before_it_is_given_up() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        assert!(!sockopt::socket_keepalive(&socket).unwrap());
        detect_loss(&socket).unwrap();
        assert!(sockopt::socket_keepalive(&socket).unwrap());
        assert_eq!(sockopt::tcp_keepidle(&socket).unwrap().as_secs(), 60);
        assert_eq!(sockopt::tcp_keepintvl(&socket).unwrap().as_secs(), 15);
        assert_eq!(sockopt::tcp_keepcnt(&socket).unwrap(), 4);
        assert_eq!(sockopt::tcp_user_timeout(&socket).unwrap(), 120_000);
    }
}
