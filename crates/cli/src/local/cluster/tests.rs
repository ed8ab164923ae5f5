//! A cluster at which nobody looks does nothing: counted is every look at its clock, which each
//! request, each step of its controllers and each watch begins with.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::local::stages::protocol::Isolation;

/// Turns that everything gets to become quiet, and turns in which it then must be.
const TURNS_TO_SETTLE: u64 = 100_000_000;
const TURNS: u64 = 200_000;
/// How many windows of that many turns are looked at.
const WINDOWS: usize = 20;
/// Timers come now and then; whoever turns in circles, or every millisecond, looks more often.
const LOOKS_MAX: u64 = 100;

struct Watched {
    local: Local,
    looks: Arc<AtomicU64>,
    /// Goes with this value, also when a test fails.
    _directory: TempDir,
}

impl Watched {
    async fn start(name: &str) -> Self {
        let prefix = format!("muster-cluster-{name}-");
        let directory = tempfile::Builder::new().prefix(&prefix).tempdir().unwrap();
        let test = std::env::current_exe().unwrap();
        let settings = Settings {
            directory: directory.path().to_owned(),
            binary: test.parent().unwrap().with_file_name("muster"),
            agent: None,
            isolation: Isolation::Bare,
            root: None,
            mounts: Vec::new(),
            variables: Vec::new(),
            isolated: false,
            seed: std::process::id(),
        };
        let looks = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&looks);
        let clock = move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Timestamp::now()
        };
        let definitions = crate::schema::definitions().iter().collect();
        let tee: Box<Tee> = Box::new(|_, _| None);
        let local = Local::start_at(clock, settings, definitions, tee).await;
        Self {
            local: local.unwrap(),
            looks,
            _directory: directory,
        }
    }

    fn create(&self, path: &str, object: &Value) {
        let request = http::Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(object).unwrap())
            .unwrap();
        let answer = self.local.shared.handle(request);
        assert!(answer.status().is_success(), "{path}: {}", answer.status());
    }

    /// Gives everybody else a turn, and counts looks at the clock.
    async fn looks_in(&self, turns: u64) -> u64 {
        let before = self.looks.load(Ordering::Relaxed);
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        self.looks.load(Ordering::Relaxed) - before
    }

    /// Until something is as it should be.
    async fn until(&self, what: &str, path: &str, holds: impl Fn(&Value) -> bool) {
        for _ in 0..TURNS_TO_SETTLE {
            if read(&self.local.shared, path).is_some_and(|object| holds(&object)) {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{what}: not in time");
    }

    /// It comes to rest, and stays there but for the moments in which a container is restarted.
    async fn is_idle(&self, when: &str) {
        for _ in 0..TURNS_TO_SETTLE / TURNS {
            if self.looks_in(TURNS).await <= LOOKS_MAX {
                break;
            }
        }
        let mut looks = Vec::new();
        for _ in 0..WINDOWS {
            looks.push(self.looks_in(TURNS).await);
        }
        let busy = looks.iter().filter(|looks| **looks > LOOKS_MAX).count();
        assert!(
            busy <= WINDOWS / 4,
            "{when}: {looks:?} looks in {TURNS} turns"
        );
    }

    async fn close(self) {
        self.local.end().await;
    }
}

fn pod(name: &str, script: &str, more: &Value) -> Value {
    let mut pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "main", "image": "x", "command": ["sh", "-c", script]}]},
    });
    for (field, value) in more.as_object().into_iter().flatten() {
        pod["spec"][field] = value.clone();
    }
    pod
}

const PODS: &str = "/api/v1/namespaces/default/pods";

#[tokio::test]
async fn an_empty_cluster_is_idle() {
    let watched = Watched::start("empty").await;
    watched.is_idle("empty").await;
    watched.close().await;
}

#[tokio::test]
async fn a_cluster_is_idle_whatever_state_its_pods_are_in() {
    let watched = Watched::start("pods").await;
    let missing = json!({"volumes": [{"name": "v", "configMap": {"name": "not-there"}}]});
    for (name, script, more) in [
        ("runs", "exec sleep 1000", json!({})),
        ("crashes", "exit 1", json!({})),
        ("over", "exit 0", json!({"restartPolicy": "Never"})),
        ("waits", "exit 0", missing),
        (
            "late",
            "exec sleep 1000",
            json!({"activeDeadlineSeconds": 600}),
        ),
    ] {
        watched.create(PODS, &pod(name, script, &more));
    }
    let at = |name: &str| format!("{PODS}/{name}");
    let phase = |phase: &'static str| move |pod: &Value| pod["status"]["phase"] == phase;
    watched
        .until("it runs", &at("runs"), phase("Running"))
        .await;
    watched
        .until("it runs", &at("late"), phase("Running"))
        .await;
    watched
        .until("it is over", &at("over"), phase("Succeeded"))
        .await;
    let crashed = |pod: &Value| {
        let status = &pod["status"]["containerStatuses"][0];
        status["state"]["waiting"]["reason"] == "CrashLoopBackOff"
    };
    watched.until("it crashes", &at("crashes"), crashed).await;
    watched.is_idle("pods in every state").await;
    watched.close().await;
}

#[tokio::test]
async fn a_cluster_is_idle_beside_jobs_that_wait() {
    let watched = Watched::start("jobs").await;
    let template =
        json!({"spec": {"containers": [{"name": "main", "image": "x", "command": ["true"]}]}});
    let job = json!({
        "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": {"name": "waits"},
        "spec": {
            "runPolicy": {"suspend": true},
            "mpiReplicaSpecs": {
                "Launcher": {"template": template.clone()},
                "Worker": {"replicas": 2, "template": template.clone()},
            },
        },
    });
    let path = "/apis/kubeflow.org/v2beta1/namespaces/default/mpijobs";
    watched.create(path, &job);
    let suspended = |job: &Value| job["status"]["muster"]["phase"] == "Suspended";
    watched
        .until("it is suspended", &format!("{path}/waits"), suspended)
        .await;
    watched.is_idle("a suspended job").await;
    let mut spec = template;
    spec["spec"]["restartPolicy"] = "Never".into();
    let done = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "done"},
        "spec": {"template": spec, "ttlSecondsAfterFinished": 600, "activeDeadlineSeconds": 600},
    });
    let path = "/apis/batch/v1/namespaces/default/jobs";
    watched.create(path, &done);
    let over = |job: &Value| !job["status"]["completionTime"].is_null();
    watched
        .until("it is over", &format!("{path}/done"), over)
        .await;
    watched.is_idle("a job that expires later").await;
    watched.close().await;
}
