//! Jobs in the operator's own namespace, where a pod can run as the operator's account.

use anyhow::{Result, ensure};
use e2e::api_fixture::SOON;
use e2e::jobs::MpiJob;
use e2e::operator::{ALLOW_JOBS_HERE, Operator, Settings};

use super::fixture::new_fixture;

#[test]
fn s02_a_job_beside_its_operator_is_refused_by_name_until_a_flag_allows_it() -> Result<()> {
    let fixture = new_fixture("own")?;
    let refuse = format!("{ALLOW_JOBS_HERE}=false");
    let settings = Settings {
        account: &fixture.account,
        namespace: &fixture.namespace,
        kubeconfig: &fixture.account.kubeconfig,
        group: None,
        flags: &[&refuse],
    };
    let operator = Operator::start(&fixture.cluster, &settings)?;
    operator.await_leading()?;
    let mut job = MpiJob::named("thief").workers(1).json();
    let template = &mut job["spec"]["mpiReplicaSpecs"]["Launcher"]["template"];
    template["spec"]["serviceAccountName"] = "muster".into();
    fixture.create("mpijobs", &job)?;
    let told = fixture.await_job("thief", "refused", SOON, |job| {
        job["status"]["muster"]["reason"] == "NamespaceNotAllowed"
    })?;
    let message = told["status"]["muster"]["message"].as_str();
    let message = message.unwrap_or_default();
    ensure!(message.contains(ALLOW_JOBS_HERE), "{message}");
    for resource in ["pods", "jobs", "configmaps"] {
        let made = fixture.list(resource)?;
        let made = made
            .iter()
            .filter(|object| object["metadata"]["ownerReferences"].is_array());
        ensure!(made.count() == 0, "the job got {resource}");
    }
    drop(operator);

    let _operator = fixture.operator()?;
    fixture.run("thief", 1)?;
    fixture.finish("thief")?;
    fixture.await_condition("thief", "Succeeded")?;
    Ok(())
}
