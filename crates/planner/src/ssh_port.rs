//! On which ports the sshd of a worker may listen, as far as the job's templates tell. Decides what the
//! gate may take for an answer; must not know how the gate asks.

use contract::mpi::{MpiLauncher, Setting};
use contract::protocol::SSH_PORTS;
use serde_json::Value;

use crate::job::{Job, Login};

/// Where the gate looks for the sshd of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SshPorts {
    /// One that answers is enough.
    pub ports: Vec<u16>,
    /// The job says so. Otherwise these are guesses.
    pub is_certain: bool,
}

impl SshPorts {
    /// Of this job: what its user says, what the workers' sshd is told, what the launcher's ssh is told.
    pub fn of(job: &Job, login: &Login) -> Self {
        let certain = |ports| Self {
            ports,
            is_certain: true,
        };
        if let Some(port) = login.ssh_port {
            return certain(vec![port]);
        }
        let worker = &job.workers.role().template;
        let launcher = &job.launcher.role.template;
        for ports in [told_to_sshd(worker), told_to_ssh(launcher)] {
            if !ports.is_empty() {
                return certain(ports);
            }
        }
        // On the node's network, the usual port is that of the node's own sshd.
        let is_own = |port: &u16| *port != SSH_PORTS[0] || !is_on_host_network(worker);
        Self {
            ports: SSH_PORTS.into_iter().filter(is_own).collect(),
            is_certain: false,
        }
    }
}

/// The pods of this template share the ports of their node.
pub(crate) fn is_on_host_network(template: &Value) -> bool {
    template["spec"]["hostNetwork"] == true
}

/// In the command of a container, which may be a script.
fn told_to_sshd(template: &Value) -> Vec<u16> {
    let mut ports = Vec::new();
    for container in containers(template) {
        let words = words(container);
        let sshd = |word: &String| word.rsplit('/').next() == Some("sshd");
        for (at, _) in words.iter().enumerate().filter(|(_, word)| sshd(word)) {
            let end = words[at..].iter().position(|word| ends_command(word));
            let end = end.map_or(words.len(), |end| at + end);
            ports.extend(port_options(&words[at + 1..end]));
        }
    }
    ports
}

/// In a variable with extra words for ssh, or in an option of mpirun.
fn told_to_ssh(launcher: &Value) -> Vec<u16> {
    let mut ports = Vec::new();
    for container in containers(launcher) {
        for variable in container["env"].as_array().into_iter().flatten() {
            let value = variable["value"].as_str().unwrap_or_default();
            if is_for_ssh(&variable["name"]) {
                ports.extend(port_options(&split(value)));
            }
        }
        let words = words(container);
        let mut rest = words.as_slice();
        while let Some((word, after)) = rest.split_first() {
            rest = after;
            if PARAMETERS.contains(&word.as_str()) {
                ports.extend(port_options(leading_options(rest)));
            }
        }
    }
    ports
}

/// A variable whose value is extra words for ssh.
fn is_for_ssh(name: &Value) -> bool {
    let mut variables = MpiLauncher::all().flat_map(|launcher| launcher.variables);
    variables.any(|variable| variable.setting == Setting::ShellArguments && *name == variable.name)
}

/// Parameters of mpirun whose value is extra words for ssh.
const PARAMETERS: [&str; 2] = ["plm_rsh_args", "plm_ssh_args"];

/// The words of a value that a script wrote in quotes: options, and what follows an option.
fn leading_options(words: &[String]) -> &[String] {
    let mut end = 0;
    while let Some(word) = words.get(end) {
        let follows = end > 0 && TAKING.contains(&words[end - 1].as_str());
        if !word.starts_with('-') && !follows {
            break;
        }
        end += 1;
    }
    &words[..end]
}

/// Options of ssh and sshd that take another word, of those that people write here.
const TAKING: [&str; 4] = ["-p", "-o", "-i", "-f"];

/// `-p N`, `-pN`, `-oPort=N`, `-o Port=N`, `-o Port N`, and `-p` at the end of several letters.
fn port_options(words: &[String]) -> Vec<u16> {
    let number = |word: &str| word.parse::<u16>().ok().filter(|port| *port > 0);
    let mut ports = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = || words.get(at + 1).map_or("", String::as_str);
        let lower = word.to_ascii_lowercase();
        let option = lower.strip_prefix("-o").unwrap_or(&lower);
        let port = match option.strip_prefix("port") {
            Some("") => number(next()),
            Some(rest) => rest.strip_prefix('=').and_then(number),
            None if lower.starts_with("--") => None,
            None => match lower.strip_prefix('-').and_then(|l| l.split_once('p')) {
                Some((letters, "")) if letters.bytes().all(|b| b.is_ascii_alphabetic()) => {
                    number(next())
                }
                Some(("", digits)) => number(digits),
                _ => None,
            },
        };
        ports.extend(port);
    }
    ports
}

fn containers(template: &Value) -> impl Iterator<Item = &Value> {
    let containers = template["spec"]["containers"].as_array();
    containers.into_iter().flatten()
}

/// The words of `command` and `args`, also of scripts among them. What ends a command in a script is a
/// word of its own.
fn words(container: &Value) -> Vec<String> {
    let lists = ["command", "args"].map(|key| container[key].as_array());
    let items = lists.into_iter().flatten().flatten();
    let texts = items.filter_map(Value::as_str);
    texts.flat_map(split).collect()
}

fn split(text: &str) -> Vec<String> {
    let mut spaced = String::new();
    for letter in text.chars() {
        match letter {
            ';' | '&' | '|' | '\n' | '(' | ')' => {
                spaced.push(' ');
                spaced.push(';');
                spaced.push(' ');
            }
            '"' | '\'' | '`' | '\\' => spaced.push(' '),
            letter => spaced.push(letter),
        }
    }
    spaced.split_whitespace().map(str::to_owned).collect()
}

fn ends_command(word: &str) -> bool {
    word == ";" || word.starts_with('#')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn sshd(command: Value) -> Vec<u16> {
        told_to_sshd(&json!({"spec": {"containers": [{"command": command}]}}))
    }

    #[test]
    fn m07_the_port_of_sshd_is_read_from_its_command() {
        for (command, ports) in [
            (json!(["/usr/sbin/sshd", "-De"]), vec![]),
            (json!(["/usr/sbin/sshd", "-De", "-p", "2222"]), vec![2222]),
            (json!(["sshd", "-Dep", "2222"]), vec![2222]),
            (json!(["sshd", "-D", "-p2022"]), vec![2022]),
            (json!(["sshd", "-D", "-oPort=2022"]), vec![2022]),
            (json!(["sshd", "-D", "-o", "Port=2022"]), vec![2022]),
            (json!(["sshd", "-D", "-o", "port 2022"]), vec![2022]),
            (
                json!(["sshd", "-De", "-f", "/home/mpiuser/.sshd_config"]),
                vec![],
            ),
            (
                json!([
                    "sh",
                    "-c",
                    "mkdir -p /run/sshd; /usr/sbin/sshd -De -p 2222 # ours"
                ]),
                vec![2222],
            ),
            (json!(["sh", "-c", "sshd -D & mkdir -p 2022"]), vec![]),
            (json!(["sh", "-c", "mkdir -p 2022 && exec sshd -D"]), vec![]),
            (
                json!(["sh", "-c", "exec \"/usr/sbin/sshd\" -D -p '2022'"]),
                vec![2022],
            ),
            (json!(["sshd", "-p", "many"]), vec![]),
            (json!(["sleep", "-p", "22"]), vec![]),
        ] {
            assert_eq!(sshd(command.clone()), ports, "{command}");
        }
    }

    #[test]
    fn m07_the_port_of_ssh_is_read_from_its_extra_words() {
        let told = |container: Value| told_to_ssh(&json!({"spec": {"containers": [container]}}));
        let variable = |name: &str, value: &str| {
            told(json!({"env": [{"name": name, "value": value}, {"name": "X", "value": "-p 1"}]}))
        };
        assert_eq!(variable("PRTE_MCA_plm_ssh_args", "-q -p 2222"), [2222]);
        assert_eq!(variable("OMPI_MCA_plm_rsh_args", "-o Port=2022"), [2022]);
        assert_eq!(variable("HYDRA_LAUNCHER_EXTRA_ARGS", "-p2222"), [2222]);
        assert_eq!(variable("OMPI_MCA_plm_rsh_args", "-v"), [0; 0]);
        assert_eq!(variable("PORTS", "-p 2222"), [0; 0]);
        for command in [
            json!([
                "mpirun",
                "--mca",
                "plm_rsh_args",
                "-p 2222",
                "-n",
                "4",
                "a",
                "-p",
                "9"
            ]),
            json!([
                "sh",
                "-c",
                "mpirun -mca plm_rsh_args \"-o X=y -p 2222\" ./a -p 9; b -p 8"
            ]),
        ] {
            assert_eq!(told(json!({"command": command})), [2222], "{command}");
        }
        let none = json!({"command": ["mpirun", "-n", "2", "a", "-p", "9"]});
        assert_eq!(told(none), [0; 0]);
    }
}
