//! Requests to the API server, by what was asked of which resource. Watches, which last, are not among them.

use std::time::Duration;

use http::{Method, Uri};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

/// Numbers of requests. Its clones are the same numbers.
#[derive(Clone, Debug)]
pub(crate) struct Requests {
    count: Family<Answered, Counter>,
    seconds: Family<Asked, Histogram, fn() -> Histogram>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Asked {
    verb: &'static str,
    resource: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Answered {
    verb: &'static str,
    resource: String,
    code: String,
}

impl Default for Requests {
    fn default() -> Self {
        Self {
            count: Family::default(),
            seconds: Family::new_with_constructor(|| {
                Histogram::new(exponential_buckets(0.004, 4.0, 6))
            }),
        }
    }
}

impl Requests {
    /// Names them.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register(
            "muster_api_requests",
            "Requests to the API server other than watches, by HTTP status (200 for every success, none for no answer)",
            self.count.clone(),
        );
        registry.register(
            "muster_api_request_seconds",
            "How long requests to the API server other than watches took",
            self.seconds.clone(),
        );
    }

    /// A request ended; without a code it was not answered.
    pub(crate) fn count(&self, method: &Method, uri: &Uri, code: Option<u16>, time: Duration) {
        let (verb, resource) = asked(method, uri.path());
        let code = code.map_or_else(|| "none".to_owned(), |code| code.to_string());
        let asked = Asked {
            verb,
            resource: resource.clone(),
        };
        let answered = Answered {
            verb,
            resource,
            code,
        };
        self.count.get_or_create(&answered).inc();
        self.seconds
            .get_or_create(&asked)
            .observe(time.as_secs_f64());
    }
}

#[cfg(test)]
impl Requests {
    /// How many of these there were.
    pub(crate) fn answered(&self, verb: &'static str, resource: &str, code: &str) -> u64 {
        let answered = Answered {
            verb,
            resource: resource.to_owned(),
            code: code.to_owned(),
        };
        self.count.get_or_create(&answered).get()
    }
}

/// The verb and the resource in the words of roles: `patch`, `jobs/status`. Whatever we ask for is of a kind that
/// we know, so there are few of them.
fn asked(method: &Method, path: &str) -> (&'static str, String) {
    let mut words = path.split('/').skip(1);
    // /api/v1/… or /apis/GROUP/v1/…
    let skipped = if words.next() == Some("api") { 1 } else { 2 };
    let words: Vec<&str> = words
        .skip(skipped)
        .filter(|word| !word.is_empty())
        .collect();
    let words = match words.as_slice() {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        all => all,
    };
    let (resource, name) = match words {
        [] => ("discovery".to_owned(), None),
        [resource] => ((*resource).to_owned(), None),
        [resource, name] => ((*resource).to_owned(), Some(name)),
        [resource, name, part, ..] => (format!("{resource}/{part}"), Some(name)),
    };
    let verb = match (method, name) {
        (&Method::POST, _) => "create",
        (&Method::PATCH, _) => "patch",
        (&Method::PUT, _) => "update",
        (&Method::DELETE, Some(_)) => "delete",
        (&Method::DELETE, None) => "deletecollection",
        (_, Some(_)) => "get",
        (_, None) => "list",
    };
    (verb, resource)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_the_words_of_roles() {
        let pods = "/api/v1/namespaces/team-a/pods";
        let job = "/apis/batch/v1/namespaces/team-a/jobs/pi-launcher";
        for (method, path, verb, resource) in [
            (Method::POST, pods, "create", "pods"),
            (Method::GET, pods, "list", "pods"),
            (Method::DELETE, pods, "deletecollection", "pods"),
            (Method::DELETE, &format!("{pods}/w"), "delete", "pods"),
            (Method::GET, job, "get", "jobs"),
            (
                Method::PATCH,
                &format!("{job}/status"),
                "patch",
                "jobs/status",
            ),
            (
                Method::PUT,
                "/apis/coordination.k8s.io/v1/namespaces/n/leases/l",
                "update",
                "leases",
            ),
            (
                Method::POST,
                "/apis/authentication.k8s.io/v1/tokenreviews",
                "create",
                "tokenreviews",
            ),
            (Method::GET, "/apis", "list", "discovery"),
        ] {
            assert_eq!(asked(&method, path), (verb, resource.to_owned()), "{path}");
        }
    }

    #[test]
    fn a_query_is_no_part_of_a_resource() {
        let requests = Requests::default();
        let uri = "/api/v1/pods?limit=500".parse().unwrap();
        requests.count(&Method::GET, &uri, Some(200), Duration::ZERO);
        assert_eq!(requests.answered("list", "pods", "200"), 1);
    }
}
