//! What a peer asks of a worker: to run a command, to end an attempt, or nothing. Decides which variables and
//! how much of them a command gets; must not know how it is run.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use contract::env;
use thiserror::Error;

use crate::daemon;
use crate::frame::Frame;
use crate::frame_stream::FrameStream;
use crate::ranks;
use crate::socket::StreamError;

const REQUEST_MAX: Duration = Duration::from_secs(10);
const VARIABLES_MAX: usize = 1024;
const VARIABLE_BYTES_MAX: usize = 512 * 1024;

#[derive(Debug, Error)]
pub(super) enum RequestError {
    #[error("no request came: {0}")]
    Stream(#[from] StreamError),
    #[error("a request must not begin with this frame")]
    Order,
    #[error("more variables than {VARIABLES_MAX}, or more than {VARIABLE_BYTES_MAX} bytes of them")]
    Variables,
    #[error("cannot run /bin/sh: {0}; the worker's image must have it")]
    Shell(std::io::Error),
}

/// What the peer wants.
pub(super) enum Asked {
    Run(Request),
    /// The end of the attempt with this mark.
    End(String),
    /// This signal for all ranks of the attempt with this mark.
    Tell(u8, String),
    /// To know whether we are here.
    Nothing,
}

/// What the launcher wants to run.
pub(super) struct Request {
    /// The mark of the attempt that it is part of, where there may be several.
    pub(super) attempt: Option<String>,
    variables: Vec<(OsString, OsString)>,
    /// `NEED NAME`, as the launcher's side wrote it.
    host_name: Option<Vec<u8>>,
    command: Vec<u8>,
    /// The launcher's own daemon that the command starts, if it does.
    pub(super) daemon: Option<&'static str>,
}

impl Request {
    pub(super) fn read(stream: &mut FrameStream) -> Result<Asked, RequestError> {
        let until = Instant::now() + REQUEST_MAX;
        let (mut attempt, mut variables) = (None, Vec::new());
        let mut host_name = None;
        let mut bytes = 0;
        loop {
            match stream.receive(until) {
                Ok(Frame::Variable { name, value }) => {
                    bytes += name.len() + value.len();
                    if variables.len() >= VARIABLES_MAX || bytes > VARIABLE_BYTES_MAX {
                        return Err(RequestError::Variables);
                    }
                    if name == env::HOST_NAME.as_bytes() {
                        host_name = Some(value);
                    } else if name == env::EXEC_MARK.as_bytes() {
                        attempt = Some(String::from_utf8_lossy(&value).into_owned());
                    } else if is_for_ranks(&name) {
                        variables.push((OsString::from_vec(name), OsString::from_vec(value)));
                    }
                }
                Ok(Frame::Start(command)) => {
                    return Ok(Asked::Run(Self {
                        attempt,
                        variables,
                        host_name,
                        daemon: daemon::in_command(&command),
                        command,
                    }));
                }
                Ok(Frame::Over(attempt)) => return Ok(Asked::End(attempt)),
                Ok(Frame::Tell { signal, attempt }) => return Ok(Asked::Tell(signal, attempt)),
                Ok(Frame::Ping) => {}
                Ok(_) => return Err(RequestError::Order),
                Err(StreamError::Closed) if variables.is_empty() => return Ok(Asked::Nothing),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// The container's environment, what was asked for on top, our mark, and for daemons the wrapper
    /// of their ranks. A user's own wrapper wins, also one in the daemon's command.
    pub(super) fn command(&self, mark: &str) -> Command {
        let mut command = match &self.host_name {
            None => Command::new("/bin/sh"),
            Some(words) => {
                let words = words.splitn(2, |byte| *byte == b' ');
                let mut command = Command::new("/proc/self/exe");
                command
                    .arg("as")
                    .args(words.map(|word| OsString::from_vec(word.to_vec())))
                    .arg("/bin/sh");
                command
            }
        };
        command
            .arg("-c")
            .arg(OsString::from_vec(self.command.clone()))
            .env_clear()
            .envs(self.rank_wrapper())
            .envs(environment(std::env::vars_os(), &self.variables))
            .env(env::SESSION_MARK, mark)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        command
    }

    fn rank_wrapper(&self) -> Option<(&'static str, OsString)> {
        Some((
            ranks::wrapper_variable(self.daemon?)?,
            ranks::wrapper().ok()?,
        ))
    }
}

/// Our own variables are not, except those that tell a program of its attempt.
fn is_for_ranks(name: &[u8]) -> bool {
    let is_of_attempt = env::OF_ATTEMPT.iter().any(|own| own.as_bytes() == name);
    is_of_attempt || !name.starts_with(env::PREFIX.as_bytes())
}

/// Open MPI crashes without HOME, which a user without a passwd entry may lack.
fn environment(
    own: impl Iterator<Item = (OsString, OsString)>,
    asked: &[(OsString, OsString)],
) -> Vec<(OsString, OsString)> {
    let ours = env::PREFIX.as_bytes();
    let mut merged: Vec<_> = own
        .filter(|(name, _)| !name.as_encoded_bytes().starts_with(ours))
        .filter(|(name, _)| !asked.iter().any(|(other, _)| other == name))
        .chain(asked.iter().cloned())
        .collect();
    if !merged
        .iter()
        .any(|(name, value)| name == "HOME" && !value.is_empty())
    {
        merged.push(("HOME".into(), crate::home::fallback().into()));
    }
    merged
}

#[cfg(test)]
mod tests;
