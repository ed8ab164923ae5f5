//! One operator: starts it, and ends it when it has lost its lease. Decides nothing about when.

use std::sync::Arc;
use std::time::Duration;

use controller::Scope;
use controller::stepwise::{Enqueue, Stepwise, Tenure};
use futures::future::{BoxFuture, join};
use planner::site::Site;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep};

use crate::beside::Beside;
use crate::machine::Machine;
use crate::network::Network;
use crate::queue::{Queue, control};
use crate::world::World;
use crate::{clock, keys};

/// As a real lease gives it.
const TENURE: Duration = Duration::from_secs(15);
const RENEW_EVERY: Duration = Duration::from_secs(10);

/// Renews the lease, which is always granted: two operators may lead at once. One that slept for longer than
/// it lasted has lost it, and ends as a real one does.
async fn lead(world: World, tenure: Tenure, replica: usize, process: u64) {
    loop {
        sleep(RENEW_EVERY).await;
        if tenure.is_over() {
            return world.lost_lease(replica, process);
        }
        tenure.extend(Instant::now() + TENURE);
    }
}

/// Starts the operator as a new process.
pub(crate) fn start(world: &World, machine: &Machine, replica: usize, process: u64) -> AbortHandle {
    let network = Network {
        world: world.clone(),
        replica,
        process,
    };
    let client = kube::Client::new(network, "default");
    let scope = Scope {
        site: Site {
            agent_image: Some("image-of-the-agent".to_owned()),
            ..Site::default()
        },
        namespace: None,
        concurrency: 4,
        clock: clock::now,
        nonce: clock::nonce,
        keys: keys::SOURCE,
    };
    let queue = Arc::new(Queue::default());
    let waiting = Arc::clone(&queue);
    let enqueue: Enqueue = Arc::new(move |job| waiting.enqueue(job));
    let tenure = Tenure::default();
    tenure.extend(Instant::now() + TENURE);
    let (operator, mut beside) = Stepwise::new(client, tenure.clone(), &scope, &enqueue);
    beside.push(Box::pin(lead(world.clone(), tenure, replica, process)));
    let world = world.clone();
    let passes = control(Arc::new(operator), queue, move |job, end| {
        world.pass_ended(replica, job, end);
    });
    let whole: BoxFuture<'static, ()> = Box::pin(async move {
        join(passes, Beside::new(beside)).await;
    });
    let whole = machine.run(whole);
    tokio::spawn(whole).abort_handle()
}
