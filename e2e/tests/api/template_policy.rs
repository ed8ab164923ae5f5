//! The optional admission policy: what a job's pods use, its author must be allowed to use. Asked of the
//! real API server, by people with real RBAC roles, for jobs of every API.

use anyhow::{Context, Result, ensure};
use e2e::api_fixture::{ApiFixture, SOON};
use e2e::figures::say;
use e2e::operator::repository;
use e2e::wait_for;
use serde_json::{Value, json};

use super::fixture::new_fixture;

/// May write jobs, and nothing else.
const WRITER: &str = "writer";
/// May also create pods.
const RUNNER: &str = "runner";
/// Has Kubernetes' own role `edit` too.
const EDITOR: &str = "editor";
/// May also use the host's things.
const TRUSTED: &str = "trusted";

/// Installs the shipped policies, for the test's own namespace alone: other tests create jobs meanwhile.
fn install(fixture: &ApiFixture) -> Result<()> {
    let folder = repository().join("deploy/admission");
    let folder = folder.to_string_lossy();
    let args = ["kustomize", &folder];
    let text = fixture.cluster.kubectl(&args)?;
    let args = ["create", "--dry-run=client", "-o", "json", "-f", "-"];
    let text = fixture.cluster.kubectl_with(&args, &text)?;
    let mut documents = Vec::new();
    for document in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let mut document = document?;
        match document.get_mut("items").and_then(Value::as_array_mut) {
            Some(items) => documents.append(items),
            None => documents.push(document),
        }
    }
    for mut document in documents {
        if document["kind"] == "ValidatingAdmissionPolicyBinding" {
            let name = document["metadata"]["name"].as_str().unwrap_or_default();
            document["metadata"]["name"] = format!("{name}.{}", fixture.namespace).into();
            let here = json!({"kubernetes.io/metadata.name": fixture.namespace});
            document["spec"]["matchResources"] =
                json!({"namespaceSelector": {"matchLabels": here}});
        }
        let args = ["apply", "--server-side", "--force-conflicts", "-f", "-"];
        fixture
            .cluster
            .kubectl_with(&args, &document.to_string())
            .with_context(|| format!("installing {}", document["metadata"]["name"]))?;
    }
    Ok(())
}

fn bind(fixture: &ApiFixture, role: &str, users: &[&str]) -> Result<()> {
    let subjects: Vec<Value> = users
        .iter()
        .map(|user| json!({"kind": "User", "name": user, "apiGroup": "rbac.authorization.k8s.io"}))
        .collect();
    let (kind, name) = role
        .split_once('/')
        .context("a role is a kind and a name")?;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": name, "namespace": fixture.namespace},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name},
        "subjects": subjects,
    });
    let args = ["apply", "--server-side", "-f", "-"];
    fixture.cluster.kubectl_with(&args, &binding.to_string())?;
    Ok(())
}

fn people(fixture: &ApiFixture) -> Result<()> {
    let role = |name: &str, rule: Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "Role",
            "metadata": {"name": name, "namespace": fixture.namespace},
            "rules": [rule],
        })
    };
    let jobs = json!({
        "apiGroups": ["kubeflow.org", "batch.tensorstack.dev", "batch.test.bdap.com", "muster.dev"],
        "resources": ["mpijobs", "openmpis"],
        "verbs": ["get", "create", "patch", "update"],
    });
    let pods = json!({"apiGroups": [""], "resources": ["pods"], "verbs": ["create"]});
    for role in [role("jobs", jobs), role("pods", pods)] {
        let args = ["apply", "--server-side", "-f", "-"];
        fixture.cluster.kubectl_with(&args, &role.to_string())?;
    }
    bind(fixture, "Role/jobs", &[WRITER, RUNNER, EDITOR, TRUSTED])?;
    bind(fixture, "Role/pods", &[RUNNER, EDITOR, TRUSTED])?;
    bind(fixture, "ClusterRole/edit", &[EDITOR, TRUSTED])?;
    bind(fixture, "ClusterRole/muster-host-access", &[TRUSTED])
}

/// The refusal, if the API server refuses the job of this user.
fn refusal(fixture: &ApiFixture, user: &str, job: &Value) -> Option<String> {
    let user = format!("--as={user}");
    let args = ["create", "--dry-run=server", "--validate=false", "-n"];
    let args = [&args[..], &[&fixture.namespace, &user, "-f", "-"]].concat();
    let answer = fixture.cluster.kubectl_with(&args, &job.to_string());
    answer.err().map(|error| format!("{error:#}"))
}

/// A job of every API whose pods have this spec, as far as its API can say so.
fn jobs(spec: &Value) -> Vec<Value> {
    let template = json!({"spec": spec});
    let kubeflow = |version: &str| {
        json!({
            "apiVersion": format!("kubeflow.org/{version}"),
            "kind": "MPIJob",
            "metadata": {"name": "pi"},
            "spec": {"mpiReplicaSpecs": {
                "Launcher": {"replicas": 1, "template": {"spec": {"containers": [{"name": "l", "image": "l"}]}}},
                "Worker": {"replicas": 1, "template": template},
            }},
        })
    };
    vec![
        kubeflow("v2beta1"),
        kubeflow("v1"),
        json!({
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "MPIJob",
            "metadata": {"name": "pi"},
            "spec": {"worker": {"replicas": 1, "cmd": ["a"], "template": template}},
        }),
        json!({
            "apiVersion": "batch.test.bdap.com/v1",
            "kind": "MPIJob",
            "metadata": {"name": "pi"},
            "spec": {"numWorkers": 1, "launcherTemplate": template, "workerTemplate": template},
        }),
    ]
}

fn openmpi(parameters: Value) -> Value {
    let mut job = json!({
        "apiVersion": "muster.dev/v1alpha1",
        "kind": "OpenMPI",
        "metadata": {"name": "pi"},
        "spec": {"image": "i", "secret": "ssh", "workers": 1},
    });
    if let (Some(spec), Value::Object(more)) = (job["spec"].as_object_mut(), parameters) {
        spec.extend(more);
    }
    job
}

fn with(change: impl FnOnce(&mut Value)) -> Value {
    let mut spec = json!({"containers": [{"name": "mpi-worker", "image": "w"}]});
    change(&mut spec);
    spec
}

/// Who is the least to be accepted, and with which word the one before is refused.
struct Use {
    what: &'static str,
    jobs: Vec<Value>,
    refused: &'static str,
    says: &'static str,
    accepted: &'static str,
}

fn templates(
    what: &'static str,
    refused: &'static str,
    says: &'static str,
    accepted: &'static str,
    change: impl FnOnce(&mut Value),
) -> Use {
    let jobs = jobs(&with(change));
    Use {
        what,
        jobs,
        refused,
        says,
        accepted,
    }
}

fn secret_uses() -> Vec<Use> {
    let secret =
        |what, change: fn(&mut Value)| templates(what, RUNNER, "get the Secrets", EDITOR, change);
    vec![
        secret("a Secret as a volume", |spec| {
            spec["volumes"] = json!([{"name": "v", "secret": {"secretName": "s"}}]);
        }),
        secret("a Secret in a projected volume", |spec| {
            let sources = json!([{"secret": {"name": "s"}}]);
            spec["volumes"] = json!([{"name": "v", "projected": {"sources": sources}}]);
        }),
        secret("a Secret in a variable", |spec| {
            let from = json!({"secretKeyRef": {"name": "s", "key": "k"}});
            spec["containers"][0]["env"] = json!([{"name": "A", "valueFrom": from}]);
        }),
        secret("a Secret as variables", |spec| {
            spec["containers"][0]["envFrom"] = json!([{"secretRef": {"name": "s"}}]);
        }),
        secret("a Secret in an init container", |spec| {
            let from = json!([{"secretRef": {"name": "s"}}]);
            spec["initContainers"] = json!([{"name": "i", "image": "i", "envFrom": from}]);
        }),
        Use {
            what: "the Secrets of an OpenMPI",
            jobs: vec![openmpi(json!({})), openmpi(json!({"s3Secret": "keys"}))],
            refused: RUNNER,
            says: "get the Secrets",
            accepted: EDITOR,
        },
    ]
}

fn host_uses() -> Vec<Use> {
    let host = |what, change: fn(&mut Value)| {
        templates(what, EDITOR, "muster-host-access", TRUSTED, change)
    };
    vec![
        host("the host's network", |spec| {
            spec["hostNetwork"] = true.into()
        }),
        host("the host's processes", |spec| spec["hostPID"] = true.into()),
        host("a path of the host", |spec| {
            spec["volumes"] = json!([{"name": "v", "hostPath": {"path": "/"}}]);
        }),
        host("a port of the host", |spec| {
            spec["containers"][0]["ports"] = json!([{"containerPort": 22, "hostPort": 22}]);
        }),
        host("a privileged container", |spec| {
            spec["containers"][0]["securityContext"] = json!({"privileged": true});
        }),
        host("an added capability", |spec| {
            let capabilities = json!({"add": ["SYS_ADMIN"]});
            spec["containers"][0]["securityContext"] = json!({"capabilities": capabilities});
        }),
        Use {
            what: "the host's network in an OpenMPI",
            jobs: host_network([
                json!(true),
                json!("TRUE"),
                json!(1),
                json!(2),
                json!(-1),
                json!(0.5),
            ]),
            refused: EDITOR,
            says: "muster-host-access",
            accepted: TRUSTED,
        },
        Use {
            what: "an OpenMPI without the host's network",
            jobs: host_network([
                json!(false),
                json!("False"),
                json!(0),
                json!(0.0),
                json!(null),
                json!("null"),
            ]),
            refused: RUNNER,
            says: "get the Secrets",
            accepted: EDITOR,
        },
    ]
}

/// All that the component takes for a truth value.
fn host_network(values: [Value; 6]) -> Vec<Value> {
    let job = |value| openmpi(json!({"useHostNetwork": value}));
    values.map(job).into()
}

fn account_uses() -> Vec<Use> {
    let account =
        |what, change: fn(&mut Value)| templates(what, RUNNER, "impersonate", EDITOR, change);
    vec![
        account("a service account", |spec| {
            spec["serviceAccountName"] = "other".into()
        }),
        account("a service account by its old name", |spec| {
            spec["serviceAccount"] = "other".into()
        }),
        Use {
            what: "the service account of an OpenMPI",
            jobs: vec![openmpi(json!({"serviceAccountName": "other"}))],
            refused: RUNNER,
            says: "impersonate",
            accepted: EDITOR,
        },
    ]
}

#[test]
fn s02_a_job_uses_what_its_author_may_use() -> Result<()> {
    let fixture = new_fixture("templates")?;
    install(&fixture)?;
    people(&fixture)?;
    let plain = templates("pods", WRITER, "create pods", RUNNER, |_| {});
    wait_for("the policies to take effect", SOON, || {
        let refused = plain
            .jobs
            .iter()
            .all(|job| refusal(&fixture, WRITER, job).is_some());
        Ok(refused.then_some(()))
    })?;
    let mut asked = 0;
    let uses = [vec![plain], account_uses(), secret_uses(), host_uses()];
    for case in uses.into_iter().flatten() {
        for job in &case.jobs {
            let api = &job["apiVersion"];
            let said = refusal(&fixture, case.refused, job).unwrap_or_default();
            ensure!(
                said.contains(case.says),
                "{}: {api} of {} is not refused for it: {said}",
                case.what,
                case.refused
            );
            let refused = refusal(&fixture, case.accepted, job);
            ensure!(
                refused.is_none(),
                "{}: {api} of {} is refused: {refused:?}",
                case.what,
                case.accepted
            );
            asked += 2;
        }
    }
    say(&format!(
        "{asked} jobs of four people were held to their rights"
    ));
    Ok(())
}

/// Queues suspend jobs and choose their nodes, and may not create pods themselves.
#[test]
fn s02_whoever_changes_a_job_answers_for_the_change_alone() -> Result<()> {
    let fixture = new_fixture("changes")?;
    install(&fixture)?;
    people(&fixture)?;
    let job = &jobs(&with(|spec| spec["hostNetwork"] = true.into()))[0];
    wait_for("the policies to take effect", SOON, || {
        Ok(refusal(&fixture, WRITER, job).map(drop))
    })?;
    fixture.create("mpijobs", job)?;
    let patch = |patch: Value| {
        let user = format!("--as={WRITER}");
        let patch = patch.to_string();
        let args = [
            "patch",
            "mpijobs.v2beta1.kubeflow.org",
            "pi",
            "--type=merge",
            "-n",
        ];
        let args = [&args[..], &[&fixture.namespace, &user, "-p", &patch]].concat();
        fixture.cluster.kubectl(&args)
    };
    patch(json!({"spec": {"runPolicy": {"suspend": true}}})).context("to suspend it")?;
    let placed = json!({"spec": {"nodeSelector": {"pool": "a"}}});
    let placed = json!({"spec": {"mpiReplicaSpecs": {"Worker": {"template": placed}}}});
    patch(placed).context("to choose its nodes")?;
    let image = json!([{"name": "l", "image": "mine"}]);
    let image = json!({"template": {"spec": {"containers": image}}});
    let refused = patch(json!({"spec": {"mpiReplicaSpecs": {"Launcher": image}}}));
    let refused = refused.err().map(|error| format!("{error:#}"));
    ensure!(
        refused
            .as_ref()
            .is_some_and(|said| said.contains("create pods")),
        "another image is not refused: {refused:?}"
    );
    Ok(())
}
