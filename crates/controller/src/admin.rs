//! Health over HTTP. Decides what is healthy: a standby always is, a leader is while it renews its lease.
//! Knows nothing of jobs.

use std::future::ready;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::{Method, Request, StatusCode};
use tokio::time::Instant;

use crate::cache::Cache;
use crate::http_port::{self, Answer, text};

/// A leader that has not renewed for this long is stuck.
const RENEWAL_MAX: Duration = Duration::from_secs(35);
/// What the probes report.
#[derive(Debug, Default)]
pub(crate) struct Health {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// While leading: when the lease was last renewed.
    renewed_at: Option<Instant>,
    /// While leading: the cache, which must be filled before jobs are reconciled.
    cache: Option<Arc<Cache>>,
}

impl Health {
    /// The lease is ours, as of now.
    pub(crate) fn renewed(&self) {
        self.with(|state| state.renewed_at = Some(Instant::now()));
    }

    /// The lease is no longer ours.
    pub(crate) fn resigned(&self) {
        self.with(|state| *state = State::default());
    }

    /// Jobs are reconciled once this cache is filled.
    pub(crate) fn leads_with(&self, cache: Arc<Cache>) {
        self.with(|state| state.cache = Some(cache));
    }

    fn with<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn healthy(&self) -> bool {
        self.with(|state| {
            state
                .renewed_at
                .is_none_or(|at| at.elapsed() <= RENEWAL_MAX)
        })
    }

    fn ready(&self) -> bool {
        self.with(|state| match (&state.renewed_at, &state.cache) {
            (None, _) => true,
            (Some(_), cache) => cache.as_ref().is_some_and(|cache| cache.is_listed()),
        })
    }
}

/// Serves health on a port; 0 is off. The port listens when this returns, and is served in the background.
pub(crate) async fn serve(port: u16, health: Arc<Health>) -> anyhow::Result<()> {
    if port != 0 {
        let listener = http_port::listen(port).await?;
        tokio::spawn(http_port::accept(listener, None, move |request| {
            ready(health_answer(&health, &request))
        }));
    }
    Ok(())
}

fn health_answer<B>(health: &Health, request: &Request<B>) -> Answer {
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "only GET is answered here\n",
        );
    }
    let query = request.uri().query().unwrap_or_default();
    let has = |wanted: &str| query.split('&').any(|pair| pair == wanted);
    match request.uri().path() {
        "/healthz" => {
            let excluded = has("exclude=leaderElection");
            match (excluded || health.healthy(), has("verbose")) {
                (true, false) => text(StatusCode::OK, "ok"),
                (true, true) if excluded => text(
                    StatusCode::OK,
                    "[+]leaderElection excluded: ok\nhealthz check passed\n",
                ),
                (true, true) => text(
                    StatusCode::OK,
                    "[+]leaderElection ok\nhealthz check passed\n",
                ),
                (false, _) => text(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "[-]leaderElection failed: reason withheld\nhealthz check failed\n",
                ),
            }
        }
        "/healthz/leaderElection" if health.healthy() => text(StatusCode::OK, "ok"),
        "/healthz/leaderElection" => text(
            StatusCode::INTERNAL_SERVER_ERROR,
            "internal server error: failed election to renew leadership on lease mpi-operator\n",
        ),
        "/readyz" if health.ready() => text(StatusCode::OK, "ok"),
        "/readyz" => text(
            StatusCode::SERVICE_UNAVAILABLE,
            "still listing the cluster\n",
        ),
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn ask(health: &Health, path: &str) -> (u16, String) {
        let request = Request::builder().uri(path).body(()).unwrap();
        let answer = health_answer(health, &request);
        let code = answer.status().as_u16();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_standby_is_healthy_and_a_leader_while_it_renews() {
        let health = Health::default();
        assert_eq!(ask(&health, "/healthz").await, (200, "ok".to_owned()));
        assert_eq!(ask(&health, "/readyz").await.0, 200);

        health.renewed();
        assert_eq!(ask(&health, "/readyz").await.0, 503);
        let verbose = "[+]leaderElection ok\nhealthz check passed\n";
        assert_eq!(
            ask(&health, "/healthz?verbose").await,
            (200, verbose.to_owned())
        );

        tokio::time::advance(RENEWAL_MAX + Duration::from_secs(1)).await;
        let failed = "[-]leaderElection failed: reason withheld\nhealthz check failed\n";
        assert_eq!(ask(&health, "/healthz").await, (500, failed.to_owned()));
        assert_eq!(ask(&health, "/healthz/leaderElection").await.0, 500);
        assert_eq!(ask(&health, "/healthz?exclude=leaderElection").await.0, 200);

        health.resigned();
        assert_eq!(ask(&health, "/healthz").await.0, 200);
        assert_eq!(ask(&health, "/nowhere").await.0, 404);
    }
}
