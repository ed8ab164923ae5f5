//! The runner with real processes: what a container sees, how it ends, what is left of it. As root
//! and as an ordinary user alike; what only one of them can do is asked for by name.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::config_source::ConfigSource;
use super::*;

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

struct World {
    directory: TempDir,
    runner: Runner,
    reports: mpsc::UnboundedReceiver<PodReport>,
    books: Arc<Mutex<BTreeMap<String, Value>>>,
}

fn binary() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let binary = test.parent().unwrap().with_file_name("muster");
    assert!(binary.exists(), "build it first: cargo build -p cli");
    binary
}

fn world(name: &str, isolation: Isolation) -> World {
    let prefix = format!("muster-runner-{name}-");
    let directory = tempfile::Builder::new().prefix(&prefix).tempdir().unwrap();
    let books = Arc::new(Mutex::new(BTreeMap::new()));
    let shelf = Arc::clone(&books);
    let lookup = move |kind: ConfigSource, _: &str, name: &str| {
        let shelf: &BTreeMap<String, Value> = &shelf.lock().unwrap();
        shelf.get(&format!("{}/{name}", kind.as_str())).cloned()
    };
    let (sender, reports) = mpsc::unbounded_channel();
    let settings = Settings {
        directory: directory.path().to_owned(),
        binary: binary(),
        agent: None,
        isolation,
        root: None,
        mounts: Vec::new(),
        variables: Vec::new(),
        isolated: false,
        seed: std::process::id(),
    };
    let runner = Runner::new(settings, Arc::new(lookup), sender, Box::new(|_, _| None));
    World {
        directory,
        runner,
        reports,
        books,
    }
}

/// The isolation that this user can have.
fn isolation() -> Isolation {
    if rustix::process::geteuid().is_root() {
        Isolation::Root
    } else {
        Isolation::User
    }
}

fn pod(name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": format!("uid-{name}")},
        "spec": spec,
    })
}

fn shell(script: &str) -> Value {
    json!({"containers": [{"name": "main", "image": "x", "command": ["sh", "-c", script]}]})
}

impl World {
    async fn next(&mut self) -> PodReport {
        let report = timeout(PATIENCE, self.reports.recv()).await;
        report.expect("a report in time").expect("the runner lives")
    }

    fn start(&mut self, object: &Value) {
        let pod = PodRef::of(object);
        self.runner.apply(Order::Place {
            pod: pod.clone(),
            object: object.clone().into(),
        });
        self.runner.apply(Order::Start {
            pod,
            container: "main".to_owned(),
            init: false,
            attempt: 0,
            object: object.clone().into(),
        });
    }

    /// Until the container ends: its code, its signal and its last words.
    async fn end(&mut self) -> (i32, Option<i32>, String) {
        loop {
            match self.next().await {
                PodReport::Exited {
                    code,
                    signal,
                    message,
                    ..
                } => return (code, signal, message),
                PodReport::CannotStart { message, .. } => panic!("cannot start: {message}"),
                _ => {}
            }
        }
    }

    /// Until a pod's readiness is reported: what it is.
    async fn ready(&mut self, name: &str) -> bool {
        loop {
            if let PodReport::Ready { pod, ready, .. } = self.next().await
                && pod.name == name
            {
                return ready;
            }
        }
    }

    fn log(&self, object: &Value) -> String {
        let path = log::path(self.directory.path(), &PodRef::of(object), "main", 0);
        let lines = log::read(&path).unwrap_or_default();
        let text: Vec<u8> = lines.into_iter().flat_map(|line| line.text).collect();
        String::from_utf8_lossy(&text).into_owned()
    }

    async fn run(&mut self, object: &Value) -> (i32, String) {
        self.start(object);
        let (code, _, _) = self.end().await;
        (code, self.log(object))
    }

    async fn close(self) {
        timeout(PATIENCE, self.runner.end()).await.expect("in time");
    }
}

#[tokio::test]
async fn a_program_sees_its_own_host_name_processes_and_directories() {
    let mut world = world("sees", isolation());
    let script = "hostname; echo pids $(ls /proc | grep -c '^[0-9]'); echo $TMPDIR; touch $TMPDIR/x; \
                  getent hosts w1.job.default.svc; cat /etc/mpi/hostfile; ls -l /dev/null | cut -c1; \
                  echo 42 >/dev/termination-log; exit 3";
    let object = pod(
        "w1",
        json!({
            "hostname": "w1", "subdomain": "job",
            "volumes": [{"name": "cfg", "configMap": {"name": "hosts"}}],
            "containers": [{
                "name": "main", "command": ["sh", "-c", script],
                "volumeMounts": [{"name": "cfg", "mountPath": "/etc/mpi"}],
            }],
        }),
    );
    let hosts = json!({"data": {"hostfile": "w1 slots=1\n"}});
    world
        .books
        .lock()
        .unwrap()
        .insert("ConfigMap/hosts".to_owned(), hosts);
    world.start(&object);
    let (code, signal, message) = world.end().await;
    let log = world.log(&object);
    assert_eq!((code, signal, message.as_str()), (3, None, "42\n"), "{log}");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!(lines[0], "w1", "{log}");
    let pids: u32 = lines[1].trim_start_matches("pids ").parse().unwrap();
    assert!(pids < 10, "{log}");
    assert_eq!(lines[2], launch::TEMPORARY, "{log}");
    assert!(lines[3].starts_with("127."), "{log}");
    assert_eq!(lines[4..], ["w1 slots=1", "c"], "{log}");
    assert!(!std::path::Path::new("/etc/mpi").exists());
    world.close().await;
}

#[tokio::test]
async fn modes_sub_paths_and_updates_of_volumes_are_as_on_a_cluster() {
    let mut world = world("volumes", isolation());
    let script = "stat -Lc %a /s/key /s/deep/b /one; cat /one; cat /pod/hosts; \
                  echo ready >/shared/flag; \
                  until grep -q two /pod/hosts; do sleep 0.05; done; cat /pod/hosts; \
                  touch /s/new 2>/dev/null || echo read-only";
    let mut object = pod(
        "v",
        json!({
            "volumes": [
                {"name": "s", "secret": {"secretName": "keys", "defaultMode": 0o400, "items": [
                    {"key": "a", "path": "key"}, {"key": "b", "path": "deep/b", "mode": 0o444},
                    {"key": "b", "path": "again"}]}},
                {"name": "d", "downwardAPI": {"items": [{"path": "hosts",
                    "fieldRef": {"fieldPath": "metadata.annotations['muster.dev/hosts']"}}]}},
                {"name": "e", "emptyDir": {}},
            ],
            "containers": [{
                "name": "main", "command": ["sh", "-c", script],
                "volumeMounts": [
                    {"name": "s", "mountPath": "/s", "readOnly": true},
                    {"name": "s", "mountPath": "/one", "subPath": "deep/b"},
                    {"name": "d", "mountPath": "/pod"},
                    {"name": "e", "mountPath": "/shared"},
                ],
            }],
        }),
    );
    object["metadata"]["annotations"] = json!({"muster.dev/hosts": "one\n"});
    let keys = json!({"data": {"a": "QQ==", "b": "QgoK"}});
    world
        .books
        .lock()
        .unwrap()
        .insert("Secret/keys".to_owned(), keys);
    world.start(&object);
    let flag = world.directory.path().join("pods/uid-v/volumes/e/flag");
    let since = Instant::now();
    while !flag.exists() {
        assert!(since.elapsed() < PATIENCE, "{}", world.log(&object));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    object["metadata"]["annotations"]["muster.dev/hosts"] = "two\n".into();
    let pod = PodRef::of(&object);
    world.runner.apply(Order::Refresh {
        pod,
        object: object.clone().into(),
    });
    let (code, ..) = world.end().await;
    let log = world.log(&object);
    assert_eq!(code, 0, "{log}");
    assert_eq!(log, "400\n444\n444\nB\n\none\ntwo\nread-only\n");
    world.close().await;
}

#[tokio::test]
async fn what_cannot_be_found_ends_as_a_shell_would_end() {
    let mut world = world("missing", isolation());
    let missing = pod(
        "m",
        json!({"containers": [{"name": "main", "command": ["no-such-mpirun"]}]}),
    );
    let (code, log) = world.run(&missing).await;
    assert_eq!(code, 127);
    assert!(log.contains("no-such-mpirun is not in PATH="), "{log}");
    let file = pod(
        "f",
        json!({"containers": [{"name": "main", "command": ["/etc/passwd"]}]}),
    );
    let (code, log) = world.run(&file).await;
    assert_eq!(
        (code, log.as_str()),
        (126, "muster: /etc/passwd may not be executed\n")
    );
    let directory = pod(
        "d",
        json!({"containers": [{"name": "main", "command": ["true"], "workingDir": "/no/such"}]}),
    );
    let (code, log) = world.run(&directory).await;
    assert_eq!(code, 127);
    assert!(
        log.contains("working directory /no/such does not exist"),
        "{log}"
    );
    world.close().await;
}

#[tokio::test]
async fn a_missing_config_map_is_a_reason_to_try_again() {
    let mut world = world("config", isolation());
    let object = pod(
        "c",
        json!({
            "volumes": [{"name": "v", "configMap": {"name": "none"}}],
            "containers": [{"name": "main", "command": ["true"]}],
        }),
    );
    let pod = PodRef::of(&object);
    let object = object.into();
    world.runner.apply(Order::Place { pod, object });
    match world.next().await {
        PodReport::CannotStart {
            reason,
            message,
            retry,
            ..
        } => {
            assert_eq!((reason.as_str(), retry), ("FailedMount", true));
            assert_eq!(message, "ConfigMap \"none\" not found");
        }
        other => panic!("{other:?}"),
    }
    world.close().await;
}

#[tokio::test]
async fn the_grace_is_given_and_then_everything_dies() {
    let mut world = world("stop", isolation());
    let polite = pod(
        "p",
        shell("trap 'echo bye; exit 7' TERM; echo up; while :; do sleep 0.05; done"),
    );
    let rude = pod(
        "r",
        shell(&format!(
            "trap '' TERM; setsid sleep {} & echo up; while :; do sleep 0.05; done",
            long(1000)
        )),
    );
    for (object, grace_secs, expected) in [(&polite, 30, 7), (&rude, 1, 137)] {
        world.start(object);
        let since = Instant::now();
        while !world.log(object).contains("up") {
            assert!(since.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let stopped = Instant::now();
        world.runner.apply(Order::Stop {
            pod: PodRef::of(object),
            container: "main".to_owned(),
            grace_secs,
        });
        let (code, ..) = world.end().await;
        assert_eq!(code, expected, "{}", world.log(object));
        assert!(stopped.elapsed() < Duration::from_secs(10));
    }
    assert!(world.log(&polite).ends_with("bye\n"));
    world.close().await;
    assert_eq!(sleepers(&long(1000)), 0);
}

#[tokio::test]
async fn daemons_that_a_program_forks_end_with_it() {
    for isolation in [isolation(), Isolation::Bare] {
        let mut world = world(&format!("daemon-{}", isolation.as_str()), isolation);
        let daemon = format!("setsid sh -c 'exec sleep {}'", long(54321));
        let script = format!("({daemon} </dev/null >/dev/null 2>&1 &) ; sleep 0.2; echo done");
        let object = pod("d", shell(&script));
        let (code, log) = world.run(&object).await;
        assert_eq!((code, log.as_str()), (0, "done\n"));
        assert_eq!(sleepers(&long(54321)), 0);
        world.close().await;
    }
}

#[tokio::test]
async fn a_runner_that_goes_away_takes_its_containers_along() {
    for isolation in [isolation(), Isolation::Bare] {
        let mut world = world(&format!("gone-{}", isolation.as_str()), isolation);
        let time = long(65432);
        let object = pod("g", shell(&format!("sleep {time} & exec sleep {time}")));
        world.start(&object);
        loop {
            if matches!(world.next().await, PodReport::Started { .. }) {
                break;
            }
        }
        drop(world.runner);
        let since = Instant::now();
        while sleepers(&time) > 0 {
            assert!(since.elapsed() < PATIENCE);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn probes_ask_by_command_and_by_port() {
    let mut world = world("probes", isolation());
    let mut spec = shell("sleep 300");
    spec["containers"][0]["readinessProbe"] = json!({
        "exec": {"command": ["sh", "-c", "test -e $TMPDIR/up"]},
        "periodSeconds": 1, "timeoutSeconds": 20, "failureThreshold": 1,
    });
    let object = pod("p", spec);
    world.start(&object);
    let up = world.directory.path().join("pods/uid-p/tmp/up");
    fs::write(&up, "").unwrap();
    assert!(world.ready("p").await);
    fs::remove_file(&up).unwrap();
    assert!(!world.ready("p").await);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut spec = shell("sleep 300");
    spec["containers"][0]["startupProbe"] =
        json!({"tcpSocket": {"host": "127.0.0.1", "port": port}, "timeoutSeconds": 20});
    world.start(&pod("t", spec));
    assert!(world.ready("t").await);
    world.close().await;
}

#[tokio::test]
async fn without_namespaces_volumes_are_reached_through_words_and_variables() {
    let mut world = world("bare", Isolation::Bare);
    let object = pod(
        "b",
        json!({
            "volumes": [{"name": "cfg", "configMap": {"name": "c"}}],
            "containers": [{
                "name": "main",
                "command": ["sh", "-c", "cat $FILE /etc/mpi-of-test/a; echo bye >/dev/termination-log"],
                "env": [{"name": "FILE", "value": "/etc/mpi-of-test/a"}],
                "volumeMounts": [{"name": "cfg", "mountPath": "/etc/mpi-of-test"}],
            }],
        }),
    );
    let config_map = json!({"data": {"a": "here\n"}});
    world
        .books
        .lock()
        .unwrap()
        .insert("ConfigMap/c".to_owned(), config_map);
    world.start(&object);
    let (code, _, message) = world.end().await;
    let log = world.log(&object);
    assert_eq!(
        (code, message.as_str(), log.as_str()),
        (0, "bye\n", "here\nhere\n")
    );
    world.close().await;
}

/// A time to sleep that no other program on this machine has: of these seconds.
fn long(secs: u32) -> String {
    format!("{secs}.{}", std::process::id())
}

/// Processes that sleep this long.
fn sleepers(time: &str) -> usize {
    let words = format!("sleep\0{time}\0");
    let entries = fs::read_dir("/proc").unwrap().flatten();
    let lines = entries.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| line.starts_with(words.as_bytes()))
        .count()
}
