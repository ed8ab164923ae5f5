//! The chart of `deploy/chart/muster`, installed with the real Helm as an administrator would: over what
//! `kubectl apply` installed, changed and changed back under a running job, taken away, and for one
//! namespace alone.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::cluster_fixture::deployed::{self, AGENT_IMAGE, IMAGE, KINDS, SELECTOR};
use e2e::cluster_fixture::pi::{Mpi, User, held_pi};
use e2e::cluster_fixture::{ClusterFixture, PATIENCE, repository};
use e2e::flyte::program;
use e2e::installation::assert_sound;
use e2e::operator::RIGHTS_FOR_BDAP;
use e2e::operator::{objects, shipped};
use e2e::{Cluster, wait_for};
use serde_json::Value;

use crate::t9k::{T9k, job as t9k_job};
use crate::{with_cluster, with_cluster_alone};

const RELEASE: &str = "muster";
const NAMESPACE: &str = "muster-system";
pub(crate) const CHART: &str = "deploy/chart/muster";

/// Helm, with directories of its own.
pub(crate) struct Helm {
    cluster: Cluster,
    home: PathBuf,
}

impl Helm {
    pub(crate) fn new(fixture: &ClusterFixture) -> Self {
        Self {
            cluster: fixture.cluster.clone(),
            home: std::env::temp_dir().join(format!("muster-helm-{}", fixture.namespace)),
        }
    }

    /// Standard output of a call that must succeed.
    fn run(&self, words: &[&str]) -> Result<String> {
        let mut command = Command::new(program("MUSTER_E2E_HELM")?);
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, self.home.join(variable));
        }
        command.args(words).current_dir(repository());
        command.arg("--kubeconfig").arg(self.cluster.kubeconfig());
        let output = command.output().context("starting helm")?;
        let complaints = String::from_utf8_lossy(&output.stderr);
        let words = words.join(" ");
        ensure!(output.status.success(), "helm {words}: {complaints}");
        // The namespace is one that enforces Pod Security.
        ensure!(
            !complaints.contains("PodSecurity"),
            "helm {words}: {complaints}"
        );
        String::from_utf8(output.stdout).context("helm printed something that is not text")
    }

    /// Runs a command of the page about Helm, with these words added to it.
    fn documented(&self, verb: &str, words: &[&str]) -> Result<String> {
        self.documented_for(CHART, verb, words)
    }

    /// The same for a chart in this directory.
    pub(crate) fn documented_for(&self, chart: &str, verb: &str, words: &[&str]) -> Result<String> {
        let page = repository().join("docs/how-to/install-with-helm.md");
        let page = fs::read_to_string(page)?;
        let begin = format!("helm {verb} ");
        let line = page.lines().find(|line| line.starts_with(&begin));
        let line = line.with_context(|| format!("the page has no `{begin}`"))?;
        let line = line
            .replace("registry.example/you/muster-operator:0.1.0", IMAGE)
            .replace("registry.example/you/muster-agent:0.1.0", AGENT_IMAGE)
            .replace(CHART, chart);
        let documented: Vec<_> = line.split_whitespace().skip(1).collect();
        self.run(&[&documented, words].concat())
    }

    /// Takes the release away. Helm does not wait for pods that others have yet to remove.
    pub(crate) fn uninstall(&self) -> Result<()> {
        self.documented("uninstall", &[])?;
        let mut remains = String::new();
        let gone = wait_for("all but CRDs to go", PATIENCE, || {
            remains = self.remains()?;
            Ok(remains.is_empty().then_some(()))
        });
        gone.with_context(|| format!("left behind: {remains}"))
    }

    /// What is left of the release, but for CRDs.
    fn remains(&self) -> Result<String> {
        let words = ["get", KINDS, "--all-namespaces", "--output=name", SELECTOR];
        self.cluster.kubectl(&words)
    }
}

impl Drop for Helm {
    fn drop(&mut self) {
        // Where a test failed before it did so itself. A second operator must not meet the next test.
        let uninstall = [
            "uninstall",
            RELEASE,
            "--namespace",
            NAMESPACE,
            "--ignore-not-found",
        ];
        if let Err(error) = self.run(&uninstall) {
            eprintln!("{error:#}");
        }
        // There is none if Helm never ran.
        drop(fs::remove_dir_all(&self.home));
    }
}

fn uids(pods: &[Value]) -> Vec<String> {
    let uid = |pod: &Value| pod["metadata"]["uid"].to_string();
    let mut uids: Vec<_> = pods.iter().map(uid).collect();
    uids.sort();
    uids
}

fn replicas(cluster: &Cluster) -> Result<Value> {
    let deployment = cluster.get(NAMESPACE, "deployment", "muster")?;
    let deployment = deployment.context("the operator's Deployment is gone")?;
    Ok(deployment["spec"]["replicas"].clone())
}

#[test]
fn a_release_takes_over_changes_under_a_running_job_and_leaves_nothing_but_crds() -> Result<()> {
    with_cluster_alone("helm", |fixture| {
        deployed::replaced(|| {
            let helm = Helm::new(fixture);
            let more = [
                "--take-ownership",
                "--force-conflicts",
                "--set=crds.t9k=true",
            ];
            // Tests of bdap's jobs may have added these to the operator. They are not of its one file.
            let rights = ["delete", "--ignore-not-found", "--filename"];
            let file = repository().join(RIGHTS_FOR_BDAP);
            let file = file.to_string_lossy();
            fixture.cluster.kubectl(&[&rights[..], &[&file]].concat())?;
            let notes = helm.documented("install", &more)?;
            ensure!(
                notes.contains("rollout status deployment/muster"),
                "{notes}"
            );
            let held = fixture.submit(&held_pi(Mpi::OpenMpi4, User::Root, 2))?;
            let before = uids(&held.workers_run(2)?);
            T9k::submit(fixture, &t9k_job("t9k", &["hostname"]))?.phase("Succeeded")?;

            helm.documented("upgrade", &["--force-conflicts"])?;
            ensure!(
                replicas(&fixture.cluster)? == 1,
                "the upgrade changed nothing"
            );
            fixture
                .submit_example("pi-without-ssh")?
                .succeeded_on_workers(2)?;

            helm.documented("rollback", &["--force-conflicts"])?;
            ensure!(
                replicas(&fixture.cluster)? == 2,
                "the rollback changed nothing"
            );
            ensure!(
                before == uids(&held.workers_run(2)?),
                "a worker was replaced"
            );
            held.release()?;
            held.succeeded_on_workers(2)?;

            helm.uninstall()?;
            // Jobs are people's, and go with their CRD.
            held.get()?;
            Ok(())
        })
    })
}

#[test]
fn a_release_for_one_namespace_has_no_right_elsewhere() -> Result<()> {
    with_cluster_alone("helm-one", |fixture| {
        deployed::without_operator(&fixture.cluster, || {
            let helm = Helm::new(fixture);
            let watched = format!("--set=watchNamespace={}", fixture.namespace);
            let more = [
                "--set=crds.install=false",
                "--set=userRoles=false",
                &watched,
            ];
            helm.documented("install", &more)?;
            fixture.submit_example("pi")?.succeeded_on_workers(2)?;
            let cluster_wide = helm.remains()?;
            ensure!(!cluster_wide.contains("clusterrole"), "{cluster_wide}");
            let account = format!("--as=system:serviceaccount:{NAMESPACE}:muster");
            for (namespace, expected) in [(fixture.namespace.as_str(), "yes"), (NAMESPACE, "no")] {
                let words = ["auth", "can-i", "list", "pods", &account, "-n", namespace];
                // It says no by its exit code too.
                let said = fixture.cluster.command(&words).output()?.stdout;
                let said = String::from_utf8_lossy(&said).trim().to_owned();
                ensure!(said == expected, "list pods in {namespace}: {said}");
            }
            helm.uninstall()?;
            Ok(())
        })
    })
}

#[test]
fn whoever_reads_metrics_with_tls_has_a_role_whoever_makes_the_roles_of_people() -> Result<()> {
    with_cluster("helm-roles", |fixture| {
        let helm = Helm::new(fixture);
        let roles = |values: &str| -> Result<[bool; 2]> {
            let rendered = helm.run(&["template", RELEASE, CHART, "--set", values])?;
            Ok(["muster-metrics-reader", "muster-edit"]
                .map(|role| rendered.contains(&format!("  name: {role}\n"))))
        };
        for (values, expected) in [
            ("userRoles=true", [true, true]),
            ("userRoles=false", [true, false]),
            ("userRoles=true,metrics.plain=true", [false, true]),
            ("userRoles=false,watchNamespace=team-a", [false, false]),
        ] {
            let found = roles(values)?;
            ensure!(found == expected, "{values}: {found:?}");
        }
        Ok(())
    })
}

/// What the chart makes of these values.
fn rendered(fixture: &ClusterFixture, helm: &Helm, values: &str) -> Result<Vec<Value>> {
    let words = ["template", RELEASE, CHART, "--namespace", NAMESPACE];
    let text = helm.run(&[&words[..], &["--set", values]].concat())?;
    let file = std::env::temp_dir().join(format!("{}.yaml", fixture.namespace));
    fs::write(&file, text)?;
    let objects = objects(&fixture.cluster, &["-f", &file.to_string_lossy()]);
    fs::remove_file(&file)?;
    objects
}

#[test]
fn whatever_is_set_the_objects_of_a_release_fit_together() -> Result<()> {
    with_cluster("helm-values", |fixture| {
        let helm = Helm::new(fixture);
        for (values, v1_is_served) in [
            ("userRoles=true", Some(true)),
            ("crds.bdap=true,crds.t9k=true,replicas=3", Some(true)),
            ("crds.kubeflowV1=false", Some(false)),
            // As with the values of a chart that did not have this one yet.
            ("crds.kubeflowV1=null", Some(true)),
            ("watchNamespace=team-a,crds.install=false", None),
            ("name=mpi-operator,metrics.plain=true", Some(true)),
            (
                "metrics.certificateSecret=tls,images.pullSecrets={one}",
                Some(true),
            ),
        ] {
            let objects = rendered(fixture, &helm, values)?;
            let sound = assert_sound(&objects, values.contains("bdap"));
            sound.with_context(|| values.to_owned())?;
            let crd = |object: &&Value| object["metadata"]["name"] == "mpijobs.kubeflow.org";
            let versions = objects.iter().find(crd).map(|crd| &crd["spec"]["versions"]);
            let versions = versions.and_then(Value::as_array).into_iter().flatten();
            let mut v1 = versions.filter(|version| version["name"] == "v1");
            let served = v1.next().map(|version| version["served"] == true);
            ensure!(served == v1_is_served, "{values}: v1 is served: {served:?}");
        }
        Ok(())
    })
}

#[test]
fn a_value_that_does_not_exist_or_cannot_be_is_refused_by_name() -> Result<()> {
    with_cluster("helm-schema", |fixture| {
        let helm = Helm::new(fixture);
        for (values, named) in [
            ("replica=1", "replica"),
            ("crds.t9=true", "t9"),
            ("replicas=many", "replicas"),
            ("defaultTransport=RSH", "defaultTransport"),
            ("images.operator=", "operator"),
            ("watchNamespace=muster-system", "watchNamespace"),
        ] {
            let refused = rendered(fixture, &helm, values).err();
            let refused = refused.with_context(|| format!("{values} is taken"))?;
            let refused = format!("{refused:#}");
            let (_, said) = refused.split_once("Error: ").context("not by Helm")?;
            ensure!(said.contains(named), "{values}: {refused}");
        }
        Ok(())
    })
}

#[test]
fn the_chart_renders_what_the_one_file_installs() -> Result<()> {
    with_cluster_alone("helm-same", |fixture| {
        let helm = Helm::new(fixture);
        helm.run(&["lint", "--strict", CHART])?;
        let ours = rendered(fixture, &helm, "crds.bdap=true,crds.t9k=true")?;
        let theirs = shipped(&fixture.cluster)?;
        let rules = |objects: &[Value]| -> Vec<Value> {
            let roles = objects
                .iter()
                .filter(|object| object["kind"] == "ClusterRole");
            let rules = roles.filter_map(|role| role["rules"].as_array());
            let mut rules: Vec<_> = rules.flatten().cloned().collect();
            rules.sort_by_key(Value::to_string);
            rules
        };
        ensure!(rules(&ours) == rules(&theirs), "the rights differ");
        let pod = |objects: &[Value]| -> Result<Value> {
            let mut deployments = objects
                .iter()
                .filter(|object| object["kind"] == "Deployment");
            let found = deployments.next().context("no Deployment")?;
            let mut pod = found["spec"]["template"]["spec"].clone();
            // What is set by values, and differs on purpose.
            pod["serviceAccountName"].take();
            let container = &mut pod["containers"][0];
            for field in ["name", "args", "imagePullPolicy"] {
                container[field].take();
            }
            Ok(pod)
        };
        ensure!(
            pod(&ours)? == pod(&theirs)?,
            "{:#}\n{:#}",
            pod(&ours)?,
            pod(&theirs)?
        );
        let spec = |objects: &[Value], kind: &str| -> Result<Value> {
            let mut found = objects.iter().filter(|object| object["kind"] == kind);
            Ok(found.next().with_context(|| format!("no {kind}"))?["spec"].clone())
        };
        for kind in ["PodDisruptionBudget", "NetworkPolicy"] {
            ensure!(spec(&ours, kind)? == spec(&theirs, kind)?, "{kind} differs");
        }
        for crd in theirs
            .iter()
            .filter(|o| o["kind"] == "CustomResourceDefinition")
        {
            let same = ours
                .iter()
                .find(|o| o["metadata"]["name"] == crd["metadata"]["name"]);
            let same = same.with_context(|| format!("no {}", crd["metadata"]["name"]))?;
            ensure!(
                same["spec"] == crd["spec"],
                "{} differs",
                crd["metadata"]["name"]
            );
        }
        Ok(())
    })
}
