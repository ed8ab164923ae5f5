//! The way of a request: from an HTTP message to a verb on a kind, and from its outcome to an
//! answer. Decides the routing; what the verbs do is in the modules below.

use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

pub(crate) mod admission;
pub(crate) mod convert;
pub(crate) mod delete;
pub(crate) mod discovery;
pub(crate) mod list;
pub(crate) mod openapi;
pub(crate) mod patching;
pub(crate) mod present;
pub(crate) mod request;
pub(crate) mod rules;
pub(crate) mod select;
pub(crate) mod subresources;
pub(crate) mod table;
pub(crate) mod watch;
pub(crate) mod write;

use crate::pod_ref::PodRef;
use crate::resource::Resource;
use crate::server::Server;
use crate::status::Refusal;
use crate::store::Key;
use request::{Form, Params, Target};

/// A request about objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) resource: Arc<Resource>,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) sub: String,
    pub(crate) params: Params,
    pub(crate) form: Form,
    pub(crate) now: Timestamp,
    pub(crate) manager: String,
    pub(crate) body: Vec<u8>,
    pub(crate) content_type: String,
    /// Group and version of the kind, as the request has it.
    pub(crate) api_version: String,
    pub(crate) warnings: Vec<String>,
}

/// The answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// All of it.
    Whole(http::Response<Vec<u8>>),
    /// 200, and then what [`crate::Cluster::follow`] says, as long as it says something.
    Watch(Box<watch::Watch>),
    /// 200, and then what the container wrote: the runner knows.
    Log(LogQuery),
}

/// A question for a container's output.
#[derive(Clone, Debug, PartialEq)]
pub struct LogQuery {
    /// The pod.
    pub pod: PodRef,
    /// Which of its containers.
    pub container: String,
    /// Go on as long as the container runs.
    pub follow: bool,
    /// Of the container's life before this one.
    pub previous: bool,
    /// Begin each line with its time.
    pub timestamps: bool,
    /// Only the last so many lines.
    pub tail_lines: Option<u64>,
    /// Only what was written in the last so many seconds.
    pub since_seconds: Option<u64>,
    /// Only what was written since.
    pub since: Option<Timestamp>,
    /// No more than so many bytes.
    pub limit_bytes: Option<u64>,
}

/// What a verb came to.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// An object of the call's kind.
    Object(u16, Arc<Value>),
    /// Something else, as it is.
    Plain(u16, Value),
    /// Text already written.
    Written(u16, Vec<u8>),
    Watch(Box<watch::Watch>),
    Log(LogQuery),
}

impl Call {
    /// Where the object stands.
    pub(crate) fn key(&self) -> Key {
        Key::new(&self.resource.id, &self.namespace, &self.name)
    }

    /// No object may change.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.params.has("dryRun") && !self.params.text("dryRun").is_empty()
    }

    /// There is no such object.
    pub(crate) fn not_found(&self) -> Refusal {
        Refusal::not_found(self.resource.of(), &self.name)
    }

    /// The object has the name that the path has.
    pub(crate) fn check_name(&self, named: &str) -> Result<(), Refusal> {
        if named == self.name {
            return Ok(());
        }
        Err(Refusal::bad_request(format!(
            "the name of the object ({named}) does not match the name on the URL ({})",
            self.name
        )))
    }
}

impl Server {
    pub(crate) fn answer(&mut self, now: Timestamp, request: http::Request<Vec<u8>>) -> Answer {
        let path = request.uri().path().to_owned();
        if let Some(answer) = self.answer_about_api(&path, &request) {
            return answer;
        }
        let mut parts = path.trim_matches('/').split('/');
        let known = match (parts.next(), parts.next()) {
            (Some("api"), Some("v1")) => true,
            (Some("apis"), Some(group)) => self.kinds.all().any(|one| one.group == group),
            _ => false,
        };
        if !known {
            return plain(404, "404 page not found\n");
        }
        let mut warnings = Vec::new();
        match self.serve(now, &path, request, &mut warnings) {
            Ok(answer) => answer,
            Err(refusal) => refuse(&refusal, &warnings),
        }
    }

    fn serve(
        &mut self,
        now: Timestamp,
        path: &str,
        request: http::Request<Vec<u8>>,
        warnings: &mut Vec<String>,
    ) -> Result<Answer, Refusal> {
        let target = request::target(path).ok_or_else(Refusal::no_such_path)?;
        let mut call = self.call(now, target, &request)?;
        let (parts, body) = request.into_parts();
        call.body = body;
        let outcome = self.dispatch(&parts.method, &mut call);
        warnings.append(&mut call.warnings);
        let outcome = outcome?;
        Ok(match outcome {
            Outcome::Object(code, object) => {
                let body = present::object(&call.resource, &object, call.form, &call);
                whole(code, body, warnings)
            }
            Outcome::Plain(code, body) => {
                let text = serde_json::to_vec(&body).expect("a JSON value can be written");
                whole(code, text, warnings)
            }
            Outcome::Written(code, text) => whole(code, text, warnings),
            Outcome::Watch(watch) => Answer::Watch(watch),
            Outcome::Log(query) => Answer::Log(query),
        })
    }

    fn call(
        &self,
        now: Timestamp,
        target: Target,
        request: &http::Request<Vec<u8>>,
    ) -> Result<Call, Refusal> {
        let header = |name: http::header::HeaderName| {
            let value = request.headers().get(name);
            value
                .and_then(|value| value.to_str().ok())
                .unwrap_or_default()
                .to_owned()
        };
        let resource = self
            .kinds
            .get(&target.group, &target.version, &target.plural);
        let resource = resource.cloned().ok_or_else(Refusal::no_such_path)?;
        if !target.namespace.is_empty() && !resource.namespaced {
            return Err(Refusal::no_such_path());
        }
        let params = Params::parse(request.uri().query().unwrap_or_default());
        let manager = match params.text("fieldManager") {
            "" => {
                let agent = header(http::header::USER_AGENT);
                let first = agent.split('/').next().unwrap_or_default().to_owned();
                if first.is_empty() {
                    "unknown".to_owned()
                } else {
                    first
                }
            }
            named => named.to_owned(),
        };
        let mut call = Call {
            namespace: target.namespace,
            name: target.name,
            sub: target.sub,
            form: request::form(&header(http::header::ACCEPT)).or_else(|refusal| {
                // Logs are text whatever was asked for.
                if request.uri().path().ends_with("/log") {
                    Ok(Form::Whole)
                } else {
                    Err(refusal)
                }
            })?,
            params,
            now,
            manager,
            body: Vec::new(),
            content_type: header(http::header::CONTENT_TYPE),
            api_version: resource.api_version(),
            warnings: Vec::new(),
            resource,
        };
        if call.params.text("fieldManager").len() > 128 {
            let options = match *request.method() {
                http::Method::POST => "CreateOptions",
                http::Method::PUT => "UpdateOptions",
                _ => "PatchOptions",
            };
            let cause = crate::status::Cause::too_long("fieldManager", 128);
            return Err(Refusal::invalid("meta.k8s.io", options, "", vec![cause]));
        }
        if let Some(said) = call
            .resource
            .custom
            .as_ref()
            .and_then(|custom| custom.deprecated.clone())
        {
            call.warnings.push(said);
        }
        Ok(call)
    }

    /// The object that the request is about.
    fn stored(&self, call: &Call) -> Result<Arc<Value>, Refusal> {
        let object = self.store.get(&call.key()).cloned();
        object.ok_or_else(|| call.not_found())
    }

    fn dispatch(&mut self, method: &http::Method, call: &mut Call) -> Result<Outcome, Refusal> {
        if !call.sub.is_empty() && call.sub != "status" {
            return self.subresource(method, call);
        }
        if call.sub == "status" && !call.resource.status {
            return Err(Refusal::no_such_path());
        }
        match (method.as_str(), call.name.is_empty()) {
            ("GET", true) if call.params.flag("watch") => self.watch(call),
            ("GET", true) => self.list(call),
            ("GET", false) => Ok(Outcome::Object(200, self.stored(call)?)),
            ("POST", true) if call.resource.namespaced && call.namespace.is_empty() => {
                Err(Refusal::method_not_allowed())
            }
            ("POST", true) => self.create(call),
            ("PUT", false) => self.replace(call),
            ("PATCH", false) => self.patch(call),
            ("DELETE", false) if call.sub.is_empty() => self.delete(call),
            ("DELETE", true) => self.delete_collection(call),
            _ => Err(Refusal::method_not_allowed()),
        }
    }
}

/// A finished answer.
pub(crate) fn whole(code: u16, body: Vec<u8>, warnings: &[String]) -> Answer {
    let mut response = http::Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "application/json");
    for warning in warnings {
        let quoted = warning
            .replace('\\', "\\\\")
            .replace('"', "\\\"")
            .replace('\n', " ");
        let header = format!("299 - \"{quoted}\"");
        if let Ok(value) = http::HeaderValue::from_str(&header) {
            response = response.header(http::header::WARNING, value);
        }
    }
    Answer::Whole(response.body(body).expect("the parts are valid"))
}

/// An answer that is no object, not even an error of the API.
pub(crate) fn plain(code: u16, text: &str) -> Answer {
    let response = http::Response::builder()
        .status(code)
        .header(http::header::CONTENT_TYPE, "text/plain; charset=utf-8")
        .body(text.as_bytes().to_vec());
    Answer::Whole(response.expect("the parts are valid"))
}

fn refuse(refusal: &Refusal, warnings: &[String]) -> Answer {
    let body = serde_json::to_vec(&refusal.body()).expect("a JSON value can be written");
    whole(refusal.code, body, warnings)
}

/// The answer to a deletion that left nothing behind.
pub(crate) fn success(call: &Call, uid: &str) -> Value {
    let details = crate::status::Details {
        name: call.name.clone(),
        group: call.resource.group.clone(),
        kind: call.resource.plural.clone(),
        uid: uid.to_owned(),
        ..crate::status::Details::default()
    };
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details.body(),
    })
}
