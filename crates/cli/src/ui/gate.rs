//! Who is answered. Decides by the name that the browser believes to talk to, by the page that asks, and by a cookie
//! that only the one-time link gives. Must not know what is asked for.

use std::sync::Mutex;

use http::header::{COOKIE, HOST, HeaderName, ORIGIN};
use http::{HeaderMap, Method, StatusCode, Uri};

use crate::constant_time::is_equal_constant_time;

/// Browsers say with it which page asks.
const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
/// And with it, whether somebody followed a link.
const FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");
/// Links of other pages lead here. What follows names a job.
pub(super) const FIND: &str = "find";

/// The two names of this machine under which the page is served, and what opens it.
pub(super) struct Gate {
    hosts: [String; 2],
    /// Of the link; gone once it was used.
    token: Mutex<Option<String>>,
    cookie_name: String,
    session: String,
}

/// What a request gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// An answer.
    Pass,
    /// The cookie, and the same page without the token in its address.
    Enter(String),
    /// A page that opens the same address again, which is then this page's own wish.
    Again,
    /// Nothing but this.
    Refuse(StatusCode, &'static str),
}

impl Gate {
    pub(super) fn new(port: u16, token: String, session: String) -> Self {
        Self {
            hosts: [format!("127.0.0.1:{port}"), format!("localhost:{port}")],
            token: Mutex::new(Some(token)),
            // Cookies do not tell ports apart, and two of these may be open.
            cookie_name: format!("muster-{port}"),
            session,
        }
    }

    pub(super) fn judge(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Decision {
        let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        // Another name that leads here is how a page of others would read this one.
        if !text(&HOST).is_some_and(|host| self.hosts.iter().any(|own| own == host)) {
            return Decision::Refuse(
                StatusCode::MISDIRECTED_REQUEST,
                "this page is at 127.0.0.1 alone",
            );
        }
        let is_own = |origin: &str| {
            self.hosts
                .iter()
                .any(|host| origin == format!("http://{host}"))
        };
        if text(&ORIGIN).is_some_and(|origin| !is_own(origin)) {
            return Decision::Refuse(StatusCode::FORBIDDEN, "another page may not read this one");
        }
        let is_foreign =
            text(&FETCH_SITE).is_some_and(|site| !matches!(site, "same-origin" | "none"));
        let is_link = text(&FETCH_DEST) == Some("document") && method == Method::GET;
        let is_find = uri.path().split('/').nth(1) == Some(FIND);
        if is_foreign && is_link && is_find {
            // Browsers keep the cookie back from links of other pages.
            return Decision::Again;
        }
        if is_foreign {
            return Decision::Refuse(StatusCode::FORBIDDEN, "another page may not read this one");
        }
        if method != Method::GET {
            return Decision::Refuse(StatusCode::METHOD_NOT_ALLOWED, "this page changes nothing");
        }
        if self.has_cookie(headers) {
            return Decision::Pass;
        }
        let given = uri.query().and_then(|query| query.strip_prefix("token="));
        match given {
            Some(given) if uri.path() == "/" && self.take(given) => Decision::Enter(format!(
                "{}={}; HttpOnly; SameSite=Strict; Path=/",
                self.cookie_name, self.session
            )),
            _ => Decision::Refuse(
                StatusCode::UNAUTHORIZED,
                "open the link that `muster ui` has printed; it works once, in one browser",
            ),
        }
    }

    fn has_cookie(&self, headers: &HeaderMap) -> bool {
        let lines = headers
            .get_all(COOKIE)
            .iter()
            .filter_map(|value| value.to_str().ok());
        let mut cookies = lines.flat_map(|line| line.split("; "));
        cookies.any(|cookie| {
            let own = cookie
                .split_once('=')
                .filter(|(name, _)| *name == self.cookie_name);
            own.is_some_and(|(_, value)| {
                is_equal_constant_time(value.as_bytes(), self.session.as_bytes())
            })
        })
    }

    /// Whether it is the token, which then opens nothing any more.
    fn take(&self, given: &str) -> bool {
        let Ok(mut token) = self.token.lock() else {
            return false;
        };
        let is_it = |token: &String| is_equal_constant_time(given.as_bytes(), token.as_bytes());
        token.take_if(|token| is_it(token)).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(
        gate: &Gate,
        method: Method,
        target: &str,
        headers: &[(&'static str, &str)],
    ) -> Decision {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        gate.judge(&method, &target.parse().unwrap(), &map)
    }

    fn code(decision: &Decision) -> u16 {
        match decision {
            Decision::Pass | Decision::Again => 200,
            Decision::Enter(_) => 303,
            Decision::Refuse(code, _) => code.as_u16(),
        }
    }

    #[test]
    fn only_the_cookie_of_the_link_opens_the_page() {
        let gate = Gate::new(8080, "t0ken".to_owned(), "s3ssion".to_owned());
        let host = ("host", "127.0.0.1:8080");
        let cookie = ("cookie", "other=1; muster-8080=s3ssion");
        for (target, headers, expected) in [
            ("/", vec![host], 401),
            ("/style.css", vec![host], 401),
            (
                "/jobs/u1",
                vec![host, ("cookie", "muster-8080=s3ssioN")],
                401,
            ),
            ("/", vec![host, ("cookie", "muster-8081=s3ssion")], 401),
            ("/?token=t0keN", vec![host], 401),
            ("/jobs/u1?token=t0ken", vec![host], 401),
            ("/", vec![cookie], 421),
            ("/", vec![("host", "evil.example:8080"), cookie], 421),
            (
                "/",
                vec![host, cookie, ("origin", "http://evil.example")],
                403,
            ),
            (
                "/",
                vec![host, cookie, ("sec-fetch-site", "cross-site")],
                403,
            ),
            // Another port of this machine: a strict cookie goes with its requests.
            (
                "/",
                vec![host, cookie, ("sec-fetch-site", "same-site")],
                403,
            ),
            (
                "/",
                vec![host, cookie, ("origin", "http://127.0.0.1:9090")],
                403,
            ),
            (
                "/",
                vec![host, cookie, ("origin", "http://127.0.0.1:8080")],
                200,
            ),
            ("/", vec![("host", "localhost:8080"), cookie], 200),
        ] {
            assert_eq!(
                code(&judged(&gate, Method::GET, target, &headers)),
                expected,
                "{target} {headers:?}"
            );
        }
        assert_eq!(
            code(&judged(&gate, Method::POST, "/", &[host, cookie])),
            405
        );
    }

    #[test]
    fn links_of_other_pages_only_find_jobs_and_show_nothing_themselves() {
        let gate = Gate::new(8080, "t0ken".to_owned(), "s3ssion".to_owned());
        let link = [
            ("host", "127.0.0.1:8080"),
            ("sec-fetch-site", "cross-site"),
            ("sec-fetch-dest", "document"),
        ];
        let of = |method, target, headers: &[_]| judged(&gate, method, target, headers);
        let found = of(Method::GET, "/find/default/pi", &link);
        assert_eq!(found, Decision::Again);
        assert_eq!(code(&of(Method::GET, "/jobs/u1", &link)), 403);
        assert_eq!(code(&of(Method::POST, "/find/default/pi", &link)), 403);
        // Not in a frame, and not by a script.
        assert_eq!(code(&of(Method::GET, "/find/default/pi", &link[..2])), 403);
        // The second time it is the page's own wish; without the cookie there is nothing.
        assert_eq!(code(&of(Method::GET, "/find/default/pi", &link[..1])), 401);
    }

    #[test]
    fn the_link_works_once() {
        let gate = Gate::new(8080, "t0ken".to_owned(), "s3ssion".to_owned());
        let host = [("host", "127.0.0.1:8080")];
        let Decision::Enter(cookie) = judged(&gate, Method::GET, "/?token=t0ken", &host) else {
            panic!("the link must open the page");
        };
        assert_eq!(
            cookie,
            "muster-8080=s3ssion; HttpOnly; SameSite=Strict; Path=/"
        );
        assert_eq!(
            code(&judged(&gate, Method::GET, "/?token=t0ken", &host)),
            401
        );
    }
}
