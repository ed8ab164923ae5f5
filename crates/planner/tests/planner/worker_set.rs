//! Jobs whose workers a StatefulSet makes, which are reached through the API server, and which outlive
//! their launcher.

use planner::fixtures::{job, noon, noon_and, world};
use planner::job::{CleanUp, Job};
use planner::observed::{Exit, PodPhase, Slot, WorkerSet};
use planner::{Kind, Observed, Phase, Reason, Verdict, WaitingOn, plan};
use serde_json::{Value, json};

use super::{created_one, deeds, patch};

const SET: &str = "demo-worker";
const LAUNCHER: &str = "demo-launcher";

fn demo() -> Job {
    job("demo").workers(3).of_a_set()
}

fn site(job: Job) -> Observed {
    world(job).with(|world| world.site.agent_image = Some("muster-agent:1".to_owned()))
}

fn launched(job: Job) -> Observed {
    site(job).settled().workers_ready().settled()
}

/// With the launcher in this phase.
fn at(phase: PodPhase) -> Observed {
    launched(demo()).with(|world| {
        let launcher = &mut world.launcher_pods[0];
        (launcher.phase, launcher.finished_at) = (phase, Some(noon()));
    })
}

fn edited(world: Observed, change: impl FnOnce(&mut Value)) -> Observed {
    world.with(|world| {
        change(&mut world.job.worker_role().template);
    })
}

fn set(world: &mut Observed) -> &mut WorkerSet {
    match &mut world.worker_set {
        Slot::Ours(set) => set,
        Slot::Absent | Slot::Foreign => panic!("there is no set"),
    }
}

#[test]
fn no_secret_and_no_service_are_made_and_no_pod_before_the_workers_are_ready() {
    let made = deeds(&plan(&site(demo())));
    assert_eq!(
        made,
        [
            "create ConfigMap demo-config",
            "create ServiceAccount demo-launcher",
            "create Role demo-launcher",
            "create RoleBinding demo-launcher",
            "create StatefulSet demo-worker",
        ]
    );
    let waiting = site(demo()).settled();
    assert_eq!(plan(&waiting).status.phase, Phase::Gathering);
    let almost = waiting
        .workers_ready()
        .with(|world| world.workers[1].ready = false);
    assert!(plan(&almost).steps.is_empty());
    let said = plan(&almost).status.message;
    assert_eq!(said, "2 of 3 workers are Ready; the launcher waits for all");
}

#[test]
fn the_set_keeps_the_template_but_for_labels_and_restart_policy() {
    let template = json!({
        "metadata": {
            "labels": {"app": "mine", "gang": "pg"},
            "annotations": {"note": "kept"},
        },
        "spec": {
            "restartPolicy": "Never",
            "schedulerName": "gang-scheduler",
            "hostNetwork": true,
            "containers": [{"name": "w", "image": "pi", "command": ["sleep"], "env": []}],
        },
    });
    let mut wanted = template.clone();
    wanted["metadata"]["labels"] = json!({
        "app": SET,
        "gang": "pg",
        "training.kubeflow.org/operator-name": "mpi-operator",
        "training.kubeflow.org/job-name": "demo",
        "training.kubeflow.org/job-role": "worker",
        "muster.dev/job-uid": "uid-demo",
    });
    wanted["spec"]["restartPolicy"] = "Always".into();
    let made = plan(&edited(site(demo()), |old| *old = template));
    let set = created_one(&made, Kind::StatefulSet, SET);
    assert_eq!(set["spec"]["template"], wanted);
    let rest = json!({
        "replicas": 3,
        "serviceName": "demo",
        "selector": {"matchLabels": {"app": SET}},
        "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"},
        "template": wanted,
    });
    assert_eq!(set["spec"], rest);
    assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], "uid-demo");
}

#[test]
fn the_launcher_has_the_promised_files_and_the_account() {
    let ready = site(demo()).settled().workers_ready();
    let pod = created_one(&plan(&ready), Kind::Pod, LAUNCHER);
    let spec = &pod["spec"];
    assert_eq!(spec["serviceAccountName"], LAUNCHER);
    assert_eq!(spec["automountServiceAccountToken"], true);
    let env = spec["containers"][0]["env"].as_array().expect("variables");
    assert_eq!(
        env[..2],
        [
            json!({"name": "OMPI_MCA_plm_rsh_agent", "value": "/etc/mpi/kubexec.sh"}),
            json!({"name": "OMPI_MCA_orte_default_hostfile", "value": "/etc/mpi/hostfile"}),
        ]
    );
    assert!(
        env.iter()
            .all(|variable| variable["name"] != "K_MPI_JOB_ROLE")
    );
    assert_eq!(
        spec["containers"][0]["volumeMounts"],
        json!([
            {"name": "muster-bin", "mountPath": "/muster/bin"},
            {"name": "mpi-job-config", "mountPath": "/etc/mpi"},
        ])
    );
    assert_eq!(
        spec["volumes"][1],
        json!({"name": "mpi-job-config", "configMap": {"name": "demo-config", "items": [
            {"key": "kubexec.sh", "path": "kubexec.sh", "mode": 0o555},
            {"key": "hostfile", "path": "hostfile", "mode": 0o444},
        ]}})
    );
    let init = &spec["initContainers"][0];
    assert_eq!(init["image"], "muster-agent:1");
    assert_eq!(
        init["command"],
        json!(["/muster-agent", "install", "/muster/bin"])
    );
    let config = created_one(&plan(&site(demo())), Kind::ConfigMap, "demo-config");
    assert_eq!(
        config["data"],
        json!({
            "hostfile": "demo-worker-0 slots=1\ndemo-worker-1 slots=1\ndemo-worker-2 slots=1\n",
            "kubexec.sh": "#!/bin/sh\nexec /muster/bin/muster-agent kubexec \"$@\"\n",
        })
    );
}

#[test]
fn m01_variables_give_way_to_the_users_even_promised_ones() {
    let ready = site(demo().with(|job| {
        job.launcher.role.template["spec"]["containers"][0]["env"] = json!([
            {"name": "OMPI_MCA_plm_rsh_agent", "value": "ssh"},
            {"name": "OMPI_MCA_routed_radix", "value": "7"},
        ]);
    }));
    let ready = ready.settled().workers_ready();
    let pod = created_one(&plan(&ready), Kind::Pod, LAUNCHER);
    let env = pod["spec"]["containers"][0]["env"].as_array();
    let values = |name: &str| -> Vec<Value> {
        let named = env.into_iter().flatten();
        let named = named.filter(|variable| variable["name"] == name);
        named.map(|variable| variable["value"].clone()).collect()
    };
    assert_eq!(values("OMPI_MCA_plm_rsh_agent"), ["ssh"]);
    assert_eq!(
        values("OMPI_MCA_orte_default_hostfile"),
        ["/etc/mpi/hostfile"]
    );
    assert_eq!(values("OMPI_MCA_routed_radix"), ["7"]);
}

#[test]
fn s02_the_launcher_runs_as_the_jobs_own_account_whatever_its_template_names() {
    let job = demo().with(|job| {
        job.launcher.role.template["spec"]["serviceAccount"] = "old".into();
        job.launcher.role.template["spec"]["automountServiceAccountToken"] = false.into();
        job.launcher.role.template["spec"]["serviceAccountName"] = "trainer".into();
    });
    let pod = created_one(
        &plan(&site(job).settled().workers_ready()),
        Kind::Pod,
        LAUNCHER,
    );
    assert_eq!(pod["spec"]["serviceAccountName"], LAUNCHER);
    assert_eq!(pod["spec"].get("serviceAccount"), None);
    assert_eq!(pod["spec"]["automountServiceAccountToken"], true);
}

#[test]
fn an_edit_of_the_template_is_one_patch_that_leaves_nothing_behind() {
    let old = launched(demo()).with(|world| {
        // As the API server fills it in.
        set(world).template["spec"]["dnsPolicy"] = "ClusterFirst".into();
        set(world).template["spec"]["nodeSelector"] = json!({"gpu": "old"});
    });
    assert!(plan(&old).steps.is_empty(), "what it fills in is no change");
    let new = edited(old, |template| {
        template["spec"]["containers"][0]["image"] = "pi:2".into();
    });
    let merge = patch(&plan(&new));
    let template = &merge["spec"]["template"]["spec"];
    assert_eq!(template["containers"][0]["image"], "pi:2");
    assert_eq!(template["dnsPolicy"], Value::Null);
    assert_eq!(template["nodeSelector"], Value::Null);
    assert!(
        template
            .as_object()
            .is_some_and(|it| it.contains_key("nodeSelector"))
    );
    assert!(merge["metadata"]["annotations"]["muster.dev/template"].is_string());
    let made = new.settled();
    assert_eq!(made.launcher_pods.len(), 1, "the launcher is left alone");
}

#[test]
fn a_launcher_waits_until_new_workers_are_rolled_out() {
    let rolling = launched(demo()).with(|world| {
        world.launcher_pods.clear();
        set(world).rolled_out = false;
    });
    assert!(plan(&rolling).steps.is_empty());
    let done = rolling.with(|world| set(world).rolled_out = true);
    assert_eq!(deeds(&plan(&done)), ["create Pod demo-launcher"]);
}

#[test]
fn set_hosts_and_rights_follow_the_number_of_workers() {
    let more = launched(demo()).with(|world| {
        world.job = job("demo").workers(5).of_a_set();
    });
    assert_eq!(
        deeds(&plan(&more)),
        [
            "patch ConfigMap demo-config",
            "patch StatefulSet demo-worker",
        ]
    );
    let settled = more.settled();
    let role = settled.account.role.ours().expect("it was made");
    let names = role.rules[1]["resourceNames"].as_array().map(Vec::len);
    assert_eq!(names, Some(5), "once all five are there");
    assert_eq!(settled.workers.len(), 5);
    assert_eq!(settled.launcher_pods.len(), 1);
}

#[test]
fn an_edit_of_the_launcher_counts_when_its_pod_is_made_again() {
    let edited = launched(demo()).with(|world| {
        world.job.launcher.role.template["spec"]["containers"][0]["args"] = json!(["new"]);
    });
    assert!(plan(&edited).steps.is_empty());
    let deleted = edited.with(|world| world.launcher_pods.clear());
    let pod = created_one(&plan(&deleted), Kind::Pod, LAUNCHER);
    assert_eq!(pod["spec"]["containers"][0]["args"], json!(["new"]));
}

#[test]
fn the_end_of_the_launcher_is_told_and_changes_nothing() {
    let ended = at(PodPhase::Succeeded);
    let told = plan(&ended);
    assert!(told.steps.is_empty(), "{:?}", deeds(&told));
    assert_eq!(told.status.phase, Phase::LauncherExited);
    assert_eq!(told.because, WaitingOn::AnotherLauncher);
    let outcome = told.status.outcome.expect("it ended");
    assert_eq!((outcome.verdict, outcome.at), (Verdict::Succeeded, noon()));
    assert_eq!(told.status.workers.active, 3, "workers run on");
    let again = ended.recorded().with(|world| world.launcher_pods.clear());
    assert_eq!(deeds(&plan(&again)), ["create Pod demo-launcher"]);
    assert!(plan(&again).status.outcome.is_none());
}

#[test]
fn a_launcher_that_failed_is_told_by_name_and_not_tried_again() {
    let failed = at(PodPhase::Failed).with(|world| {
        world.launcher_pods[0].exit = Some(Exit {
            container: "main".to_owned(),
            code: 3,
            reason: "Error".to_owned(),
            message: String::new(),
        });
    });
    let told = plan(&failed);
    assert!(told.steps.is_empty());
    assert_eq!(told.status.reason, Some(Reason::CommandFailed));
    let said = &told.status.message;
    assert!(
        said.contains("demo-launcher failed: container main exited with 3"),
        "{said}"
    );
}

#[test]
fn a_job_that_rests_still_follows_its_spec() {
    let rested = at(PodPhase::Succeeded).with(|world| {
        world.job = job("demo").workers(1).of_a_set();
    });
    let merge = plan(&rested);
    assert!(deeds(&merge).contains(&"patch StatefulSet demo-worker".to_owned()));
}

#[test]
fn workers_that_cannot_start_do_not_end_the_job() {
    use planner::observed::Waiting;
    let stuck = site(demo()).settled().with(|world| {
        world.now = noon_and(900);
        world.workers[0].waiting = Some(Waiting {
            reason: "ImagePullBackOff".to_owned(),
            message: "no such image".to_owned(),
            since: noon(),
            ..Waiting::default()
        });
    });
    let told = plan(&stuck);
    assert!(told.status.outcome.is_none());
    assert_eq!(told.status.reason, Some(Reason::PullingImage));
    assert!(told.wake.is_none_or(|at| at > stuck.now));
}

#[test]
fn workers_go_at_the_end_where_they_are_asked_to_and_come_back_for_another_launcher() {
    let ended = at(PodPhase::Succeeded).with(|world| world.job.lifecycle.clean_up = CleanUp::All);
    assert_eq!(patch(&plan(&ended))["spec"], json!({"replicas": 0}));
    let rested = ended.settled();
    assert!(rested.workers.is_empty());
    assert_eq!(plan(&rested).status.phase, Phase::LauncherExited);
    let again = rested.with(|world| world.launcher_pods.clear());
    assert_eq!(patch(&plan(&again))["spec"], json!({"replicas": 3}));
    let back = again.settled().workers_ready();
    assert_eq!(deeds(&plan(&back)), ["create Pod demo-launcher"]);
}

#[test]
fn a_suspended_or_leaving_job_has_an_empty_set() {
    let suspended = launched(demo()).with(|world| world.job.lifecycle.suspended = true);
    let mut deeds_of = deeds(&plan(&suspended));
    deeds_of.sort();
    assert_eq!(
        deeds_of,
        ["delete Pod demo-launcher", "patch StatefulSet demo-worker"]
    );
    let left = launched(demo()).with(|world| world.job.owner.deleting = true);
    assert!(deeds(&plan(&left)).contains(&"patch StatefulSet demo-worker".to_owned()));
}

#[test]
fn a_set_of_somebody_else_is_named_and_left_alone() {
    let taken = site(demo()).with(|world| world.worker_set = Slot::Foreign);
    let told = plan(&taken);
    assert!(told.steps.is_empty());
    assert_eq!(told.status.reason, Some(Reason::NameTaken));
    assert_eq!(
        told.status.message,
        "Resource \"demo-worker\" of Kind \"StatefulSet\" already exists and is not managed by MPIJob"
    );
}

#[test]
fn without_an_image_of_the_agent_the_job_says_what_is_missing() {
    let told = plan(&world(demo()));
    assert_eq!(told.status.phase, Phase::Blocked);
    let said = &told.status.message;
    assert!(
        said.starts_with("transport Exec needs the agent's image"),
        "{said}"
    );
}
