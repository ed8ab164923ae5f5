//! An API server in a value, which serves the shipped definitions. Decides how requests and answers are written.

use std::cell::RefCell;

use jiff::Timestamp;
use minicluster::{Answer, Cluster, Config};
use serde_json::Value;

const DEFINITIONS: [&str; 4] = [
    include_str!("../../deploy/crds/kubeflow.org_mpijobs.yaml"),
    include_str!("../../deploy/crds/batch.tensorstack.dev_mpijobs.yaml"),
    include_str!("../../deploy/crds/batch.test.bdap.com_mpijobs.yaml"),
    include_str!("../../deploy/crds/muster.dev_openmpis.yaml"),
];
/// Where definitions are created.
pub(crate) const DEFINITIONS_PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The media types of patches.
pub(crate) const MERGE: &str = "application/merge-patch+json";
pub(crate) const STRATEGIC: &str = "application/strategic-merge-patch+json";
pub(crate) const JSON_PATCH: &str = "application/json-patch+json";
pub(crate) const APPLY: &str = "application/apply-patch+yaml";

/// One API server.
#[derive(Clone)]
pub(crate) struct ApiServer {
    cluster: Cluster,
}

thread_local! {
    /// Reading the definitions takes longer than an input.
    static READY: RefCell<Option<ApiServer>> = const { RefCell::new(None) };
}

impl ApiServer {
    /// Without any definition.
    pub(crate) fn bare() -> Self {
        let cluster = Cluster::new(Config {
            controllers: false,
            service_accounts: false,
            history: 16,
            ..Config::default()
        });
        Self { cluster }
    }

    /// With the definitions that we ship.
    pub(crate) fn shipped() -> Self {
        READY.with_borrow_mut(|ready| {
            let ready = ready.get_or_insert_with(|| {
                let mut server = Self::bare();
                for text in DEFINITIONS {
                    let definition: Value = serde_saphyr::from_str(text).expect("it is YAML");
                    let (code, answer) = server.post(DEFINITIONS_PATH, &definition);
                    assert_eq!(code, 201, "{answer}");
                }
                server
            });
            ready.clone()
        })
    }

    pub(crate) fn post(&mut self, path: &str, object: &Value) -> (u16, Value) {
        self.ask("POST", path, "application/json", object.to_string())
    }

    pub(crate) fn put(&mut self, path: &str, object: &Value) -> (u16, Value) {
        self.ask("PUT", path, "application/json", object.to_string())
    }

    pub(crate) fn get(&mut self, path: &str) -> (u16, Value) {
        self.ask("GET", path, "application/json", String::new())
    }

    /// The code and the answer, which is JSON.
    pub(crate) fn ask(
        &mut self,
        method: &str,
        path: &str,
        media_type: &str,
        body: String,
    ) -> (u16, Value) {
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("Content-Type", media_type)
            .body(body.into_bytes())
            .expect("the parts are valid");
        let Answer::Whole(answer) = self.cluster.handle(Timestamp::UNIX_EPOCH, request) else {
            panic!("{path} is answered at once");
        };
        let text = String::from_utf8_lossy(answer.body());
        let value = serde_json::from_str(&text);
        let value = value.unwrap_or_else(|error| panic!("{error}: no JSON: {text}"));
        (answer.status().as_u16(), value)
    }
}

/// A refusal says which fields are wrong.
pub(crate) fn assert_names_a_field(code: u16, refusal: &Value) {
    assert_eq!(refusal["kind"], "Status", "{refusal}");
    assert!(
        refusal["message"]
            .as_str()
            .is_some_and(|words| !words.is_empty())
    );
    if code != 422 {
        return;
    }
    let causes = refusal["details"]["causes"].as_array();
    let causes = causes.map_or(&[][..], Vec::as_slice);
    // A rule about a whole object names the field in its message.
    let is_named = |cause: &Value| {
        let text = |part: &str| cause[part].as_str().unwrap_or_default().to_owned();
        let message = text("message");
        !text("field").is_empty() || message.contains("spec.") || message.contains("metadata.")
    };
    assert!(
        !causes.is_empty() && causes.iter().all(is_named),
        "{refusal}"
    );
}
