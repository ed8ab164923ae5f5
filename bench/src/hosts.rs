//! Hosts made of namespaces: network, mounts, processes and name of their own, on a bridge that has
//! a network namespace to itself. Decides how they come and that they go, however the measurement
//! ends; must not know what runs on them.

use std::fmt::Write;
use std::fs;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

/// Before the names of all that is made; the process number follows.
pub(crate) const PREFIX: &str = "muster-bench-";

/// Runs a command that must succeed.
pub(crate) fn succeed(command: &mut Command) -> Result<()> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!(
            "{:?} failed: {}",
            command,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

/// Runs many `ip` commands at once.
fn ip_batch(namespace: Option<&str>, lines: &str, scratch: &Path) -> Result<()> {
    let file = scratch.join("ip-batch");
    fs::write(&file, lines)?;
    let mut command = Command::new("ip");
    if let Some(namespace) = namespace {
        command.args(["-netns", namespace]);
    }
    succeed(command.arg("-batch").arg(file))
}

/// The network of all hosts; gone when dropped.
pub(crate) struct Network {
    namespaces: Vec<String>,
    scratch: PathBuf,
}

impl Network {
    /// One namespace per host; the first is the launcher's.
    pub(crate) fn make(hosts: usize, scratch: &Path) -> Result<Self> {
        remove_leftovers()?;
        let mut network = Self {
            namespaces: Vec::new(),
            scratch: scratch.to_owned(),
        };
        let own = format!("{PREFIX}{}", std::process::id());
        let switch = network.add(format!("{own}-switch"))?;
        ip_batch(
            Some(&switch),
            "link add name bridge type bridge\nlink set dev bridge up\n",
            scratch,
        )?;
        for host in 0..hosts {
            let name = network.add(format!("{own}-{host}"))?;
            let address = Self::address(host);
            ip_batch(
                None,
                &format!(
                    "link add eth0 netns {name} type veth peer name port{host} netns {switch}"
                ),
                scratch,
            )?;
            ip_batch(
                Some(&switch),
                &format!("link set dev port{host} master bridge up"),
                scratch,
            )?;
            ip_batch(
                Some(&name),
                &format!(
                    "addr add {address}/16 dev eth0\nlink set dev eth0 up\nlink set dev lo up"
                ),
                scratch,
            )?;
        }
        Ok(network)
    }

    /// Noted first: what was half made is removed too.
    fn add(&mut self, name: String) -> Result<String> {
        self.namespaces.push(name.clone());
        succeed(Command::new("ip").args(["netns", "add", &name]))?;
        Ok(name)
    }

    pub(crate) fn address(host: usize) -> Ipv4Addr {
        let number = u16::try_from(host + 1).expect("there are fewer hosts than addresses");
        let [high, low] = number.to_be_bytes();
        Ipv4Addr::new(10, 99, high, low)
    }

    /// Starts what a host runs: a shell text with mounts of its own, in which `$scratch` is the
    /// directory of this measurement. The host lives as long as the text.
    pub(crate) fn start(&self, host: usize, text: &str) -> Result<Host> {
        let namespace = &self.namespaces[host + 1];
        let mut own = String::from("127.0.0.1 localhost\n");
        writeln!(own, "{} host{host}", Self::address(host))?;
        let hosts = self.scratch.join(format!("etc-hosts-{host}"));
        fs::write(&hosts, own)?;
        let setup = format!(
            "set -e\nscratch={}\nhostname host{host}\nmount --bind {} /etc/hosts\n\
             mount --bind /dev/null /etc/resolv.conf\nmount -t tmpfs own /dev/shm\n\
             mount -t tmpfs own /run\nmkdir /run/sshd\n{text}",
            self.scratch.display(),
            hosts.display(),
        );
        let log = fs::File::create(self.scratch.join(format!("host-{host}.log")))?;
        let child = Command::new("ip")
            .args(["netns", "exec", namespace, "unshare"])
            .args(["--mount", "--uts", "--ipc", "--pid", "--mount-proc"])
            .args(["--fork", "--kill-child", "sh", "-c", &setup])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        Ok(Host(child))
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        for name in &self.namespaces {
            // Some may never have been made; the others must go all the same.
            let _ = succeed(Command::new("ip").args(["netns", "del", name]));
        }
    }
}

/// A running host; all its processes end with it.
pub(crate) struct Host(Child);

impl Host {
    /// The first process inside, once it is there.
    pub(crate) fn init(&self) -> Option<u32> {
        let children = format!("/proc/{0}/task/{0}/children", self.0.id());
        let children = fs::read_to_string(children).ok()?;
        children.split_whitespace().next()?.parse().ok()
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.0.try_wait().is_ok_and(|status| status.is_some())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The kernel ends the process namespace with its first process, and that with this one.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Namespaces of measurements that were killed.
fn remove_leftovers() -> Result<()> {
    for entry in fs::read_dir("/run/netns").into_iter().flatten() {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let owner = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        if owner.is_some_and(|owner| !Path::new("/proc").join(owner).exists()) {
            succeed(Command::new("ip").args(["netns", "del", &name]))?;
        }
    }
    Ok(())
}
