//! The same commands for jobs of every dialect: `run FILE -- COMMAND`, `get`, `why`, `logs`, `cancel`.

use serde_json::{Value, json};

use crate::kubectl::Up;
use crate::world::{World, lines};

fn template(container: &str) -> Value {
    json!({"spec": {"containers": [{"name": container, "image": "any"}]}})
}

/// A job that fails unless its command is replaced.
fn job(version: &str, spec: &Value) -> String {
    let name = "hello";
    json!({"apiVersion": version, "kind": "MPIJob", "metadata": {"name": name}, "spec": spec})
        .to_string()
}

fn v1() -> String {
    let mut launcher = template("mpi");
    launcher["spec"]["containers"][0]["command"] = json!(["false"]);
    // `echo` is no MPI program, so no worker takes part. No gang scheduler is here, and none is needed.
    let spec = json!({"muster": {"census": "Off", "gang": "Native"}, "mpiReplicaSpecs": {
        "Launcher": {"replicas": 1, "template": launcher},
        "Worker": {"replicas": 1, "template": template("mpi")}}});
    job("kubeflow.org/v1", &spec)
}

fn t9k(muster: &Value) -> String {
    let spec = json!({"muster": muster, "worker": {"replicas": 2, "cmd": ["false"],
        "extraMPIArgs": ["--allow-run-as-root"], "template": template("mpi-worker")}});
    job("batch.tensorstack.dev/v1beta1", &spec)
}

fn bdap() -> String {
    let spec = json!({"numWorkers": 2, "launcherTemplate": template("l"),
        "workerTemplate": template("w")});
    job("batch.test.bdap.com/v1", &spec)
}

#[test]
fn the_given_command_runs_and_its_output_is_seen() {
    for (name, text, expected) in [
        ("v1", v1(), vec!["hello $HOME"]),
        (
            "t9k",
            t9k(&json!({"transport": "Agent"})),
            vec!["hello $HOME"; 2],
        ),
    ] {
        let world = World::new(&format!("command-{name}"));
        let file = world.file("job.yaml", &text);
        let run = world.run(&["run", &file, "--", "echo", "hello $HOME"]);
        assert_eq!(run.code, 0, "{name}: {}{}", run.stdout, run.stderr);
        assert_eq!(lines(&run.stdout), expected, "{name}: {}", run.stderr);
        let logs = world.run(&["logs", "@last"]);
        assert_eq!(lines(&logs.stdout), expected, "{name}: {}", logs.stderr);
        assert!(world.processes().is_empty(), "{:?}", world.processes());
    }
}

#[test]
fn a_job_that_needs_an_api_server_for_its_ranks_is_refused_before_anything_else() {
    let world = World::new("command-bdap");
    // The file is wrong as well, but correcting it would not help.
    let text = bdap().replace("numWorkers", "numWorker");
    let run = world.run(&["run", &world.file("job.yaml", &text), "--", "true"]);
    assert_eq!(run.code, 120, "{}", run.stderr);
    let start = "error[TransportNotHere]: hello of batch.test.bdap.com/v1 cannot run locally";
    assert!(run.stderr.starts_with(start), "{}", run.stderr);
    assert!(run.stderr.contains("  do: "), "{}", run.stderr);
}

#[test]
fn jobs_of_all_dialects_are_listed_explained_and_cancelled() {
    let up = Up::start("dialects");
    for group in ["batch.tensorstack.dev", "batch.test.bdap.com"] {
        let crds = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/crds");
        up.ok(&["apply", "-f", &format!("{crds}/{group}_mpijobs.yaml")]);
    }
    let mut paused: Value = serde_json::from_str(&t9k(&json!({}))).unwrap();
    paused["spec"]["runMode"] = json!({"pause": {"enabled": true}});
    let mut suspended: Value = serde_json::from_str(&v1()).unwrap();
    suspended["spec"]["runPolicy"] = json!({"suspend": true});
    let component = json!({"apiVersion": "muster.dev/v1alpha1", "kind": "OpenMPI",
        "metadata": {"name": "hello"}, "spec": {"image": "any", "secret": "absent", "workers": 1}});
    let jobs = [
        paused.to_string(),
        suspended.to_string(),
        bdap(),
        component.to_string(),
    ];
    let types = [
        "mpijob.batch.tensorstack.dev",
        "mpijob.kubeflow.org",
        "mpijob.batch.test.bdap.com",
        "openmpi.muster.dev",
    ];
    for text in jobs {
        let file = up.world.file("job.yaml", &text);
        let submit = up.world.run(&["submit", "--local", &file]);
        assert_eq!(submit.code, 0, "{}", submit.stderr);
    }
    for (kind, patch) in [
        (
            types[0],
            r#"'{"spec":{"runMode":{"pause":{"enabled":false}}}}'"#,
        ),
        (types[1], r#"'{"spec":{"runPolicy":{"suspend":false}}}'"#),
    ] {
        let name = format!("{kind}/hello");
        let phase = "--for=jsonpath={.status.muster.phase}=Suspended";
        up.ok(&["wait", &name, phase, "--timeout=60s"]);
        let why = up.world.run(&["why", "--local", &name]);
        assert!(
            why.stdout.contains("is suspended"),
            "{kind}: {}",
            why.stdout
        );
        assert!(why.stdout.contains(patch), "{kind}: {}", why.stdout);
    }
    let listed = up.world.run(&["get", "--local", "-o", "name"]);
    let mut names: Vec<&str> = listed.stdout.lines().collect();
    names.sort_unstable();
    let mut expected = types.map(|kind| format!("{kind}/hello"));
    expected.sort_unstable();
    assert_eq!(names, expected, "{}", listed.stderr);
    for kind in types {
        let cancel = up
            .world
            .run(&["cancel", "--local", &format!("{kind}/hello")]);
        assert_eq!(
            cancel.stdout,
            format!("{kind}/hello deleted\n"),
            "{}",
            cancel.stderr
        );
    }
    up.down();
}
