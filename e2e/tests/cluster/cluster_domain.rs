//! An operator that was told the cluster's domain: host names end in it, the launcher's own among
//! them. The only test that changes the operator; by its name it comes before all others.

use anyhow::Result;
use e2e::cluster_fixture::deployed;
use e2e::cluster_fixture::pi::{Mpi, PI, User, job};
use serde_json::json;

use crate::with_cluster_alone;

#[test]
fn names_end_in_the_domain_and_a_launcher_takes_ranks() -> Result<()> {
    with_cluster_alone("domain", |fixture| {
        deployed::with_flag(&fixture.cluster, "--cluster-domain=cluster.local", || {
            let words = ["mpirun", "--allow-run-as-root", "-n", "3", PI];
            let job = job(Mpi::OpenMpi4, User::Root, 2, &words).launcher_as_worker();
            let submitted = fixture.submit(&job)?;
            let hosts = [
                submitted.launcher(),
                submitted.worker(0),
                submitted.worker(1),
            ];
            submitted.succeeded_on(3, &hosts.each_ref().map(String::as_str))?;
            let config = fixture
                .cluster
                .get(&fixture.namespace, "configmap", "pi-config")?;
            let hostfile = config.map(|config| config["data"]["hostfile"].clone());
            let suffix = format!(".pi.{}.svc.cluster.local slots=1\n", fixture.namespace);
            let expected: String = hosts.iter().map(|host| format!("{host}{suffix}")).collect();
            assert_eq!(hostfile, Some(json!(expected)));
            Ok(())
        })
    })
}
