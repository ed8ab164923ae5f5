//! An API server that has many objects and keeps none of them: it makes up each page of a list. Its
//! watches show nothing, and it refuses writes.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::{self, BoxStream, StreamExt as _};
use http_body_util::StreamBody;
use hyper::body::Frame;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

/// What there is in the cluster.
#[derive(Clone, Default)]
pub(crate) struct World {
    /// MPIJobs that another controller manages, so that no pass does anything.
    pub(crate) jobs: usize,
    pub(crate) job_bytes: usize,
    /// Running pods of the first job.
    pub(crate) own_pods: usize,
    /// Objects with our labels and an owner that does not exist.
    pub(crate) foreign_pods: usize,
    pub(crate) pod_annotation_bytes: usize,
    pub(crate) foreign_maps: usize,
    pub(crate) map_bytes: usize,
    /// ConfigMaps that claim to be the first job's.
    pub(crate) forged_maps: usize,
}

/// No text of a job is kept that has so many bytes.
const LARGE_JOB: usize = 64 << 10;
const LISTS: [&str; 5] = ["mpijobs", "pods", "jobs", "services", "configmaps"];

/// Sent part by part, as an API server does.
type Answer = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

#[derive(Clone)]
pub(crate) struct ApiServer {
    world: Arc<World>,
    /// Lists that are watched now, and jobs that were asked for by name.
    seen: Arc<watch::Sender<BTreeSet<String>>>,
}

impl ApiServer {
    pub(crate) fn new(world: World) -> Self {
        Self {
            world: Arc::new(world),
            seen: Arc::default(),
        }
    }

    /// Returns once a watch was started for each list: all pages were read then. Jobs that are too
    /// large to be kept were asked for, too. Smaller ones may have been, where there was no room.
    pub(crate) async fn all_listed(&self) {
        let is_large = self.world.job_bytes > LARGE_JOB;
        let jobs = if is_large { self.world.jobs } else { 0 };
        let jobs: Vec<String> = (0..jobs).map(|index| format!("job-{index}")).collect();
        let mut seen = self.seen.subscribe();
        let all = seen.wait_for(|seen| {
            LISTS.iter().all(|list| seen.contains(*list))
                && jobs.iter().all(|job| seen.contains(job))
        });
        all.await.expect("the server lives");
    }

    fn saw(&self, what: &str) {
        self.seen
            .send_modify(|seen| _ = seen.insert(what.to_owned()));
    }

    fn answer(&self, request: &http::Request<Body>) -> http::Response<Answer> {
        let (path, query) = (
            request.uri().path(),
            request.uri().query().unwrap_or_default(),
        );
        let plural = path.rsplit('/').next().unwrap_or_default();
        let parameter = |name: &str| {
            let mut parts = query.split('&').filter_map(|part| part.split_once('='));
            let found = parts.find(|(key, _)| *key == name);
            found.and_then(|(_, value)| value.parse::<usize>().ok())
        };
        if request.method() != http::Method::GET {
            return refused(403);
        }
        if path == "/apis" {
            return found(&json!({"groups": [{"name": "kubeflow.org"}]}).to_string());
        }
        if let Some(index) = plural
            .strip_prefix("job-")
            .and_then(|index| index.parse().ok())
        {
            self.saw(plural);
            return found(&self.job(index));
        }
        let Some(list) = LISTS.iter().find(|list| **list == plural) else {
            return refused(404);
        };
        if path.contains("/kubeflow.org/") && !path.contains("/v2beta1/") {
            return refused(404);
        }
        if query.contains("watch=true") {
            self.saw(list);
            return http::Response::new(StreamBody::new(stream::pending().boxed()));
        }
        let start = parameter("continue").unwrap_or(0);
        let limit = parameter("limit").unwrap_or(usize::MAX);
        self.page(list, start, limit)
    }

    fn page(&self, plural: &str, start: usize, limit: usize) -> http::Response<Answer> {
        let World {
            jobs,
            own_pods,
            foreign_pods,
            foreign_maps,
            forged_maps,
            ..
        } = *self.world;
        let count = match plural {
            "mpijobs" => jobs,
            "pods" => own_pods + foreign_pods,
            "configmaps" => foreign_maps + forged_maps,
            _ => 0,
        };
        let end = count.min(start.saturating_add(limit));
        let token = if end < count {
            end.to_string()
        } else {
            String::new()
        };
        let metadata = json!({"resourceVersion": "9", "continue": token});
        let (server, plural) = (self.clone(), plural.to_owned());
        // An object is made when it is sent.
        let items = (start..end).map(move |index| {
            let comma = if index == start { "" } else { "," };
            format!("{comma}{}", server.object(&plural, index))
        });
        let head = std::iter::once(format!(r#"{{"metadata":{metadata},"items":["#));
        sent(head.chain(items).chain(std::iter::once("]}".to_owned())))
    }

    fn object(&self, plural: &str, index: usize) -> String {
        match plural {
            "mpijobs" => self.job(index),
            "pods" => self.pod(index).to_string(),
            _ => self.map(index).to_string(),
        }
    }

    fn job(&self, index: usize) -> String {
        let template = json!({"spec": {"containers": [{"name": "main", "image": "none"}]}});
        let job = json!({
            "apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob",
            "metadata": metadata("job", index, &json!({})),
            "spec": {
                "runPolicy": {"managedBy": "kueue.x-k8s.io/multikueue"},
                "environment": [],
                "mpiReplicaSpecs": {
                    "Launcher": {"replicas": 1, "template": template},
                    "Worker": {"replicas": 1, "template": template},
                },
            },
        });
        // A tree of so many values would be counted, too.
        let one = r#"{"name":"A_VARIABLE","value":"some value"},"#;
        let environment = one.repeat(self.world.job_bytes / one.len());
        let environment = format!(r#""environment":[{environment}{{}}]"#);
        job.to_string().replace(r#""environment":[]"#, &environment)
    }

    fn pod(&self, index: usize) -> Value {
        let is_own = index < self.world.own_pods;
        let owner = if is_own { job_reference() } else { stranger() };
        let more = json!({
            "labels": {
                "training.kubeflow.org/operator-name": "mpi-operator",
                "training.kubeflow.org/job-name": "job-0",
                "training.kubeflow.org/job-role": "worker",
                "training.kubeflow.org/replica-index": index.to_string(),
                "muster.dev/job-uid": if is_own { uid("job", 0) } else { "nobody".to_owned() },
            },
            "annotations": {"muster.dev/hosts": "x".repeat(self.world.pod_annotation_bytes)},
            "ownerReferences": [owner],
        });
        let started = json!({"running": {"startedAt": "2026-01-02T03:04:06Z"}});
        json!({
            "metadata": metadata("job-0-worker", index, &more),
            "spec": {"nodeName": format!("node-{}.example.internal", index % 500),
                "containers": [{"name": "main", "image": "none", "env": [{"name": "A", "value": "b"}]}]},
            "status": {"phase": "Running", "podIP": format!("10.{}.{}.{}", index >> 16, (index >> 8) & 255, index & 255),
                "conditions": [{"type": "Ready", "status": "True"}],
                "containerStatuses": [{"name": "main", "restartCount": 0, "state": started}]},
        })
    }

    fn map(&self, index: usize) -> Value {
        let is_forged = index < self.world.forged_maps;
        let owner = if is_forged {
            job_reference()
        } else {
            stranger()
        };
        let more = json!({
            "labels": {"app.kubernetes.io/managed-by": "muster"},
            "ownerReferences": [owner],
        });
        json!({
            "metadata": metadata("map", index, &more),
            "data": {"hostfile": "x".repeat(self.world.map_bytes)},
        })
    }
}

fn metadata(prefix: &str, index: usize, more: &Value) -> Value {
    let mut metadata = json!({
        "name": format!("{prefix}-{index}"), "namespace": "team-a", "uid": uid(prefix, index),
        "resourceVersion": "7", "creationTimestamp": "2026-01-02T03:04:05Z",
        "managedFields": [{"manager": "x", "fieldsV1": {"f:metadata": {"f:labels": {}}}}],
    });
    for (key, value) in more.as_object().expect("more metadata is an object") {
        metadata[key] = value.clone();
    }
    metadata
}

fn uid(prefix: &str, index: usize) -> String {
    let kind = prefix.len();
    format!("{kind:08x}-0000-4000-8000-{index:012x}")
}

fn job_reference() -> Value {
    json!({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "name": "job-0", "uid": uid("job", 0),
        "controller": true})
}

fn stranger() -> Value {
    json!({"apiVersion": "v1", "kind": "Other", "name": "nobody", "uid": "nobody", "controller": true})
}

fn found(text: &str) -> http::Response<Answer> {
    sent(std::iter::once(text.to_owned()))
}

fn sent(parts: impl Iterator<Item = String> + Send + 'static) -> http::Response<Answer> {
    let parts = stream::iter(parts).map(|part| Ok(Frame::data(Bytes::from(part))));
    http::Response::new(StreamBody::new(parts.boxed()))
}

fn refused(code: u16) -> http::Response<Answer> {
    let status = json!({"kind": "Status", "code": code, "reason": "No", "message": "no"});
    let mut answer = found(&status.to_string());
    *answer.status_mut() = http::StatusCode::from_u16(code).expect("it is a status");
    answer
}

impl tower::Service<http::Request<Body>> for ApiServer {
    type Response = http::Response<Answer>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let answer = self.answer(&request);
        Box::pin(async move { Ok(answer) })
    }
}
