//! Status writes.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use crate::cluster::{Cluster, DEFINITION, all_run, mpi_job};

/// A log that a test can read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn lines(&self, words: &str) -> usize {
        let bytes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&bytes);
        text.lines().filter(|line| line.contains(words)).count()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        log.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The definition as it would be without these fields of the status.
fn without(fields: &[&str]) -> String {
    let mut definition: serde_json::Value =
        serde_saphyr::from_str(DEFINITION).expect("the definition is YAML");
    for version in definition["spec"]["versions"]
        .as_array_mut()
        .expect("it has versions")
    {
        let schema = &mut version["schema"]["openAPIV3Schema"];
        let status = schema["properties"]["status"]["properties"].as_object_mut();
        let status = status.expect("the status has a schema");
        fields.iter().for_each(|field| _ = status.remove(*field));
    }
    definition.to_string()
}

#[tokio::test(start_paused = true)]
async fn c12_fields_that_the_definition_drops_are_not_written_again_and_again() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_writer(move || writer.clone())
        .finish();
    let _logging = tracing::subscriber::set_default(subscriber);
    let mut cluster =
        Cluster::with_definition(all_run, &without(&["muster", "observedGeneration"]));
    cluster.start_operator();
    cluster.submit(mpi_job("one")).await;
    cluster.submit(mpi_job("two")).await;
    cluster.until("one", "Running").await;
    cluster.until("two", "Running").await;
    cluster.pass(90).await;
    let before = cluster.faults.writes().len();
    cluster.pass(300).await;
    let writes = cluster.faults.writes().len() - before;
    assert_eq!(writes, 0, "writes in five minutes at rest");
    assert_eq!(log.lines("status.muster"), 1, "it is said once");
}
