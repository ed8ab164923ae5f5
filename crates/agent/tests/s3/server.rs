//! A real S3 server on loopback, made from its Go module when it is not there yet, with its data in a
//! directory that a test can look at.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub(crate) const KEY_ID: &str = "test-key";
pub(crate) const SECRET: &str = "test-secret";

/// Where `prepare.sh` put it, made when it is not there or was made otherwise.
fn program() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/s3");
    let wanted = fs::read_to_string(here.join("prepare.sh")).unwrap();
    let cache = std::env::var_os("MUSTER_CACHE").map_or_else(
        || {
            std::env::home_dir()
                .expect("a home directory")
                .join(".cache/muster")
        },
        PathBuf::from,
    );
    fs::create_dir_all(&cache).unwrap();
    let (directory, made_by) = (cache.join("s3-server"), cache.join("s3-server/made-by"));
    let lock = File::create(cache.join("s3-server.lock")).unwrap();
    lock.lock().unwrap();
    if fs::read_to_string(&made_by).is_ok_and(|made_by| made_by == wanted) {
        return directory.join("versitygw");
    }
    let made = Command::new(here.join("prepare.sh"))
        .arg(&directory)
        .status()
        .unwrap();
    assert!(
        made.success(),
        "the S3 server could not be built; is there Go and a module proxy?"
    );
    fs::write(made_by, wanted).unwrap();
    directory.join("versitygw")
}

/// A server that ends with this value.
pub(crate) struct Server {
    process: Child,
    pub(crate) address: SocketAddr,
    pub(crate) scheme: &'static str,
    /// Buckets are directories of this one, objects are files.
    pub(crate) buckets: PathBuf,
}

impl Server {
    /// With one bucket; with TLS where there is a certificate and its key.
    pub(crate) fn start(home: &Path, bucket: &str, tls: Option<[&Path; 2]>) -> Self {
        let buckets = home.join("buckets");
        fs::create_dir_all(buckets.join(bucket)).unwrap();
        // What it knows of objects; not every file system would keep that with them.
        let beside = home.join("beside");
        fs::create_dir_all(&beside).unwrap();
        // Free a moment ago; nobody else here asks for ports in between.
        let address = TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap();
        let mut command = Command::new(program());
        command.args(["--port", &address.to_string(), "--quiet"]);
        if let Some([certificate, key]) = tls {
            command.arg("--cert").arg(certificate).arg("--key").arg(key);
        }
        let log = File::create(home.join("server.log")).unwrap();
        let process = command
            .args(["posix", "--sidecar"])
            .args([&beside, &buckets])
            .env("ROOT_ACCESS_KEY", KEY_ID)
            .env("ROOT_SECRET_KEY", SECRET)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let server = Self {
            process,
            address,
            scheme: if tls.is_some() { "https" } else { "http" },
            buckets,
        };
        let until = Instant::now() + Duration::from_secs(20);
        while TcpStream::connect(address).is_err() {
            let said = fs::read_to_string(home.join("server.log")).unwrap_or_default();
            assert!(
                Instant::now() < until,
                "the S3 server does not answer: {said}"
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        server
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("{}://{}", self.scheme, self.address)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.process.kill());
        drop(self.process.wait());
    }
}
