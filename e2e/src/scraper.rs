//! Reads the operator's metrics as others do: with curl over TLS, and with a real Prometheus under the shipped
//! configuration. Decides how both are started; must not know what the numbers mean.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use crate::api::{Api, collection};
use crate::operator::repository;
use crate::{Cluster, ports, wait_for};

/// Where Prometheus looks for its token in a pod.
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";
/// Debian's Prometheus cannot ask Kubernetes what there is to read, so the part of the configuration that follows
/// this line is replaced.
const DISCOVERY: &str = "    kubernetes_sd_configs:";
/// It starts within a second, and reads every second.
const READ_MAX: std::time::Duration = std::time::Duration::from_secs(30);

/// A new ServiceAccount, and a token of it.
pub fn account(api: &Api, namespace: &str, name: &str) -> Result<String> {
    let accounts = collection(namespace, "serviceaccounts");
    api.create(&accounts, &json!({"metadata": {"name": name}}))?;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
    let answer = api.create(&format!("{accounts}/{name}/token"), &request)?;
    let token = answer["status"]["token"].as_str();
    Ok(token.context("the API server gave no token")?.to_owned())
}

/// What the port with TLS answers: code and text. Nobody can verify the operator's own certificate.
pub fn scrape(port: u16, token: Option<&str>) -> Result<(u16, String)> {
    let header = token.map(|token| format!("header = \"Authorization: Bearer {token}\"\n"));
    let url = format!("https://127.0.0.1:{port}/metrics");
    let said = curl(
        &["--insecure", "--write-out", "\n%{http_code}", &url],
        &header.unwrap_or_default(),
    )?;
    let (text, code) = said.rsplit_once('\n').context("curl said no code")?;
    Ok((code.parse()?, text.to_owned()))
}

/// Secrets go to curl by its standard input, where nobody else sees them.
fn curl(words: &[&str], settings: &str) -> Result<String> {
    let mut child = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--noproxy",
            "*",
            "--max-time",
            "20",
        ])
        .args(["--config", "-"])
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting curl")?;
    let mut input = child.stdin.take().context("its input was piped")?;
    input.write_all(settings.as_bytes())?;
    drop(input);
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "curl {words:?}: {errors}");
    Ok(String::from_utf8(output.stdout)?)
}

/// `promtool` with these words, fed with this text; returns what it said. Anything but success is an error.
pub fn promtool(words: &[&str], input: &str) -> Result<String> {
    let mut child = Command::new("promtool")
        .args(words)
        .current_dir(repository().join("deploy/monitoring"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting promtool, which is in Debian's package prometheus")?;
    let mut stdin = child.stdin.take().context("its input was piped")?;
    stdin.write_all(input.as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(output.status.success(), "promtool {words:?}: {said}");
    Ok(said)
}

/// A running Prometheus. It is killed when it is dropped.
#[derive(Debug)]
pub struct Prometheus {
    child: Child,
    port: u16,
    directory: PathBuf,
}

impl Prometheus {
    /// Reads the operator at this port with the shipped configuration and the shipped alerts.
    pub fn start(cluster: &Cluster, operator: u16, token: &str) -> Result<Self> {
        let [port] = ports::free()?;
        let directory = cluster.state.join(format!("prometheus-{port}"));
        fs::create_dir_all(&directory)?;
        let file = |name: &str, text: &str| -> Result<PathBuf> {
            let path = directory.join(name);
            fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        };
        let token = file("token", token)?;
        let config = file("prometheus.yaml", &configuration(operator, &token)?)?;
        let log = File::create(directory.join("log"))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "prometheus"])
            .arg(format!("--config.file={}", config.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                directory.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting Debian's prometheus by way of setpriv")?;
        Ok(Self {
            child,
            port,
            directory,
        })
    }

    /// What an expression gives now: labels and values.
    pub fn query(&self, expression: &str) -> Result<Vec<(Value, f64)>> {
        let url = format!("http://127.0.0.1:{}/api/v1/query", self.port);
        let query = format!("query={expression}");
        let answer = curl(&["--get", "--data-urlencode", &query, &url], "")?;
        let answer: Value = serde_json::from_str(&answer)?;
        ensure!(answer["status"] == "success", "{expression}: {answer}");
        let samples = answer["data"]["result"].as_array().into_iter().flatten();
        let sample = |sample: &Value| {
            let value = sample["value"][1]
                .as_str()
                .context("a sample without a value")?;
            Ok((sample["metric"].clone(), value.parse()?))
        };
        samples.map(sample).collect()
    }

    /// Waits until an expression gives this one number.
    pub fn await_number(&self, expression: &str, number: f64) -> Result<()> {
        let mut last = String::new();
        let found = wait_for(&format!("{expression} to be {number}"), READ_MAX, || {
            let samples = self.query(expression);
            last = format!("{samples:?}");
            Ok(samples.ok().filter(|samples| {
                matches!(samples.as_slice(), [(_, value)] if (value - number).abs() < 1e-9)
            }))
        });
        found.map(drop).with_context(|| {
            let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
            format!("it is {last}; Prometheus says\n{log}")
        })
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // It may have ended already, which is as good.
        drop(self.child.kill());
        drop(self.child.wait());
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// The shipped configuration for an operator at this port, with this token.
fn configuration(operator: u16, token: &Path) -> Result<String> {
    let path = repository().join("deploy/monitoring/prometheus.yaml");
    let shipped = fs::read_to_string(path)?;
    let (kept, _) = shipped.split_once(DISCOVERY).context("no discovery")?;
    ensure!(kept.contains(TOKEN_FILE), "it names no token");
    let kept = kept.replace(TOKEN_FILE, &token.to_string_lossy());
    let rules = repository().join("deploy/monitoring/rules.yaml");
    Ok(format!(
        "global:\n  scrape_interval: 1s\n  evaluation_interval: 1s\nrule_files: ['{}']\n{kept}    static_configs:\n      - targets: ['127.0.0.1:{operator}']\n",
        rules.display()
    ))
}
