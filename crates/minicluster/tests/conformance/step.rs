//! Cases as data: requests, one after the other, in a namespace of their own. What one answer told
//! (`${0.uid}`, `${0.rv}`) may be part of a later request.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};

use crate::arms::Arm;
use crate::normal::Normal;

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) method: &'static str,
    pub(crate) path: String,
    pub(crate) content: &'static str,
    pub(crate) accept: &'static str,
    pub(crate) body: String,
    /// Ask again until the code is this one.
    pub(crate) until: Option<u16>,
}

/// Requests that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// A case without requests.
pub(crate) fn case(name: &'static str) -> Case {
    Case {
        name,
        steps: Vec::new(),
    }
}

impl Case {
    fn step(
        mut self,
        method: &'static str,
        path: impl Into<String>,
        content: &'static str,
        body: String,
    ) -> Self {
        self.steps.push(Step {
            method,
            path: path.into(),
            content,
            accept: "application/json",
            body,
            until: None,
        });
        self
    }

    pub(crate) fn get(self, path: impl Into<String>) -> Self {
        self.step("GET", path, "", String::new())
    }

    pub(crate) fn get_as(self, path: impl Into<String>, accept: &'static str) -> Self {
        self.get(path).answered_as(accept)
    }

    /// The last request asks for its answer in this form.
    pub(crate) fn answered_as(mut self, accept: &'static str) -> Self {
        self.steps.last_mut().expect("a step was added").accept = accept;
        self
    }

    /// GET until the code is this one: controllers take their time.
    pub(crate) fn until(self, path: impl Into<String>, code: u16) -> Self {
        let mut case = self.get(path);
        case.steps.last_mut().expect("a step was added").until = Some(code);
        case
    }

    pub(crate) fn post(self, path: impl Into<String>, body: Value) -> Self {
        self.step("POST", path, "application/json", body.to_string())
    }

    pub(crate) fn put(self, path: impl Into<String>, body: Value) -> Self {
        self.step("PUT", path, "application/json", body.to_string())
    }

    pub(crate) fn merge(self, path: impl Into<String>, body: Value) -> Self {
        self.step(
            "PATCH",
            path,
            "application/merge-patch+json",
            body.to_string(),
        )
    }

    pub(crate) fn json(self, path: impl Into<String>, body: Value) -> Self {
        self.step(
            "PATCH",
            path,
            "application/json-patch+json",
            body.to_string(),
        )
    }

    pub(crate) fn strategic(self, path: impl Into<String>, body: Value) -> Self {
        self.step(
            "PATCH",
            path,
            "application/strategic-merge-patch+json",
            body.to_string(),
        )
    }

    pub(crate) fn apply(self, path: impl Into<String>, body: Value) -> Self {
        self.step(
            "PATCH",
            path,
            "application/apply-patch+yaml",
            body.to_string(),
        )
    }

    pub(crate) fn raw(
        self,
        method: &'static str,
        path: impl Into<String>,
        content: &'static str,
        body: &str,
    ) -> Self {
        self.step(method, path, content, body.to_owned())
    }

    pub(crate) fn delete(self, path: impl Into<String>, options: Value) -> Self {
        let body = if options.is_null() {
            String::new()
        } else {
            options.to_string()
        };
        self.step("DELETE", path, "application/json", body)
    }

    /// The normalised answers of one arm.
    pub(crate) async fn run(&self, namespace: &str, arm: &mut dyn Arm) -> Vec<Value> {
        make_namespace(namespace, arm).await;
        let mut known: BTreeMap<String, String> = BTreeMap::new();
        let mut normal = Normal::default();
        let mut answers = Vec::new();
        for (index, step) in self.steps.iter().enumerate() {
            let fill = |text: &str| {
                let mut text = text.replace("${ns}", namespace);
                for (name, value) in &known {
                    text = text.replace(name, value);
                }
                text
            };
            let (path, body) = (fill(&step.path), fill(&step.body));
            let mut tries = 0;
            let (code, text, warnings) = loop {
                let mut request = http::Request::builder()
                    .method(step.method)
                    .uri(&path)
                    .header("Accept", step.accept)
                    .header("User-Agent", "conformance/1");
                if !step.content.is_empty() {
                    request = request.header("Content-Type", step.content);
                }
                let request = request
                    .body(body.clone().into_bytes())
                    .expect("the parts are valid");
                if step.until.is_some() {
                    arm.settle();
                }
                let reply = arm.ask(request).await;
                tries += 1;
                if step.until.is_none_or(|code| code == reply.0) || tries > 200 {
                    break reply;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            };
            let watch = path.contains("watch=true") && code == 200;
            let body = if watch {
                normal.lines(&text)
            } else {
                normal.whole(&text, &mut known, index)
            };
            answers.push(json!({"code": code, "warnings": warnings, "body": body}));
        }
        answers
    }
}

/// Makes the case's namespace, and waits for what pods need in it.
async fn make_namespace(namespace: &str, arm: &mut dyn Arm) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    let request = http::Request::post("/api/v1/namespaces")
        .header("Content-Type", "application/json")
        .body(body.to_string().into_bytes())
        .expect("the parts are valid");
    arm.ask(request).await;
    for _ in 0..200 {
        let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/default");
        let request = http::Request::get(path)
            .body(Vec::new())
            .expect("the parts are valid");
        if arm.ask(request).await.0 == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("namespace {namespace} has no service account");
}
