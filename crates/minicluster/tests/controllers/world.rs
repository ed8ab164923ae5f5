//! A cluster with a clock of the test's own, and a runner that does what the test says.

use jiff::{SignedDuration, Timestamp};
use minicluster::kubelet::{Order, PodRef, PodReport};
use minicluster::{Answer, Cluster, Config, NodeConfig};
use serde_json::{Value, json};

pub(crate) struct World {
    pub(crate) cluster: Cluster,
    pub(crate) now: Timestamp,
    pub(crate) orders: Vec<Order>,
}

impl World {
    pub(crate) fn new() -> Self {
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

    pub(crate) fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
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

    pub(crate) fn get(&mut self, path: &str) -> Value {
        self.ask("GET", path, &Value::Null).1
    }

    pub(crate) fn create(&mut self, path: &str, body: &Value) {
        let (code, answer) = self.ask("POST", path, body);
        assert_eq!(code, 201, "{answer}");
    }

    /// Lets controllers act; new pods get their place at once.
    pub(crate) fn tick(&mut self) {
        loop {
            let orders = self.cluster.tick(self.now);
            for order in &orders {
                if let Order::Place { pod, .. } = order {
                    let placed = PodReport::Placed {
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

    pub(crate) fn pass(&mut self, secs: i64) {
        self.now += SignedDuration::from_secs(secs);
        self.tick();
    }

    pub(crate) fn pods(&mut self) -> Vec<Value> {
        let list = self.get("/api/v1/namespaces/default/pods");
        list["items"].as_array().cloned().unwrap_or_default()
    }

    pub(crate) fn started(&mut self) -> Vec<(String, String)> {
        self.tick();
        let starts = self.orders.iter().filter_map(|order| match order {
            Order::Start { pod, container, .. } => Some((pod.name.clone(), container.clone())),
            _ => None,
        });
        starts.collect()
    }

    pub(crate) fn start(&mut self, pod: &Value, container: &str) {
        self.tick();
        let (pod, container) = (PodRef::of(pod), container.to_owned());
        self.cluster
            .report(self.now, PodReport::Started { pod, container });
        self.tick();
    }

    pub(crate) fn exit(&mut self, pod: &Value, container: &str, code: i32) {
        self.cluster.report(
            self.now,
            PodReport::Exited {
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

pub(crate) const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

pub(crate) fn job(settings: &Value) -> Value {
    let mut job = json!({
        "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}},
    });
    for (field, value) in settings.as_object().into_iter().flatten() {
        job["spec"][field] = value.clone();
    }
    job
}

pub(crate) fn pod(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut pod = json!({
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]},
    });
    change(&mut pod);
    pod
}

pub(crate) fn condition(object: &Value, kind: &str) -> Option<String> {
    let list = object["status"]["conditions"].as_array()?;
    let found = list
        .iter()
        .find(|one| one["type"] == kind && one["status"] == "True")?;
    Some(found["reason"].as_str().unwrap_or_default().to_owned())
}
