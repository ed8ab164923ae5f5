//! `muster up` for the real kubectl: everything that people type first.

use std::process::Command;

use crate::world::{Ended, World, ended, hello, lines, until};

pub(crate) struct Up {
    pub(crate) world: World,
    kubeconfig: String,
}

impl Up {
    pub(crate) fn start(name: &str) -> Self {
        let world = World::new(name);
        let up = world.run(&["up"]);
        assert_eq!(up.code, 0, "{}", up.stderr);
        let line = up.stdout.trim();
        let kubeconfig = line.strip_prefix("export KUBECONFIG=").unwrap().to_owned();
        Self { world, kubeconfig }
    }

    fn kubectl(&self, words: &[&str]) -> Ended {
        let mut command = Command::new("kubectl");
        command.args(words);
        self.world.surround(&mut command);
        command.env("KUBECONFIG", &self.kubeconfig);
        ended(command)
    }

    pub(crate) fn ok(&self, words: &[&str]) -> String {
        let run = self.kubectl(words);
        assert_eq!(
            run.code, 0,
            "kubectl {words:?}: {}{}",
            run.stdout, run.stderr
        );
        run.stdout
    }

    fn wait(&self) -> String {
        self.ok(&[
            "wait",
            "mpijob/hello",
            "--for=jsonpath={.status.muster.finished}=true",
            "--timeout=60s",
        ])
    }

    pub(crate) fn down(self) {
        let down = self.world.run(&["down"]);
        assert_eq!(down.code, 0, "{}", down.stderr);
        assert!(
            self.world.processes().is_empty(),
            "{:?}",
            self.world.processes()
        );
    }
}

#[test]
fn apply_get_describe_logs_wait_and_delete() {
    let up = Up::start("kubectl");
    let file = up.world.file("job.yaml", &hello(2, 1, "hostname"));
    assert!(up.ok(&["apply", "-f", &file]).contains("created"));
    up.wait();
    let table = up.ok(&["get", "mpijobs"]);
    assert!(table.contains("Succeeded"), "{table}");
    let age = "-o=jsonpath={.items[0].metadata.creationTimestamp}";
    let made: jiff::Timestamp = up.ok(&["get", "nodes", age]).parse().unwrap();
    let age = jiff::Timestamp::now().duration_since(made);
    assert!(age.as_hours() < 1, "the node was created {age:#} ago");
    let pods = up.ok(&["get", "pods", "-o", "wide"]);
    assert!(pods.contains("hello-worker-1"), "{pods}");
    let log = up.ok(&["logs", "job/hello-launcher"]);
    let mut hosts = lines(&log);
    hosts.sort_unstable();
    assert_eq!(hosts, ["hello-worker-0", "hello-worker-1"], "{log}");
    let described = up.ok(&["describe", "mpijob", "hello"]);
    assert!(described.contains("MPIJobSucceeded"), "{described}");
    assert!(
        up.ok(&["apply", "--server-side", "--force-conflicts", "-f", &file])
            .contains("applied")
    );
    assert!(up.ok(&["delete", "mpijob", "hello"]).contains("deleted"));
    // The garbage collector deletes them in the background.
    until("the pods are deleted", || {
        up.ok(&["get", "pods"]).is_empty()
    });
    up.down();
}

#[test]
fn a_suspended_job_is_resumed_and_the_same_verbs_work() {
    let up = Up::start("suspend");
    let text = hello(2, 1, "hostname").replace(
        "spec:\n  slots",
        "spec:\n  runPolicy: {suspend: true}\n  slots",
    );
    let file = up.world.file("job.yaml", &text);
    let submit = up.world.run(&["submit", "--local", &file]);
    assert_eq!(
        submit.stdout, "mpijob.kubeflow.org/hello created\n",
        "{}",
        submit.stderr
    );
    up.ok(&[
        "wait",
        "mpijob/hello",
        "--for=condition=Suspended",
        "--timeout=60s",
    ]);
    assert_eq!(up.ok(&["get", "pods"]), "");
    let why = up.world.run(&["why", "--local", "hello"]);
    assert!(why.stdout.contains("is suspended"), "{}", why.stdout);
    let resume = r#"{"spec":{"runPolicy":{"suspend":false}}}"#;
    up.ok(&[
        "patch", "mpijob", "hello", "--type", "merge", "--patch", resume,
    ]);
    let wait = up.world.run(&["wait", "--local", "hello"]);
    assert_eq!(wait.code, 0, "{}", wait.stderr);
    let logs = up.world.run(&["logs", "--local", "hello"]);
    assert_eq!(lines(&logs.stdout).len(), 2, "{}", logs.stderr);
    let cancel = up.world.run(&["cancel", "--local", "hello"]);
    assert_eq!(
        cancel.stdout, "mpijob.kubeflow.org/hello deleted\n",
        "{}",
        cancel.stderr
    );
    up.down();
}

#[test]
fn submit_follows_the_job_in_the_namespace_of_its_file() {
    let up = Up::start("namespace");
    let namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: lab\n";
    up.ok(&["apply", "-f", &up.world.file("lab.yaml", namespace)]);
    let text = hello(2, 1, "hostname").replace("metadata:\n", "metadata:\n  namespace: lab\n");
    let file = up.world.file("job.yaml", &text);
    let other = up
        .world
        .run(&["submit", "--local", "--namespace", "other", &file]);
    assert_eq!(other.code, 2, "{}", other.stderr);
    assert!(
        other.stderr.contains("metadata.namespace lab"),
        "{}",
        other.stderr
    );
    let submit = up.world.run(&["submit", "--local", "--wait", &file]);
    assert_eq!(submit.code, 0, "{}", submit.stderr);
    up.down();
}

#[test]
fn nobody_without_the_token_gets_anything() {
    use std::os::unix::fs::PermissionsExt as _;
    let up = Up::start("token");
    for path in ["state", "state/up", "state/up/kubeconfig"] {
        let mode = std::fs::metadata(up.world.directory.join(path))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o077, 0, "{path}");
    }
    let words = ["--token=wrong", "get", "namespaces"];
    let without = up.kubectl(&words);
    assert_ne!(without.code, 0);
    assert!(
        without.stderr.contains("Unauthorized") || without.stderr.contains("logged in"),
        "{}",
        without.stderr
    );
    let again = up.world.run(&["up"]);
    assert_eq!(
        again.code, 0,
        "a second up finds the first: {}",
        again.stderr
    );
    up.down();
}

#[test]
fn s17_the_line_for_the_shell_survives_any_path() {
    let world = World::new("quoted");
    let state = world.directory.join("it's $(touch evil) here");
    let script = r#"eval "$("$0" up)" && printf %s "$KUBECONFIG" && "$0" down"#;
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(world.binary());
    world.surround(&mut command);
    command.env("MUSTER_STATE_DIR", &state);
    let run = ended(command);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stdout, format!("{}/up/kubeconfig", state.display()));
    assert!(!world.directory.join("evil").exists());
}

#[test]
fn s17_strangers_are_few_and_do_not_stay() {
    use std::io::Read as _;
    let up = Up::start("strangers");
    let text = std::fs::read_to_string(&up.kubeconfig).unwrap();
    let (_, rest) = text.split_once("https://").unwrap();
    let address = rest.split_whitespace().next().unwrap();
    let connect = || std::net::TcpStream::connect(address).unwrap();
    // One more than may wait: none of them says anything.
    let mut silent: Vec<_> = (0..129).map(|_| connect()).collect();
    for stream in &mut silent {
        let limit = std::time::Duration::from_secs(60);
        stream.set_read_timeout(Some(limit)).unwrap();
        let closed = match stream.read(&mut [0; 1]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == std::io::ErrorKind::ConnectionReset,
        };
        assert!(closed, "a client without the token was kept");
    }
    assert!(up.ok(&["get", "nodes"]).contains("Ready"));
    up.down();
}
