//! The connection of one operator to the API server, as kube's client sees it. Hands every request to the
//! world, which answers it, or not.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;

use crate::reply::Reply;
use crate::world::World;

/// The connection of one process of a replica.
#[derive(Clone)]
pub(crate) struct Network {
    pub(crate) world: World,
    pub(crate) replica: usize,
    /// Counts the processes; requests of dead ones go nowhere.
    pub(crate) process: u64,
}

impl tower_service::Service<Request<Body>> for Network {
    type Response = Response<UnsyncBoxBody<Bytes, Infallible>>;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Reply> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let network = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let body = body.collect().await.map_err(std::io::Error::other)?;
            let request = Request::from_parts(parts, body.to_bytes().to_vec());
            let answer = network
                .world
                .send(network.replica, network.process, request);
            match answer.await {
                Ok(reply) => reply,
                // Nobody will answer, and the caller has a deadline of its own.
                Err(_) => std::future::pending().await,
            }
        })
    }
}
