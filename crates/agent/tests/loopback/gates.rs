//! The launcher's gate: opens when all have answered, and not before.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::world::{World, text, wait_for};

fn gate(world: &World, workers: usize, seconds: u32) -> Command {
    let mut command = world.agent("gate");
    command
        .env("MUSTER_WORKERS", workers.to_string())
        .env("MUSTER_GATE_TIMEOUT", seconds.to_string())
        .env("MUSTER_TERMINATION_LOG", world.path("termination"));
    command
}

#[test]
fn it_opens_soon_after_the_last_worker_came() {
    let world = World::new();
    let first = world.serve();
    world.write_hosts(&[("w0", first.port)]);
    let mut command = gate(&world, 2, 30);
    let waiting = std::thread::spawn(move || (command.output().unwrap(), Instant::now()));
    std::thread::sleep(Duration::from_millis(400));
    assert!(!waiting.is_finished());
    let second = world.serve();
    world.write_hosts(&[("w0", first.port), ("w1", second.port)]);
    let came = Instant::now();
    let (output, opened) = waiting.join().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(opened.duration_since(came) < Duration::from_secs(5));
    let stdout = text(&output.stdout);
    assert!(stdout.contains("waiting for "), "{stdout}");
    assert!(stdout.contains("1 without an address yet"), "{stdout}");
    assert!(stdout.contains("all 2 workers have answered"), "{stdout}");
}

#[test]
fn at_its_deadline_it_names_who_is_missing() {
    let world = World::new();
    let first = world.serve();
    // Takes connections and never says a word: a bare connect must not count.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    world.write_hosts(&[("w0", first.port), ("w1", port)]);
    let begun = Instant::now();
    let output = gate(&world, 2, 1).output().unwrap();
    assert_eq!(output.status.code(), Some(117), "{output:?}");
    assert!(begun.elapsed() < Duration::from_secs(8));
    assert!(text(&output.stderr).contains("waiting for 1 of 2 workers: w1"));
    let json = std::fs::read_to_string(world.path("termination")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["verdict"], "GateDeadline");
    assert_eq!(json["lost"], serde_json::json!(["w1"]));
    assert_eq!(
        (json["hosts"].as_u64(), json["asked"].as_u64()),
        (Some(1), Some(2))
    );
}

/// The operator knows it first, and writes it into the list, also while somebody waits.
#[test]
fn v02_whoever_waits_for_a_worker_that_ended_learns_it_at_once() {
    let world = World::new();
    let first = world.serve();
    let closed = closed_port("127.0.0.1");
    let list = |second: &str| format!("# workers 2\nw0 127.0.0.1:{}\n{second}\n", first.port);
    let lists = world.path("lists");
    std::fs::create_dir(&lists).unwrap();
    let gate_and_exec = [gate(&world, 2, 60), ssh_gate(&world, 2, 60, &[closed]), {
        let mut exec = world.agent("exec");
        exec.args(["--", "/bin/true"])
            .env("MUSTER_LISTS_DIR", &lists)
            .env("MUSTER_TERMINATION_LOG", world.path("termination"));
        exec
    }];
    for mut command in gate_and_exec {
        let dialled = format!("w1 127.0.0.1:{closed}");
        std::fs::write(world.path("hosts"), list(&dialled)).unwrap();
        let mut waiting = command.stderr(Stdio::piped()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert!(
            waiting.try_wait().unwrap().is_none(),
            "it waits: {command:?}"
        );
        std::fs::write(world.path("hosts"), list("w1 ended")).unwrap();
        let ended = Instant::now();
        let output = waiting.wait_with_output().unwrap();
        assert!(ended.elapsed() < Duration::from_secs(5), "{command:?}");
        assert_eq!(output.status.code(), Some(119), "{output:?}");
        let json = std::fs::read_to_string(world.path("termination")).unwrap();
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!(json["verdict"], "WorkerLost");
        assert_eq!(json["lost"], serde_json::json!(["w1"]));
        assert_eq!(
            json["message"],
            "worker w1 has ended, and no other follows it"
        );
    }
}

#[test]
fn v02_a_call_to_a_worker_that_ended_fails_at_once() {
    let world = World::new();
    std::fs::write(world.path("hosts"), "# workers 1\nw0 ended\n").unwrap();
    let begun = Instant::now();
    let called = world.rsh(&["w0", "true"]);
    assert_eq!(called.status.code(), Some(255), "{called:?}");
    let connected = world.agent("connect").args(["w0.pi", "22"]).output();
    let connected = connected.unwrap();
    assert_eq!(connected.status.code(), Some(64), "{connected:?}");
    for output in [called, connected] {
        let stderr = text(&output.stderr);
        assert!(
            stderr.contains("worker w0 has ended: its pod is over"),
            "{stderr}"
        );
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
}

/// ssh may wait already when the worker ends.
#[test]
fn v02_a_connection_that_waits_for_a_worker_ends_with_it() {
    let world = World::new();
    std::fs::write(world.path("hosts"), "w0 127.0.0.15\n").unwrap();
    let mut command = world.agent("connect");
    command.args(["w0", "9"]).stderr(Stdio::piped());
    let mut waiting = command.spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(waiting.try_wait().unwrap().is_none(), "it waits");
    std::fs::write(world.path("hosts"), "w0 ended\n").unwrap();
    let ended = Instant::now();
    let output = waiting.wait_with_output().unwrap();
    assert!(ended.elapsed() < Duration::from_secs(5));
    assert!(
        text(&output.stderr).contains("worker w0 has ended"),
        "{output:?}"
    );
}

/// Says this to whoever connects; returns where.
fn listener_that_says(ip: &str, words: &'static [u8]) -> u16 {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for socket in listener.incoming() {
            // The gate may have heard enough.
            let _ = socket.unwrap().write_all(words);
        }
    });
    port
}

/// A port on which nothing listens.
fn closed_port(ip: &str) -> u16 {
    let listener = TcpListener::bind((ip, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

fn ssh_gate(world: &World, workers: usize, seconds: u32, ports: &[u16]) -> Command {
    let mut command = gate(world, workers, seconds);
    let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
    command
        .env("MUSTER_GATE_TRANSPORT", "ssh")
        .env("MUSTER_SSH_PORTS", ports.join(","));
    command
}

#[test]
fn an_ssh_worker_answers_with_its_banner_on_one_of_its_ports() {
    let world = World::new();
    let (first, second) = (
        listener_that_says("127.0.0.11", b"SSH-2.0-Test\r\n"),
        listener_that_says("127.0.0.12", b"SSH-1.99-Test\r\n"),
    );
    std::fs::write(world.path("hosts"), "w0 127.0.0.11\nw1 127.0.0.12\n").unwrap();
    let output = ssh_gate(&world, 2, 20, &[first, second]).output().unwrap();
    assert!(output.status.success(), "{output:?}");

    let web = listener_that_says("127.0.0.11", b"HTTP/1.1 200 OK\r\n");
    std::fs::write(world.path("hosts"), "w0 127.0.0.11\n").unwrap();
    let closed = closed_port("127.0.0.11");
    let mut command = ssh_gate(&world, 1, 1, &[closed, web]);
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(117), "{output:?}");
    let stderr = text(&output.stderr);
    assert!(stderr.contains("not an SSH server"), "{stderr}");
}

/// A real sshd on this address and port; ended when dropped.
struct Sshd(std::process::Child);

impl Sshd {
    fn start(world: &World, ip: &str, port: u16) -> Self {
        let key = world.path(&format!("key-{port}"));
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(&key)
            .status()
            .expect("ssh-keygen is missing: apt-get install openssh-client");
        assert!(made.success());
        // It insists on a directory that only its package's service makes.
        let script = "mount -t tmpfs none /run && mkdir /run/sshd && exec /usr/sbin/sshd \"$@\"";
        let sshd = Command::new("unshare")
            .args([
                "-m",
                "sh",
                "-c",
                script,
                "sshd",
                "-D",
                "-e",
                "-f",
                "/dev/null",
            ])
            .args(["-p", &port.to_string(), "-o", "PidFile=none"])
            .args(["-o", &format!("ListenAddress={ip}"), "-h"])
            .arg(&key)
            .stderr(Stdio::null())
            .spawn();
        Self(sshd.expect("unshare is missing: apt-get install util-linux"))
    }
}

impl Drop for Sshd {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// On the network of its node, a worker shares its address with the node's own sshd.
#[test]
fn m07_an_sshd_on_another_port_of_the_same_address_is_no_answer() {
    let world = World::new();
    let ip = "127.0.0.16";
    let (nodes, workers) = (closed_port(ip), closed_port(ip));
    let _node = Sshd::start(&world, ip, nodes);
    std::fs::write(world.path("hosts"), format!("w0 {ip}\n")).unwrap();
    let opened = ssh_gate(&world, 1, 20, &[nodes]).output().unwrap();
    assert!(opened.status.success(), "a real sshd answers: {opened:?}");

    let mut gate = ssh_gate(&world, 1, 60, &[workers]).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    assert!(
        gate.try_wait().unwrap().is_none(),
        "it took the node's sshd"
    );
    let _worker = Sshd::start(&world, ip, workers);
    let begun = Instant::now();
    assert!(gate.wait().unwrap().success());
    assert!(begun.elapsed() < Duration::from_secs(20));
}

/// Images exist whose sshd listens where nobody told us; a gate must not be worse than none.
#[test]
fn ssh_workers_that_only_refuse_do_not_hold_the_launcher_for_ever() {
    let world = World::new();
    let sshd = listener_that_says("127.0.0.11", b"SSH-2.0-Test\r\n");
    let closed = closed_port("127.0.0.12");
    let hosts = "w0 127.0.0.11\nw1 127.0.0.12\n";
    std::fs::write(world.path("hosts"), hosts).unwrap();
    let lists = world.path("lists");
    std::fs::create_dir(&lists).unwrap();
    let begun = Instant::now();
    let output = ssh_gate(&world, 2, 30, &[sshd, closed])
        .env("MUSTER_SSH_PATIENCE", "1")
        .env("MUSTER_LISTS_DIR", &lists)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let waited = begun.elapsed();
    assert!((1..10).contains(&waited.as_secs()), "{waited:?}");
    let stderr = text(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let says = |words: &str| assert!(stderr.contains(words), "{stderr}");
    says("w1 refused every connection");
    says(&format!("ports {sshd} and {closed} for 1 s"));
    says("spec.muster.sshPort");
    let list = std::fs::read_to_string(lists.join("hostfile")).unwrap();
    assert_eq!(list, "127.0.0.11 slots=1\n127.0.0.12 slots=1\n");
}

/// A NetworkPolicy may drop packets, and other programs may have the port.
#[test]
fn ssh_workers_that_never_say_so_do_not_hold_the_launcher_for_ever() {
    let world = World::new();
    let web = listener_that_says("127.0.0.11", b"HTTP/1.1 200 OK\r\n");
    std::fs::write(world.path("hosts"), "w0 127.0.0.11\n").unwrap();
    let begun = Instant::now();
    let output = ssh_gate(&world, 1, 30, &[web])
        .env("MUSTER_SSH_PATIENCE", "1")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let waited = begun.elapsed();
    assert!((3..20).contains(&waited.as_secs()), "{waited:?}");
    let stderr = text(&output.stderr);
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    let words = format!("w0 gave no SSH banner on port {web} for 3 s");
    assert!(stderr.contains(&words), "{stderr}");
    assert!(stderr.contains("not an SSH server"), "{stderr}");
}

/// The pod's environment is as old as the pod.
#[test]
fn a_job_that_was_scaled_waits_for_as_many_as_its_list_says() {
    let world = World::new();
    let first = world.serve();
    let line = format!("w0 127.0.0.1:{}\n", first.port);
    let write = |text: String| {
        let draft = world.path("hosts.draft");
        std::fs::write(&draft, text).unwrap();
        std::fs::rename(draft, world.path("hosts")).unwrap();
    };
    write(format!("# workers 1\n{line}"));
    let output = gate(&world, 2, 20).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    write(format!("# workers 2\n{line}"));
    let output = gate(&world, 1, 1).output().unwrap();
    assert_eq!(output.status.code(), Some(117), "{output:?}");
    assert!(text(&output.stderr).contains("1 of 2 workers"));
    // Nothing says how many, then one, then none more than are there.
    write(String::new());
    let mut command = gate(&world, 1, 30);
    let waiting = std::thread::spawn({
        command.env_remove("MUSTER_WORKERS");
        command.stdout(Stdio::piped());
        let mut gate = command.spawn().unwrap();
        let mut lines = BufReader::new(gate.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        assert!(first.contains("the list of workers"), "{first}");
        move || {
            let last = lines.map(Result::unwrap).last();
            (gate.wait().unwrap(), last)
        }
    });
    write(format!("# workers 2\n{line}"));
    write(format!("# workers 1\n{line}"));
    let (status, last) = waiting.join().unwrap();
    assert!(status.success());
    let last = last.unwrap();
    assert!(last.starts_with("all 1 workers have answered"), "{last}");
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn it_installs_the_agent_and_leaves_lists_for_the_launcher() {
    let world = World::new();
    let at = |name: &str, ip: &'static str| {
        world.serve_as(name, move |command| {
            command.env("MUSTER_LISTEN", ip);
        })
    };
    let first = at("pi-worker-10.pi", "127.0.0.11");
    let second = at("pi-worker-2.pi", "127.0.0.12");
    let hosts = format!(
        "pi-worker-10.pi 127.0.0.11:{}\npi-worker-2.pi 127.0.0.12:{}\n",
        first.port, second.port
    );
    std::fs::write(world.path("hosts"), hosts).unwrap();
    let (bin, lists) = (world.path("bin"), world.path("lists"));
    std::fs::create_dir(&lists).unwrap();
    let output = gate(&world, 2, 20)
        .arg("--install")
        .arg(&bin)
        .env("MUSTER_LISTS_DIR", &lists)
        .env("MUSTER_LISTS_SYNTAX", "colon")
        .env("MUSTER_SLOTS", "4")
        .env("MUSTER_LAUNCHER_ADDRESS", "127.0.0.13")
        .env("MUSTER_LAUNCHER_NAME", "pi-launcher.pi")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let installed = Command::new(bin.join("ssh")).arg("-V").status().unwrap();
    assert!(installed.success());
    let read = |name: &str| std::fs::read_to_string(lists.join(name)).unwrap();
    let colon = "127.0.0.13:4\n127.0.0.11:4\n127.0.0.12:4\n";
    assert_eq!(read("hostfile"), colon);
    assert_eq!(read("hostfile.hydra"), colon);
    assert_eq!(
        read("hostfile.openmpi"),
        "127.0.0.13 slots=4\n127.0.0.11 slots=4\n127.0.0.12 slots=4\n"
    );
    assert_eq!(mode(&lists.join("hostfile")), 0o444);
    assert_eq!(mode(&lists.join("discover_hosts.sh")), 0o555);
    let discovered = Command::new(lists.join("discover_hosts.sh"))
        .output()
        .unwrap();
    assert_eq!(
        text(&discovered.stdout),
        "127.0.0.13\n127.0.0.11\n127.0.0.12\n"
    );
    // Nothing half-written is left beside them.
    assert_eq!(std::fs::read_dir(&lists).unwrap().count(), 4);
}

#[test]
fn workers_that_share_an_address_are_listed_by_name() {
    let world = World::new();
    let (first, second) = (world.serve(), world.serve());
    world.write_hosts(&[("w0", first.port), ("w1", second.port)]);
    let lists = world.path("lists");
    std::fs::create_dir(&lists).unwrap();
    let output = gate(&world, 2, 20)
        .env("MUSTER_LISTS_DIR", &lists)
        .env("MUSTER_SLOTS", "2")
        .env("MUSTER_LAUNCHER_ADDRESS", "127.0.0.13")
        .env("MUSTER_LAUNCHER_NAME", "launcher")
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let list = std::fs::read_to_string(lists.join("hostfile")).unwrap();
    assert_eq!(list, "127.0.0.13 slots=2\nw0 slots=2\nw1 slots=2\n");
}

#[test]
fn a_list_that_cannot_be_written_is_a_failure() {
    let world = World::new();
    world.write_hosts(&[]);
    let output = gate(&world, 0, 20)
        .env("MUSTER_LISTS_DIR", world.path("nowhere"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(
        text(&output.stderr).contains("nowhere/hostfile"),
        "{output:?}"
    );
}

/// As ssh calls its ProxyCommand: a name that DNS does not know, the port of the configuration.
#[test]
fn connect_leads_to_where_a_worker_is_by_now() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.14:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    // First an address where nobody listens: the worker is being replaced.
    std::fs::write(world.path("hosts"), "w0.pi.ns.svc 127.0.0.15\n").unwrap();
    let mut started = world
        .agent("connect")
        .args(["w0.pi.ns.svc", &port.to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::fs::write(world.path("hosts"), "w0.pi.ns.svc 127.0.0.14\n").unwrap();
    let (mut socket, peer) = listener.accept().unwrap();
    socket.write_all(b"SSH-2.0-test\n").unwrap();
    wait_for("its connection is probed", Duration::from_secs(10), || {
        has_keepalive(peer)
    });
    started.stdin.take().unwrap().write_all(b"hello").unwrap();
    let mut heard = String::new();
    socket.read_to_string(&mut heard).unwrap();
    assert_eq!(heard, "hello", "its end of input is ours");
    drop(socket);
    let output = started.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(text(&output.stdout), "SSH-2.0-test\n");
}

/// Whether the kernel's timer of a connection of this machine is that of probes.
fn has_keepalive(local: SocketAddr) -> bool {
    let SocketAddr::V4(local) = local else {
        panic!("{local} is not in this table");
    };
    let ip = u32::from_ne_bytes(local.ip().octets());
    let address = format!("{ip:08X}:{:04X}", local.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    table.lines().any(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        fields[1] == address && fields[5].starts_with("02:")
    })
}

#[test]
fn connect_says_which_worker_it_cannot_reach() {
    let world = World::new();
    std::fs::write(world.path("hosts"), "w0 127.0.0.15\n").unwrap();
    let output = world
        .agent("connect")
        .args(["w0", "9"])
        .env("MUSTER_CONNECT_TIMEOUT", "1")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(64), "{output:?}");
    assert!(
        text(&output.stderr).contains("cannot reach w0 on port 9"),
        "{output:?}"
    );
}
