//! The rights that `deploy/muster.yaml` gives the operator are those that it uses: jobs that need each of them run
//! under its roles, and the audit log says what was asked. A right that nobody uses, and one that is missing, fail
//! the test. Roles for gangs and for bdap's jobs are left out. What an operator's stolen token is good for is written down, and contains no Secret.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::api::collection;
use e2e::api_fixture::{ApiFixture, FAILED, PodState, SOON, name, new_namespace};
use e2e::audit::{Audit, table};
use e2e::figures::say;
use e2e::jobs::MpiJob;
use e2e::operator::{Account, Operator, objects, repository, shipped};
use e2e::scraper;
use e2e::{Cluster, condition, wait_for};
use serde_json::{Value, json};

use super::fixture::prepared;

/// The operator asks for the events of a pod on a node that has not started after eight seconds.
const EVENTS_WITHIN: Duration = Duration::from_secs(30);
/// Kubeflow's jobs need no more pairs of resource and verb, cluster-wide.
const PAIRS_MAX: usize = 34;
/// The operator finds its objects by this label, and takes one back that has lost it.
const WATCH_LABEL: &str = "app.kubernetes.io/managed-by";
/// Larger than the text of a job that the operator keeps: it reads a larger one when it needs it.
const LARGE: usize = 70_000;

/// Group, resource and verb.
type Right = (String, String, String);

/// Roles of `deploy/muster.yaml` whose rights are all used here. The one for gangs is not: each of its rights is
/// for another scheduler.
const ROLES: [&str; 6] = [
    "muster-jobs",
    "muster-lease",
    "muster-openmpi",
    "muster-t9k",
    "muster-network-policies",
    "muster-metrics",
];

/// The API server asks about these itself, where it checks owner references; no request needs them.
fn is_for_admission(right: &Right) -> bool {
    right.1.ends_with("/finalizers") && right.2 == "update"
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    let texts = list.as_array().into_iter().flatten();
    texts.filter_map(|text| text.as_str().map(str::to_owned))
}

/// What the shipped roles of these names grant.
fn granted(cluster: &Cluster, roles: &[&str]) -> Result<BTreeSet<Right>> {
    let shipped = shipped(cluster)?;
    let mut rights = BTreeSet::new();
    for role in roles {
        let mut named = shipped.iter().filter(|object| name(object) == *role);
        let role = named
            .find(|object| object["rules"].is_array())
            .with_context(|| format!("deploy/ has no role {role}"))?;
        for rule in role["rules"].as_array().into_iter().flatten() {
            for group in texts(&rule["apiGroups"]) {
                for resource in texts(&rule["resources"]) {
                    for verb in texts(&rule["verbs"]) {
                        ensure!(
                            ![&group, &resource, &verb].contains(&&"*".to_owned()),
                            "{rule}"
                        );
                        rights.insert((group.clone(), resource.clone(), verb));
                    }
                }
            }
        }
    }
    Ok(rights)
}

fn shown(rights: &BTreeSet<Right>) -> String {
    let lines = rights.iter().map(|(group, resource, verb)| match &**group {
        "" => format!("{verb} {resource}"),
        group => format!("{verb} {resource}.{group}"),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Somebody takes the label off the job's objects, which the operator then asks for and takes back.
fn lose_labels(fixture: &ApiFixture, objects: &[(&str, &str)]) -> Result<()> {
    for (resource, name) in objects {
        let path = fixture.path(resource, name);
        let patch = json!({"metadata": {"labels": {WATCH_LABEL: null}}});
        fixture.await_object(resource, name)?;
        fixture.api.merge(&path, &patch)?;
        wait_for(&format!("{resource} {name} to be taken back"), SOON, || {
            let object = fixture.api.get(&path)?;
            Ok(object.filter(|object| object["metadata"]["labels"][WATCH_LABEL] == "muster"))
        })?;
    }
    Ok(())
}

/// A job of any API, at this path, that is too large to be kept.
fn submit_large(fixture: &ApiFixture, path: &str, mut job: Value, name: &str) -> Result<()> {
    job["metadata"]["name"] = name.into();
    job["metadata"]["annotations"] = json!({"padding": "x".repeat(LARGE)});
    fixture.api.create(path, &job)?;
    Ok(())
}

/// Workers, launcher, addresses, scaling, an edit, the end.
fn an_ordinary_life(fixture: &ApiFixture) -> Result<()> {
    let mut job = MpiJob::named("pi")
        .workers(2)
        .clean_pod_policy("Running")
        .json();
    job["spec"]["muster"] = json!({"networkPolicy": "On", "transport": "Agent"});
    fixture.create("mpijobs", &job)?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    lose_labels(
        fixture,
        &[
            ("services", "pi"),
            ("configmaps", "pi-config"),
            ("jobs", "pi-launcher"),
            ("networkpolicies", "pi"),
        ],
    )?;
    fixture.edit("pi", &json!({"spec": {"muster": {"networkPolicy": "Off"}}}))?;
    wait_for("the NetworkPolicy to go", SOON, || {
        let policy = fixture.get("networkpolicies", "pi")?;
        Ok(policy.is_none().then_some(()))
    })?;
    fixture.finish("pi")?;
    fixture.await_condition("pi", "Succeeded")?;
    fixture.await_pods("pi", "worker", 0)?;
    Ok(())
}

/// Suspended and resumed with another template, under a Job that keeps its start time, as that of Kubernetes
/// before 1.36 does.
fn a_pause(fixture: &ApiFixture) -> Result<()> {
    let suspend = |suspend: bool, note: &str| {
        let template = json!({"metadata": {"annotations": {"note": note}}});
        let spec = json!({"runPolicy": {"suspend": suspend},
            "mpiReplicaSpecs": {"Launcher": {"template": template}}});
        fixture.edit("pause", &json!({"spec": spec}))
    };
    fixture.submit(&MpiJob::named("pause").workers(1))?;
    fixture.run("pause", 1)?;
    fixture.await_condition("pause", "Running")?;
    suspend(true, "")?;
    fixture.await_condition("pause", "Suspended")?;
    fixture.await_pods("pause", "launcher", 0)?;
    let job = format!("{}/status", fixture.path("jobs", "pause-launcher"));
    let start = json!({"status": {"startTime": "2026-01-01T00:00:00Z"}});
    fixture.api.merge(&job, &start)?;
    suspend(false, "other")?;
    fixture.await_pods("pause", "launcher", 1)?;
    Ok(())
}

/// A worker is lost: the launcher's Job is stopped, which Kubernetes does not delete after its time to live.
fn a_loss(fixture: &ApiFixture) -> Result<()> {
    fixture.submit(&MpiJob::named("loss").workers(1).ttl_secs(1))?;
    fixture.run("loss", 1)?;
    fixture.await_condition("loss", "Running")?;
    let evicted = PodState::Failed {
        reason: "Evicted",
        message: "",
    };
    fixture.set(&fixture.pods("loss", "worker")?, evicted)?;
    fixture.await_condition("loss", "Failed")?;
    wait_for("the launcher's Job to be deleted", SOON, || {
        let job = fixture.get("jobs", "loss-launcher")?;
        Ok(job.is_none().then_some(()))
    })
}

/// Somebody has the name of a worker.
fn a_taken_name(fixture: &ApiFixture) -> Result<()> {
    let pod = json!({"metadata": {"name": "taken-worker-0"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    fixture.create("pods", &pod)?;
    fixture.submit(&MpiJob::named("taken").workers(1))?;
    fixture.await_job("taken", "the name is taken", SOON, |job| {
        job["status"]["muster"]["reason"] == "NameTaken"
    })?;
    Ok(())
}

/// A worker is on a node and does not start: events alone can tell why.
fn a_slow_worker(fixture: &ApiFixture, audit: &Audit) -> Result<()> {
    fixture.submit(&MpiJob::named("slow").workers(1))?;
    fixture.await_pods("slow", "worker", 1)?;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "slow-worker-0"},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "somewhere"}});
    let path = format!("{}/binding", fixture.path("pods", "slow-worker-0"));
    fixture.api.create(&path, &binding)?;
    wait_for("the operator to ask for events", EVENTS_WITHIN, || {
        let asked = audit.requests_of(&fixture.account.user)?;
        let mut asked = asked.iter();
        Ok(asked
            .any(|request| request.verb == "list" && request.resource == "events")
            .then_some(()))
    })
}

/// A job of v1 deletes itself when its time to live is over.
fn a_job_that_goes(fixture: &ApiFixture) -> Result<()> {
    let path = collection(&fixture.namespace, "mpijobs").replace("/v2beta1/", "/v1/");
    let template = json!({"spec": {"containers": [{"name": "c", "image": "i"}]}});
    let replica = json!({"replicas": 1, "template": template});
    let job = json!({
        "apiVersion": "kubeflow.org/v1",
        "kind": "MPIJob",
        "metadata": {"name": "goes"},
        "spec": {"runPolicy": {"ttlSecondsAfterFinished": 0},
            "mpiReplicaSpecs": {"Launcher": replica, "Worker": replica}},
    });
    fixture.api.create(&path, &job)?;
    let workers = fixture.await_pods("goes", "worker", 1)?;
    fixture.set(&workers, PodState::Ready)?;
    let launcher = fixture.await_pods("goes", "master", 1)?;
    fixture.set(&launcher, PodState::Succeeded)?;
    wait_for("the job to be deleted", SOON, || {
        Ok(fixture.get("mpijobs", "goes")?.is_none().then_some(()))
    })
}

/// An account of its own, and workers that are told of the end or deleted.
fn an_openmpi(fixture: &ApiFixture) -> Result<()> {
    let path = format!(
        "/apis/muster.dev/v1alpha1/namespaces/{}/openmpis",
        fixture.namespace
    );
    let job = json!({
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "OpenMPI",
        "metadata": {},
        "spec": {"image": "i", "secret": "keys", "workers": 2, "exec": "mpiexec hostname"},
    });
    submit_large(fixture, &path, job, "hello")?;
    let workers = fixture.await_pods("hello", "worker", 2)?;
    fixture.set(&workers[..1], PodState::Ready)?;
    let master = fixture.await_pods("hello", "launcher", 1)?;
    fixture.set(&master, PodState::Ready)?;
    lose_labels(
        fixture,
        &[
            ("serviceaccounts", "hello"),
            ("roles", "hello"),
            ("rolebindings", "hello"),
        ],
    )?;
    fixture.set(&master, FAILED)?;
    let path = format!("{path}/hello");
    wait_for("the OpenMPI to fail", SOON, || {
        let job = fixture.api.get(&path)?;
        Ok(job.filter(|job| condition(job, "Failed") == Some("True")))
    })?;
    // The worker that never started is deleted, and the other one told of the end.
    fixture.await_pods("hello", "worker", 1)?;
    Ok(())
}

fn a_t9k_job(fixture: &ApiFixture) -> Result<()> {
    let namespace = &fixture.namespace;
    let path = format!("/apis/batch.tensorstack.dev/v1beta1/namespaces/{namespace}/mpijobs");
    let template = json!({"spec": {"containers": [{"name": "mpi-worker", "image": "w"}]}});
    let job = json!({
        "apiVersion": "batch.tensorstack.dev/v1beta1",
        "kind": "MPIJob",
        "metadata": {},
        "spec": {"worker": {"replicas": 1, "cmd": ["./walk"], "template": template}},
    });
    submit_large(fixture, &path, job, "walk")?;
    fixture.run("walk", 1)
}

/// Somebody with a token asks for the metrics.
fn a_reader_of_metrics(fixture: &ApiFixture, operator: &Operator) -> Result<()> {
    let token = scraper::account(&fixture.api, &fixture.namespace, "reader")?;
    let (code, text) = scraper::scrape(operator.guarded_port(), Some(&token))?;
    ensure!(code == 403, "{code}: {text}");
    Ok(())
}

/// A namespace with the account and those rights of `deploy/muster.yaml` that are selected, and no others. The
/// API server takes up new bindings after a moment: this waits for all of them.
fn installed(words: &str, selects: fn(&Value) -> bool) -> Result<ApiFixture> {
    let prepared = prepared()?;
    let (cluster, api) = (&prepared.cluster, &prepared.api);
    let namespace = new_namespace(api, words)?;
    let file = repository().join("deploy/muster.yaml");
    let mut objects = objects(cluster, &["-f", &file.to_string_lossy()])?;
    objects.retain(selects);
    let account = Account::install_from(cluster, api, &namespace, objects)?;
    let fixture = ApiFixture {
        cluster: cluster.clone(),
        api: api.clone(),
        namespace,
        account,
    };
    wait_for("the rights to be there", SOON, || {
        let said = may(&fixture)?;
        Ok(["jobs.batch", "leases"]
            .iter()
            .all(|resource| said.contains(resource))
            .then_some(()))
    })?;
    Ok(fixture)
}

/// What the operator's token is good for.
fn may(fixture: &ApiFixture) -> Result<String> {
    let list = ["auth", "can-i", "--list", "-n", &fixture.namespace];
    let (done, said) = as_operator(fixture, &list)?;
    ensure!(done, "{said}");
    Ok(said)
}

/// Decision 54: who runs Kubeflow's jobs alone may leave the other roles out.
#[test]
fn kubeflows_jobs_need_no_other_role_than_theirs() -> Result<()> {
    let fixture = installed("jobs-alone", |object| {
        let name = name(object);
        !name.starts_with("muster-") || ["muster-jobs", "muster-lease"].contains(&name)
    })?;
    let said = may(&fixture)?;
    ensure!(!said.contains("podgroups"), "{said}");
    let operator = fixture.operator()?;
    fixture.submit(&MpiJob::named("pi").workers(2))?;
    fixture.run("pi", 2)?;
    fixture.await_condition("pi", "Running")?;
    fixture.finish("pi")?;
    fixture.await_condition("pi", "Succeeded")?;
    let token = scraper::account(&fixture.api, &fixture.namespace, "reader")?;
    let (code, text) = scraper::scrape(operator.guarded_port(), Some(&token))?;
    ensure!(code == 503, "{code}: {text}");
    operator.assert_alive()
}

#[test]
fn every_right_is_used_and_none_is_missing() -> Result<()> {
    let fixture = installed("rights", |_| true)?;
    let audit = Audit::from_now(&fixture.cluster)?;
    let operator = fixture.operator()?;
    an_ordinary_life(&fixture)?;
    a_pause(&fixture)?;
    a_loss(&fixture)?;
    a_taken_name(&fixture)?;
    a_job_that_goes(&fixture)?;
    let large = MpiJob::named("large").workers(1).json();
    submit_large(
        &fixture,
        &collection(&fixture.namespace, "mpijobs"),
        large,
        "large",
    )?;
    fixture.run("large", 1)?;
    an_openmpi(&fixture)?;
    a_t9k_job(&fixture)?;
    a_slow_worker(&fixture, &audit)?;
    a_reader_of_metrics(&fixture, &operator)?;

    let user = &fixture.account.user;
    let mut forbidden = audit.requests_of(user)?;
    // Bdap's API is served here, and the one file has no right to its jobs.
    forbidden.retain(|request| request.code == 403 && !request.group.ends_with("bdap.com"));
    ensure!(forbidden.is_empty(), "missing:\n{}", table(&forbidden));
    let used: BTreeSet<Right> = audit
        .requests_of(user)?
        .into_iter()
        .map(|request| (request.group, request.resource, request.verb))
        .collect();
    let mut unused = granted(&fixture.cluster, &ROLES)?;
    let (all, pairs) = (unused.len(), granted(&fixture.cluster, &ROLES[..1])?.len());
    unused.retain(|right| !used.contains(right) && !is_for_admission(right));
    ensure!(unused.is_empty(), "never used:\n{}", shown(&unused));
    ensure!(pairs <= PAIRS_MAX, "{pairs} pairs for Kubeflow's jobs");
    say(&format!(
        "rights: {all} pairs granted and used, {pairs} of them for Kubeflow's jobs:\n{}",
        shown(&granted(&fixture.cluster, &ROLES)?)
    ));
    operator.assert_alive()
}

/// Runs kubectl as the operator, with its token.
fn as_operator(fixture: &ApiFixture, words: &[&str]) -> Result<(bool, String)> {
    let output = Command::new(fixture.cluster.state.join("kubectl"))
        .arg("--kubeconfig")
        .arg(&fixture.account.kubeconfig)
        .args(words)
        .output()
        .context("starting kubectl")?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    Ok((output.status.success(), said))
}

#[test]
fn t13_what_a_stolen_token_is_good_for_is_written_down() -> Result<()> {
    let fixture = installed("stolen", |_| true)?;
    let mut lines = Vec::new();
    wait_for("all rights to be there", SOON, || {
        let said = may(&fixture)?;
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        lines = said.lines().skip(1).map(words).collect();
        lines.sort();
        let last = ["networkpolicies", "podgroups", "openmpis", "tensorstack"];
        Ok(last
            .iter()
            .all(|resource| said.contains(resource))
            .then_some(()))
    })?;
    let text = lines.join("\n") + "\n";
    let file = repository().join("deploy/rights.txt");
    if std::env::var_os("MUSTER_UPDATE_GOLDEN").is_some() {
        return Ok(fs::write(file, text)?);
    }
    let written = fs::read_to_string(&file)?;
    if text != written {
        bail!("deploy/rights.txt says\n{written}\nand the operator may\n{text}");
    }
    Ok(())
}

#[test]
fn t13_a_stolen_token_lists_and_reads_no_secret() -> Result<()> {
    let fixture = installed("stolen", |_| true)?;
    let namespace = &fixture.namespace;
    let make = ["create", "secret", "generic", "theirs", "-n", namespace];
    let make = [&make[..], &["--from-literal=key=value"]].concat();
    fixture.cluster.kubectl(&make)?;
    let (may, said) = as_operator(&fixture, &["get", "pods", "-n", namespace])?;
    ensure!(may, "the token is good for nothing: {said}");
    for words in [
        &["get", "secrets", "-n", namespace][..],
        &["get", "secrets", "--all-namespaces"],
        &["get", "secret", "theirs", "-n", namespace],
    ] {
        let (may, said) = as_operator(&fixture, words)?;
        ensure!(
            !may && said.contains("Forbidden"),
            "kubectl {}: {said}",
            words.join(" ")
        );
    }
    Ok(())
}
