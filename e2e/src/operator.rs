//! The operator as a process of this machine, with the rights that it is shipped with and no more.
//! Decides where it finds its program, its rights and its ports; must not know what it does.

use std::fs::{self, File};
use std::io::Read;
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use crate::api::{Api, collection};
use crate::memory_group::MemoryGroup;
use crate::{Cluster, ports, wait_for};

/// A cold start on a busy machine with two processors.
const START_MAX: Duration = Duration::from_secs(20);
/// What the shipped ServiceAccount, Deployment and so on are called.
const NAME: &str = "muster";
/// Lets jobs be in the namespace of their operator.
pub const ALLOW_JOBS_HERE: &str = "--allow-jobs-in-operator-namespace";

/// Somebody with the shipped rights, whose lock lies in a namespace of its own: operators of
/// different accounts do not wait for each other.
#[derive(Clone, Debug)]
pub struct Account {
    /// As the audit log names it.
    pub user: String,
    /// Where its lease lies.
    pub lock_namespace: String,
    /// Its kubeconfig, with a token.
    pub kubeconfig: PathBuf,
    token: String,
}

impl Account {
    /// Installs the shipped ServiceAccount, roles and bindings into this namespace, which exists.
    pub fn install(cluster: &Cluster, api: &Api, namespace: &str) -> Result<Self> {
        Self::install_from(cluster, api, namespace, shipped(cluster)?)
    }

    /// The same from among these objects.
    pub fn install_from(
        cluster: &Cluster,
        api: &Api,
        namespace: &str,
        objects: Vec<Value>,
    ) -> Result<Self> {
        let rights = objects.into_iter().filter(|object| {
            let kind = object["kind"].as_str().unwrap_or_default();
            kind == "ServiceAccount" || kind.contains("Role")
        });
        for object in rights {
            let (path, object) = moved_to(namespace, object)?;
            let answer = api.send("POST", &path, Some(&object))?;
            // Cluster roles are shared by all accounts.
            if answer.code != 409 {
                answer
                    .accepted()
                    .with_context(|| format!("installing {object}"))?;
            }
        }
        let account = format!("{}/{NAME}/token", collection(namespace, "serviceaccounts"));
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
        let token = api.create(&account, &request)?["status"]["token"].take();
        let token = token
            .as_str()
            .context("the API server gave no token")?
            .to_owned();
        let server = format!("https://{}", api.address);
        let kubeconfig = cluster.state.join(format!("{namespace}.kubeconfig"));
        let authority = cluster.state.join("pki/ca.crt");
        write_kubeconfig(&kubeconfig, &server, Some(&authority), &token)?;
        Ok(Self {
            user: format!("system:serviceaccount:{namespace}:{NAME}"),
            lock_namespace: namespace.to_owned(),
            kubeconfig,
            token,
        })
    }

    /// A kubeconfig by which the same account reaches the API server through another address.
    pub fn kubeconfig_through(&self, address: std::net::SocketAddr) -> Result<PathBuf> {
        let path = self
            .kubeconfig
            .with_extension(format!("{}.kubeconfig", address.port()));
        write_kubeconfig(&path, &format!("http://{address}"), None, &self.token)?;
        Ok(path)
    }
}

fn write_kubeconfig(path: &Path, server: &str, ca: Option<&Path>, token: &str) -> Result<()> {
    let mut cluster = json!({"server": server});
    if let Some(ca) = ca {
        cluster["certificate-authority"] = ca.to_string_lossy().into();
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "it",
        "clusters": [{"name": "it", "cluster": cluster}],
        "users": [{"name": "it", "user": {"token": token}}],
        "contexts": [{"name": "it", "context": {"cluster": "it", "user": "it"}}],
    });
    fs::write(path, config.to_string()).with_context(|| format!("writing {}", path.display()))
}

/// What the operator may do besides where bdap's jobs are.
pub const RIGHTS_FOR_BDAP: &str = "deploy/overlays/bdap/rights.yaml";

/// Every object that `deploy/` installs, with the rights for bdap's jobs.
pub fn shipped(cluster: &Cluster) -> Result<Vec<Value>> {
    let manifest = repository().join("deploy/muster.yaml");
    let rights = repository().join(RIGHTS_FOR_BDAP);
    let files = [manifest.to_string_lossy(), rights.to_string_lossy()];
    objects(cluster, &["-f", &files[0], "-f", &files[1]])
}

/// The objects of these manifests, as kubectl reads them.
pub fn objects(cluster: &Cluster, manifests: &[&str]) -> Result<Vec<Value>> {
    let args = [
        "create",
        "--dry-run=client",
        "--validate=false",
        "-o",
        "json",
    ];
    let text = cluster.kubectl(&[&args[..], manifests].concat())?;
    let mut objects = Vec::new();
    for document in serde_json::Deserializer::from_str(&text).into_iter::<Value>() {
        let mut document = document?;
        match document["items"].as_array_mut() {
            Some(items) => objects.append(items),
            None => objects.push(document),
        }
    }
    ensure!(!objects.is_empty(), "{manifests:?} install nothing");
    Ok(objects)
}

/// The same rights for the ServiceAccount of another namespace, and the collection they go to.
fn moved_to(namespace: &str, mut object: Value) -> Result<(String, Value)> {
    let kind = object["kind"]
        .as_str()
        .context("an object without a kind")?
        .to_owned();
    if let Some(subjects) = object["subjects"].as_array_mut() {
        for subject in subjects {
            subject["namespace"] = namespace.into();
        }
    }
    let resource = format!("{}s", kind.to_lowercase());
    if let "ClusterRole" | "ClusterRoleBinding" = kind.as_str() {
        if kind == "ClusterRoleBinding" {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            object["metadata"]["name"] = format!("{name}-{namespace}").into();
        }
        return Ok((
            format!("/apis/rbac.authorization.k8s.io/v1/{resource}"),
            object,
        ));
    }
    object["metadata"]["namespace"] = namespace.into();
    Ok((collection(namespace, &resource), object))
}

/// The root of the repository.
pub fn repository() -> &'static Path {
    let parent = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    parent.expect("the tests lie in a folder of the repository")
}

/// The operator's program: the one that `cargo xtask test` built, or the one that cargo built last.
pub fn program() -> Result<PathBuf> {
    let given = ["MUSTER_OPERATOR", "MUSTER_E2E_OPERATOR"]
        .into_iter()
        .find_map(std::env::var_os);
    let program = given.map_or_else(
        || repository().join("target/debug/muster-operator"),
        Into::into,
    );
    if !program.exists() {
        bail!(
            "{} does not exist: `cargo build -p controller` makes the operator, or MUSTER_OPERATOR \
             says where it is",
            program.display()
        );
    }
    Ok(program)
}

/// How an operator is started.
#[derive(Clone, Debug)]
pub struct Settings<'a> {
    /// Whose rights it has, and where its lease lies.
    pub account: &'a Account,
    /// The only namespace that it looks after; all when empty.
    pub namespace: &'a str,
    /// How it reaches the API server.
    pub kubeconfig: &'a Path,
    /// What bounds its memory, if anything does.
    pub group: Option<&'a MemoryGroup>,
    /// Further flags.
    pub flags: &'a [&'a str],
}

/// A running operator. It is killed when it is dropped.
#[derive(Debug)]
pub struct Operator {
    child: Arc<Mutex<Child>>,
    log: PathBuf,
    health_port: u16,
    metrics_port: u16,
    guarded_port: u16,
}

impl Operator {
    /// Starts an operator; whether it leads is for [`Self::await_leading`].
    pub fn start(cluster: &Cluster, settings: &Settings<'_>) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let log = format!(
            "log/operator-{}-{count}.log",
            settings.account.lock_namespace
        );
        let log = cluster.state.join(log);
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let [health_port, metrics_port, guarded_port] = ports::free()?;
        // Jobs of a test are in the namespace of its operator.
        let mut flags = settings.flags.iter();
        let is_chosen = flags.any(|flag| flag.starts_with(ALLOW_JOBS_HERE));
        let allowed = (!is_chosen).then_some(ALLOW_JOBS_HERE);
        // If this process is killed, no destructor runs; then the kernel ends the operator.
        let mut command = match settings.group {
            Some(group) => {
                let mut command = Command::new("sh");
                command.args(["-c", "echo $$ >\"$0\" && exec setpriv \"$@\""]);
                command.arg(group.procs());
                command
            }
            None => Command::new("setpriv"),
        };
        command.args(["--pdeathsig", "KILL"]).arg(program()?);
        command
            .arg(format!("--namespace={}", settings.namespace))
            .arg(format!(
                "--lock-namespace={}",
                settings.account.lock_namespace
            ))
            .arg(format!("--health-port={health_port}"))
            .arg(format!("--monitoring-port={metrics_port}"))
            .arg(format!("--metrics-port={guarded_port}"))
            .arg("--agent-image=muster.test/muster-agent:1")
            .args(allowed)
            .args(settings.flags)
            .env("KUBECONFIG", settings.kubeconfig)
            .env("NO_PROXY", "*")
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let child = command
            .spawn()
            .context("starting the operator by way of setpriv")?;
        Ok(Self {
            child: Arc::new(Mutex::new(child)),
            log,
            health_port,
            metrics_port,
            guarded_port,
        })
    }

    fn child(&self) -> MutexGuard<'_, Child> {
        self.child
            .lock()
            .expect("nobody panics with this lock held")
    }

    /// Its process.
    pub fn pid(&self) -> u32 {
        self.child().id()
    }

    /// Kills it from anywhere, without a last word.
    pub fn killer(&self) -> impl FnOnce() + Send + 'static {
        let child = self.child.clone();
        move || kill(&mut child.lock().expect("nobody panics with this lock held"))
    }

    /// Kills it without a last word.
    pub fn kill(&self) {
        kill(&mut self.child());
    }

    /// Asks it to end, as Kubernetes does.
    pub fn terminate(&self) -> Result<()> {
        self.signal("TERM")
    }

    /// Puts it to sleep, as a busy or a paused machine does.
    pub fn pause(&self) -> Result<()> {
        self.signal("STOP")
    }

    /// Wakes it up again; it does not know that it slept.
    pub fn wake(&self) -> Result<()> {
        self.signal("CONT")
    }

    fn signal(&self, signal: &str) -> Result<()> {
        let pid = self.pid().to_string();
        let status = Command::new("kill").args(["-s", signal, &pid]).status()?;
        ensure!(status.success(), "cannot send {signal} to process {pid}");
        Ok(())
    }

    /// How it ended, if it has.
    pub fn ended(&self) -> Result<Option<ExitStatus>> {
        Ok(self.child().try_wait()?)
    }

    /// Fails, with the end of its log, unless it runs.
    pub fn assert_alive(&self) -> Result<()> {
        if let Some(status) = self.ended()? {
            bail!(
                "the operator ended with {status}; the end of its log:\n{}",
                self.last_words()
            );
        }
        Ok(())
    }

    /// Waits until it leads and has seen the cluster.
    pub fn await_leading(&self) -> Result<()> {
        wait_for("the operator to lead", START_MAX, || {
            self.assert_alive()?;
            Ok(self.is_ready()?.then_some(()))
        })
        .with_context(|| format!("the end of its log:\n{}", self.last_words()))
    }

    /// Whether it leads and has seen the cluster.
    pub fn is_ready(&self) -> Result<bool> {
        Ok(self.leads()? && self.health("/readyz")?.0 == 200)
    }

    /// Whether it leads now.
    pub fn leads(&self) -> Result<bool> {
        Ok(self
            .metrics()?
            .lines()
            .any(|line| line == "mpi_operator_is_leader 1"))
    }

    /// All metrics, as text.
    pub fn metrics(&self) -> Result<String> {
        let (code, text) = ask(self.metrics_port, "/metrics")?;
        ensure!(code == 200, "/metrics answered {code}: {text}");
        Ok(text)
    }

    /// The port where only those read metrics who may.
    pub fn guarded_port(&self) -> u16 {
        self.guarded_port
    }

    /// What a health probe is answered: code and text.
    pub fn health(&self, path: &str) -> Result<(u16, String)> {
        ask(self.health_port, path)
    }

    /// Memory that it holds, in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        self.memory("VmRSS:")
    }

    /// The most memory that it ever held, in bytes.
    pub fn peak_resident_bytes(&self) -> Result<u64> {
        self.memory("VmHWM:")
    }

    fn memory(&self, key: &str) -> Result<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()))?;
        let line = status.lines().find_map(|line| line.strip_prefix(key));
        let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
        let kilobytes = kilobytes.with_context(|| format!("the kernel does not say {key}"))?;
        Ok(kilobytes.trim().parse::<u64>()? * 1024)
    }

    /// The end of its log.
    pub fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(25)..].join("\n")
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            eprintln!("the end of {}:\n{}", self.log.display(), self.last_words());
        }
    }
}

fn kill(child: &mut Child) {
    // It may have ended already, which is as good.
    drop(child.kill());
    drop(child.wait());
}

fn ask(port: u16, path: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(Duration::from_secs(5)))?;
    let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    std::io::Write::write_all(&mut stream, request.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    let (_, body) = answer
        .split_once("\r\n\r\n")
        .context("an answer without a body")?;
    Ok((code.context("an answer without a status")?, body.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_move_with_their_account() {
        let binding = json!({
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "mpi-operator"},
            "subjects": [{"kind": "ServiceAccount", "name": "mpi-operator", "namespace": "there"}],
        });
        let (path, moved) = moved_to("here", binding).expect("a binding can be moved");
        assert_eq!(
            path,
            "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        );
        assert_eq!(moved["metadata"]["name"], "mpi-operator-here");
        assert_eq!(moved["subjects"][0]["namespace"], "here");

        let role = json!({"kind": "Role", "metadata": {"name": "lease", "namespace": "there"}});
        let (path, moved) = moved_to("here", role).expect("a role can be moved");
        assert_eq!(
            path,
            "/apis/rbac.authorization.k8s.io/v1/namespaces/here/roles"
        );
        assert_eq!(moved["metadata"]["namespace"], "here");
    }
}
