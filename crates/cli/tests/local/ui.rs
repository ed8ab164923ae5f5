//! `muster ui` in a real browser: jobs that run while somebody looks, and who gets no answer.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::browser::Browser;
use crate::world::{World, hello, until};

/// A page that is served until this is dropped.
pub(crate) struct Served {
    child: Child,
    pub(crate) link: String,
}

impl Served {
    pub(crate) fn start(world: &World, words: &[&str]) -> Self {
        let mut command = world.muster(words);
        let mut child = command.spawn().unwrap();
        let mut link = String::new();
        let stdout = child.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut link).unwrap();
        assert!(link.starts_with("http://127.0.0.1:"), "{link:?}");
        Self {
            child,
            link: link.trim_end().to_owned(),
        }
    }

    fn port(&self) -> u16 {
        let rest = self.link.trim_start_matches("http://127.0.0.1:");
        rest.split('/').next().unwrap().parse().unwrap()
    }

    /// The head of the answer to a request with these lines.
    fn head(&self, target: &str, lines: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port())).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\n{lines}Connection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A script that runs until the file `go` is there.
pub(crate) fn until_go(world: &World) -> String {
    let go = world.directory.join("go");
    format!(
        "echo begun; while [ ! -e {} ]; do sleep 0.05; done; echo went",
        go.display()
    )
}

/// Runs until the file `go` is there; its pods wait for a ConfigMap.
fn patient(world: &World) -> String {
    let script = until_go(world);
    let volumes = "        spec:\n          volumes: [{name: later, configMap: {name: later}}]\n          containers:\n          - name: worker\n            volumeMounts: [{name: later, mountPath: /later}]";
    let text = hello(2, 1, &script).replace("[mpirun,", "[mpirun, --tag-output,");
    let text = text.replace(
        "        spec:\n          containers:\n          - name: worker",
        volumes,
    );
    world.file("job.yaml", &text)
}

fn up(world: &World) {
    let up = world.run(&["up"]);
    assert_eq!(up.code, 0, "{up:?}");
}

fn submit(world: &World, file: &str) {
    let submitted = world.run(&["submit", "--local", file]);
    assert_eq!(submitted.code, 0, "{submitted:?}");
}

/// The address of somebody else's page.
fn page_of_others() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\nConnection: close\r\n\r\nother");
        }
    });
    format!("http://localhost:{port}/")
}

#[test]
fn a_job_is_seen_from_its_first_pod_to_its_end_without_a_reload() {
    let world = World::new("ui");
    up(&world);
    let job = patient(&world);
    let served = Served::start(&world, &["ui", "--local"]);
    let mut browser = Browser::start(&world.directory);
    browser.open(&served.link);
    assert_eq!(browser.text("location.search"), "");
    browser.until("document.querySelector('#list').innerText.includes('No jobs')");
    submit(&world, &job);
    browser.until("document.querySelector('tr[data-text] [data-phase=Waiting]')");
    assert_eq!(browser.faults(), [""; 0]);

    // The list is searched on the page.
    browser.value("(() => { const box = document.querySelector('[name=q]'); box.value = 'nothing'; box.dispatchEvent(new Event('input', {bubbles: true})); })()");
    assert_eq!(
        browser.value("document.querySelectorAll('tr[data-text]:not([hidden])').length"),
        0
    );

    let address = browser.text("document.querySelector('tr[data-text] a').href");
    // As a link of a dashboard leads to it.
    browser.open(&page_of_others());
    let link = format!("http://127.0.0.1:{}/find/default/hello", served.port());
    browser.value(&format!("(() => {{ const link = document.createElement('a'); link.href = '{link}'; document.body.append(link); link.click(); }})()"));
    browser.until(&format!("location.href === '{address}'"));
    browser.value("window.stayed = true");
    browser.until("document.querySelector('#verdict [data-phase=Waiting]')");
    browser.until("document.querySelectorAll('.timeline tbody tr').length === 3");
    assert_eq!(browser.faults(), [""; 0]);
    submit(
        &world,
        &world.file(
            "later.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: later}\n",
        ),
    );
    browser.until("document.querySelector('#verdict [data-phase=Running]')");

    // The log follows, by rank.
    browser.value("document.querySelector('#follow [name=rank]').value = '1'");
    browser.value("document.querySelector('#follow form').requestSubmit()");
    browser.until("document.querySelector('#follow pre').innerText.includes('begun')");
    world.file("go", "");
    browser.until("document.querySelector('#follow pre').innerText.includes('went')");
    browser.until("document.querySelector('#verdict [data-phase=Succeeded]')");
    browser.until("document.querySelector('#follow pre').innerText.includes('The log has ended')");
    let log = browser.text("document.querySelector('#follow pre').innerText");
    assert!(!log.contains("[1,0]"), "{log}");
    browser.until("document.querySelector('#logs').innerText.includes('went')");
    assert_eq!(browser.value("window.stayed"), true);
    assert_eq!(browser.text("document.title"), "hello: Succeeded");
    assert_eq!(browser.faults(), [""; 0]);

    // Somebody deletes it meanwhile.
    let cancelled = world.run(&["cancel", "--local", "hello"]);
    assert_eq!(cancelled.code, 0, "{cancelled:?}");
    browser.until("document.querySelector('#trouble').innerText.includes('The job was deleted')");
    browser.until("document.querySelector('#verdict [data-phase=Succeeded]')");
    // Whoever comes back to the page later reads it, too.
    browser.value("(() => { const again = new EventSource(document.querySelector('main').dataset.live); again.addEventListener('sections', (told) => { window.again = told.data; again.close(); }); })()");
    browser.until("(window.again ?? '').includes('was deleted')");
    assert_eq!(browser.complaints(), [""; 0]);
    world.run(&["down"]);
}

#[test]
fn whoever_has_not_opened_the_link_gets_nothing() {
    let world = World::new("ui-gate");
    let served = Served::start(&world, &["ui", "--local"]);
    let host = format!("Host: 127.0.0.1:{}\r\n", served.port());
    for target in [
        "/",
        "/style.css",
        "/app.js",
        "/live",
        "/jobs/x",
        "/jobs/x/live",
        "/jobs/x/log",
        "/?token=guess",
        "/x",
    ] {
        let answer = served.head(target, &host);
        assert!(answer.starts_with("HTTP/1.1 401 "), "{target}: {answer}");
        assert!(!answer.to_lowercase().contains("set-cookie"), "{answer}");
    }
    let target = format!("/{}", served.link.rsplit('/').next().unwrap());
    let foreign = served.head(&target, "Host: evil.example\r\n");
    assert!(foreign.starts_with("HTTP/1.1 421 "), "{foreign}");

    let mut browser = Browser::start(&world.directory);
    browser.open(&served.link);
    browser.until("document.querySelector('h1').innerText === 'Jobs'");
    // The cookie is not for scripts, and the link does not work twice.
    assert_eq!(browser.text("document.cookie"), "");
    let again = served.head(&target, &host);
    assert!(again.starts_with("HTTP/1.1 401 "), "{again}");

    // A page of somebody else, in the same browser.
    let other = page_of_others();
    browser.open(&other);
    let page = format!("http://127.0.0.1:{}/", served.port());
    let read = format!(
        "fetch('{page}', {{credentials: 'include'}}).then(answer => answer.text(), () => 'refused')"
    );
    assert_eq!(browser.text(&read), "refused");
    let blind = format!(
        "fetch('{page}', {{credentials: 'include', mode: 'no-cors'}}).then(answer => answer.type, () => 'refused')"
    );
    assert_eq!(browser.text(&blind), "refused");
}

/// Passes connections on while it is open.
pub(crate) struct Relay {
    port: u16,
    open: Arc<AtomicBool>,
}

impl Relay {
    /// In front of the local cluster; and the kubeconfig of whoever goes through it.
    pub(crate) fn before_cluster(world: &World) -> (Self, String) {
        let path = world.directory.join("state/up/kubeconfig");
        let kubeconfig = std::fs::read_to_string(path).unwrap();
        let (_, rest) = kubeconfig.split_once("https://127.0.0.1:").unwrap();
        let port: String = rest.chars().take_while(char::is_ascii_digit).collect();
        let relay = Self::start(port.parse().unwrap());
        let (own, other) = (
            format!("127.0.0.1:{port}"),
            format!("127.0.0.1:{}", relay.port),
        );
        (
            relay,
            world.file("kubeconfig", &kubeconfig.replace(&own, &other)),
        )
    }

    /// Nobody gets through, or everybody does.
    pub(crate) fn set_open(&self, open: bool) {
        self.open.store(open, Ordering::SeqCst);
    }

    fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let open = Arc::new(AtomicBool::new(true));
        let is_open = Arc::clone(&open);
        std::thread::spawn(move || {
            for from in listener.incoming().flatten() {
                if !is_open.load(Ordering::SeqCst) {
                    continue;
                }
                let to = TcpStream::connect(("127.0.0.1", to)).unwrap();
                for (mut from, mut to) in [
                    (from.try_clone().unwrap(), to.try_clone().unwrap()),
                    (to, from),
                ] {
                    from.set_read_timeout(Some(std::time::Duration::from_millis(50)))
                        .unwrap();
                    let is_open = Arc::clone(&is_open);
                    std::thread::spawn(move || {
                        let mut bytes = [0; 16 << 10];
                        while is_open.load(Ordering::SeqCst) {
                            match from.read(&mut bytes) {
                                Ok(0) => break,
                                Ok(read) => to.write_all(&bytes[..read]).unwrap_or_default(),
                                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
                                Err(_) => break,
                            }
                        }
                        let _ = to.shutdown(std::net::Shutdown::Both);
                        let _ = from.shutdown(std::net::Shutdown::Both);
                    });
                }
            }
        });
        Self { port, open }
    }
}

#[test]
fn an_api_server_that_goes_away_is_named_and_one_that_returns_is_read_again() {
    let world = World::new("ui-away");
    up(&world);
    let (relay, behind) = Relay::before_cluster(&world);
    let served = Served::start(&world, &["ui", "--kubeconfig", &behind]);
    let mut browser = Browser::start(&world.directory);
    browser.open(&served.link);
    browser.until("document.querySelector('#list').innerText.includes('No jobs')");
    relay.set_open(false);
    browser.until("document.querySelector('#trouble').innerText.includes('cannot list and watch')");
    relay.set_open(true);
    submit(&world, &patient(&world));
    browser.until("document.querySelector('tr[data-text]')");
    browser.until("document.querySelector('#trouble').innerText === ''");
    world.run(&["cancel", "--local", "hello"]);
    world.run(&["down"]);
}

#[test]
fn runs_on_this_machine_appear_without_a_cluster() {
    let world = World::new("ui-runs");
    let served = Served::start(&world, &["ui", "--local"]);
    let mut browser = Browser::start(&world.directory);
    browser.open(&served.link);
    browser.until("document.querySelector('#list').innerText.includes('No jobs')");
    let file = world.file("job.yaml", &hello(1, 1, &until_go(&world)));
    let mut run = world.muster(&["run", &file]).spawn().unwrap();
    browser.until("document.querySelector('tr[data-text] [data-phase=Running]')");
    let address = browser.text("document.querySelector('tr[data-text] a').href");
    browser.open(&address);
    browser.value("document.querySelector('#follow form').requestSubmit()");
    browser.until("document.querySelector('#follow pre').innerText.includes('begun')");
    world.file("go", "");
    browser.until("document.querySelector('#follow pre').innerText.includes('went')");
    browser.until("document.querySelector('#verdict [data-phase=Succeeded]')");
    assert_eq!(run.wait().unwrap().code(), Some(0));
    until("the log ends", || {
        browser
            .text("document.querySelector('#follow pre').innerText")
            .contains("The log has ended")
    });
}

/// An API server that lets its user read jobs and nothing else.
fn jobs_alone() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let answer = |target: &str| {
        let job = r#"{"apiVersion":"kubeflow.org/v2beta1","kind":"MPIJob","metadata":{"name":"pi","namespace":"lab","uid":"u1",
            "resourceVersion":"1","creationTimestamp":"2026-11-18T20:00:00Z"},"spec":{},"status":{"muster":{"phase":"Running"}}}"#;
        match target {
            target if target.contains("kubeflow.org") && target.contains("/mpijobs/pi") => (200, job.to_owned()),
            // A watch that ends at once.
            target if target.contains("kubeflow.org") && target.contains("watch=true") => (200, String::new()),
            target if target.contains("kubeflow.org") => (
                200,
                format!(r#"{{"kind":"MPIJobList","metadata":{{"resourceVersion":"1"}},"items":[{job}]}}"#),
            ),
            target if target.contains("/pods") || target.contains("/events") => {
                let what = if target.contains("/pods") { "pods" } else { "events" };
                (403, format!(r#"{{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,
                    "message":"{what} is forbidden: User \"lara\" cannot list resource \"{what}\" in API group \"\" in the namespace \"lab\""}}"#))
            }
            _ => (404, r#"{"kind":"Status","status":"Failure","reason":"NotFound","code":404,"message":"not found"}"#.to_owned()),
        }
    };
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut line = String::new();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            if reader.read_line(&mut line).is_err() {
                continue;
            }
            let mut head = String::new();
            while reader.read_line(&mut head).is_ok_and(|read| read > 2) {
                head.clear();
            }
            let (code, body) = answer(line.split(' ').nth(1).unwrap_or_default());
            let _ = write!(
                stream,
                "HTTP/1.1 {code} x\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    port
}

#[test]
fn whoever_may_not_list_pods_reads_which_right_is_missing() {
    let world = World::new("report-rights");
    let port = jobs_alone();
    let kubeconfig = world.file("kubeconfig", &format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\nclusters: [{{name: x, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\n\
         users: [{{name: x, user: {{}}}}]\ncontexts: [{{name: x, context: {{cluster: x, user: x, namespace: lab}}}}]\n"));
    let made = world.run(&["report", "pi", "--kubeconfig", &kubeconfig, "-o", "html"]);
    assert_eq!(made.code, 0, "{made:?}");
    for words in [
        "The pods are missing here: you may not list",
        "cannot list resource &quot;pods&quot; in API group",
        "cannot list resource &quot;events&quot;",
        "pi has been running",
    ] {
        assert!(
            made.stdout.contains(words),
            "{words} is not in {}",
            made.stdout
        );
    }

    let served = Served::start(&world, &["ui", "--kubeconfig", &kubeconfig]);
    let mut browser = Browser::start(&world.directory);
    browser.open(&served.link);
    browser.until("document.querySelector('tr[data-text]')");
    let address = browser.text("document.querySelector('tr[data-text] a').href");
    browser.open(&address);
    for right in ["list and watch pods", "list and watch events"] {
        browser.until(&format!(
            "document.querySelector('#trouble').innerText.includes('you may not {right} in namespace lab')"
        ));
    }
    browser.until("document.querySelector('#verdict [data-phase=Running]')");
}
