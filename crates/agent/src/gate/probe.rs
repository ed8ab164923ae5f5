//! Probes one worker: a hello over TLS, or the banner of its sshd on one of several ports. Decides what
//! counts as an answer; must not know how often a worker is probed.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use contract::{env, protocol};
use thiserror::Error;

use crate::frame::Frame;
use crate::frame_stream::FrameStream;
use crate::hosts::{Host, HostsError};
use crate::identity::Client;
use crate::socket::StreamError;
use crate::{dial, settings};

const ANSWER_MAX: Duration = Duration::from_secs(4);

/// How workers are probed.
pub(super) enum Probe {
    Agent(Client),
    /// The same, after an attempt with this mark: nothing of it may be left there.
    After(Client, String),
    /// This signal for all ranks of the attempt with this mark.
    Tell(Client, u8, String),
    Ssh {
        ports: Vec<u16>,
    },
}

/// Why a worker did not answer.
#[derive(Debug, Error)]
pub(super) enum ProbeError {
    /// Its pod is up, and nothing listens on any of these ports.
    #[error("connection refused on {}", ports_words(.0))]
    Refused(Vec<u16>),
    /// It answered, and what an attempt has left there has not ended yet.
    #[error("{0}")]
    Busy(String),
    #[error("{0}")]
    Other(String),
}

impl From<HostsError> for ProbeError {
    fn from(error: HostsError) -> Self {
        Self::Other(error.to_string())
    }
}

/// "port 22", "ports 22 and 2222".
pub(super) fn ports_words(ports: &[u16]) -> String {
    let words: Vec<_> = ports.iter().map(u16::to_string).collect();
    match words.as_slice() {
        [one] => format!("port {one}"),
        words => format!("ports {}", words.join(" and ")),
    }
}

impl Probe {
    pub(super) fn of_environment() -> Result<Self> {
        let transport = settings::variable(env::GATE_TRANSPORT);
        match transport.as_deref().map(str::to_ascii_lowercase).as_deref() {
            None | Some(env::GATE_BY_AGENT) => Ok(Self::Agent(Client::new()?)),
            Some(env::GATE_BY_SSH) => Ok(Self::Ssh {
                ports: ssh_ports(settings::variable(env::SSH_PORTS).as_deref())?,
            }),
            Some(other) => bail!(
                "{} is {other:?}; agent and ssh are known",
                env::GATE_TRANSPORT
            ),
        }
    }

    pub(super) fn run(&self, host: &Host) -> Result<(), ProbeError> {
        match self {
            Self::Agent(client) => {
                let until = Instant::now() + ANSWER_MAX;
                call(client, host, until)?.close(until);
                Ok(())
            }
            Self::After(client, mark) => {
                let until = Instant::now() + ANSWER_MAX;
                let mut stream = call(client, host, until)?;
                let cleared = ask(&mut stream, &Frame::Over(mark.clone()), until);
                stream.close(until);
                cleared
            }
            Self::Tell(client, signal, attempt) => {
                let until = Instant::now() + ANSWER_MAX;
                let mut stream = call(client, host, until)?;
                let (signal, attempt) = (*signal, attempt.clone());
                let told = ask(&mut stream, &Frame::Tell { signal, attempt }, until);
                stream.close(until);
                told
            }
            Self::Ssh { ports } => probe_sshd(host, ports),
        }
    }
}

fn call(client: &Client, host: &Host, until: Instant) -> Result<FrameStream, ProbeError> {
    let address = host.socket_address(settings::port())?;
    let stream = dial::once(client, &host.name, address, until);
    stream.map_err(|error| ProbeError::Other(error.to_string()))
}

/// Waits until the worker says that it did what it was asked.
fn ask(stream: &mut FrameStream, request: &Frame, until: Instant) -> Result<(), ProbeError> {
    let other = |error: StreamError| ProbeError::Other(error.to_string());
    stream.send(request).map_err(other)?;
    loop {
        match stream.receive(until).map_err(other)? {
            Frame::Clear | Frame::Told => return Ok(()),
            Frame::Refusal(why) => return Err(ProbeError::Busy(why)),
            Frame::Ping => {}
            _ => {
                let what = "it sent something else than an answer";
                return Err(ProbeError::Other(what.to_owned()));
            }
        }
    }
}

fn ssh_ports(text: Option<&str>) -> Result<Vec<u16>> {
    let Some(text) = text else {
        return Ok(protocol::SSH_PORTS.to_vec());
    };
    let words = text.split(',').map(str::trim);
    words
        .filter(|word| !word.is_empty())
        .map(|word| word.parse().ok().filter(|port| *port != 0))
        .collect::<Option<Vec<_>>>()
        .filter(|ports| !ports.is_empty())
        .with_context(|| format!("{} is {text:?}, not a list of ports", env::SSH_PORTS))
}

/// Probes the port of the worker's line, or else each of these.
fn probe_sshd(host: &Host, ports: &[u16]) -> Result<(), ProbeError> {
    let ip = host.ip()?;
    let ports = host
        .port()
        .map_or_else(|| ports.to_vec(), |port| vec![port]);
    let mut other = None;
    for port in &ports {
        match banner(SocketAddr::new(ip, *port)) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => other = Some(format!("port {port}: {error}")),
        }
    }
    Err(other.map_or(ProbeError::Refused(ports), ProbeError::Other))
}

fn banner(address: SocketAddr) -> io::Result<()> {
    let mut socket = TcpStream::connect_timeout(&address, ANSWER_MAX)?;
    socket.set_read_timeout(Some(ANSWER_MAX))?;
    let mut banner = [0; 8];
    socket.read_exact(&mut banner)?;
    if !banner.starts_with(b"SSH-2.0") && &banner != b"SSH-1.99" {
        return Err(io::Error::other("what answered is not an SSH server"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_a_list_of_numbers() {
        assert_eq!(ssh_ports(None).unwrap(), [22, 2222]);
        assert_eq!(ssh_ports(Some(" 3022, 22 ,")).unwrap(), [3022, 22]);
        for wrong in ["ssh", "22;23", "0", ",", "70000"] {
            let error = ssh_ports(Some(wrong)).unwrap_err().to_string();
            assert!(error.contains("not a list of ports"), "{error}");
        }
        assert_eq!(ports_words(&[22]), "port 22");
        assert_eq!(ports_words(&[22, 2222]), "ports 22 and 2222");
    }
}
