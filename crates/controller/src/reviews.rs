//! Who may read the metrics. Asks the API server whose a token is, and whether that user may `get /metrics`.
//! Decides for how long an answer holds, how many are kept, and how many questions may be open at once.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kube::api::PostParams;
use kube::core::Request;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::api::Api;
use crate::api_error::ApiError;

/// The path that is asked for.
pub(crate) const PATH: &str = "/metrics";

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Who was told yes need not be asked about for this long: a scraper comes every few seconds.
const ALLOWED_FOR: Duration = Duration::from_secs(60);
/// Who was told no, until a new right of his has effect.
const REFUSED_FOR: Duration = Duration::from_secs(10);
/// Tokens that are remembered. Anybody can send any number of wrong ones.
const KNOWN_MAX: usize = 64;
/// Tokens that the API server is asked about at the same time.
const ASKED_MAX: usize = 4;
/// Scrapers wait for ten seconds.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// What a token is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Its user may read the metrics.
    Allowed,
    /// Its user may not.
    Forbidden,
    /// It is nobody's.
    Unknown,
}

/// Questions, and the answers that still hold.
pub(crate) struct Reviews {
    api: Api,
    known: Mutex<Vec<Known>>,
    asked: Semaphore,
}

/// A token by its hash: tokens are not kept.
#[derive(Clone, Copy, Debug)]
struct Known {
    hash: [u8; 32],
    access: Access,
    until: Instant,
}

impl Reviews {
    /// Asks by this client, which nothing else should use.
    pub(crate) fn new(api: Api) -> Self {
        Self {
            api,
            known: Mutex::default(),
            asked: Semaphore::new(ASKED_MAX),
        }
    }

    /// What this token is good for.
    pub(crate) async fn of(&self, token: &str) -> Result<Access, ApiError> {
        let mut hash = [0; 32];
        hash.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        if let Some(access) = self.known(&hash) {
            return Ok(access);
        }
        let asked = timeout(ANSWER_MAX, async {
            let _place = self.asked.acquire().await;
            // Somebody with the same token may have been answered meanwhile.
            match self.known(&hash) {
                Some(access) => Ok(access),
                None => self.ask(token, hash).await,
            }
        });
        let secs = ANSWER_MAX.as_secs();
        asked.await.map_err(|_| ApiError::TimedOut { secs })?
    }

    async fn ask(&self, token: &str, hash: [u8; 32]) -> Result<Access, ApiError> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        let answer = self.review(TOKEN_REVIEWS, &review).await?;
        let access = match answer["status"]["authenticated"] == true {
            true => self.access(&answer["status"]["user"]).await?,
            false => Access::Unknown,
        };
        self.remember(hash, access);
        Ok(access)
    }

    async fn access(&self, user: &Value) -> Result<Access, ApiError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user["username"],
                "uid": user["uid"],
                "groups": user["groups"],
                "extra": user["extra"],
                "nonResourceAttributes": {"path": PATH, "verb": "get"},
            },
        });
        let answer = self.review(ACCESS_REVIEWS, &review).await?;
        let is_allowed = answer["status"]["allowed"] == true && answer["status"]["denied"] != true;
        Ok(match is_allowed {
            true => Access::Allowed,
            false => Access::Forbidden,
        })
    }

    async fn review(&self, path: &str, review: &Value) -> Result<Value, ApiError> {
        let body = serde_json::to_vec(review).map_err(ApiError::Unreadable)?;
        let request = Request::new(path).create(&PostParams::default(), body);
        let answer = self.api.send(request).await?;
        serde_json::from_str(&answer).map_err(ApiError::Unreadable)
    }

    fn known(&self, hash: &[u8; 32]) -> Option<Access> {
        let mut known = self.lock();
        known.retain(|known| known.until > Instant::now());
        let found = known.iter().find(|known| known.hash == *hash);
        found.map(|known| known.access)
    }

    /// Where there is no room, a refusal goes first, so that wrong tokens do not make us forget a scraper.
    fn remember(&self, hash: [u8; 32], access: Access) {
        let mut known = self.lock();
        if known.len() >= KNOWN_MAX {
            let is_refused = |known: &Known| known.access != Access::Allowed;
            let first = known.iter().position(is_refused);
            known.remove(first.unwrap_or_default());
        }
        let holds_for = match access {
            Access::Allowed => ALLOWED_FOR,
            Access::Forbidden | Access::Unknown => REFUSED_FOR,
        };
        let until = Instant::now() + holds_for;
        known.push(Known {
            hash,
            access,
            until,
        });
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::BodyExt as _;
    use kube::client::Body;

    use super::*;

    /// An API server that knows the tokens `scraper` and `nobody`, of which the first may read the metrics, and
    /// that counts what it is asked.
    pub(crate) fn reviews() -> (Reviews, Arc<AtomicUsize>) {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&count);
        let service = tower::service_fn(move |request: http::Request<Body>| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                let review: Value = serde_json::from_slice(&body).expect("we send JSON");
                let status = match review["spec"]["token"].as_str() {
                    Some(token @ ("scraper" | "nobody")) => {
                        json!({"authenticated": true, "user": {"username": token, "groups": ["g"]}})
                    }
                    Some("slow") => std::future::pending().await,
                    Some(_) => json!({}),
                    None => {
                        let attributes = &review["spec"]["nonResourceAttributes"];
                        assert_eq!(*attributes, json!({"path": "/metrics", "verb": "get"}));
                        assert_eq!(review["spec"]["groups"], json!(["g"]));
                        json!({"allowed": review["spec"]["user"] == "scraper"})
                    }
                };
                let body = json!({"status": status}).to_string().into_bytes();
                Ok::<_, tower::BoxError>(http::Response::new(Body::from(body)))
            }
        });
        let client = kube::Client::new(service, "default");
        (Reviews::new(Api::new(client, Arc::default())), count)
    }

    #[tokio::test(start_paused = true)]
    async fn t14_an_answer_holds_for_a_while_and_a_refusal_for_less() {
        let (reviews, count) = reviews();
        let asked = || count.load(Ordering::Relaxed);
        for _ in 0..3 {
            assert_eq!(reviews.of("scraper").await.unwrap(), Access::Allowed);
            assert_eq!(reviews.of("nobody").await.unwrap(), Access::Forbidden);
            assert_eq!(reviews.of("guess").await.unwrap(), Access::Unknown);
        }
        assert_eq!(
            asked(),
            5,
            "two questions for each user, one for a stranger"
        );
        tokio::time::advance(REFUSED_FOR).await;
        assert_eq!(reviews.of("scraper").await.unwrap(), Access::Allowed);
        assert_eq!(asked(), 5);
        assert_eq!(reviews.of("nobody").await.unwrap(), Access::Forbidden);
        assert_eq!(asked(), 7);
        tokio::time::advance(ALLOWED_FOR).await;
        assert_eq!(reviews.of("scraper").await.unwrap(), Access::Allowed);
        assert_eq!(asked(), 9);
    }

    #[tokio::test(start_paused = true)]
    async fn t14_wrong_tokens_are_forgotten_before_right_ones() {
        let (reviews, count) = reviews();
        assert_eq!(reviews.of("scraper").await.unwrap(), Access::Allowed);
        for guess in 0..KNOWN_MAX * 3 {
            let access = reviews.of(&format!("guess-{guess}")).await.unwrap();
            assert_eq!(access, Access::Unknown);
        }
        assert_eq!(reviews.lock().len(), KNOWN_MAX);
        let asked = count.load(Ordering::Relaxed);
        assert_eq!(reviews.of("scraper").await.unwrap(), Access::Allowed);
        assert_eq!(count.load(Ordering::Relaxed), asked);
    }

    #[tokio::test(start_paused = true)]
    async fn t14_few_questions_are_open_at_once_and_none_for_long() {
        let (reviews, count) = reviews();
        let waiting = (0..20).map(|_| reviews.of("slow"));
        let start = Instant::now();
        let answers = futures::future::join_all(waiting).await;
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(start.elapsed(), ANSWER_MAX);
        assert_eq!(count.load(Ordering::Relaxed), ASKED_MAX);
        assert_eq!(reviews.of("scraper").await.unwrap(), Access::Allowed);
    }
}
