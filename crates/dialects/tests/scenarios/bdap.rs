//! bdap's acceptance list, as far as it consists of facts about a job, its objects and its status. The
//! numbers are those of the list.

use dialects::bdap_v1::DIALECT;
use dialects::{Finding, Report, Urgency};
use jiff::{SignedDuration, Timestamp};
use planner::fixtures::world;
use planner::observed::{Exit, PodPhase, Slot};
use planner::{Action, Job, Kind, Observed};
use serde_json::{Value, json};

fn clock(secs: i64) -> Timestamp {
    let noon: Timestamp = "2026-11-15T12:00:00Z".parse().expect("a time");
    noon + SignedDuration::from_secs(secs)
}

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
    (DIALECT.lower)(job).unwrap_or_else(|errors| panic!("{errors:?}"))
}

fn refused(job: &Value) -> String {
    dialects::aggregate(&(DIALECT.lower)(job).expect_err("it is refused"))
}

/// A job, its world, and its status as stored.
struct Life {
    stored: Value,
    world: Observed,
    created: Vec<(Kind, Value)>,
}

impl Life {
    fn of(stored: Value) -> Self {
        let mut world = world(lowered(&stored));
        world.now = clock(0);
        world.site.agent_image = Some("muster-agent".to_owned());
        Self {
            stored,
            world,
            created: Vec::new(),
        }
    }

    fn at(&mut self, secs: i64) -> &mut Self {
        self.world.now = clock(secs);
        self
    }

    fn pass(&mut self) -> Report {
        self.world.job = lowered(&self.stored);
        self.world.recorded = (DIALECT.recorded)(&self.stored);
        for _ in 0..8 {
            let plan = planner::plan(&self.world);
            assert_eq!(planner::check::violations(&self.world, &plan), [""; 0]);
            for action in plan.steps.iter().flatten() {
                if let Action::Create(object) = action {
                    self.created
                        .push((object.kind.clone(), object.body.clone()));
                }
            }
            self.world.carry_out(&plan);
        }
        let status = planner::plan(&self.world).status;
        let report = (DIALECT.report)(&self.stored, &Finding::Planned(&status), self.world.now);
        self.stored["status"] = report.status.clone();
        let later = self.world.now + SignedDuration::from_secs(60);
        let again = (DIALECT.report)(&self.stored, &Finding::Planned(&status), later);
        assert_eq!(
            again.urgency,
            Urgency::Unchanged,
            "it repeats itself: {again:?}"
        );
        assert_eq!(again.events, [], "it repeats itself");
        report
    }

    fn workers_are_ready(&mut self) -> &mut Self {
        for pod in &mut self.world.workers {
            (pod.phase, pod.ready) = (PodPhase::Running, true);
        }
        self
    }

    fn launcher_is(&mut self, phase: PodPhase) -> &mut Self {
        let launcher = &mut self.world.launcher_pods[0];
        (launcher.phase, launcher.finished_at) = (phase, Some(self.world.now));
        self
    }

    fn running(mut self) -> Self {
        self.pass();
        self.workers_are_ready().at(1).pass();
        self.at(2).launcher_is(PodPhase::Running).pass();
        self
    }

    fn ended(self, phase: PodPhase) -> Self {
        let mut life = self.running();
        life.at(3).launcher_is(phase).pass();
        life
    }

    fn status(&self) -> &Value {
        &self.stored["status"]
    }

    fn holds(&self, name: &str) -> Option<bool> {
        let conditions = self.status()["conditions"].as_array()?;
        let found = conditions.iter().find(|one| one["type"] == name)?;
        Some(found["status"] == "True")
    }

    fn made(&self, kind: Kind) -> Vec<&Value> {
        let made = self.created.iter().filter(|(made, _)| *made == kind);
        made.map(|(_, body)| body).collect()
    }
}

#[test]
fn a03_the_seed_is_accepted_as_it_is() {
    let job = lowered(&seed());
    assert_eq!(job.worker_count(), 5);
    assert_eq!(job.slots, 1);
    assert_eq!(job.launcher.restart.as_str(), "Never");
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
    let mut life = Life::of(seed());
    life.pass();
    let set = life.made(Kind::StatefulSet)[0];
    assert_eq!(set["metadata"]["name"], "simple-train-cpu-worker");
    assert_eq!(set["spec"]["replicas"], 5);
    assert_eq!(set["spec"]["podManagementPolicy"], "Parallel");
    assert_eq!(set["spec"]["updateStrategy"]["type"], "RollingUpdate");
    assert_eq!(set["spec"]["serviceName"], "simple-train-cpu");
}

#[test]
fn a06_worker_containers_are_untouched() {
    let mut life = Life::of(seed());
    life.pass();
    let template = &life.made(Kind::StatefulSet)[0]["spec"]["template"];
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
    let mut life = Life::of(seed());
    life.pass();
    life.workers_are_ready();
    life.world.workers[4].ready = false;
    life.pass();
    assert_eq!(life.made(Kind::Pod).len(), 0);
    assert_eq!(life.status()["launcher"], "WaitingWorkers");
    life.world.workers[4].ready = true;
    life.pass();
    life.pass();
    let pods = life.made(Kind::Pod);
    assert_eq!(pods.len(), 1);
    assert_eq!(pods[0]["metadata"]["name"], "simple-train-cpu-launcher");
}

#[test]
fn a09_and_a10_the_host_list_and_the_script_are_where_they_were_promised() {
    let mut life = Life::of(seed());
    life.pass();
    let config = life.made(Kind::ConfigMap)[0]["data"].clone();
    let lines: Vec<&str> = config["hostfile"].as_str().expect("text").lines().collect();
    assert_eq!(lines.len(), 5);
    assert_eq!(lines[4], "simple-train-cpu-worker-4 slots=1");
    let script = config["kubexec.sh"].as_str().expect("text");
    assert!(script.starts_with("#!/bin/sh\n"), "{script}");
    life.workers_are_ready().pass();
    let env = life.made(Kind::Pod)[0]["spec"]["containers"][0]["env"].clone();
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
    let mut life = Life::of(with(|job| job["spec"]["numWorkers"] = 2.into()));
    life.pass();
    life.pass();
    let role = life.world.account.role.ours().expect("it was made");
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
        let name = &life.made(kind)[0]["metadata"]["name"];
        assert_eq!(name, "simple-train-cpu-launcher");
    }
    life.workers_are_ready().pass();
    let account = &life.made(Kind::Pod)[0]["spec"]["serviceAccountName"];
    assert_eq!(account, "simple-train-cpu-launcher");
}

#[test]
fn a15_a_changed_worker_reaches_the_set_and_not_the_launcher() {
    let mut life = Life::of(seed()).running();
    let before = life.world.worker_set.clone();
    life.stored["spec"]["workerTemplate"]["spec"]["containers"][0]["image"] = "other".into();
    life.pass();
    assert_ne!(life.world.worker_set, before);
    let Slot::Ours(set) = &life.world.worker_set else {
        panic!("the set is gone");
    };
    assert_eq!(set.template["spec"]["containers"][0]["image"], "other");
    assert_eq!(life.made(Kind::Pod).len(), 1);
}

#[test]
fn a16_a_changed_launcher_counts_when_its_pod_was_deleted() {
    let mut life = Life::of(seed()).running();
    life.stored["spec"]["launcherTemplate"]["spec"]["containers"][0]["args"] = json!(["new"]);
    life.pass();
    assert_eq!(life.made(Kind::Pod).len(), 1, "it is left alone");
    life.world.launcher_pods.clear();
    life.pass();
    let pods = life.made(Kind::Pod);
    assert_eq!(pods.len(), 2);
    assert_eq!(pods[1]["spec"]["containers"][0]["args"], json!(["new"]));
}

#[test]
fn a17_set_hosts_and_rights_follow_the_number() {
    let mut life = Life::of(seed()).running();
    for count in [3, 6] {
        life.stored["spec"]["numWorkers"] = count.into();
        life.pass();
        assert_eq!(life.world.workers.len(), count);
        let config = life.world.config.ours().expect("it exists");
        assert_eq!(config.data["hostfile"].lines().count(), count);
        let role = life.world.account.role.ours().expect("it exists");
        let names = role.rules[1]["resourceNames"].as_array();
        assert_eq!(names.map(Vec::len), Some(count));
    }
    assert_eq!(life.made(Kind::Pod).len(), 1, "the launcher runs on");
}

#[test]
fn a18_workers_outlive_a_launcher_that_succeeded() {
    let mut life = Life::of(seed()).ended(PodPhase::Succeeded);
    assert_eq!(life.holds("Succeeded"), Some(true));
    assert_eq!(life.holds("Running"), Some(false));
    assert_eq!(life.status()["launcher"], "Succeeded");
    assert_eq!(life.status()["completionTime"], "2026-11-15T12:00:03Z");
    assert_eq!(life.status()["replicaStatuses"]["Worker"]["active"], 5);
    assert_eq!(life.world.workers.len(), 5);
    assert_eq!(life.status()["muster"]["phase"], "Succeeded");

    // Another launcher takes it back.
    life.world.launcher_pods.clear();
    life.at(10).pass();
    assert_eq!(life.holds("Succeeded"), Some(false));
    assert_eq!(life.status().get("completionTime"), None);
    assert_eq!(life.status()["launcher"], "Pending");
    life.at(12).launcher_is(PodPhase::Running).pass();
    assert_eq!(life.holds("Running"), Some(true));
    let report = life.at(20).launcher_is(PodPhase::Succeeded).pass();
    assert_eq!(life.status()["completionTime"], "2026-11-15T12:00:20Z");
    assert_eq!(report.events.len(), 1, "{report:?}");
}

#[test]
fn workers_go_with_the_launcher_where_the_job_says_so() {
    let policy = with(|job| job["spec"]["muster"] = json!({"cleanPodPolicy": "Running"}));
    let life = Life::of(policy).ended(PodPhase::Succeeded);
    assert_eq!(life.world.workers.len(), 0);
    assert_eq!(life.holds("Succeeded"), Some(true));
}

#[test]
fn a_launcher_that_failed_says_how_and_the_status_does_not_wander() {
    let mut life = Life::of(seed()).running();
    life.at(3).launcher_is(PodPhase::Failed);
    life.world.launcher_pods[0].exit = Some(Exit {
        container: "horovod-master".to_owned(),
        code: 3,
        reason: "Error".to_owned(),
        message: String::new(),
    });
    life.pass();
    assert_eq!(life.holds("Failed"), Some(true));
    let before = life.status().clone();
    assert_eq!(before["muster"]["reason"], "CommandFailed");
    let said = before["muster"]["message"].as_str().unwrap_or_default();
    assert!(said.contains("exited with 3"), "{said}");
    life.at(500).pass();
    assert_eq!(*life.status(), before);
}

#[test]
fn a20_a_new_operator_changes_nothing() {
    let mut life = Life::of(seed()).running();
    let before = life.created.len();
    let report = life.at(60).pass();
    assert_eq!(life.created.len(), before);
    assert_eq!(report.urgency, Urgency::Unchanged);
    assert!(planner::plan(&life.world).steps.is_empty());
}

#[test]
fn a21_gang_label_and_scheduler_reach_the_workers_and_not_the_launcher() {
    let label = "pod-group.scheduling.bdap.com/podgroup-configmap";
    let gang = with(|job| {
        let worker = &mut job["spec"]["workerTemplate"];
        worker["metadata"] = json!({"labels": {(label): "gpu-pg"}});
        worker["spec"]["schedulerName"] = "gang-scheduler".into();
    });
    let mut life = Life::of(gang);
    life.world.site.gang = Some(planner::site::GangScheduler::Volcano);
    life.pass();
    let template = life.made(Kind::StatefulSet)[0]["spec"]["template"].clone();
    assert_eq!(template["metadata"]["labels"][label], "gpu-pg");
    assert_eq!(template["spec"]["schedulerName"], "gang-scheduler");
    life.workers_are_ready().pass();
    let launcher = life.made(Kind::Pod)[0];
    assert_eq!(launcher["metadata"]["labels"].get(label), None);
    assert_eq!(launcher["spec"].get("schedulerName"), None);
    assert_eq!(life.made(Kind::VolcanoPodGroup).len(), 0);
}

#[test]
fn a22_the_status_counts_workers_and_follows_the_launcher() {
    let mut life = Life::of(seed());
    let report = life.pass();
    let reasons: Vec<&str> = report.events.iter().map(|e| e.reason.as_str()).collect();
    assert_eq!(reasons, ["MPIJobCreated"]);
    assert_eq!(life.status()["readyWorkers"], 0);
    assert_eq!(life.status()["workers"], 5);
    life.world.workers[0].phase = PodPhase::Running;
    life.world.workers[0].ready = true;
    let report = life.pass();
    assert_eq!(life.status()["readyWorkers"], 1);
    assert_eq!(life.status()["muster"]["ready"], "1/5");
    assert_eq!(report.urgency, Urgency::WhenQuiet);
    let life = life.running();
    assert_eq!(life.status()["launcher"], "Running");
    assert_eq!(life.holds("Created"), Some(true));
    assert_eq!(life.holds("Running"), Some(true));
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
    let mut life = Life::of(gpu);
    life.pass();
    let spec = life.made(Kind::StatefulSet)[0]["spec"]["template"]["spec"].clone();
    let limits = &spec["containers"][0]["resources"]["limits"];
    assert_eq!(limits["nvidia.com/gpu"], 1);
    assert_eq!(spec["tolerations"][0]["key"], "gpu");
    life.workers_are_ready().pass();
    let launcher = &life.made(Kind::Pod)[0]["spec"];
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
    let mut life = Life::of(surprising);
    let report = life.pass();
    let warned: Vec<&str> = report
        .events
        .iter()
        .filter(|event| event.warning)
        .map(|event| event.reason.as_str())
        .collect();
    assert_eq!(warned, ["LauncherNeverEnds", "SetPodTemplateRestartPolicy"]);
    life.workers_are_ready().pass();
    assert_eq!(life.made(Kind::Pod)[0]["spec"]["restartPolicy"], "Always");
}

#[test]
fn q04_the_users_account_is_bound_and_kept() {
    for field in ["serviceAccountName", "serviceAccount"] {
        let job = with(|job| job["spec"]["launcherTemplate"]["spec"][field] = "trainer".into());
        let mut life = Life::of(job);
        life.pass();
        assert_eq!(life.made(Kind::ServiceAccount).len(), 0);
        let subject = &life.made(Kind::RoleBinding)[0]["subjects"][0]["name"];
        assert_eq!(subject, "trainer");
        life.workers_are_ready().pass();
        let account = &life.made(Kind::Pod)[0]["spec"]["serviceAccountName"];
        assert_eq!(account, "trainer");
    }
}

#[test]
fn q05_both_templates_keep_their_metadata() {
    let metadata = json!({"labels": {"team": "a"}, "annotations": {"note": "b"}});
    let job = with(|job| {
        job["spec"]["launcherTemplate"]["metadata"] = metadata.clone();
        job["spec"]["workerTemplate"]["metadata"] = metadata.clone();
    });
    let mut life = Life::of(job);
    life.pass();
    life.workers_are_ready().pass();
    let set = &life.made(Kind::StatefulSet)[0]["spec"]["template"]["metadata"];
    let launcher = &life.made(Kind::Pod)[0]["metadata"];
    for kept in [set, launcher] {
        assert_eq!(kept["labels"]["team"], "a");
        assert_eq!(kept["annotations"]["note"], "b");
    }
}

#[test]
fn q08_a_set_of_somebody_else_is_a_condition_and_an_event() {
    let mut life = Life::of(seed());
    life.world.worker_set = Slot::Foreign;
    let report = life.pass();
    let accepted = &life.status()["muster"]["conditions"][0];
    assert_eq!(accepted["status"], "False");
    assert_eq!(accepted["reason"], "NameTaken");
    let said = |event: &dialects::Event| event.message.contains("simple-train-cpu-worker");
    assert!(report.events.iter().any(said), "{report:?}");
    assert!(life.created.is_empty());
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
    let report = (DIALECT.report)(&job, &Finding::Invalid(&errors), clock(0));
    assert_eq!(report.status["muster"]["reason"], "Invalid");
    assert_eq!(report.events.len(), 1);
}
