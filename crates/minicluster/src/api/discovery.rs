//! What the API says of itself: health, version, groups and resources. Decides the documents that
//! clients read before they ask for objects.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Answer;
use super::{openapi, plain, whole};
use crate::resource::Resource;
use crate::server::Server;

const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

impl Server {
    /// Answers what is not about objects; none for everything else.
    pub(crate) fn answer_about_api(
        &self,
        path: &str,
        request: &http::Request<Vec<u8>>,
    ) -> Option<Answer> {
        if request.method() != http::Method::GET {
            return None;
        }
        let accept = request.headers().get(http::header::ACCEPT);
        let accept = accept
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default();
        let aggregated = accept.contains("as=APIGroupDiscoveryList") && accept.contains("v=v2");
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let body = match parts.as_slice() {
            ["healthz" | "livez" | "readyz", ..] => return Some(plain(200, "ok")),
            ["version"] => version(),
            ["api"] if aggregated => return Some(self.aggregated(true)),
            ["apis"] if aggregated => return Some(self.aggregated(false)),
            ["api"] => json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [],
            }),
            ["apis"] => json!({
                "kind": "APIGroupList",
                "apiVersion": "v1",
                "groups": self.groups().into_iter().map(|(name, versions)| group(&name, &versions)).collect::<Vec<_>>(),
            }),
            ["apis", name] => {
                let groups = self.groups();
                let versions = groups.get(*name)?;
                let mut body = group(name, versions);
                body["kind"] = "APIGroup".into();
                body["apiVersion"] = "v1".into();
                body
            }
            ["api", version] => self.resources("", version)?,
            ["apis", name, version] => self.resources(name, version)?,
            ["openapi", "v3"] => openapi::index(&self.kinds),
            ["openapi", "v3", "api", version] => openapi::document(&self.kinds, "", version)?,
            ["openapi", "v3", "apis", name, version] => {
                openapi::document(&self.kinds, name, version)?
            }
            _ => return None,
        };
        let text = serde_json::to_vec(&body).expect("a JSON value can be written");
        Some(whole(200, text, &[]))
    }

    /// Groups but the nameless one, with their versions, best first.
    fn groups(&self) -> BTreeMap<String, Vec<String>> {
        let mut groups: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for resource in self.kinds.all().filter(|one| !one.group.is_empty()) {
            let versions = groups.entry(resource.group.clone()).or_default();
            if !versions.contains(&resource.version) {
                versions.push(resource.version.clone());
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(rank(version)));
        }
        groups
    }

    fn of_version<'a>(
        &'a self,
        group: &'a str,
        version: &'a str,
    ) -> impl Iterator<Item = &'a Arc<Resource>> {
        self.kinds
            .all()
            .filter(move |one| one.group == group && one.version == version)
    }

    fn resources(&self, group: &str, version: &str) -> Option<Value> {
        let mut list = Vec::new();
        for resource in self.of_version(group, version) {
            let mut entry = json!({
                "name": resource.plural,
                "singularName": resource.singular,
                "namespaced": resource.namespaced,
                "kind": resource.kind,
                "verbs": verbs(resource),
            });
            if !resource.short_names.is_empty() {
                entry["shortNames"] = json!(resource.short_names);
            }
            if !resource.categories.is_empty() {
                entry["categories"] = json!(resource.categories);
            }
            list.push(entry);
            for (sub, kind, verbs) in subresources(resource) {
                list.push(json!({
                    "name": format!("{}/{sub}", resource.plural),
                    "singularName": "",
                    "namespaced": resource.namespaced,
                    "kind": kind,
                    "verbs": verbs,
                }));
            }
        }
        if list.is_empty() {
            return None;
        }
        let name = if group.is_empty() {
            version.to_owned()
        } else {
            format!("{group}/{version}")
        };
        Some(json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": name,
            "resources": list,
        }))
    }

    fn aggregated(&self, core: bool) -> Answer {
        let groups: Vec<(String, Vec<String>)> = if core {
            vec![(String::new(), vec!["v1".to_owned()])]
        } else {
            self.groups().into_iter().collect()
        };
        let items: Vec<Value> =
            groups
                .iter()
                .map(|(group, versions)| {
                    let versions: Vec<Value> = versions
                    .iter()
                    .map(|version| {
                        let resources: Vec<Value> =
                            self.of_version(group, version).map(|one| described(one)).collect();
                        json!({"version": version, "resources": resources, "freshness": "Current"})
                    })
                    .collect();
                    let mut metadata = json!({"creationTimestamp": null});
                    if !group.is_empty() {
                        metadata["name"] = group.as_str().into();
                    }
                    json!({"metadata": metadata, "versions": versions})
                })
                .collect();
        let body = json!({
            "kind": "APIGroupDiscoveryList",
            "apiVersion": "apidiscovery.k8s.io/v2",
            "metadata": {},
            "items": items,
        });
        let text = serde_json::to_vec(&body).expect("a JSON value can be written");
        let response = http::Response::builder()
            .status(200)
            .header(
                http::header::CONTENT_TYPE,
                "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            )
            .body(text);
        Answer::Whole(response.expect("the parts are valid"))
    }
}

fn version() -> Value {
    json!({
        "major": "1",
        "minor": "37",
        "gitVersion": "v1.37.1+minicluster",
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": "linux/amd64",
    })
}

fn group(name: &str, versions: &[String]) -> Value {
    let entry =
        |version: &String| json!({"groupVersion": format!("{name}/{version}"), "version": version});
    let all: Vec<Value> = versions.iter().map(entry).collect();
    json!({"name": name, "versions": all, "preferredVersion": all.first()})
}

/// v2 before v1, v1 before v1beta2, and so on.
fn rank(version: &str) -> (u8, u32, u32) {
    let rest = version.trim_start_matches('v');
    let end = rest
        .find(|letter: char| !letter.is_ascii_digit())
        .unwrap_or(rest.len());
    let major = rest[..end].parse().unwrap_or(0);
    let (stage, minor) = match &rest[end..] {
        "" => (3, ""),
        beta if beta.starts_with("beta") => (2, &beta[4..]),
        alpha if alpha.starts_with("alpha") => (1, &alpha[5..]),
        _ => (0, ""),
    };
    (stage, major, minor.parse().unwrap_or(0))
}

fn verbs(resource: &Resource) -> Vec<&'static str> {
    let lacks = |verb: &str| verb == "deletecollection" && resource.is("Namespace");
    VERBS.into_iter().filter(|verb| !lacks(verb)).collect()
}

fn subresources(resource: &Resource) -> Vec<(&'static str, String, Vec<&'static str>)> {
    let mut all = Vec::new();
    if resource.is("Pod") {
        all.push(("binding", "Binding".to_owned(), vec!["create"]));
        all.push(("eviction", "Eviction".to_owned(), vec!["create"]));
        all.push(("log", "Pod".to_owned(), vec!["get"]));
    }
    if resource.is("Namespace") {
        all.push(("finalize", "Namespace".to_owned(), vec!["update"]));
    }
    if resource.status {
        all.push((
            "status",
            resource.kind.clone(),
            vec!["get", "patch", "update"],
        ));
    }
    all
}

fn described(resource: &Resource) -> Value {
    let kind =
        |kind: &str| json!({"group": resource.group, "version": resource.version, "kind": kind});
    let mut body = json!({
        "resource": resource.plural,
        "responseKind": kind(&resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Server" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        body["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        body["categories"] = json!(resource.categories);
    }
    let below: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|(sub, of, verbs)| json!({"subresource": sub, "responseKind": kind(&of), "verbs": verbs}))
        .collect();
    if !below.is_empty() {
        body["subresources"] = json!(below);
    }
    body
}
