//! `muster run FILE -- COMMAND` for every dialect: the words reach the launcher's container as they
//! were typed, whatever field the dialect keeps its command in.

use dialects::{Dialect, RESOURCES};
use serde_json::{Value, json};

fn row(name: &str) -> &'static Dialect {
    let mut rows = RESOURCES.iter().flat_map(|resource| resource.dialects);
    rows.find(|row| row.name == name).expect(name)
}

/// The smallest valid job of a dialect, more than one where the dialect has several shapes.
fn jobs(dialect: &str) -> Vec<Value> {
    let template = |name: &str| {
        json!({"spec": {"containers": [
            {"name": name, "image": "i", "command": ["old"], "args": ["older"]}]}})
    };
    let specs = match dialect {
        "v2beta1" | "v1" => vec![json!({"mpiReplicaSpecs": {
            "Launcher": {"template": template("mpi")},
            "Worker": {"replicas": 1, "template": template("mpi")}}})],
        "t9k" => vec![
            json!({"worker": {"replicas": 1, "cmd": ["old"], "template": template("mpi-worker")}}),
            json!({"mpiConfig": {"script": ["old"]}, "replicaSpecs": [
                {"type": "worker", "replicas": 1, "restartPolicy": {"policy": "Never"},
                    "template": template("worker")}]}),
            json!({"mpiConfig": {"script": ["old"]}, "replicaSpecs": [
                {"type": "worker", "replicas": 1, "restartPolicy": {"policy": "Never"},
                    "template": template("worker")},
                {"type": "launcher", "restartPolicy": {"policy": "Never"},
                    "template": template("own")}]}),
        ],
        "bdap" => vec![json!({"numWorkers": 1, "launcherTemplate": template("l"),
            "workerTemplate": template("w")})],
        "openmpi" => vec![json!({"image": "i", "secret": "s", "workers": 1, "exec": "old"})],
        other => panic!("write a job of dialect {other} here"),
    };
    let metadata = json!({"name": "pi", "namespace": "n", "uid": "u"});
    let job = |spec| json!({"metadata": metadata, "spec": spec});
    specs.into_iter().map(job).collect()
}

fn launcher_words(dialect: &Dialect, job: &Value) -> Vec<String> {
    let lowered = (dialect.lower)(job).unwrap_or_else(|errors| panic!("{errors:?}"));
    let container = &lowered.launcher.role.template["spec"]["containers"][0];
    let lists = ["command", "args"].map(|list| container[list].as_array().cloned());
    let words = lists.into_iter().flatten().flatten();
    words
        .filter_map(|word| Some(word.as_str()?.to_owned()))
        .collect()
}

#[test]
fn every_dialect_runs_the_command_that_it_is_given_and_not_its_own() {
    let typed = ["prog", "it's $(HOME)"].map(str::to_owned);
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        for mut job in jobs(dialect.name) {
            assert!((dialect.set_command)(&mut job, &typed), "{}", dialect.name);
            let words = launcher_words(dialect, &job);
            assert!(!words.contains(&"old".to_owned()), "{job} {words:?}");
            // As the kubelet passes it on: two dollars are one.
            match dialect.name {
                "openmpi" => {
                    assert_eq!(words[4], r"'prog' 'it'\''s $$(HOME)'", "{words:?}");
                }
                _ => assert!(words.ends_with(&["prog".to_owned(), "it's $$(HOME)".to_owned()])),
            }
        }
    }
}

#[test]
fn a_job_without_a_launcher_is_left_as_it_is() {
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        for mut job in [json!(null), json!({}), json!({"spec": 3})] {
            let before = job.clone();
            assert!(!(dialect.set_command)(&mut job, &["prog".to_owned()]));
            (dialect.set_no_retries)(&mut job);
            assert_eq!(job, before, "{}", dialect.name);
        }
    }
}

#[test]
fn the_field_that_suspends_suspends() {
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        let Some(field) = dialect.suspend_field else {
            continue;
        };
        let mut job = jobs(dialect.name).remove(0);
        for (suspended, value) in [(true, true), (false, false)] {
            let place = field.split('.').fold(&mut job, |at, step| &mut at[step]);
            *place = value.into();
            let lowered = (dialect.lower)(&job).unwrap();
            assert_eq!(lowered.lifecycle.suspended, suspended, "{}", dialect.name);
        }
    }
}

#[test]
fn only_what_the_job_does_not_say_itself_keeps_it_from_being_retried() {
    let mut job = jobs("v2beta1").remove(0);
    let set = (row("v2beta1").set_no_retries)(&mut job);
    assert_eq!(set, ["backoffLimit: 0", "restartPolicy: Never"]);
    assert_eq!(
        (row("v2beta1").set_no_retries)(&mut job),
        Vec::<&str>::new()
    );
}

#[test]
fn the_launcher_s_pod_is_found_by_the_role_in_the_row() {
    for dialect in RESOURCES.iter().flat_map(|resource| resource.dialects) {
        let lowered = (dialect.lower)(&jobs(dialect.name)[0]).unwrap();
        let own = lowered
            .launcher
            .role
            .labels
            .get("training.kubeflow.org/job-role");
        let role = own.map_or("launcher", String::as_str);
        assert_eq!(role, dialect.launcher_role, "{}", dialect.name);
        assert!(dialects::is_launcher_role(role));
    }
    assert!(!dialects::is_launcher_role("worker"));
}
