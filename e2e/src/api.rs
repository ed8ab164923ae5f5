//! The API server as a program sees it: one HTTPS request, one JSON answer. A kubectl takes a tenth
//! of a second to start, which a test of 64 pods cannot wait for; what users type is still tested
//! with kubectl.
//!
//! Decides how requests are sent and where resources live; must not know what a job is.

mod lines;

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde_json::Value;

pub use lines::{Hangup, Lines};

use crate::Cluster;

/// A form of a watch: names, labels and annotations, but no specs.
pub const METADATA_ONLY: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// A connection that carries one request at a time.
pub type Connection = StreamOwned<ClientConnection, TcpStream>;

/// The API server closes connections that were idle for longer, so they are not used again.
const IDLE_MAX: Duration = Duration::from_secs(30);
/// No answer takes longer, except a watch.
const ANSWER_MAX: Duration = Duration::from_secs(30);

/// A way to talk to the API server as the cluster's administrator, or as somebody else by their leave.
#[derive(Debug)]
pub struct Api {
    /// Where it listens.
    pub address: SocketAddr,
    /// Whose rights count, if not the administrator's.
    user: Option<String>,
    administrator: Arc<ClientConfig>,
    nobody: Arc<ClientConfig>,
    idle: Mutex<Vec<(Instant, BufReader<Connection>)>>,
}

/// What the API server said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// HTTP status code.
    pub code: u16,
    /// The object, the list, or the `Status` with the refusal.
    pub body: Value,
}

impl Answer {
    fn of(code: u16, body: &[u8]) -> Self {
        // Some refusals are plain text.
        let body = serde_json::from_slice(body)
            .unwrap_or_else(|_| serde_json::json!({"message": String::from_utf8_lossy(body)}));
        Self { code, body }
    }

    /// The object, unless the answer is a refusal.
    pub fn accepted(self) -> Result<Value> {
        ensure!(self.code < 300, "{}: {}", self.code, self.message());
        Ok(self.body)
    }

    /// The sentence of a refusal, or nothing.
    pub fn message(&self) -> &str {
        self.body["message"].as_str().unwrap_or_default()
    }
}

impl Api {
    /// The API server of this cluster.
    pub fn of(cluster: &Cluster) -> Result<Self> {
        let view = cluster.kubectl(&["config", "view", "--raw", "-o", "json"])?;
        let view: Value = serde_json::from_str(&view)?;
        let (server, user) = (&view["clusters"][0]["cluster"], &view["users"][0]["user"]);
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let url = text(&server["server"]).context("the kubeconfig names no server")?;
        let address = url.trim_start_matches("https://").parse();
        let address = address.with_context(|| format!("`{url}` is not an address"))?;
        let file = |value: &Value| text(value).context("the kubeconfig names no certificate file");

        let mut roots = RootCertStore::empty();
        for certificate in certificates(&file(&server["certificate-authority"])?)? {
            roots.add(certificate)?;
        }
        let builder = || {
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let versions =
                ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
            versions.map(|versions| versions.with_root_certificates(roots.clone()))
        };
        let chain = certificates(&file(&user["client-certificate"])?)?;
        let key = PrivateKeyDer::from_pem_file(file(&user["client-key"])?)?;
        Ok(Self {
            address,
            user: None,
            administrator: Arc::new(builder()?.with_client_auth_cert(chain, key)?),
            nobody: Arc::new(builder()?.with_no_client_auth()),
            idle: Mutex::default(),
        })
    }

    /// The same with the rights, and the share of the API server, of a user.
    pub fn acting_as(&self, user: &str) -> Self {
        Self {
            address: self.address,
            user: Some(user.to_owned()),
            administrator: Arc::clone(&self.administrator),
            nobody: Arc::clone(&self.nobody),
            idle: Mutex::default(),
        }
    }

    /// A connection of somebody who says in each request who they are.
    pub fn connect_as_nobody(&self) -> Result<Connection> {
        self.connect(&self.nobody)
    }

    fn connect(&self, config: &Arc<ClientConfig>) -> Result<Connection> {
        let stream = TcpStream::connect(self.address).context("connecting to the API server")?;
        stream.set_nodelay(true)?;
        let name = ServerName::from(self.address.ip());
        Ok(StreamOwned::new(
            ClientConnection::new(config.clone(), name)?,
            stream,
        ))
    }

    /// Sends a request. The answer may be a refusal: see [`Answer::accepted`].
    pub fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Answer> {
        let body = body.map(Value::to_string).unwrap_or_default();
        let (code, body) = self.send_text(method, path, &body)?;
        Ok(Answer::of(code, &body))
    }

    /// The same for one who does not want to know more than the code of most answers: nothing is
    /// read into objects.
    pub fn send_text(&self, method: &str, path: &str, body: &str) -> Result<(u16, Vec<u8>)> {
        let mut connection = self.take_idle().map_or_else(
            || {
                let connection = self.connect(&self.administrator)?;
                connection.sock.set_read_timeout(Some(ANSWER_MAX))?;
                anyhow::Ok(BufReader::new(connection))
            },
            Ok,
        )?;
        let head = self.head(method, path, "application/json", body.len());
        let mut exchange = || {
            connection
                .get_mut()
                .write_all(format!("{head}{body}").as_bytes())?;
            read_answer(&mut connection)
        };
        let answer = exchange().with_context(|| format!("{method} {path}"))?;
        let mut idle = self.idle.lock().expect("nobody panics with this lock held");
        idle.push((Instant::now(), connection));
        Ok(answer)
    }

    /// Creates an object that is in protobuf already, and returns the code of the answer.
    pub fn create_protobuf(&self, collection: &str, object: &[u8]) -> Result<u16> {
        let mut connection = BufReader::new(self.connect(&self.administrator)?);
        let head = format!(
            "POST {collection} HTTP/1.1\r\nHost: {}\r\nAccept: application/json\r\n\
             Content-Type: application/vnd.kubernetes.protobuf\r\nContent-Length: {}\r\n\r\n",
            self.address,
            object.len()
        );
        let request = [head.as_bytes(), object].concat();
        connection.get_mut().write_all(&request)?;
        Ok(read_answer(&mut connection)?.0)
    }

    /// Opens an answer without end: the lines of a watch, in this form.
    pub fn watch(&self, path: &str, accept: &str) -> Result<Lines> {
        let mut connection = BufReader::new(self.connect(&self.administrator)?);
        let head = self.head("GET", path, accept, 0);
        connection.get_mut().write_all(head.as_bytes())?;
        let head = read_head(&mut connection)?.context("the API server closed the connection")?;
        let code = status_code(&head)?;
        ensure!(code == 200 && head.chunked, "{path}: {}", head.first_line);
        Ok(Lines::of(connection))
    }

    fn head(&self, method: &str, path: &str, accept: &str, length: usize) -> String {
        let content_type = match method {
            "PATCH" => "application/merge-patch+json",
            _ => "application/json",
        };
        let user = self.user.as_ref();
        let user = user.map_or_else(String::new, |user| format!("Impersonate-User: {user}\r\n"));
        format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\nAccept: {accept}\r\n{user}\
             Content-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n",
            self.address,
        )
    }

    fn take_idle(&self) -> Option<BufReader<Connection>> {
        let mut idle = self.idle.lock().expect("nobody panics with this lock held");
        idle.retain(|(since, _)| since.elapsed() < IDLE_MAX);
        idle.pop().map(|(_, connection)| connection)
    }

    /// An object, or `None` when there is none.
    pub fn get(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.send("GET", path, None)?;
        if answer.code == 404 {
            Ok(None)
        } else {
            answer.accepted().map(Some)
        }
    }

    /// The objects of a collection.
    pub fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.send("GET", path, None)?.accepted()?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Creates an object in its collection; it must be accepted.
    pub fn create(&self, collection: &str, object: &Value) -> Result<Value> {
        let answer = self.send("POST", collection, Some(object))?.accepted();
        answer.with_context(|| format!("creating {} in {collection}", object["metadata"]["name"]))
    }

    /// Merges into an object; it must be accepted.
    pub fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        let answer = self.send("PATCH", path, Some(patch))?.accepted();
        answer.with_context(|| format!("patching {path}"))
    }

    /// Deletes an object, whose dependents are left to the garbage collector.
    pub fn delete(&self, path: &str) -> Result<()> {
        self.send("DELETE", path, None)?
            .accepted()
            .with_context(|| format!("deleting {path}"))?;
        Ok(())
    }
}

/// The collection of a resource in a namespace.
pub fn collection(namespace: &str, resource: &str) -> String {
    let group = match resource {
        "mpijobs" => "/apis/kubeflow.org/v2beta1",
        "jobs" => "/apis/batch/v1",
        "leases" => "/apis/coordination.k8s.io/v1",
        "roles" | "rolebindings" => "/apis/rbac.authorization.k8s.io/v1",
        "statefulsets" => "/apis/apps/v1",
        "networkpolicies" => "/apis/networking.k8s.io/v1",
        _ => "/api/v1",
    };
    format!("{group}/namespaces/{namespace}/{resource}")
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let all = CertificateDer::pem_file_iter(path).with_context(|| format!("reading {path}"))?;
    Ok(all.collect::<Result<_, _>>()?)
}

fn read_answer(from: &mut impl BufRead) -> Result<(u16, Vec<u8>)> {
    let head = read_head(from)?.context("the API server closed the connection")?;
    let code = status_code(&head)?;
    let mut body = Vec::new();
    match (head.chunked, head.length) {
        (true, _) => while read_chunk(from, &mut body)? {},
        (false, Some(length)) => {
            body.resize(length, 0);
            from.read_exact(&mut body)?;
        }
        (false, None) => bail!("the API server did not say how long its answer is"),
    }
    Ok((code, body))
}

fn status_code(head: &Head) -> Result<u16> {
    let code = head.first_line.split(' ').nth(1);
    let code = code.and_then(|code| code.parse().ok());
    code.with_context(|| format!("`{}` is no status line", head.first_line))
}

/// First line and what matters of the header fields of a request or an answer.
#[derive(Debug, Default)]
pub(crate) struct Head {
    pub(crate) first_line: String,
    /// All fields but those that say how the connection goes on.
    pub(crate) fields: Vec<String>,
    pub(crate) length: Option<usize>,
    pub(crate) chunked: bool,
}

/// Reads a head; `None` when the connection ends before one begins.
pub(crate) fn read_head(from: &mut impl BufRead) -> Result<Option<Head>> {
    let mut head = Head::default();
    loop {
        let mut line = String::new();
        if from.read_line(&mut line)? == 0 {
            ensure!(
                head.first_line.is_empty(),
                "the connection ended within a head"
            );
            return Ok(None);
        }
        let line = line.trim_end();
        if head.first_line.is_empty() {
            line.clone_into(&mut head.first_line);
            continue;
        }
        if line.is_empty() {
            return Ok(Some(head));
        }
        let (name, value) = line
            .split_once(':')
            .context("a header field without a colon")?;
        match name.to_ascii_lowercase().as_str() {
            "connection" => continue,
            "content-length" => head.length = Some(value.trim().parse()?),
            "transfer-encoding" => head.chunked = value.trim().eq_ignore_ascii_case("chunked"),
            _ => {}
        }
        head.fields.push(line.to_owned());
    }
}

/// Adds the next chunk; false when that was the last.
pub(crate) fn read_chunk(from: &mut impl BufRead, into: &mut Vec<u8>) -> Result<bool> {
    let mut line = String::new();
    from.read_line(&mut line)?;
    let length = usize::from_str_radix(line.trim(), 16).context("a chunk without a length")?;
    let start = into.len();
    into.resize(start + length, 0);
    from.read_exact(&mut into[start..])?;
    from.read_line(&mut line)?;
    Ok(length > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_in_chunks_is_one_answer() {
        let text = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\
                    4\r\n{\"a\"\r\n3\r\n:1}\r\n0\r\n\r\n";
        let (code, body) = read_answer(&mut text.as_bytes()).expect("a whole answer");
        assert_eq!((code, body.as_slice()), (200, br#"{"a":1}"#.as_slice()));
    }

    #[test]
    fn a_refusal_in_plain_text_keeps_its_words() {
        let text = "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 4\r\n\r\nslow";
        let (code, body) = read_answer(&mut text.as_bytes()).expect("a whole answer");
        let answer = Answer::of(code, &body);
        assert_eq!((answer.code, answer.message()), (429, "slow"));
        assert!(answer.accepted().is_err());
    }
}
