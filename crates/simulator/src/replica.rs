//! One operator: starts it. Decides nothing about when.

use std::sync::Arc;

use controller::Scope;
use controller::stepwise::{Enqueue, Stepwise};
use futures::future::{BoxFuture, join};
use planner::site::Site;
use tokio::task::AbortHandle;

use crate::beside::Beside;
use crate::machine::Machine;
use crate::network::Network;
use crate::queue::{Queue, control};
use crate::world::World;
use crate::{clock, keys};

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
    let (operator, beside) = Stepwise::new(client, &scope, &enqueue);
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
