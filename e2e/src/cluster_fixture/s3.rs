//! A real S3 server for pods to use: versitygw, built from its Go module once, listening where the cluster's
//! pods reach this machine. Buckets are directories that a test can look at. Must not know what is tested.

use std::fs::{self, File};
use std::net::{IpAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::names::own_address;
use super::repository;
use crate::wait_for;

/// Who may use it.
pub const KEY_ID: &str = "test-key";
/// And proves it with this.
pub const SECRET: &str = "test-secret";

/// A server that ends with this value.
#[derive(Debug)]
pub struct Store {
    process: Child,
    /// Where it listens, as an address with a scheme.
    pub endpoint: String,
    /// Buckets are directories of this one, objects are files.
    pub buckets: PathBuf,
}

impl Store {
    /// With one bucket, in a directory of the test's own.
    pub fn start(name: &str, bucket: &str) -> Result<Self> {
        let home = std::env::temp_dir().join(format!("muster-s3-{name}-{}", std::process::id()));
        let buckets = home.join("buckets");
        fs::create_dir_all(buckets.join(bucket)).context("making a bucket")?;
        // What it knows of objects; not every file system would keep that with them.
        let beside = home.join("beside");
        fs::create_dir_all(&beside).context("making a directory")?;
        let address = own_address()?;
        let port = free_port(address)?;
        let log = File::create(home.join("server.log")).context("making a log")?;
        let process = Command::new(program()?)
            .args(["--port", &format!("{address}:{port}"), "posix", "--sidecar"])
            .args([&beside, &buckets])
            .env("ROOT_ACCESS_KEY", KEY_ID)
            .env("ROOT_SECRET_KEY", SECRET)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .context("starting the S3 server")?;
        let store = Self {
            process,
            endpoint: format!("http://{address}:{port}"),
            buckets,
        };
        wait_for("the S3 server to listen", Duration::from_secs(20), || {
            Ok(TcpStream::connect((address, port)).ok())
        })?;
        Ok(store)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
        if let Some(home) = self.buckets.parent() {
            drop(fs::remove_dir_all(home));
        }
    }
}

/// Free a moment ago.
fn free_port(address: IpAddr) -> Result<u16> {
    let listener = TcpListener::bind((address, 0)).context("looking for a free port")?;
    Ok(listener.local_addr()?.port())
}

/// Where the agent's tests keep theirs: one is enough for both.
fn program() -> Result<PathBuf> {
    let script = repository().join("crates/agent/tests/s3/prepare.sh");
    let wanted = fs::read_to_string(&script).context("reading prepare.sh")?;
    let cache = match std::env::var_os("MUSTER_CACHE") {
        Some(cache) => PathBuf::from(cache),
        None => std::env::home_dir()
            .context("no home directory")?
            .join(".cache/muster"),
    };
    let (directory, made_by) = (cache.join("s3-server"), cache.join("s3-server/made-by"));
    let lock = File::create(cache.join("s3-server.lock")).context("making a lock")?;
    lock.lock().context("waiting for the S3 server's lock")?;
    if fs::read_to_string(&made_by).is_ok_and(|made_by| made_by == wanted) {
        return Ok(directory.join("versitygw"));
    }
    let made = Command::new(&script)
        .arg(&directory)
        .status()
        .context("starting prepare.sh")?;
    ensure!(
        made.success(),
        "the S3 server could not be built; is there Go and a module proxy?"
    );
    fs::write(made_by, wanted).context("noting how it was made")?;
    Ok(directory.join("versitygw"))
}
