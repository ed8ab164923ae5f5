//! bdap's acceptance list, as far as it consists of facts about a job, its objects and its status. The
//! numbers are those of the list.

use dialects::bdap_v1::DIALECT;
use dialects::{Finding, Urgency};
use planner::fixtures::noon;
use planner::observed::{PodPhase, Slot};
use planner::site::GangApi;
use planner::{Job, Kind};
use serde_json::{Value, json};

use crate::driver::Scenario;

/// The seed's example.
fn seed() -> Value {
    json!({
        "apiVersion": "batch.test.bdap.com/v1",
        "kind": "MPIJob",
        "metadata": {"name": "simple-train-cpu", "namespace": "sw-mpi-operator", "uid": "u",
            "generation": 1},
        "spec": {
            "numWorkers": 5,
            "launcherTemplate": {"spec": {
                "containers": [{
                    "name": "horovod-master", "image": "farawaya/horovod-torch-cpu",
                    "command": ["/bin/sh", "-c"],
                    "args": ["horovodrun -np 2 --hostfile $OMPI_MCA_orte_default_hostfile python main.py"],
                }],
                "restartPolicy": "Never",
            }},
            "workerTemplate": {"spec": {"containers": [{
                "name": "horovod-worker", "image": "farawaya/horovod-torch-cpu",
                "command": ["/bin/sh", "-c"],
                "args": ["touch /ready.txt && sleep infinity"],
                "readinessProbe": {"exec": {"command": ["cat", "/ready.txt"]},
                    "initialDelaySeconds": 30, "periodSeconds": 5},
            }]}},
        },
    })
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut job = seed();
    change(&mut job);
    job
}

fn lowered(job: &Value) -> Job {
    crate::driver::lowered(&DIALECT, job)
}

fn refused(job: &Value) -> String {
    crate::driver::refused(&DIALECT, job)
}

fn ended(stored: Value, phase: PodPhase) -> Scenario {
    let mut scenario = Scenario::of(&DIALECT, stored).running();
    scenario.at(3).launcher_is(phase).reconcile();
    scenario
}

#[test]
fn a03_the_seed_is_accepted_as_it_is() {
    let job = lowered(&seed());
    assert_eq!(job.worker_count(), 5);
    assert_eq!(job.slots, 1);
    assert_eq!(job.launcher.kind.restart(), "Never");
}

#[test]
fn a04_what_is_missing_is_named() {
    for field in ["numWorkers", "launcherTemplate", "workerTemplate"] {
        let job = with(|job| drop(job["spec"].as_object_mut().map(|spec| spec.remove(field))));
        let said = refused(&job);
        assert!(said.contains(&format!("spec.{field}")), "{said}");
        assert!(said.contains("Required value"), "{said}");
    }
}

#[test]
fn a05_the_workers_come_together_from_one_set() {
    let mut scenario = Scenario::of(&DIALECT, seed());
    scenario.reconcile();
    let set = scenario.made(Kind::StatefulSet)[0];
    assert_eq!(set["metadata"]["name"], "simple-train-cpu-worker");
    assert_eq!(set["spec"]["replicas"], 5);
    assert_eq!(set["spec"]["podManagementPolicy"], "Parallel");
    assert_eq!(set["spec"]["updateStrategy"]["type"], "RollingUpdate");
    assert_eq!(set["spec"]["serviceName"], "simple-train-cpu");
}

#[test]
fn a06_worker_containers_are_untouched() {
    let mut scenario = Scenario::of(&DIALECT, seed());
    scenario.reconcile();
    let template = &scenario.made(Kind::StatefulSet)[0]["spec"]["template"];
    assert_eq!(
        template["spec"]["containers"],
        seed()["spec"]["workerTemplate"]["spec"]["containers"]
    );
    let mut names: Vec<&String> = template["spec"]
        .as_object()
        .expect("a spec")
        .keys()
        .collect();
    names.sort();
    assert_eq!(names, ["containers", "restartPolicy"]);
    assert_eq!(template["spec"]["restartPolicy"], "Always");
}

#[test]
fn a07_and_a08_one_launcher_comes_when_all_workers_are_ready() {
    let mut scenario = Scenario::of(&DIALECT, seed());
    scenario.reconcile();
    scenario.workers_run();
    scenario.world.workers[4].ready = false;
    scenario.reconcile();
    assert_eq!(scenario.made(Kind::Pod).len(), 0);
    assert_eq!(scenario.status()["launcher"], "WaitingWorkers");
    scenario.world.workers[4].ready = true;
    scenario.reconcile();
    scenario.reconcile();
    let pods = scenario.made(Kind::Pod);
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["metadata"]["name"], "simple-train-cpu-launcher");
}

#[test]
fn a09_and_a10_the_host_list_and_the_script_are_where_they_were_promised() {
    let mut scenario = Scenario::of(&DIALECT, seed());
    scenario.reconcile();
    let config = scenario.made(Kind::ConfigMap)[0]["data"].clone();
    let lines: Vec<&str> = config["hostfile"].as_str().expect("text").lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4], "simple-train-cpu-worker-4 slots=1");
    let script = config["kubexec.sh"].as_str().expect("text");
    assert!(script.starts_with("#!/bin/sh\n"), "{script}");
    scenario.workers_run().reconcile();
    let env = scenario.made(Kind::Pod)[0]["spec"]["containers"][0]["env"].clone();
    let value = |name: &str| {
        let all = env.as_array().expect("variables").iter();
        let mut named = all.filter(|variable| variable["name"] == name);
        named.next_back().map(|variable| variable["value"].clone())
    };
    let hosts = value("OMPI_MCA_orte_default_hostfile");
    assert_eq!(hosts, Some("/etc/mpi/hostfile".into()));
    let agent = value("OMPI_MCA_plm_rsh_agent");
    assert_eq!(agent, Some("/etc/mpi/kubexec.sh".into()));
}

#[test]
fn a14_the_launcher_may_enter_its_own_workers_alone() {
    let mut scenario = Scenario::of(&DIALECT, with(|job| job["spec"]["numWorkers"] = 2.into()));
    scenario.reconcile();
    scenario.reconcile();
    let role = scenario.world.account.role.ours().expect("it was made");
    assert_eq!(
        role.rules,
        json!([
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": [""], "resources": ["pods/exec"], "verbs": ["get", "create"],
             "resourceNames": ["simple-train-cpu-worker-0", "simple-train-cpu-worker-1"]},
        ])
    );
    let names = [Kind::ServiceAccount, Kind::Role, Kind::RoleBinding];
    for kind in names {
        let name = &scenario.made(kind)[0]["metadata"]["name"];
        assert_eq!(name, "simple-train-cpu-launcher");
    }
    scenario.workers_run().reconcile();
    let account = &scenario.made(Kind::Pod)[0]["spec"]["serviceAccountName"];
    assert_eq!(account, "simple-train-cpu-launcher");
}

#[test]
fn a15_a_changed_worker_reaches_the_set_and_not_the_launcher() {
    let mut scenario = Scenario::of(&DIALECT, seed()).running();
    let before = scenario.world.worker_set.clone();
    scenario.stored["spec"]["workerTemplate"]["spec"]["containers"][0]["image"] = "other".into();
    scenario.reconcile();
    assert_ne!(scenario.world.worker_set, before);
    let Slot::Ours(set) = &scenario.world.worker_set else {
        panic!("the set is gone");
    };
    assert_eq!(set.template["spec"]["containers"][0]["image"], "other");
    assert_eq!(scenario.made(Kind::Pod).len(), 1);
}

#[test]
fn a16_a_changed_launcher_counts_when_its_pod_was_deleted() {
    let mut scenario = Scenario::of(&DIALECT, seed()).running();
    scenario.stored["spec"]["launcherTemplate"]["spec"]["containers"][0]["args"] = json!(["new"]);
    scenario.reconcile();
    assert_eq!(scenario.made(Kind::Pod).len(), 1, "it is left alone");
    scenario.world.launcher_pods.clear();
    scenario.reconcile();
    let pods = scenario.made(Kind::Pod);
    assert_eq!(pods.len(), 2);
    assert_eq!(pods[1]["spec"]["containers"][0]["args"], json!(["new"]));
}

#[test]
fn a17_set_hosts_and_rights_follow_the_number() {
    let mut scenario = Scenario::of(&DIALECT, seed()).running();
    for count in [3, 6] {
        scenario.stored["spec"]["numWorkers"] = count.into();
        scenario.reconcile();
        assert_eq!(scenario.world.workers.len(), count);
        let mut fresh = Scenario::of(&DIALECT, scenario.stored.clone());
        fresh.reconcile();
        let list = &fresh.made(Kind::ConfigMap)[0]["data"]["hostfile"];
        assert_eq!(list.as_str().map(|list| list.lines().count()), Some(count));
        let (now, new) = (&scenario.world.config, &fresh.world.config);
        assert_eq!(now, new, "the host list follows the number");
        let role = scenario.world.account.role.ours().expect("it exists");
        let names = role.rules[1]["resourceNames"].as_array();
        assert_eq!(names.map(Vec::len), Some(count));
    }
    assert_eq!(scenario.made(Kind::Pod).len(), 1, "the launcher runs on");
}

#[test]
fn a18_workers_outlive_a_launcher_that_succeeded() {
    let mut scenario = ended(seed(), PodPhase::Succeeded);
    assert_eq!(scenario.holds("Succeeded"), Some(true));
    assert_eq!(scenario.holds("Running"), Some(false));
    assert_eq!(scenario.status()["launcher"], "Succeeded");
    assert_eq!(scenario.status()["completionTime"], "2026-11-15T12:00:03Z");
    assert_eq!(scenario.status()["replicaStatuses"]["Worker"]["active"], 5);
    assert_eq!(scenario.world.workers.len(), 5);
    assert_eq!(scenario.status()["muster"]["phase"], "Succeeded");

    // Another launcher takes it back.
    scenario.world.launcher_pods.clear();
    scenario.at(10).reconcile();
    assert_eq!(scenario.holds("Succeeded"), Some(false));
    assert_eq!(scenario.status().get("completionTime"), None);
    assert_eq!(scenario.status()["launcher"], "Pending");
    scenario.at(12).launcher_is(PodPhase::Running).reconcile();
    assert_eq!(scenario.holds("Running"), Some(true));
    let report = scenario.at(20).launcher_is(PodPhase::Succeeded).reconcile();
    assert_eq!(scenario.status()["completionTime"], "2026-11-15T12:00:20Z");
    assert_eq!(report.events.len(), 1, "{report:?}");
}

#[test]
fn workers_go_with_the_launcher_where_the_job_says_so() {
    let policy = with(|job| job["spec"]["muster"] = json!({"cleanPodPolicy": "Running"}));
    let scenario = ended(policy, PodPhase::Succeeded);
    assert_eq!(scenario.world.workers.len(), 0);
    assert_eq!(scenario.holds("Succeeded"), Some(true));
}

#[test]
fn a_launcher_that_failed_says_how_and_the_status_does_not_wander() {
    let mut scenario = Scenario::of(&DIALECT, seed()).running();
    scenario.at(3).launcher_exits(3, "").reconcile();
    assert_eq!(scenario.holds("Failed"), Some(true));
    let before = scenario.status().clone();
    assert_eq!(before["muster"]["reason"], "CommandFailed");
    let said = before["muster"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("exited with 3"), "{said}");
    scenario.at(500).reconcile();
    assert_eq!(*scenario.status(), before);
}

#[test]
fn a20_a_new_operator_changes_nothing() {
    let mut scenario = Scenario::of(&DIALECT, seed()).running();
    let before = scenario.created.len();
    let report = scenario.at(60).reconcile();
    assert_eq!(scenario.created.len(), before);
    assert_eq!(report.urgency, Urgency::Unchanged);
    assert!(planner::plan(&scenario.world).steps.is_empty());
}

#[test]
fn a21_gang_label_and_scheduler_reach_the_workers_and_not_the_launcher() {
    let label = "pod-group.scheduling.bdap.com/podgroup-configmap";
    let gang = with(|job| {
        let worker = &mut job["spec"]["workerTemplate"];
        worker["metadata"] = json!({"labels": {(label): "gpu-pg"}});
        worker["spec"]["schedulerName"] = "gang-scheduler".into();
    });
    let mut scenario = Scenario::of(&DIALECT, gang);
    scenario.world.site.gang = Some(planner::site::GangScheduler::Volcano);
    scenario.reconcile();
    let template = scenario.made(Kind::StatefulSet)[0]["spec"]["template"].clone();
    assert_eq!(template["metadata"]["labels"][label], "gpu-pg");
    assert_eq!(template["spec"]["schedulerName"], "gang-scheduler");
    scenario.workers_run().reconcile();
    let launcher = scenario.made(Kind::Pod)[0];
    assert_eq!(launcher["metadata"]["labels"].get(label), None);
    assert_eq!(launcher["spec"].get("schedulerName"), None);
    assert_eq!(scenario.made(Kind::PodGroup(GangApi::Volcano)).len(), 0);
}

#[test]
fn a22_the_status_counts_workers_and_follows_the_launcher() {
    let mut scenario = Scenario::of(&DIALECT, seed());
    let report = scenario.reconcile();
    let reasons: Vec<&str> = report.events.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!(reasons, ["MPIJobCreated"]);
    assert_eq!(scenario.status()["readyWorkers"], 0);
    assert_eq!(scenario.status()["workers"], 5);
    scenario.world.workers[0].phase = PodPhase::Running;
    scenario.world.workers[0].ready = true;
    let report = scenario.reconcile();
    assert_eq!(scenario.status()["readyWorkers"], 1);
    assert_eq!(scenario.status()["muster"]["ready"], "1/5");
    assert_eq!(report.urgency, Urgency::Progress);
    let scenario = scenario.running();
    assert_eq!(scenario.status()["launcher"], "Running");
    assert_eq!(scenario.holds("Created"), Some(true));
    assert_eq!(scenario.holds("Running"), Some(true));
    for count in [json!(0), json!(-1), json!(10_001), json!("5"), json!(1.5)] {
        let said = refused(&with(|job| job["spec"]["numWorkers"] = count.clone()));
        assert!(said.contains("spec.numWorkers"), "{count}: {said}");
    }
}

#[test]
fn a23_the_gpu_sample_passes_through() {
    let gpu = with(|job| {
        let spec = &mut job["spec"]["workerTemplate"]["spec"];
        spec["containers"][0]["resources"] = json!({"limits": {"nvidia.com/gpu": 1}});
        spec["tolerations"] = json!([{"key": "gpu", "operator": "Exists"}]);
    });
    let mut scenario = Scenario::of(&DIALECT, gpu);
    scenario.reconcile();
    let spec = scenario.made(Kind::StatefulSet)[0]["spec"]["template"]["spec"].clone();
    let limits = &spec["containers"][0]["resources"]["limits"];
    assert_eq!(limits["nvidia.com/gpu"], 1);
    assert_eq!(spec["tolerations"][0]["key"], "gpu");
    scenario.workers_run().reconcile();
    let launcher = &scenario.made(Kind::Pod)[0]["spec"];
    assert_eq!(launcher.get("tolerations"), None);
    assert_eq!(launcher["containers"][0].get("resources"), None);
}

#[test]
fn q02_and_q03_restart_policies_that_surprise_are_announced() {
    let surprising = with(|job| {
        let spec = job["spec"]["launcherTemplate"]["spec"].as_object_mut();
        spec.map(|spec| spec.remove("restartPolicy"));
        job["spec"]["workerTemplate"]["spec"]["restartPolicy"] = "Never".into();
    });
    let mut scenario = Scenario::of(&DIALECT, surprising);
    let report = scenario.reconcile();
    let warned: Vec<&str> = report
        .events
        .iter()
        .filter(|event| event.warning)
        .map(|event| event.reason.as_str())
        .collect();
    assert_eq!(warned, ["LauncherNeverEnds", "SetPodTemplateRestartPolicy"]);
    scenario.workers_run().reconcile();
    assert_eq!(
        scenario.made(Kind::Pod)[0]["spec"]["restartPolicy"],
        "Always"
    );
}

/// What the job's launcher may enter.
fn enterable(scenario: &Scenario) -> Vec<&str> {
    let role = scenario.world.account.role.ours().expect("it was made");
    let rules = role.rules.as_array().expect("rules").iter();
    let names = rules.filter_map(|rule| rule["resourceNames"].as_array());
    names.flatten().filter_map(|name| name.as_str()).collect()
}

/// The controller does not see a pod without our labels, so nothing tells the planner that
/// somebody else took the name of a worker that is gone.
#[test]
fn s04_a_worker_that_is_gone_may_not_be_entered_by_its_name() {
    let job = with(|job| job["spec"]["numWorkers"] = 3.into());
    let mut scenario = Scenario::of(&DIALECT, job).running();
    let gone = scenario.world.workers.remove(1);
    assert_eq!(scenario.world.foreign_pods, Vec::<String>::new());
    scenario.reconcile();
    assert_eq!(
        enterable(&scenario),
        ["simple-train-cpu-worker-0", "simple-train-cpu-worker-2"]
    );

    // Its successor may be entered, whatever became of the others.
    scenario.world.workers.remove(0);
    scenario.world.workers.push(gone);
    scenario.reconcile();
    assert_eq!(
        enterable(&scenario),
        ["simple-train-cpu-worker-1", "simple-train-cpu-worker-2"]
    );
    scenario.world.workers.clear();
    scenario.reconcile();
    assert_eq!(enterable(&scenario), Vec::<&str>::new());
}

#[test]
fn s02_no_account_that_a_user_names_gets_rights() {
    for field in ["serviceAccountName", "serviceAccount"] {
        let job = with(|job| job["spec"]["launcherTemplate"]["spec"][field] = "default".into());
        let mut scenario = Scenario::of(&DIALECT, job);
        let report = scenario.reconcile();
        let warning = report.events.iter().find(|event| event.warning);
        let warning = warning.expect("it is told");
        assert_eq!(warning.reason, "SetPodTemplateServiceAccount");
        scenario.reconcile();
        let own = "simple-train-cpu-launcher";
        assert_eq!(
            scenario.made(Kind::ServiceAccount)[0]["metadata"]["name"],
            own
        );
        let subjects = &scenario.made(Kind::RoleBinding)[0]["subjects"];
        assert_eq!(subjects.as_array().map(Vec::len), Some(1));
        assert_eq!(subjects[0]["name"], own);
        scenario.workers_run().reconcile();
        let launcher = &scenario.made(Kind::Pod)[0]["spec"];
        assert_eq!(launcher["serviceAccountName"], own);
        assert_eq!(launcher.get("serviceAccount"), None);
    }
}

#[test]
fn q05_both_templates_keep_their_metadata() {
    let metadata = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}});
    let job = with(|job| {
        job["spec"]["launcherTemplate"]["metadata"] = metadata.clone();
        job["spec"]["workerTemplate"]["metadata"] = metadata.clone();
    });
    let mut scenario = Scenario::of(&DIALECT, job);
    scenario.reconcile();
    scenario.workers_run().reconcile();
    let set = &scenario.made(Kind::StatefulSet)[0]["spec"]["template"]["metadata"];
    let launcher = &scenario.made(Kind::Pod)[0]["metadata"];
    for kept in [set, launcher] {
        assert_eq!(kept["labels"]["team"], "a");
        assert_eq!(kept["annotations"]["note"], "b");
    }
}

#[test]
fn q08_a_set_of_somebody_else_is_a_condition_and_an_event() {
    let mut scenario = Scenario::of(&DIALECT, seed());
    scenario.world.worker_set = Slot::Foreign;
    let report = scenario.reconcile();
    let accepted = &scenario.status()["muster"]["conditions"][0];
    assert_eq!(accepted["status"], "False");
    assert_eq!(accepted["reason"], "NameTaken");
    let said = |event: &dialects::Event| event.message.contains("simple-train-cpu-worker");
    assert!(report.events.iter().any(said), "{report:?}");
    assert!(scenario.created.is_empty());
}

#[test]
fn names_that_could_never_run_are_refused() {
    let long = "a".repeat(46);
    for name in ["a.b", "Upper", "-a", long.as_str()] {
        let said = refused(&with(|job| job["metadata"]["name"] = name.into()));
        assert!(said.contains("metadata.name"), "{name}: {said}");
    }
    let job = with(|job| job["metadata"]["name"] = "a".repeat(45).into());
    assert!((DIALECT.lower)(&job).is_ok());
}

#[test]
fn everything_that_is_wrong_is_said_at_once_and_each_thing_once() {
    let job = with(|job| {
        job["spec"] = json!({
            "numWorkers": "many",
            "launcherTemplate": {"spec": {"containers": [], "restartPolicy": "Sometimes"}},
            "workerTemplate": 7,
            "muster": {"cleanPodPolicy": "Some"},
        });
    });
    let errors = (DIALECT.lower)(&job).expect_err("it is refused");
    let mut paths: Vec<&str> = errors.iter().map(|error| error.path.as_str()).collect();
    paths.sort_unstable();
    assert_eq!(
        paths,
        [
            "spec.launcherTemplate.spec.containers",
            "spec.launcherTemplate.spec.restartPolicy",
            "spec.muster.cleanPodPolicy",
            "spec.numWorkers",
            "spec.workerTemplate",
        ]
    );
    let report = (DIALECT.report)(&job, &Finding::Invalid(&errors), noon());
    assert_eq!(report.status["muster"]["reason"], "Invalid");
    assert_eq!(report.events.len(), 1);
}
