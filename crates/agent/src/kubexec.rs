//! `kubexec POD COMMAND…`: a remote shell that goes through the API server, into pods without an agent.
//! Decides the exit code: the command's own, or 255 with one sentence when we failed; never 0 unless the
//! command exited with 0. Must not know who calls it.

mod api_server;
mod session;
pub(crate) mod status;
pub(crate) mod web_socket;

use std::io;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use contract::mpi::MpiLauncher;
use contract::{env, exit_code};
use rustix::event::{PollFd, PollFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use self::api_server::{ApiError, ApiServer, Target};
use self::session::SessionEnd;
use crate::poll::poll;
use crate::signals::Signals;
use crate::{daemon, settings};

/// What runs commands in a pod.
const SHELL: &str = "/bin/sh";
const CONNECT_MAX: Duration = Duration::from_secs(30);
/// Between two tries; each waits twice as long as the one before.
const PAUSE: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(4);

/// Runs one command. Returns the exit code of the process.
pub(crate) fn run(words: &[Vec<u8>]) -> u8 {
    let (pod, command) = match called(words) {
        Ok(called) => called,
        Err(error) => {
            eprintln!("muster-agent: {error:#}");
            return exit_code::SHIM_FAILED;
        }
    };
    match call(&pod, &command) {
        Ok(SessionEnd::Exited(code)) => code,
        Ok(SessionEnd::Stopped(signal)) => 128 | u8::try_from(signal & 0x7f).unwrap_or_default(),
        Err(error) => {
            eprintln!("muster-agent: cannot run on {pod}: {error:#}");
            exit_code::SHIM_FAILED
        }
    }
}

/// The pod, and the command for a shell there. Launchers split a command line into words and expect the
/// shell to join them, as rsh does.
fn called(words: &[Vec<u8>]) -> Result<(String, Vec<u8>)> {
    let [pod, rest @ ..] = words else {
        bail!("kubexec needs the name of a pod and a command");
    };
    let pod = String::from_utf8(pod.clone())
        .ok()
        .filter(|pod| is_name(pod));
    let pod = pod.context("kubexec needs the name of a pod before the command")?;
    if rest.is_empty() {
        bail!("kubexec needs a command to run on {pod}");
    }
    Ok((pod, without_agent(rest).join(&b' ')))
}

/// Open MPI tells its daemons where their own remote shell is, and they refuse to start on a host where
/// it is not, as here on all of them. None ever calls it: every daemon is started from the launcher.
/// What runs this command is certain to be there.
fn without_agent(words: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut words = words.to_vec();
    if daemon::in_command(&words.join(&b' ')).is_some() {
        for at in 1..words.len() {
            let mut options = MpiLauncher::all().filter_map(|launcher| launcher.shell_option);
            if options.any(|option| option.as_bytes() == words[at - 1]) {
                words[at] = format!("\"{SHELL}\"").into_bytes();
            }
        }
    }
    words
}

/// A name with a slash would be another path of the API.
fn is_name(word: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.';
    !word.is_empty() && word.bytes().all(fits) && !word.starts_with(['-', '.'])
}

fn call(pod: &str, command: &[u8]) -> Result<SessionEnd> {
    let signals = Signals::watch(&[SIGTERM, SIGINT, SIGHUP, SIGQUIT])?;
    let patience = settings::seconds(env::CONNECT_TIMEOUT).unwrap_or(CONNECT_MAX);
    let until = Instant::now() + patience;
    let mut target = Target {
        pod,
        command,
        container: None,
    };
    // Processes that were refused at the same time do not retry at the same time.
    let mut pause = PAUSE + Duration::from_millis(u64::from(std::process::id() % 256));
    let mut refusal = None;
    loop {
        if let Some(signal) = signals.take().first() {
            return Ok(SessionEnd::Stopped(*signal));
        }
        // The kubelet renews the token while we wait.
        let server = ApiServer::of_environment()?;
        let error = match server.exec(&target, until) {
            Ok(socket) => return session::run(socket, &signals),
            Err(error) => error,
        };
        match &error {
            ApiError::Answered { code: 400, message }
                if target.container.is_none() && message.contains("container name must be") =>
            {
                target.container = Some(server.container(pod, message, until)?);
            }
            _ if error.is_retryable() && Instant::now() + pause < until => {
                // A signal ends the pause.
                poll(&mut [PollFd::new(&signals, PollFlags::IN)], pause)?;
                pause = (pause * 2).min(PAUSE_MAX);
                if let ApiError::Answered { .. } = error {
                    refusal = Some(error);
                }
            }
            // The last attempt had only the rest of the time.
            ApiError::Unreachable(late) if late.kind() == io::ErrorKind::TimedOut => {
                return Err(refusal.unwrap_or(error).into());
            }
            _ => return Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<Vec<u8>> {
        words.iter().map(|word| word.as_bytes().to_vec()).collect()
    }

    #[test]
    fn words_are_put_together_again_with_blanks() {
        let (pod, command) = called(&words(&["w-0", " PATH=/x:$PATH", ";", "orted", "-m 'a b'"]))
            .expect("it is complete");
        assert_eq!(pod, "w-0");
        assert_eq!(command, b" PATH=/x:$PATH ; orted -m 'a b'");
    }

    #[test]
    fn a_daemon_is_not_told_of_a_shell_that_its_host_has_not() {
        let agent = "\"/etc/mpi/kubexec.sh\"";
        let daemon = [
            "w-0",
            " orted",
            "-mca",
            "plm",
            "\"rsh\"",
            "-mca",
            "plm_rsh_agent",
            agent,
            "-mca",
            "x",
        ];
        let (_, command) = called(&words(&daemon)).expect("it is complete");
        assert_eq!(
            String::from_utf8_lossy(&command),
            " orted -mca plm \"rsh\" -mca plm_rsh_agent \"/bin/sh\" -mca x"
        );
        let (_, command) = called(&words(&["w-0", "echo", "plm_rsh_agent", agent])).expect("it is");
        assert_eq!(command, b"echo plm_rsh_agent \"/etc/mpi/kubexec.sh\"");
    }

    #[test]
    fn a_pod_is_a_name_and_not_a_path() {
        for pod in ["", "../secrets", "a/b", "a?b", "-x", "a b"] {
            assert!(called(&words(&[pod, "true"])).is_err(), "{pod}");
        }
        assert!(called(&words(&["w-0"])).is_err());
        assert!(called(&[]).is_err());
    }
}
