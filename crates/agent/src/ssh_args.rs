//! The arguments of ssh, as far as MPI launchers and similar programs use them. Decides which argument is
//! an option, the host, or the command; must not know how the host is reached.

use std::time::Duration;

use thiserror::Error;

use crate::settings::WAIT_MAX;

/// Options of OpenSSH that take a value, in the same argument or in the next.
const WITH_ARGUMENT: &str = "BbcDEeFIiJLlmOoPpQRSWw";
/// Options without a value; several may share a dash.
const WITHOUT_ARGUMENT: &str = "46AaCfGgKkMNnqsTtVvXxYy12";

/// What the caller wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SshArgs {
    /// `-V`: say which program this is.
    Version,
    /// Run something.
    Run(RemoteCommand),
}

/// A command for a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteCommand {
    /// As written, without `user@`.
    pub host: String,
    /// The arguments of the command, joined by single blanks, for the worker's shell.
    pub command: Vec<u8>,
    /// `-n`: nothing is read from standard input.
    pub no_stdin: bool,
    /// `-o ConnectTimeout=N`.
    pub connect_timeout: Option<Duration>,
}

/// Why arguments are not a command.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SshArgsError {
    /// Not an option of ssh.
    #[error("unknown option -{0}")]
    UnknownOption(char),
    /// The last argument is an option that needs a value.
    #[error("option -{0} needs an argument")]
    NoArgument(char),
    /// No argument is a host.
    #[error("no host given")]
    NoHost,
    /// There is nothing to run.
    #[error("no command given for {0}; interactive sessions are not offered")]
    NoCommand(String),
    /// Option or host that is not text.
    #[error("an option or host that is not UTF-8")]
    NotText,
}

#[derive(Default)]
struct Options {
    version: bool,
    no_stdin: bool,
    connect_timeout: Option<Duration>,
}

/// Reads the arguments after the program's name.
pub fn parse(words: &[Vec<u8>]) -> Result<SshArgs, SshArgsError> {
    let mut options = Options::default();
    let rest = options.take(words)?;
    if options.version {
        return Ok(SshArgs::Version);
    }
    let (host, rest) = rest.split_first().ok_or(SshArgsError::NoHost)?;
    let host = std::str::from_utf8(host).map_err(|_| SshArgsError::NotText)?;
    let host = host.rsplit_once('@').map_or(host, |(_user, host)| host);
    if host.is_empty() {
        return Err(SshArgsError::NoHost);
    }
    // Horovod writes options behind the host.
    let command = options.take(rest)?;
    if command.is_empty() {
        return Err(SshArgsError::NoCommand(host.to_owned()));
    }
    Ok(SshArgs::Run(RemoteCommand {
        host: host.to_owned(),
        command: command.join(&b' '),
        no_stdin: options.no_stdin,
        connect_timeout: options.connect_timeout,
    }))
}

impl Options {
    /// Takes options off the front, and a closing `--`; returns what follows.
    fn take<'w>(&mut self, mut words: &'w [Vec<u8>]) -> Result<&'w [Vec<u8>], SshArgsError> {
        while let Some((word, rest)) = words.split_first() {
            if word == b"--" {
                return Ok(rest);
            }
            if word.len() < 2 || word[0] != b'-' {
                break;
            }
            let cluster = std::str::from_utf8(&word[1..]).map_err(|_| SshArgsError::NotText)?;
            words = self.take_cluster(cluster, rest)?;
        }
        Ok(words)
    }

    fn take_cluster<'w>(
        &mut self,
        cluster: &str,
        rest: &'w [Vec<u8>],
    ) -> Result<&'w [Vec<u8>], SshArgsError> {
        for (at, letter) in cluster.char_indices() {
            if WITHOUT_ARGUMENT.contains(letter) {
                self.version |= letter == 'V';
                self.no_stdin |= letter == 'n';
                continue;
            }
            if !WITH_ARGUMENT.contains(letter) {
                return Err(SshArgsError::UnknownOption(letter));
            }
            let glued = &cluster[at + letter.len_utf8()..];
            if !glued.is_empty() {
                self.note(letter, glued.as_bytes());
                return Ok(rest);
            }
            let (argument, rest) = rest.split_first().ok_or(SshArgsError::NoArgument(letter))?;
            self.note(letter, argument);
            return Ok(rest);
        }
        Ok(rest)
    }

    /// Ignores users, ports and keys, which the agent has itself; only the deadline is the caller's.
    fn note(&mut self, letter: char, argument: &[u8]) {
        let setting = std::str::from_utf8(argument).unwrap_or_default();
        if letter == 'o'
            && let Some((key, value)) = setting.split_once(['=', ' '])
            && key.trim().eq_ignore_ascii_case("ConnectTimeout")
            && let Ok(seconds @ 1..) = value.trim().parse()
        {
            self.connect_timeout = Some(Duration::from_secs(seconds).min(WAIT_MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments separated by `^`, which none of them holds.
    fn words(line: &str) -> Vec<Vec<u8>> {
        line.split('^')
            .map(|word| word.as_bytes().to_vec())
            .collect()
    }

    fn call(line: &str) -> RemoteCommand {
        match parse(&words(line)) {
            Ok(SshArgs::Run(call)) => call,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    /// What launchers were seen to write, and the host and command that they mean.
    const SEEN: &[(&str, &str, &str)] = &[
        (
            r#"w3^ orted^-mca^ess^"env"^-mca^orte_hnp_uri^"1.0;tcp://h:1""#,
            "w3",
            r#" orted -mca ess "env" -mca orte_hnp_uri "1.0;tcp://h:1""#,
        ),
        (
            "-x^w0^     PATH=/usr/bin:$PATH ; export PATH ;  /usr/bin/orted^-mca",
            "w0",
            "     PATH=/usr/bin:$PATH ; export PATH ;  /usr/bin/orted -mca",
        ),
        (
            "w0^(^test^!^-r^./.profile^||^.^./.profile;^orted^)",
            "w0",
            "( test ! -r ./.profile || . ./.profile; orted )",
        ),
        (
            r#"-x^w0^"/usr/bin/hydra_pmi_proxy"^--control-port^l:1^--usize^-2"#,
            "w0",
            r#""/usr/bin/hydra_pmi_proxy" --control-port l:1 --usize -2"#,
        ),
        (
            "-q^-x^w0^/opt/impi/bin//hydra_bstrap_proxy^--time-left^-1",
            "w0",
            "/opt/impi/bin//hydra_bstrap_proxy --time-left -1",
        ),
        (
            "-oConnectTimeout=10^-2^-a^-x^-lroot^w0^export A=b; ^cd /tmp;^hostname",
            "w0",
            "export A=b;  cd /tmp; hostname",
        ),
        (
            "-o^PasswordAuthentication=no^-o^StrictHostKeyChecking=no^w1^-p^12345^-i^/k^-o^ConnectTimeout=10^true",
            "w1",
            "true",
        ),
        ("-p^2222^w2^hostname^-I", "w2", "hostname -I"),
        ("w0.job.ns.svc^true", "w0.job.ns.svc", "true"),
        ("mpiuser@w0^true", "w0", "true"),
        ("-l^me^--^w0^ls^-l", "w0", "ls -l"),
        ("w0^--^-odd^x", "w0", "-odd x"),
        ("-vp22^w0^true", "w0", "true"),
        ("w0^-^x", "w0", "- x"),
        ("w0^sh^--^x", "w0", "sh -- x"),
    ];

    #[test]
    fn lines_that_launchers_write() {
        for (line, host, command) in SEEN {
            let call = call(line);
            assert_eq!(call.host, *host, "{line:?}");
            assert_eq!(call.command, command.as_bytes(), "{line:?}");
        }
    }

    #[test]
    fn the_deadline_is_honoured_in_every_spelling() {
        for (options, seconds) in [
            ("-oConnectTimeout=7", Some(7)),
            ("-o^ConnectTimeout=7", Some(7)),
            ("-o^connecttimeout 7", Some(7)),
            ("-xo^ConnectTimeout=7", Some(7)),
            ("-oConnectTimeout=x", None),
            ("-oConnectTimeout=0", None),
        ] {
            let timeout = call(&format!("{options}^w0^true")).connect_timeout;
            assert_eq!(timeout, seconds.map(Duration::from_secs), "{options}");
        }
    }

    /// The clock would overflow.
    #[test]
    fn s17_no_deadline_is_further_away_than_anybody_waits() {
        let line = format!("-oConnectTimeout={}^w0^true", u64::MAX);
        let timeout = call(&line).connect_timeout;
        assert_eq!(timeout, Some(WAIT_MAX));
        let until = timeout.and_then(|time| std::time::Instant::now().checked_add(time));
        assert!(until.is_some());
    }

    #[test]
    fn no_stdin_only_when_asked_before_the_command() {
        assert!(call("-xn^w0^true").no_stdin);
        assert!(!call("w0^grep^-n^x").no_stdin);
    }

    #[test]
    fn lines_that_are_refused() {
        for (line, error) in [
            ("-x", SshArgsError::NoHost),
            ("me@", SshArgsError::NoHost),
            ("-z^w0^true", SshArgsError::UnknownOption('z')),
            ("-p", SshArgsError::NoArgument('p')),
            ("w0", SshArgsError::NoCommand("w0".into())),
            ("w0^--", SshArgsError::NoCommand("w0".into())),
        ] {
            assert_eq!(parse(&words(line)), Err(error), "{line:?}");
        }
        assert_eq!(parse(&[]), Err(SshArgsError::NoHost));
        assert_eq!(parse(&[vec![b'-', 0xff]]), Err(SshArgsError::NotText));
        assert_eq!(parse(&words("-V")), Ok(SshArgs::Version));
    }

    #[test]
    fn commands_need_not_be_text() {
        let line = [b"w0".to_vec(), vec![0xff, 0xfe]];
        let Ok(SshArgs::Run(call)) = parse(&line) else {
            panic!("refused");
        };
        assert_eq!(call.command, [0xff, 0xfe]);
    }
}
