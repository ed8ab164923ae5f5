//! Reads: what the controller asks the API server besides its watches.

use crate::cluster::{Cluster, all_run, mpi_job};
use crate::faults::Fault;

#[tokio::test(start_paused = true)]
async fn a_secret_is_read_by_its_metadata_and_only_once() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("quiet")).await;
    cluster.until("quiet", "Running").await;
    assert!(
        cluster.faults.calls("GET secrets").is_empty(),
        "it was just created"
    );
    cluster.start_operator();
    cluster.pass(60).await;
    let asked = cluster.faults.calls("GET secrets");
    assert_eq!(asked.len(), 1, "{asked:?}");
    assert!(
        asked[0].accept.contains("PartialObjectMetadata"),
        "{asked:?}"
    );
    assert!(cluster.faults.calls("WATCH secrets").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_cannot_be_read_is_not_made_a_second_time() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("key")).await;
    cluster.until("key", "Running").await;
    let broken = Fault::Status(500, "InternalError", "etcd is slow");
    cluster.faults.inject("GET secrets", 3, broken);
    cluster.start_operator();
    cluster.pass(60).await;
    assert_eq!(cluster.faults.calls("POST secrets").len(), 1);
    assert_eq!(cluster.faults.calls("GET secrets").len(), 4);
}

#[tokio::test(start_paused = true)]
async fn at_rest_nothing_is_asked() {
    let mut cluster = Cluster::new(all_run);
    cluster.start_operator();
    cluster.submit(mpi_job("rest")).await;
    cluster.until("rest", "Running").await;
    cluster.pass(120).await;
    let before = cluster.faults.calls("").len();
    cluster.pass(120).await;
    let after = cluster.faults.calls("");
    // Besides watches, it asks whether the APIs of other dialects were installed meanwhile.
    let asked = after[before..]
        .iter()
        .filter(|call| !call.line().starts_with("WATCH") && !call.query.contains("limit=1"));
    let asked: Vec<_> = asked.collect();
    assert!(asked.is_empty(), "{asked:?}");
}
