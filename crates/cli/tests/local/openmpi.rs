//! The openmpi component on this machine: its sshd, keys and script, and the home directory of whoever
//! runs it left alone. Its parameters are listed and turned into a job by name.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};

use crate::world::World;

/// The component beside its Secret, with keys made as its quickstart makes them.
fn component(world: &World, exec: &str) -> String {
    let key = world.directory.join("id_rsa");
    let mut keygen = Command::new("ssh-keygen");
    let made = keygen
        .args(["-q", "-t", "rsa", "-N", "", "-f"])
        .arg(&key)
        .status();
    assert!(
        made.expect("ssh-keygen is missing: apt-get install openssh-client")
            .success()
    );
    let [private, public] = ["id_rsa", "id_rsa.pub"]
        .map(|name| fs::read_to_string(world.directory.join(name)).unwrap());
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"},
        "stringData": {"id_rsa": private, "id_rsa.pub": public, "authorized_keys": public}});
    let job = json!({"apiVersion": "muster.dev/v1alpha1", "kind": "OpenMPI",
        "metadata": {"name": "hello"},
        "spec": {"image": "any", "secret": "keys", "workers": 2, "initTimeout": 60, "exec": exec}});
    world.file("job.yaml", &format!("{secret}\n---\n{job}\n"))
}

fn own_keys() -> Option<Vec<u8>> {
    fs::read("/root/.ssh/id_rsa").ok()
}

#[test]
fn the_component_runs_here_with_sshd_and_touches_nobody_s_home() {
    assert!(
        fs::exists("/usr/sbin/sshd").unwrap_or_default(),
        "sshd is missing: apt-get install openssh-server"
    );
    let before = own_keys();
    let world = World::new("openmpi");
    let exec =
        "mpiexec -n 2 --hostfile /kubeflow/openmpi/assets/hostfile --allow-run-as-root hostname";
    let file = component(&world, exec);
    let run = world.run(&["run", &file]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    let mut hosts: Vec<&str> = run
        .stdout
        .lines()
        .filter(|line| line.starts_with("hello-"))
        .collect();
    hosts.sort_unstable();
    assert_eq!(
        hosts,
        ["hello-worker-0", "hello-worker-1"],
        "{}{}",
        run.stdout,
        run.stderr
    );
    let words = ["run", &file, "--", "echo", "it's $(id)"];
    let given = world.run(&words);
    assert!(
        given.stdout.contains("it's $(id)\n"),
        "{}{}",
        given.stdout,
        given.stderr
    );
    assert_eq!(
        own_keys(),
        before,
        "the key of whoever runs this was overwritten"
    );
    assert!(world.processes().is_empty(), "{:?}", world.processes());
}

#[test]
fn a3_the_parameters_are_listed_with_type_and_default() {
    let world = World::new("openmpi-fields");
    let fields = world.run(&["fields", "openmpi"]);
    assert_eq!(fields.code, 0, "{}", fields.stderr);
    for line in [
        "gpu  int-or-string  default 0",
        "cpu  int-or-string  default \"null\"",
        "memory  int-or-string  default \"null\"",
        "nodeSelector  string  default \"null\"",
        "initTimeout  int-or-string  default 300",
        "image  string",
        "secret  string",
        "volumes  list of object  default []",
    ] {
        assert!(fields.stdout.contains(line), "{line}: {}", fields.stdout);
    }
    let listed = world.run(&["fields", "openmpi", "--output", "json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        listed["fields"].as_object().map(serde_json::Map::len),
        Some(29)
    );
}

#[test]
fn the_quickstart_s_flags_make_the_quickstart_s_job() {
    let world = World::new("openmpi-generate");
    let exec = "mpiexec -n 4 sh -c 'echo \"hello world\"'";
    let words = [
        "generate",
        "openmpi",
        "openmpi",
        "--image",
        "i",
        "--secret",
        "s",
        "--workers",
        "4",
        "--gpu",
        "0",
        "--exec",
        exec,
        "--volumes",
        "[{\"name\": \"v\"}]",
        "-n",
        "kubeflow",
    ];
    let made = world.run(&words);
    assert_eq!(made.code, 0, "{}", made.stderr);
    let job: Value = serde_saphyr::from_str(&made.stdout).unwrap();
    let spec = json!({"image": "i", "secret": "s", "workers": 4, "gpu": 0, "exec": exec,
        "volumes": [{"name": "v"}]});
    assert_eq!(
        (&job["spec"], &job["metadata"]["namespace"]),
        (&spec, &json!("kubeflow"))
    );
    assert_eq!(job["kind"], "OpenMPI");
    let without = world.run(&["generate", "openmpi", "openmpi", "--image", "i"]);
    assert!(
        without.code != 0 && without.stderr.contains("--secret"),
        "{}",
        without.stderr
    );
}
