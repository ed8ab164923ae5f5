//! The shipped custom resource definitions accept and refuse the same jobs here as on a real API server:
//! every fixture of `e2e/fixtures`, whose first line says which field a refusal names.
#![expect(
    clippy::disallowed_methods,
    reason = "definitions and fixtures are files"
)]

use std::path::{Path, PathBuf};

use jiff::Timestamp;
use minicluster::{Answer, Cluster, Config};
use serde_json::Value;

fn repository(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(relative)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("the folder can be listed");
    let mut paths: Vec<_> = entries
        .map(|entry| entry.expect("so can its entries").path())
        .collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    paths
}

fn text(file: &Path) -> String {
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn object(file: &Path) -> Value {
    serde_saphyr::from_str(&text(file)).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

fn post(cluster: &mut Cluster, path: &str, body: &Value) -> (u16, String) {
    let request = http::Request::post(path)
        .header("Content-Type", "application/json")
        .body(body.to_string().into_bytes())
        .expect("the parts are valid");
    let Answer::Whole(answer) = cluster.handle(Timestamp::UNIX_EPOCH, request) else {
        panic!("{path} is answered at once");
    };
    let text = String::from_utf8_lossy(answer.body()).into_owned();
    (answer.status().as_u16(), text)
}

/// A cluster that serves all dialects.
fn cluster() -> Cluster {
    let mut cluster = Cluster::new(Config::default());
    let files = entries(&repository("deploy/crds"));
    for file in files
        .iter()
        .filter(|file| !file.ends_with("kustomization.yaml"))
    {
        let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let (code, answer) = post(&mut cluster, path, &object(file));
        assert_eq!(code, 201, "{answer}");
    }
    cluster
}

fn create(cluster: &mut Cluster, file: &Path) -> (u16, String) {
    let mut job = object(file);
    job["metadata"]["namespace"] = "default".into();
    let version = job["apiVersion"].as_str().expect("a job has an apiVersion");
    let plural = match job["kind"].as_str() {
        Some("OpenMPI") => "openmpis",
        _ => "mpijobs",
    };
    let path = format!("/apis/{version}/namespaces/default/{plural}?dryRun=All");
    post(cluster, &path, &job)
}

/// Known limit: a rule with `optionalOldSelf` refuses a new object, but with this text instead of its own.
const NO_OLD_SELF: &str = "rule evaluation error";

#[test]
fn good_jobs_are_accepted() {
    let mut cluster = cluster();
    for dialect in entries(&repository("e2e/fixtures")) {
        for file in entries(&dialect.join("accepted")) {
            let (code, answer) = create(&mut cluster, &file);
            assert_eq!(code, 201, "{}: {answer}", file.display());
        }
    }
}

#[test]
fn bad_jobs_are_refused_by_the_name_of_their_fault() {
    let (mut cluster, mut wrong) = (cluster(), Vec::new());
    for dialect in entries(&repository("e2e/fixtures")) {
        for file in entries(&dialect.join("refused")) {
            let text = text(&file);
            let named = text
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("# names: "));
            let named = named
                .expect("the first line says what a refusal names")
                .trim();
            let (code, answer) = create(&mut cluster, &file);
            let is_named =
                answer.contains(&named.replace('"', "\\\"")) || answer.contains(NO_OLD_SELF);
            if code < 400 || !is_named {
                wrong.push(format!("{}: {code} {answer}", file.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
