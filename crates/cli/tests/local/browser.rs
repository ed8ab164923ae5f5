//! A real Chromium, without a window, driven over a pipe in the words of the DevTools protocol. Knows nothing of the
//! pages that it shows.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Longer than a page needs on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// A browser that is asked to close needs less.
const CLOSES: Duration = Duration::from_secs(10);
/// How often a page is asked whether something holds.
const LOOK: Duration = Duration::from_millis(50);

/// A browser with one page.
pub(crate) struct Browser {
    child: Child,
    to: File,
    from: Receiver<Value>,
    session: String,
    number: u64,
    temporary: PathBuf,
    /// What the browser told without being asked.
    pub(crate) told: Vec<Value>,
}

impl Browser {
    /// Starts one that keeps its files in this directory.
    pub(crate) fn start(directory: &Path) -> Self {
        let installed = Command::new("which")
            .arg("chromium")
            .output()
            .unwrap()
            .status;
        assert!(
            installed.success(),
            "chromium is missing: as root run apt-get install chromium"
        );
        let place = directory.join("chromium");
        std::fs::create_dir_all(&place).unwrap();
        let temporary = short_directory();
        let pipes = [place.join("in"), place.join("out")];
        let made = Command::new("mkfifo").args(&pipes).status().unwrap();
        assert!(made.success(), "mkfifo failed");
        let child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<\"$0/in\" 4>\"$0/out\""])
            .arg(&place)
            .args([
                "chromium",
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
            ])
            .args([
                "--disable-breakpad",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
            ])
            .args(["--disable-component-update", "--remote-debugging-pipe"])
            .arg(format!(
                "--user-data-dir={}",
                place.join("profile").display()
            ))
            .env("HOME", &place)
            .env("TMPDIR", &temporary)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(place.join("stderr")).unwrap())
            .spawn()
            .unwrap();
        let to = OpenOptions::new().write(true).open(&pipes[0]).unwrap();
        let from = answers(File::open(&pipes[1]).unwrap());
        let mut browser = Self {
            child,
            to,
            from,
            session: String::new(),
            number: 0,
            temporary,
            told: Vec::new(),
        };
        let target = browser.call("Target.createTarget", json!({"url": "about:blank"}));
        let target = &target["targetId"];
        let session = browser.call(
            "Target.attachToTarget",
            json!({"targetId": target, "flatten": true}),
        );
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Asks the browser, and waits for its answer.
    pub(crate) fn call(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let number = self.number;
        let mut message = json!({"id": number, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.as_str().into();
        }
        self.send(&message).unwrap();
        loop {
            let answer = self.from.recv_timeout(PATIENCE);
            let answer = answer.unwrap_or_else(|_| panic!("the browser did not answer {method}"));
            if answer["id"] == number {
                assert!(answer.get("error").is_none(), "{method}: {answer}");
                return answer["result"].clone();
            }
            self.told.push(answer);
        }
    }

    fn send(&mut self, message: &Value) -> std::io::Result<()> {
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.to.write_all(&bytes)
    }

    /// Opens a page, and waits until it is there. Says how long that took.
    pub(crate) fn open(&mut self, address: &str) -> Duration {
        let since = Instant::now();
        self.call("Page.navigate", json!({"url": address}));
        self.until("document.readyState === 'complete' && location.href !== 'about:blank'");
        since.elapsed()
    }

    /// The value of an expression on the page.
    pub(crate) fn value(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "returnByValue": true, "awaitPromise": true});
        let answer = self.call("Runtime.evaluate", params);
        assert!(
            answer.get("exceptionDetails").is_none(),
            "{expression}: {answer}"
        );
        answer["result"]["value"].clone()
    }

    pub(crate) fn text(&mut self, expression: &str) -> String {
        self.value(expression)
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits until an expression is true on the page.
    pub(crate) fn until(&mut self, expression: &str) {
        let since = Instant::now();
        while self.value(&format!("Boolean({expression})")) != true {
            if since.elapsed() > PATIENCE {
                let page = self.text("document.body.innerText");
                panic!("{expression} was never true; the page was:\n{page}");
            }
            std::thread::sleep(LOOK);
        }
    }

    /// A screen of this width.
    pub(crate) fn width(&mut self, width: u32) {
        let size = json!({"width": width, "height": 1000, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
    }

    /// `light` or `dark`.
    pub(crate) fn colours(&mut self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features}));
    }

    /// A PNG of the page, as base64.
    pub(crate) fn picture(&mut self) -> String {
        let answer = self.call("Page.captureScreenshot", json!({"format": "png"}));
        answer["data"].as_str().unwrap().to_owned()
    }

    pub(crate) fn go_offline(&mut self) {
        let nothing =
            json!({"offline": true, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0});
        self.call("Network.emulateNetworkConditions", nothing);
    }

    /// Addresses that pages have asked for.
    pub(crate) fn requests(&self) -> Vec<&str> {
        let requests = self
            .told
            .iter()
            .filter(|told| told["method"] == "Network.requestWillBeSent");
        requests
            .filter_map(|told| told["params"]["request"]["url"].as_str())
            .collect()
    }

    /// What went wrong on pages: exceptions, and what the policy of a page refused.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let is_one = |told: &&Value| match told["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Log.entryAdded") => told["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.told
            .iter()
            .filter(is_one)
            .map(Value::to_string)
            .collect()
    }

    /// Serious faults of the page for people who do not see or do not point, as axe finds them.
    pub(crate) fn faults(&mut self) -> Vec<String> {
        let axe = std::env::var("MUSTER_AXE").expect(
            "MUSTER_AXE names the file axe.min.js; `cargo xtask test --only local` installs it and sets the variable",
        );
        let axe = std::fs::read_to_string(axe).unwrap();
        self.value(&format!("{axe}; 1"));
        let found = self.value(
            "axe.run().then(found => found.violations.filter(one => ['serious', 'critical'].includes(one.impact))
                .map(one => one.id + ': ' + one.nodes.slice(0, 3).map(node => node.html).join(' ')))",
        );
        let found = found.as_array().unwrap().iter();
        found
            .map(|fault| fault.as_str().unwrap().to_owned())
            .collect()
    }
}

/// The messages that come through a pipe: JSON, each with a zero at its end.
fn answers(pipe: File) -> Receiver<Value> {
    let mut pipe = BufReader::new(pipe);
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut message = Vec::new();
        while matches!(pipe.read_until(0, &mut message), Ok(1..)) {
            message.pop();
            let Ok(value) = serde_json::from_slice(&message) else {
                return;
            };
            if sender.send(value).is_err() {
                return;
            }
            message.clear();
        }
    });
    receiver
}

/// Of its own: a browser leaves files when it is killed. In the place for temporary files, because the names of sockets
/// must be short.
fn short_directory() -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let name = format!("chromium-{}-{count}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    std::fs::create_dir(&directory).unwrap();
    directory
}

impl Drop for Browser {
    fn drop(&mut self) {
        // Its processes end in order. One that is killed leaves some, which still write.
        let _ = self.send(&json!({"id": 0, "method": "Browser.close"}));
        let asked = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && asked.elapsed() < CLOSES {
            std::thread::sleep(LOOK);
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.temporary);
    }
}
