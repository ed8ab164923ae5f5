//! Jobs, scheduler and kubelet as pure steps under a clock of the test's own: no process runs and
//! nothing waits.

use jiff::{SignedDuration, Timestamp};
use minicluster::kubelet::{Order, PodRef, Report};
use minicluster::{Answer, Cluster, Config, Next, NodeConfig};
use serde_json::{Value, json};

struct World {
    cluster: Cluster,
    now: Timestamp,
    orders: Vec<Order>,
}

impl World {
    fn new() -> Self {
        let node = NodeConfig {
            name: "here".to_owned(),
            ip: "127.0.0.1".to_owned(),
            cpu: "4".to_owned(),
            memory: "8Gi".to_owned(),
            extended: Vec::new(),
            pods: 20,
        };
        let config = Config {
            node: Some(node),
            ..Config::default()
        };
        Self {
            cluster: Cluster::new(config),
            now: Timestamp::UNIX_EPOCH,
            orders: Vec::new(),
        }
    }

    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let content = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let text = if body.is_null() {
            String::new()
        } else {
            body.to_string()
        };
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", content)
            .body(text.into_bytes())
            .expect("the parts are valid");
        let Answer::Whole(answer) = self.cluster.handle(self.now, request) else {
            panic!("{path} is answered at once");
        };
        let body = serde_json::from_slice(answer.body()).unwrap_or_default();
        (answer.status().as_u16(), body)
    }

    fn get(&mut self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null).1
    }

    fn create(&mut self, path: &str, body: &Value) {
        let (code, answer) = self.ask("POST", path, body);
        assert_eq!(code, 201, "{answer}");
    }

    /// Lets controllers act; new pods get their place at once.
    fn tick(&mut self) {
        loop {
            let orders = self.cluster.tick(self.now);
            for order in &orders {
                if let Order::Place { pod, .. } = order {
                    let placed = Report::Placed {
                        pod: pod.clone(),
                        ip: "127.0.1.1".to_owned(),
                    };
                    self.cluster.report(self.now, placed);
                }
            }
            let quiet = orders.is_empty();
            self.orders.extend(orders);
            if quiet && !self.cluster.is_restless() {
                return;
            }
        }
    }

    fn pass(&mut self, secs: i64) {
        self.now += SignedDuration::from_secs(secs);
        self.tick();
    }

    fn pods(&mut self) -> Vec<Value> {
        let list = self.get("/api/v1/namespaces/default/pods");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    fn started(&mut self) -> Vec<(String, String)> {
        self.tick();
        let starts = self.orders.iter().filter_map(|order| match order {
            Order::Start { pod, container, .. } => Some((pod.name.clone(), container.clone())),
            _ => None,
        });
        starts.collect()
    }

    fn start(&mut self, pod: &Value, container: &str) {
        self.tick();
        let (pod, container) = (PodRef::of(pod), container.to_owned());
        self.cluster
            .report(self.now, Report::Started { pod, container });
        self.tick();
    }

    fn exit(&mut self, pod: &Value, container: &str, code: i32) {
        self.cluster.report(
            self.now,
            Report::Exited {
                pod: PodRef::of(pod),
                container: container.to_owned(),
                code,
                signal: None,
                message: String::new(),
                oom: false,
            },
        );
        self.tick();
    }
}

const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn job(settings: &Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}},
    });
    for (field, value) in settings.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
    });
    change(&mut pod);
    pod
}

fn condition(object: &Value, kind: &str) -> Option<String> {
    let list = object["status"]["conditions"].as_array()?;
    let found = list
        .iter()
        .find(|one| one["type"] == kind && one["status"] == "True")?;
    Some(found["reason"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_job_is_complete_when_its_pod_succeeded() {
    let mut world = World::new();
    world.create(JOBS, &job(&json!({"ttlSecondsAfterFinished": 60})));
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    assert_eq!(world.get(&format!("{JOBS}/j"))["status"]["ready"], 1);
    world.exit(&pod, "main", 0);
    let done = world.get(&format!("{JOBS}/j"));
    assert_eq!(
        condition(&done, "Complete").as_deref(),
        Some("CompletionsReached")
    );
    assert_eq!(done["status"]["succeeded"], 1);
    world.pass(59);
    assert_eq!(world.ask("GET", &format!("{JOBS}/j"), &Value::Null).0, 200);
    world.pass(1);
    assert_eq!(world.ask("GET", &format!("{JOBS}/j"), &Value::Null).0, 404);
    assert!(world.pods().is_empty());
}

#[test]
fn failed_pods_are_replaced_later_and_later_until_the_limit() {
    let mut world = World::new();
    world.create(JOBS, &job(&json!({"backoffLimit": 2})));
    world.tick();
    for (failures, wait) in [(1, 10), (2, 20)] {
        let pods = world.pods();
        let pod = pods
            .iter()
            .find(|pod| pod["status"]["phase"] == "Pending")
            .cloned();
        let pod = pod.expect("a pod was made");
        world.start(&pod, "main");
        world.exit(&pod, "main", 1);
        assert_eq!(world.pods().len(), failures, "no replacement at once");
        world.pass(wait - 1);
        assert_eq!(
            world.pods().len(),
            failures,
            "no replacement before {wait} s"
        );
        world.pass(1);
        assert_eq!(world.pods().len(), failures + 1);
    }
    let pods = world.pods();
    let last = pods
        .iter()
        .find(|pod| pod["status"]["phase"] == "Pending")
        .cloned();
    let last = last.expect("a pod was made");
    world.start(&last, "main");
    world.exit(&last, "main", 1);
    let job = world.get(&format!("{JOBS}/j"));
    assert_eq!(
        condition(&job, "Failed").as_deref(),
        Some("BackoffLimitExceeded")
    );
    assert_eq!(job["status"]["failed"], 3);
}

#[test]
fn a_job_that_takes_too_long_is_stopped_before_it_has_failed() {
    let mut world = World::new();
    world.create(JOBS, &job(&json!({"activeDeadlineSeconds": 5})));
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    assert_eq!(
        world.cluster.next_wake(),
        Some(world.now + SignedDuration::from_secs(5))
    );
    world.pass(5);
    let job = world.get(&format!("{JOBS}/j"));
    assert_eq!(
        condition(&job, "FailureTarget").as_deref(),
        Some("DeadlineExceeded")
    );
    assert_eq!(condition(&job, "Failed"), None, "its pod still runs");
    assert!(matches!(
        world.orders.last(),
        Some(Order::Stop { grace_secs: 30, .. })
    ));
    world.exit(&pod, "main", 143);
    let job = world.get(&format!("{JOBS}/j"));
    assert_eq!(
        condition(&job, "Failed").as_deref(),
        Some("DeadlineExceeded")
    );
}

#[test]
fn a_suspended_job_has_no_pods_until_it_goes_on() {
    let mut world = World::new();
    world.create(JOBS, &job(&json!({"suspend": true})));
    world.tick();
    let path = format!("{JOBS}/j");
    assert!(world.pods().is_empty());
    assert_eq!(
        condition(&world.get(&path), "Suspended").as_deref(),
        Some("JobSuspended")
    );
    world.ask("PATCH", &path, &json!({"spec": {"suspend": false}}));
    world.tick();
    assert_eq!(world.pods().len(), 1);
    assert_eq!(condition(&world.get(&path), "Suspended"), None);
    world.ask("PATCH", &path, &json!({"spec": {"suspend": true}}));
    world.tick();
    assert_eq!(world.get(&path)["status"]["startTime"], Value::Null);
}

#[test]
fn a_pod_on_its_way_out_is_replaced_when_it_is_gone() {
    let mut world = World::new();
    let settings = json!({"podReplacementPolicy": "Failed"});
    world.create(JOBS, &job(&settings));
    world.tick();
    let first = world.pods()[0].clone();
    world.start(&first, "main");
    let path = format!(
        "{PODS}/{}",
        first["metadata"]["name"].as_str().unwrap_or_default()
    );
    world.ask("DELETE", &path, &Value::Null);
    world.tick();
    assert_eq!(world.pods().len(), 1, "the old one still runs");
    world.exit(&first, "main", 143);
    world.pass(10);
    let pods = world.pods();
    assert_eq!(pods.len(), 1);
    assert_ne!(pods[0]["metadata"]["uid"], first["metadata"]["uid"]);
}

#[test]
fn init_containers_run_in_order_and_sidecars_beside() {
    let mut world = World::new();
    world.create(
        PODS,
        &pod("p", |pod| {
            pod["spec"]["initContainers"] = json!([
                {"name": "first", "image": "none"},
                {"name": "side", "image": "none", "restartPolicy": "Always"},
                {"name": "second", "image": "none"},
            ]);
        }),
    );
    let names = |world: &mut World| -> Vec<String> {
        world
            .started()
            .into_iter()
            .map(|(_, container)| container)
            .collect()
    };
    assert_eq!(names(&mut world), ["first"]);
    let pod = world.pods()[0].clone();
    world.start(&pod, "first");
    world.exit(&pod, "first", 0);
    assert_eq!(names(&mut world), ["first", "side"]);
    world.start(&pod, "side");
    assert_eq!(names(&mut world), ["first", "side", "second"]);
    world.start(&pod, "second");
    world.exit(&pod, "second", 0);
    world.start(&pod, "main");
    assert_eq!(world.pods()[0]["status"]["phase"], "Running");
    world.exit(&pod, "main", 0);
    assert!(
        matches!(world.orders.last(), Some(Order::Stop { container, .. }) if container == "side")
    );
    assert_eq!(
        world.pods()[0]["status"]["phase"],
        "Running",
        "the sidecar still runs"
    );
    world.exit(&pod, "side", 143);
    assert_eq!(world.pods()[0]["status"]["phase"], "Succeeded");
}

#[test]
fn a_crashing_container_waits_longer_each_time() {
    let mut world = World::new();
    world.create(
        PODS,
        &pod("p", |pod| pod["spec"]["restartPolicy"] = "OnFailure".into()),
    );
    world.tick();
    let pod = world.pods()[0].clone();
    for (starts, wait) in [(1, 0), (2, 10), (3, 20), (4, 40)] {
        assert_eq!(world.started().len(), starts);
        world.start(&pod, "main");
        world.exit(&pod, "main", 1);
        if wait > 0 {
            let waiting = &world.pods()[0]["status"]["containerStatuses"][0]["state"]["waiting"];
            assert_eq!(waiting["reason"], "CrashLoopBackOff");
            world.pass(wait - 1);
            assert_eq!(world.started().len(), starts, "not before {wait} s");
            world.pass(1);
        }
    }
    assert_eq!(
        world.pods()[0]["status"]["containerStatuses"][0]["restartCount"],
        4
    );
}

#[test]
fn a_deleted_pod_is_stopped_and_then_gone() {
    let mut world = World::new();
    world.create(PODS, &pod("p", |_| {}));
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    world.ask(
        "DELETE",
        &format!("{PODS}/p"),
        &json!({"gracePeriodSeconds": 7}),
    );
    world.tick();
    assert!(matches!(
        world.orders.last(),
        Some(Order::Stop { grace_secs: 7, .. })
    ));
    world.ask(
        "DELETE",
        &format!("{PODS}/p"),
        &json!({"gracePeriodSeconds": 2}),
    );
    world.tick();
    assert!(matches!(
        world.orders.last(),
        Some(Order::Stop { grace_secs: 2, .. })
    ));
    assert_eq!(world.pods().len(), 1);
    world.exit(&pod, "main", 143);
    assert!(world.pods().is_empty());
    assert!(matches!(world.orders.last(), Some(Order::Release { .. })));
}

#[test]
fn a_pod_that_is_forced_out_is_killed() {
    let mut world = World::new();
    world.create(PODS, &pod("p", |_| {}));
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    world.ask(
        "DELETE",
        &format!("{PODS}/p"),
        &json!({"gracePeriodSeconds": 0}),
    );
    assert!(world.pods().is_empty());
    world.tick();
    let last: Vec<&Order> = world.orders.iter().rev().take(2).collect();
    assert!(matches!(last[1], Order::Stop { grace_secs: 0, .. }));
    assert!(matches!(last[0], Order::Release { .. }));
}

#[test]
fn a_pod_that_is_active_for_too_long_fails() {
    let mut world = World::new();
    world.create(
        PODS,
        &pod("p", |pod| pod["spec"]["activeDeadlineSeconds"] = 3.into()),
    );
    world.tick();
    let pod = world.pods()[0].clone();
    world.start(&pod, "main");
    world.pass(3);
    world.exit(&pod, "main", 143);
    let status = &world.pods()[0]["status"];
    assert_eq!(
        (&status["phase"], &status["reason"]),
        (&json!("Failed"), &json!("DeadlineExceeded"))
    );
}

#[test]
fn what_cannot_start_is_tried_again_or_is_over() {
    let mut world = World::new();
    world.create(PODS, &pod("p", |_| {}));
    world.tick();
    let object = world.pods()[0].clone();
    let cannot = |retry: bool| Report::CannotStart {
        pod: PodRef::of(&object),
        container: "main".to_owned(),
        reason: "CreateContainerConfigError".to_owned(),
        message: "no such ConfigMap".to_owned(),
        retry,
    };
    world.cluster.report(world.now, cannot(true));
    world.tick();
    let waiting = &world.pods()[0]["status"]["containerStatuses"][0]["state"]["waiting"];
    assert_eq!(waiting["reason"], "CreateContainerConfigError");
    world.pass(10);
    assert_eq!(world.started().len(), 2);
    world.cluster.report(world.now, cannot(false));
    world.tick();
    assert_eq!(world.pods()[0]["status"]["phase"], "Failed");
}

#[test]
fn pods_wait_for_room() {
    let mut world = World::new();
    let large = |name: &str| {
        pod(name, |pod| {
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "3"}});
        })
    };
    world.create(PODS, &large("a"));
    world.create(PODS, &large("b"));
    world.tick();
    let pods = world.pods();
    assert_eq!(pods[0]["spec"]["nodeName"], "here");
    assert_eq!(pods[1]["spec"]["nodeName"], Value::Null);
    let why = pods[1]["status"]["conditions"][0]["message"]
        .as_str()
        .unwrap_or_default();
    assert!(why.contains("Insufficient cpu"), "{why}");
    world.start(&pods[0], "main");
    world.exit(&pods[0], "main", 0);
    assert_eq!(world.pods()[1]["spec"]["nodeName"], "here");
}

#[test]
fn a_group_is_scheduled_whole_or_not_at_all() {
    let mut world = World::new();
    let member = |name: &str| {
        pod(name, |pod| {
            pod["metadata"]["labels"] = json!({"scheduling.x-k8s.io/pod-group": "g"});
            pod["spec"]["containers"][0]["resources"] = json!({"requests": {"cpu": "2"}});
        })
    };
    for name in ["a", "b", "c"] {
        world.create(PODS, &member(name));
    }
    world.tick();
    let bound = |world: &mut World| {
        world
            .pods()
            .iter()
            .filter(|pod| pod["spec"]["nodeName"] == "here")
            .count()
    };
    assert_eq!(bound(&mut world), 0, "three do not fit, so none runs");
    world.ask("DELETE", &format!("{PODS}/c"), &Value::Null);
    world.create(PODS, &pod("other", |_| {}));
    world.tick();
    assert_eq!(bound(&mut world), 3, "two fit, and the other pod");
}

#[test]
fn history_that_is_forgotten_ends_a_watch() {
    let mut world = World::new();
    world.create(PODS, &pod("p", |_| {}));
    let request = http::Request::get(format!("{PODS}?watch=true&resourceVersion=1"));
    let request = request.body(Vec::new()).expect("the parts are valid");
    world.cluster.compact();
    let Answer::Watch(mut watch) = world.cluster.handle(world.now, request) else {
        panic!("a watch is answered by a watch");
    };
    let Next::Lines(lines) = world.cluster.follow(world.now, &mut watch) else {
        panic!("the watch says why it ends");
    };
    let event: Value = serde_json::from_slice(&lines).expect("a line is JSON");
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410))
    );
    assert_eq!(world.cluster.follow(world.now, &mut watch), Next::Over);
}

#[test]
fn the_same_seed_gives_the_same_cluster() {
    let run = || {
        let mut world = World::new();
        world.create(JOBS, &job(&json!({})));
        world.tick();
        let pod = world.pods()[0].clone();
        world.start(&pod, "main");
        world.exit(&pod, "main", 0);
        (world.pods(), world.get(JOBS), world.get("/api/v1/events"))
    };
    assert_eq!(run(), run());
}
