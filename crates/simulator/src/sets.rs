//! The StatefulSet controller, as far as jobs use it: all pods at once, named by their index. Acts through
//! requests, as the real one does.

use jiff::Timestamp;
use minicluster::{Answer, Cluster};
use serde_json::{Value, json};

use crate::objects;

/// One look at all StatefulSets.
pub(crate) fn reconcile(cluster: &mut Cluster, now: Timestamp) {
    let sets: Vec<_> = cluster.objects("apps", "statefulsets").cloned().collect();
    for set in sets {
        if !set["metadata"]["deletionTimestamp"].is_null() {
            continue;
        }
        let name = objects::name(&set);
        let wanted = set["spec"]["replicas"].as_u64().unwrap_or(1);
        let owned =
            |pod: &&std::sync::Arc<Value>| objects::controller(pod) == Some(objects::uid(&set));
        let pods: Vec<_> = cluster.objects("", "pods").filter(owned).cloned().collect();
        let index = |pod: &Value| {
            objects::name(pod)
                .rsplit_once('-')
                .and_then(|(_, index)| index.parse::<u64>().ok())
        };
        for pod in &pods {
            let surplus = index(pod).is_none_or(|index| index >= wanted);
            let over = !objects::is_live(pod);
            if (surplus || over) && pod["metadata"]["deletionTimestamp"].is_null() {
                let path = format!("/api/v1/namespaces/default/pods/{}", objects::name(pod));
                send(cluster, now, "DELETE", &path, &json!({}));
            }
        }
        for missing in
            (0..wanted).filter(|wanted| !pods.iter().any(|pod| index(pod) == Some(*wanted)))
        {
            let mut pod = set["spec"]["template"].clone();
            pod["metadata"]["name"] = format!("{name}-{missing}").into();
            pod["metadata"]["ownerReferences"] = json!([{
                "apiVersion": "apps/v1", "kind": "StatefulSet", "name": name,
                "uid": objects::uid(&set), "controller": true, "blockOwnerDeletion": true,
            }]);
            pod["apiVersion"] = "v1".into();
            pod["kind"] = "Pod".into();
            send(
                cluster,
                now,
                "POST",
                "/api/v1/namespaces/default/pods",
                &pod,
            );
        }
        let ready = |pod: &&std::sync::Arc<Value>| objects::is_ready(pod);
        let status = json!({
            "observedGeneration": set["metadata"]["generation"],
            "replicas": pods.len(),
            "updatedReplicas": pods.len(),
            "readyReplicas": pods.iter().filter(ready).count(),
        });
        let same = status
            .as_object()
            .into_iter()
            .flatten()
            .all(|(field, value)| {
                let stored = &set["status"][field];
                stored == value || (stored.is_null() && *value == 0)
            });
        if !same {
            let path = format!("/apis/apps/v1/namespaces/default/statefulsets/{name}/status");
            send(cluster, now, "PATCH", &path, &json!({"status": status}));
        }
    }
}

/// A request of a part of the cluster. Its answer does not matter: the next look shows what came of it.
pub(crate) fn send(
    cluster: &mut Cluster,
    now: Timestamp,
    verb: &str,
    path: &str,
    body: &Value,
) -> u16 {
    let content = match verb {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = http::Request::builder()
        .method(verb)
        .uri(path)
        .header("content-type", content);
    let request = request
        .body(body.to_string().into_bytes())
        .expect("the parts are valid");
    match cluster.handle(now, request) {
        Answer::Whole(answer) => answer.status().as_u16(),
        Answer::Watch(_) | Answer::Log(_) => 200,
    }
}
