//! Lists and watches: what the controller knows after its watches broke.

use std::time::Duration;

use serde_json::{Value, json};

use crate::cluster::{Cluster, all_run, condition, mpi_job};
use crate::faults::Fault;

fn suspended(name: &str) -> Value {
    let mut job = mpi_job(name);
    job["spec"]["runPolicy"] = json!({"suspend": true});
    job
}

#[tokio::test(start_paused = true)]
async fn c01_a_relist_of_more_than_fifty_jobs_loses_nothing() {
    let mut cluster = Cluster::new(all_run);
    for index in 0..60 {
        cluster.submit(suspended(&format!("job-{index:02}"))).await;
    }
    cluster.start_operator();
    for index in 0..60 {
        cluster.until(&format!("job-{index:02}"), "Suspended").await;
    }
    // The second page of the relist is slow. Meanwhile the first page, which shows a new job and a
    // changed one, must not be acted on before the whole list can be read.
    cluster
        .faults
        .inject_if(1, Fault::Delay(Duration::from_millis(200)), |call| {
            call.line() == "GET mpijobs" && call.query.contains("continue=")
        });
    cluster.restart_api_server();
    cluster.submit(mpi_job("aaa")).await;
    let resume = json!({"spec": {"runPolicy": {"suspend": false}}});
    cluster.patch(&cluster.jobs(), "job-00", resume).await;
    cluster.until("aaa", "Running").await;
    cluster.until("job-00", "Running").await;
    let pages = cluster.faults.calls("GET mpijobs");
    let pages = pages.iter().filter(|call| call.query.contains("continue="));
    assert!(pages.count() >= 2, "there was no relist");
}

#[tokio::test(start_paused = true)]
async fn c10_a_pod_that_is_asked_for_after_a_relist_wakes_its_job() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster
        .until_met("the first list", async || {
            !cluster.faults.calls("WATCH pods").is_empty()
        })
        .await;
    let stale = cluster.client.request_text(
        http::Request::get("/api/v1/pods")
            .body(Vec::new())
            .expect("the parts are valid"),
    );
    let stale = stale.await.expect("pods are listed");
    // The watch of pods breaks. It is replaced, after the pods are ready, by a list that is as old
    // as the time before they were created.
    let list = Fault::Canned(Duration::from_secs(20), 200, stale);
    cluster.faults.inject("GET pods", 1, list);
    cluster.restart_api_server();
    // The watch that follows the list is slow, too: the objects are asked for before it shows them.
    let slow = Fault::Delay(Duration::from_secs(5));
    cluster.faults.inject("WATCH pods", 1, slow);
    let mut job = mpi_job("woken");
    job["spec"]["launcherCreationPolicy"] = "WaitForWorkersReady".into();
    cluster.submit(job).await;
    cluster.until("woken", "Running").await;
    assert!(
        !cluster.faults.calls("GET pods/woken-worker-0").is_empty(),
        "it was not asked for"
    );
}

/// No list of ours asks for `resourceVersion=0` any more. This fails if one does again.
#[tokio::test(start_paused = true)]
async fn c11_absence_in_a_list_that_may_be_old_proves_nothing() {
    let definition = include_str!("../../../../deploy/crds/muster.dev_openmpis.yaml");
    let mut cluster = Cluster::with_definition(all_run, definition);
    cluster.site.agent_image = Some("none".to_owned());
    let job = json!({
        "apiVersion": "muster.dev/v1alpha1", "kind": "OpenMPI",
        "metadata": {"name": "old", "namespace": "default"},
        "spec": {"image": "none", "secret": "keys", "workers": 1, "exec": "mpiexec true"},
    });
    let jobs = cluster.api("muster.dev", "v1alpha1", "OpenMPI", "openmpis");
    cluster.create(&jobs, job).await;
    cluster.start_operator();
    let status = async || {
        let job = jobs.get("old").await.expect("the job exists");
        job.data["status"]["muster"].clone()
    };
    let runs = async || status().await["phase"] == "Running";
    cluster.until_met("the job to run", runs).await;
    // An API server whose cache lags behind etcd answers a request with resourceVersion=0 from that
    // cache: there, the pods do not exist yet.
    let end = json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1", "metadata": {
        "resourceVersion": "1", "annotations": {"k8s.io/initial-events-end": "true"},
    }}});
    let lagging = Fault::Canned(Duration::ZERO, 200, format!("{end}\n"));
    cluster.faults.inject_if(1, lagging, |call| {
        call.path.ends_with("/pods") && call.query.contains("resourceVersion=0")
    });
    cluster.start_operator();
    let slow = Fault::Delay(Duration::from_secs(5));
    cluster.faults.inject("WATCH pods", 1, slow);
    cluster.pass(30).await;
    let status = status().await;
    assert_eq!(status["phase"], "Running", "{status}");
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_watched_is_named_in_the_status_of_new_jobs() {
    let mut cluster = Cluster::new(all_run);
    let forbidden = "configmaps is forbidden: User \"muster\" cannot list resource \"configmaps\"";
    for line in ["GET configmaps", "WATCH configmaps"] {
        let fault = Fault::Status(403, "Forbidden", forbidden);
        cluster.faults.inject(line, usize::MAX, fault);
    }
    cluster.start_operator();
    cluster.submit(mpi_job("blind")).await;
    let told = |job: &kube::api::DynamicObject| {
        let message = &job.data["status"]["muster"]["message"];
        message.to_string().contains("is forbidden")
    };
    cluster
        .until_job("blind", "the missing right in its status", told)
        .await;
    assert_eq!(cluster.faults.calls("POST pods").len(), 0);

    cluster.faults.heal();
    let job = cluster.until("blind", "Running").await;
    assert!(condition(&job, "Failed").is_none());
}

#[tokio::test(start_paused = true)]
async fn c15_a_job_that_runs_says_that_a_kind_may_not_be_watched_and_keeps_the_rest() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("seen")).await;
    cluster.until("seen", "Running").await;
    cluster.stop_operator();
    let before = cluster.jobs().get("seen").await.expect("the job exists");
    for line in ["GET pods", "WATCH pods"] {
        let fault = Fault::Status(403, "Forbidden", "pods is forbidden");
        cluster.faults.inject(line, usize::MAX, fault);
    }
    cluster.start_operator();
    let told = |job: &kube::api::DynamicObject| {
        let message = &job.data["status"]["muster"]["message"];
        message.to_string().contains("pods is forbidden")
    };
    cluster
        .until_job("seen", "the missing right in its status", told)
        .await;
    cluster.pass(120).await;
    let after = cluster.jobs().get("seen").await.expect("the job exists");
    let without_muster = |job: &kube::api::DynamicObject| {
        let mut status = job.data["status"].clone();
        status["muster"].take();
        status
    };
    assert_eq!(without_muster(&after), without_muster(&before));
    assert_eq!(after.data["status"]["muster"]["phase"], "Running");
    assert_eq!(
        cluster.faults.calls("POST pods").len(),
        2,
        "nothing is done"
    );

    cluster.faults.heal();
    let healed = |job: &kube::api::DynamicObject| {
        let muster = &job.data["status"]["muster"];
        muster["conditions"][0]["status"] == "True"
            && muster["message"] == "launcher and workers run"
    };
    cluster.until_job("seen", "its old status", healed).await;
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> kube::core::ApiResource {
    let api_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    kube::core::ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version,
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}

/// Pretends to belong to a job, and has as many and as long names of files as are kept.
fn forged(index: usize, owner: &str) -> Value {
    let name = |file: usize| format!("{file:0>250}");
    let files: serde_json::Map<String, Value> =
        (0..64).map(|file| (name(file), "".into())).collect();
    json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {
            "name": format!("forged-{index}"), "namespace": "default",
            "labels": {"app.kubernetes.io/managed-by": "muster"},
            "ownerReferences": [{"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
                "name": "victim", "uid": owner, "controller": true}],
        },
        "data": files,
    })
}

#[tokio::test(start_paused = true)]
async fn s01c_a_flood_of_objects_holds_the_jobs_of_its_namespace_alone() {
    let mut cluster = Cluster::new(all_run);
    cluster.submit(suspended("victim")).await;
    let victim = cluster.jobs().get("victim").await.expect("it exists");
    let owner = victim.metadata.uid.unwrap_or_default();
    let maps = cluster.api("", "v1", "ConfigMap", "configmaps");
    for index in 0..200 {
        cluster.create(&maps, forged(index, &owner)).await;
    }
    cluster.start_operator();
    cluster.submit(mpi_job("held")).await;
    let told = |job: &kube::api::DynamicObject| {
        job.data["status"]["muster"]["reason"] == "NamespaceOverBudget"
    };
    cluster
        .until_job("held", "the flood in its status", told)
        .await;
    assert_eq!(cluster.faults.calls("POST pods").len(), 0);

    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}});
    let namespaces = kube::Api::<kube::api::DynamicObject>::all_with(
        cluster.client.clone(),
        &resource("", "v1", "Namespace", "namespaces"),
    );
    cluster.create(&namespaces, namespace).await;
    let jobs = kube::Api::<kube::api::DynamicObject>::namespaced_with(
        cluster.client.clone(),
        "other",
        &resource("kubeflow.org", "v2beta1", "MPIJob", "mpijobs"),
    );
    let mut job = mpi_job("free");
    job["metadata"]["namespace"] = "other".into();
    cluster.create(&jobs, job).await;
    let runs = async || {
        let job = jobs.get("free").await.expect("it exists");
        condition(&job, "Running").is_some()
    };
    cluster
        .until_met("the job of another namespace to run", runs)
        .await;

    for index in 0..200 {
        cluster.delete(&maps, &format!("forged-{index}")).await;
    }
    cluster.until("held", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn s01c_a_kind_is_listed_again_at_most_once_a_minute() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(suspended("victim")).await;
    let victim = cluster.until("victim", "Suspended").await;
    let owner = victim.metadata.uid.unwrap_or_default();
    let maps = cluster.api("", "v1", "ConfigMap", "configmaps");
    let lists = || {
        let pages = cluster.faults.calls("GET configmaps").into_iter();
        pages
            .filter(|call| call.line() == "GET configmaps" && !call.query.contains("continue="))
            .count()
    };
    let before = lists();
    // Somebody crosses the limit again and again, and deletes some each time.
    for _ in 0..3 {
        for index in 0..120 {
            cluster.create(&maps, forged(index, &owner)).await;
        }
        cluster.pass(1).await;
        for index in 0..120 {
            cluster.delete(&maps, &format!("forged-{index}")).await;
        }
        cluster.pass(1).await;
    }
    assert_eq!(lists() - before, 1, "in six seconds");
    cluster.submit(mpi_job("after")).await;
    cluster.until("after", "Running").await;
}

#[tokio::test(start_paused = true)]
async fn b17_a_watch_that_ends_at_once_is_started_with_growing_pauses() {
    for line in ["", "{\"type\": \"ADDED\", \"obj"] {
        let mut cluster = Cluster::new(all_run);
        let cut = Fault::Canned(Duration::ZERO, 200, line.to_owned());
        // It ends: a loop without a pause would leave no time for the test.
        cluster.faults.inject("WATCH configmaps", 1_000, cut);
        cluster.start_operator();
        cluster.pass(60).await;
        let asked = cluster.faults.calls("WATCH configmaps").len();
        assert!((3..20).contains(&asked), "asked {asked} times in a minute");
    }
}

#[tokio::test(start_paused = true)]
async fn c10_lists_and_watches_that_hang_are_given_up() {
    let mut cluster = Cluster::new(all_run);
    let hangs = Fault::Delay(Duration::from_secs(3600));
    // As many as may be read at once.
    for line in ["GET pods", "GET configmaps", "WATCH jobs"] {
        cluster.faults.inject(line, 1, hangs.clone());
    }
    cluster.start_operator();
    cluster.submit(mpi_job("patient")).await;
    cluster.until("patient", "Running").await;
}
