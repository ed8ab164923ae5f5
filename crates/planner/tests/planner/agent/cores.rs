//! Ranks and cores: hosts that may share a node must not bind their ranks to the same cores.

use contract::mpi::Mpi;
use planner::Job;
use planner::fixtures::job;
use planner::job::LauncherHost;
use serde_json::{Value, json};

use super::{by_agent, by_ssh, launcher, variable};

const ORTE: &str = "OMPI_MCA_hwloc_base_binding_policy";
const PRRTE: &str = "PRTE_MCA_hwloc_default_binding_policy";
const INTEL: &str = "I_MPI_PIN";

/// The values of all three in the launcher's container.
fn settings(spec: &Value) -> [Option<String>; 3] {
    [ORTE, PRRTE, INTEL].map(|name| {
        let value = variable(&spec["containers"][0], name)?;
        value.as_str().map(str::to_owned)
    })
}

fn none() -> Option<String> {
    Some("none".to_owned())
}

fn anti_affinity(term: Value) -> impl FnOnce(&mut Job) {
    move |job| {
        let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [term]});
        job.worker_pods().role.template["spec"]["affinity"] = json!({"podAntiAffinity": terms});
    }
}

fn on_ssh(job: Job) -> [Option<String>; 3] {
    settings(&launcher(&by_ssh(job)))
}

#[test]
fn v06_workers_that_may_share_a_node_share_its_cores() {
    let by_agent = settings(&launcher(&by_agent(job("demo").workers(2))));
    assert_eq!(by_agent, [none(), none(), Some("0".to_owned())]);
    let open_mpi = on_ssh(job("demo").workers(2));
    assert_eq!(open_mpi, [none(), none(), None]);
    let intel = on_ssh(job("demo").workers(2).with(|job| job.mpi = Mpi::Intel));
    assert_eq!(intel, [None, None, Some("0".to_owned())]);
    // Hydra binds only where it is told to.
    let mpich = on_ssh(job("demo").workers(2).with(|job| job.mpi = Mpi::Mpich));
    assert_eq!(mpich, [None, None, None]);
}

#[test]
fn v06_a_host_alone_on_its_node_binds_as_its_mpi_likes() {
    assert_eq!(on_ssh(job("demo").workers(1)), [None, None, None]);
    let beside = job("demo")
        .workers(1)
        .with(|job| job.launcher.host = Some(LauncherHost::Unindexed));
    assert_eq!(on_ssh(beside), [none(), none(), None]);

    let apart = json!({
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {"matchLabels": {"training.kubeflow.org/job-name": "demo"}},
    });
    let spread = job("demo").workers(2).with(anti_affinity(apart.clone()));
    assert_eq!(on_ssh(spread.clone()), [None, None, None]);
    let with_launcher = spread.with(|job| job.launcher.host = Some(LauncherHost::Unindexed));
    assert_eq!(on_ssh(with_launcher), [None, None, None]);
}

#[test]
fn v06_an_anti_affinity_that_does_not_keep_them_apart_does_not_count() {
    let name = json!({"matchLabels": {"training.kubeflow.org/job-name": "demo"}});
    let other = json!({"matchLabels": {"training.kubeflow.org/job-name": "other"}});
    let role = |values: Value| {
        let role = "training.kubeflow.org/job-role";
        json!({"matchExpressions": [{"key": role, "operator": "In", "values": values}]})
    };
    let term = |key: &str, selector: &Value| json!({"topologyKey": key, "labelSelector": selector});
    for (term, is_apart) in [
        (
            term("kubernetes.io/hostname", &role(json!(["worker"]))),
            true,
        ),
        (
            term("kubernetes.io/hostname", &role(json!(["launcher"]))),
            false,
        ),
        (term("kubernetes.io/hostname", &other), false),
        (term("topology.kubernetes.io/zone", &name), false),
        (json!({"topologyKey": "kubernetes.io/hostname"}), false),
    ] {
        let found = on_ssh(job("demo").workers(2).with(anti_affinity(term.clone())));
        assert_eq!(found[0].is_none(), is_apart, "{term}");
    }
    // The launcher that takes ranks may be beside a worker.
    let workers_only = term("kubernetes.io/hostname", &role(json!(["worker"])));
    let beside = job("demo").workers(2).with(anti_affinity(workers_only));
    let beside = beside.with(|job| job.launcher.host = Some(LauncherHost::Unindexed));
    assert_eq!(on_ssh(beside)[0], none());
}

#[test]
fn v06_a_binding_that_the_user_asks_for_stays() {
    let with = |mpi: Mpi, key: &str, value: Value| {
        let job = job("demo").workers(2).with(|job| {
            job.mpi = mpi;
            job.launcher.role.template["spec"]["containers"][0][key] = value;
        });
        on_ssh(job)
    };
    let own = json!([{"name": ORTE, "value": "core"}]);
    assert_eq!(with(Mpi::OpenMpi, "env", own)[0], Some("core".to_owned()));
    let domain = json!([{"name": "I_MPI_PIN_DOMAIN", "value": "numa"}]);
    assert_eq!(with(Mpi::Intel, "env", domain)[2], None);
    let words = json!(["mpirun", "-genv", "I_MPI_PIN_DOMAIN=numa", "pi"]);
    assert_eq!(with(Mpi::Intel, "command", words)[2], None);
}

#[test]
fn v06_ranks_that_wait_leave_their_core_to_others_on_one_machine() {
    const YIELD: &str = "OMPI_MCA_mpi_yield_when_idle";
    for observed in [
        by_ssh(job("demo").workers(2)),
        by_agent(job("demo").workers(2)),
    ] {
        let on_nodes = launcher(&observed);
        assert_eq!(variable(&on_nodes["containers"][0], YIELD), None);
        for (cores, wanted) in [(1, Some("1")), (2, None)] {
            let mut local = observed.clone();
            local.site.machine_cores = Some(cores);
            let local = launcher(&local);
            let value = variable(&local["containers"][0], YIELD);
            assert_eq!(value.and_then(Value::as_str), wanted, "{cores} cores");
        }
    }
}
