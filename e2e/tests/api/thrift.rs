//! What a job's life costs, by the API server's own count. The figures are printed and have a bound.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::audit::{Audit, Request, table};
use e2e::ground::Ground;
use e2e::jobs::MpiJob;

use super::stage::ground;

/// Writes of a job's life beyond one for each worker.
const OVERHEAD_MAX: usize = 11;
/// Counters that wait for quiet pods are written within this time.
const SETTLED: Duration = Duration::from_secs(5);

/// Writes that need not have been: refused, or the same again.
fn wasted(writes: &[Request]) -> usize {
    let mut made: Vec<_> = writes
        .iter()
        .filter(|write| write.verb == "create" && write.code < 300)
        .map(|write| (&write.resource, &write.name))
        .collect();
    let total = made.len();
    made.sort();
    made.dedup();
    let refused = writes.iter().filter(|write| write.code >= 300).count();
    refused + total - made.len()
}

fn life(ground: &Ground, workers: usize) -> Result<()> {
    let name = format!("w{workers}");
    let audit = Audit::from_now(&ground.cluster)?;
    let count = u32::try_from(workers)?;
    ground.submit(
        &MpiJob::named(&name)
            .workers(count)
            .clean_pod_policy("Running"),
    )?;
    ground.run(&name, workers)?;
    ground.await_condition(&name, "Running")?;
    ground.finish(&name)?;
    ground.await_condition(&name, "Succeeded")?;
    ground.await_pods(&name, "worker", 0)?;
    std::thread::sleep(SETTLED);
    let writes = audit.writes_of(&ground.account.user)?;
    let (total, waste) = (writes.len(), wasted(&writes));
    println!(
        "W = {workers}: {total} writes = W + {}, wasted {waste}",
        total - workers
    );
    println!("{}", table(&writes));
    ensure!(
        total <= workers + OVERHEAD_MAX,
        "W = {workers}: {total} writes\n{}",
        table(&writes)
    );
    Ok(())
}

#[test]
fn a_life_costs_a_write_for_each_worker_and_eleven() -> Result<()> {
    let ground = ground("thrift")?;
    let _operator = ground.operator()?;
    for workers in [2, 16, 64] {
        life(&ground, workers)?;
    }
    Ok(())
}
