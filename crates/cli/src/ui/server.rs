//! The server of the page. Decides which address is answered by what, and how many strangers may wait.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http::header::SET_COOKIE;
use http::{HeaderValue, Request, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

use super::answer::{self, Answer, CSS, HTML, JS};
use super::gate::{Decision, FIND};
use super::{Ui, jobs_page, live, log_stream};
use crate::report::page;

/// Connections at a time; a browser opens a few per page.
const CONNECTIONS_MAX: usize = 128;
/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// Pause when no connection can be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until it is dropped.
pub(super) async fn serve(listener: TcpListener, ui: Arc<Ui>) {
    let connections = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, most likely: others must end first.
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else {
            continue;
        };
        let ui = Arc::clone(&ui);
        tokio::spawn(async move {
            let service = service_fn(move |request| respond(request, Arc::clone(&ui)));
            let _ = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service)
                .await;
            drop(permit);
        });
    }
}

async fn respond(request: Request<Incoming>, ui: Arc<Ui>) -> Result<Answer, Infallible> {
    let decision = ui
        .gate
        .judge(request.method(), request.uri(), request.headers());
    Ok(match decision {
        Decision::Refuse(code, why) => answer::refusal(code, why),
        Decision::Enter(cookie) => {
            let mut answer = answer::elsewhere("/");
            let headers = answer.headers_mut();
            if let Ok(cookie) = HeaderValue::from_str(&cookie) {
                headers.insert(SET_COOKIE, cookie);
            }
            answer
        }
        Decision::Again => answer::again(),
        Decision::Pass => route(&request, ui).await,
    })
}

async fn route(request: &Request<Incoming>, ui: Arc<Ui>) -> Answer {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let mut steps = path.trim_start_matches('/').split('/');
    let steps = [steps.next(), steps.next(), steps.next(), steps.next()];
    match steps {
        [Some(""), None, ..] => {
            let text = jobs_page::list(&ui, &jobs_page::Filter::of(query)).await;
            answer::whole(StatusCode::OK, HTML, text)
        }
        [Some("style.css"), None, ..] => answer::whole(
            StatusCode::OK,
            CSS,
            [page::STYLE, include_str!("ui.css")].concat(),
        ),
        [Some("app.js"), None, ..] => answer::whole(StatusCode::OK, JS, include_str!("app.js")),
        [Some("live"), None, ..] => live::jobs(ui),
        [Some("jobs"), Some(uid), None, _] => match live::report(&ui, uid).await {
            Some(report) => answer::whole(StatusCode::OK, HTML, jobs_page::job(&report, uid)),
            None => answer::refusal(StatusCode::NOT_FOUND, "there is no such job any more"),
        },
        [Some("jobs"), Some(uid), Some("live"), None] => live::job(ui, uid.to_owned()),
        [Some("jobs"), Some(uid), Some("log"), None] => {
            let seen = request.headers().get("last-event-id");
            let seen = seen.and_then(|seen| seen.to_str().ok()?.parse().ok());
            log_stream::follow(
                ui,
                uid.to_owned(),
                log_stream::Choice::of(query),
                seen.unwrap_or(0),
            )
        }
        [Some(FIND), Some(namespace), Some(name), None] => match ui.named(namespace, name).await {
            Some(uid) => answer::elsewhere(&format!("/jobs/{uid}")),
            None => answer::refusal(StatusCode::NOT_FOUND, "there is no such job any more"),
        },
        _ => answer::refusal(StatusCode::NOT_FOUND, "there is no such page"),
    }
}
