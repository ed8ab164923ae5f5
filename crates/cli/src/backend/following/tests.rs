//! What a follower asks of an API server that does not let it follow, and what it tells meanwhile.

use std::convert::Infallible;
use std::future::{pending, ready};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::{Request, Response};
use kube::Client;
use kube::api::{ApiResource, GroupVersionKind};
use kube::client::Body;
use serde_json::json;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::*;

const LIST: &str =
    r#"{"apiVersion":"v1","kind":"PodList","metadata":{"resourceVersion":"7"},"items":[]}"#;
/// In the place of a code: there is no answer, ever.
const NOTHING: u16 = 0;
/// How many requests are answered before the listener goes.
const REQUESTS: usize = 12;

/// Follows pods where lists and watches are answered like this, for some requests. Returns what was told, and how long it took.
async fn followed(
    list: (u16, &'static str),
    watch: (u16, &'static str),
) -> (Vec<&'static str>, Duration) {
    let (asked, enough) = (AtomicUsize::new(0), Arc::new(Notify::new()));
    let (asked, ring) = (Arc::new(asked), Arc::clone(&enough));
    let service = tower::service_fn(move |request: Request<Body>| {
        if asked.fetch_add(1, Ordering::SeqCst) + 1 == REQUESTS {
            ring.notify_one();
        }
        let is_watch = request
            .uri()
            .query()
            .is_some_and(|query| query.contains("watch=true"));
        let (code, body) = if is_watch { watch } else { list };
        async move {
            if code == NOTHING {
                pending::<()>().await;
            }
            let response = Response::builder().status(code);
            let response = response.body(Body::from(body.as_bytes().to_vec()));
            Ok::<_, Infallible>(response.expect("a response"))
        }
    });
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("", "v1", "Pod"));
    let target = Target {
        api: Api::all_with(Client::new(service, "default"), &kind),
        labels: String::new(),
        fields: String::new(),
        kind: None,
        doing: "follow pods".to_owned(),
    };
    let began = Instant::now();
    let mut told = Vec::new();
    let following = follow(target, |change| {
        told.push(match change {
            Change::Listed(_) => "listed",
            Change::Followed => "followed",
            Change::Is(_) => "is",
            Change::Gone(_) => "gone",
            Change::Lost(_) => "lost",
        });
        ready(true)
    });
    tokio::select! {
        () = following => unreachable!("the listener goes on listening"),
        () = enough.notified() => {}
    }
    (told, began.elapsed())
}

fn status(code: u16) -> &'static str {
    let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "", "code": code});
    status.to_string().leak()
}

#[tokio::test(start_paused = true)]
async fn whoever_may_list_and_not_watch_asks_less_and_less_often() {
    let (told, took) = followed((200, LIST), (403, status(403))).await;
    assert_eq!(told[..4], ["listed", "lost", "listed", "lost"]);
    // Two requests for each look: pauses of a half, one, two, four and eight seconds lie between them.
    assert!(took >= Duration::from_secs(15), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn watches_that_end_at_once_are_not_a_loop_without_a_pause() {
    let (told, took) = followed((200, LIST), (200, "")).await;
    assert_eq!(told, ["listed"]);
    assert!(took >= Duration::from_secs(55), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_too_old_is_no_trouble_and_still_pauses() {
    let (told, took) = followed((200, LIST), (410, status(410))).await;
    assert!(told.iter().all(|told| *told == "listed"), "{told:?}");
    assert!(took >= Duration::from_secs(15), "{took:?}");
}

/// As after a network was cut, or while a machine slept.
#[tokio::test(start_paused = true)]
async fn a_connection_on_which_nothing_comes_is_given_up() {
    let (told, took) = followed((200, LIST), (NOTHING, "")).await;
    assert_eq!(told[..4], ["listed", "lost", "listed", "lost"]);
    assert!(took >= 5 * ANSWER_MAX, "{took:?}");
    let (told, _) = followed((NOTHING, ""), (NOTHING, "")).await;
    assert!(told.iter().all(|told| *told == "lost"), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_cluster_does_not_serve_is_looked_for_once_a_minute() {
    let (told, took) = followed((404, status(404)), (404, status(404))).await;
    assert_eq!(told[..4], ["listed", "followed", "listed", "followed"]);
    assert!(took >= Duration::from_secs(11 * 60), "{took:?}");
}

#[test]
fn pauses_grow_until_something_has_lasted_longer_than_the_pause() {
    let mut pauses = Pauses::default();
    let short: Vec<Duration> = (0..6).map(|_| pauses.after(Duration::ZERO)).collect();
    let expected = [500, 1000, 2000, 4000, 8000, 8000];
    assert_eq!(short, expected.map(Duration::from_millis));
    assert_eq!(pauses.after(RETRY_MAX), RETRY_MAX);
    assert_eq!(pauses.after(Duration::from_secs(240)), RETRY_MIN);
    assert_eq!(pauses.after(Duration::ZERO), 2 * RETRY_MIN);
}
