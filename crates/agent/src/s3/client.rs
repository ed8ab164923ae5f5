//! The few requests of S3 that copying needs: list, get, put, and put in parts. Decides where a bucket is
//! (in the path at an endpoint of one's own, in the name at AWS) and how large a part is.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use ring::digest;
use thiserror::Error;

use super::http::{self, Answer, Request, Server};
use super::sign::{self, Credentials, Signable, encoded, hex};
use super::{calendar, xml};
use crate::contract::variable;

const MIB: u64 = 1024 * 1024;
/// Larger files are sent in parts, which may be tried again one by one. S3 takes 5 GiB at once.
const PART_BYTES: u64 = 64 * MIB;
/// As many parts as S3 takes.
const PARTS_MAX: u64 = 10_000;
const ANSWER_BYTES_MAX: u64 = 16 * MIB;
const REGION: &str = "us-east-1";

/// The store said no.
#[derive(Debug, Error)]
#[error("the store answered {status} {code}: {message}")]
pub(super) struct Refusal {
    status: u16,
    code: String,
    message: String,
}

impl Refusal {
    /// Servers are busy, and have faults; what is forbidden stays so.
    pub(super) fn may_pass(&self) -> bool {
        self.status >= 500 || [408, 429].contains(&self.status)
    }
}

/// An object of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Object {
    pub(super) key: String,
}

/// A part of a list, and where the next begins.
pub(super) struct Page {
    pub(super) objects: Vec<Object>,
    pub(super) next: Option<String>,
}

/// A store, and the right to use it.
pub(super) struct Client {
    /// An endpoint of one's own, if it is not AWS.
    endpoint: Option<Server>,
    tls: Option<std::sync::Arc<rustls::ClientConfig>>,
    right: Credentials,
    /// AWS says so when a bucket is elsewhere.
    region: RefCell<String>,
}

/// What there is to ask.
#[derive(Clone, Copy)]
struct Question<'a> {
    method: &'a str,
    bucket: &'a str,
    key: &'a str,
    /// In the order of their names.
    query: &'a [(&'a str, &'a str)],
}

/// A part of a file, with its hash.
struct Part<'a> {
    file: &'a File,
    from: u64,
    length: u64,
    hash: String,
}

impl Client {
    pub(super) fn of_environment() -> Result<Self> {
        let needed = |name: &str| {
            credential(name)?.with_context(|| {
                format!("{name} is not set: the Secret named by s3Secret must hold it")
            })
        };
        let right = Credentials {
            key_id: needed("AWS_ACCESS_KEY_ID")?,
            secret: needed("AWS_SECRET_ACCESS_KEY")?,
            token: credential("AWS_SESSION_TOKEN")?,
        };
        let authorities = variable("AWS_CA_BUNDLE").or_else(|| variable("SSL_CERT_FILE"));
        let address = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let plain = address
            .as_deref()
            .is_some_and(|address| address.starts_with("http://"));
        let tls = (!plain)
            .then(|| http::tls(authorities.as_deref()))
            .transpose()?;
        let endpoint = address
            .map(|address| endpoint(&address, tls.clone()))
            .transpose()?;
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        Ok(Self {
            endpoint,
            tls,
            right,
            region: RefCell::new(region.unwrap_or_else(|| REGION.to_owned())),
        })
    }

    /// Objects whose names begin with the prefix, a thousand at a time.
    pub(super) fn list(&self, bucket: &str, prefix: &str, token: Option<&str>) -> Result<Page> {
        let mut query = Vec::new();
        if let Some(token) = token {
            query.push(("continuation-token", token));
        }
        query.extend([
            ("encoding-type", "url"),
            ("list-type", "2"),
            ("prefix", prefix),
        ]);
        let question = Question {
            method: "GET",
            bucket,
            key: "",
            query: &query,
        };
        let text = self.ask(question, None)?.text(ANSWER_BYTES_MAX)?;
        let is_encoded = xml::first(&text, "EncodingType").as_deref() == Some("url");
        let mut objects = Vec::new();
        for entry in xml::all(&text, "Contents") {
            let key = xml::first(entry, "Key").context("an object of the list has no name")?;
            let key = if is_encoded {
                xml::decoded(&key)
            } else {
                Some(key)
            };
            objects.push(Object {
                key: key.context("the name of an object is no text")?,
            });
        }
        let is_cut = xml::first(&text, "IsTruncated").as_deref() == Some("true");
        let next = xml::first(&text, "NextContinuationToken").filter(|_| is_cut);
        ensure!(
            next.is_some() == is_cut,
            "the list does not say where it goes on"
        );
        Ok(Page { objects, next })
    }

    /// Writes an object down, and says how long it is.
    pub(super) fn get(&self, bucket: &str, key: &str, into: &mut File) -> Result<u64> {
        let mut answer = self.ask(Question::of("GET", bucket, key), None)?;
        let bytes = io::copy(&mut answer, into)?;
        into.flush()?;
        Ok(bytes)
    }

    /// Makes a file an object, and says how long it is.
    pub(super) fn put(&self, bucket: &str, key: &str, path: &Path) -> Result<u64> {
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        if length <= PART_BYTES {
            let part = Part::of(&file, 0, length)?;
            self.ask(Question::of("PUT", bucket, key), Some(&part))?;
        } else {
            self.put_in_parts(bucket, key, &file, length)?;
        }
        Ok(length)
    }

    fn put_in_parts(&self, bucket: &str, key: &str, file: &File, length: u64) -> Result<()> {
        let begin = Question {
            query: &[("uploads", "")],
            ..Question::of("POST", bucket, key)
        };
        let text = self.ask(begin, None)?.text(ANSWER_BYTES_MAX)?;
        let upload = xml::first(&text, "UploadId").context("the store began no upload")?;
        let done = self.send_parts(bucket, key, &upload, file, length);
        if done.is_err() {
            let abort = Question {
                query: &[("uploadId", &upload)],
                ..Question::of("DELETE", bucket, key)
            };
            // Parts of an upload that nobody ends are paid for; that it failed is said already.
            drop(self.ask(abort, None));
        }
        done
    }

    fn send_parts(
        &self,
        bucket: &str,
        key: &str,
        upload: &str,
        file: &File,
        length: u64,
    ) -> Result<()> {
        let size = PART_BYTES.max(length.div_ceil(PARTS_MAX));
        let mut list = String::from("<CompleteMultipartUpload>");
        for (index, from) in (0..length).step_by(usize::try_from(size)?).enumerate() {
            let part = Part::of(file, from, size.min(length - from))?;
            let number = (index + 1).to_string();
            let question = Question {
                query: &[("partNumber", &number), ("uploadId", upload)],
                ..Question::of("PUT", bucket, key)
            };
            let answer = super::again(|| self.ask(question, Some(&part)))?;
            let tag = answer
                .header("etag")
                .context("the store gave a part no name")?;
            list += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
        }
        list += "</CompleteMultipartUpload>";
        let end = Question {
            query: &[("uploadId", upload)],
            ..Question::of("POST", bucket, key)
        };
        let text = self.send(
            end,
            &mut list.as_bytes(),
            list.len() as u64,
            &hash(list.as_bytes()),
        )?;
        let text = { text }.text(ANSWER_BYTES_MAX)?;
        // AWS answers 200 before it has tried.
        if let Some(code) = xml::first(&text, "Code") {
            bail!(Refusal {
                status: 500,
                code,
                message: xml::first(&text, "Message").unwrap_or_default(),
            });
        }
        Ok(())
    }

    fn ask(&self, question: Question<'_>, part: Option<&Part<'_>>) -> Result<Answer> {
        match part {
            None => self.send(question, &mut io::empty(), 0, &hash(b"")),
            Some(part) => self.send(question, &mut part.reader()?, part.length, &part.hash),
        }
    }

    fn send(
        &self,
        question: Question<'_>,
        body: &mut dyn Read,
        length: u64,
        hash: &str,
    ) -> Result<Answer> {
        let region = self.region.borrow().clone();
        let (server, path) = self.place(&question, &region);
        let query: Vec<String> = question
            .query
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name, false), encoded(value, false)))
            .collect();
        let query = query.join("&");
        let usual = if server.tls.is_some() { 443 } else { 80 };
        let host = match server.port {
            port if port == usual => server.host.clone(),
            port => format!("{}:{port}", server.host),
        };
        let signable = Signable {
            method: question.method,
            host: &host,
            path: &path,
            query: &query,
            body_hash: hash,
            time: &calendar::now(),
            region: &region,
        };
        let headers = sign::headers(&signable, &self.right);
        let target = if query.is_empty() {
            path.clone()
        } else {
            format!("{path}?{query}")
        };
        let request = Request {
            method: question.method,
            target: &target,
            headers: &headers,
        };
        let mut answer = server.ask(&request, body, length)?;
        if answer.status < 300 {
            return Ok(answer);
        }
        let elsewhere = answer.header("x-amz-bucket-region").map(str::to_owned);
        let text = answer.text(ANSWER_BYTES_MAX).unwrap_or_default();
        let mut refusal = Refusal {
            status: answer.status,
            code: xml::first(&text, "Code").unwrap_or_default(),
            message: xml::first(&text, "Message").unwrap_or_default(),
        };
        if let Some(elsewhere) = elsewhere.filter(|elsewhere| *elsewhere != region) {
            // The next try goes there.
            refusal.message += &format!(" (the bucket is in {elsewhere})");
            refusal.status = 503;
            self.region.replace(elsewhere);
        }
        bail!(refusal)
    }

    /// The server of a bucket, and the path there.
    fn place(&self, question: &Question<'_>, region: &str) -> (Server, String) {
        let (bucket, key) = (question.bucket, encoded(question.key, true));
        match &self.endpoint {
            Some(server) => (
                server.clone(),
                format!("/{bucket}/{key}").trim_end_matches('/').to_owned(),
            ),
            // A certificate for *.s3 covers no name with a dot before that.
            None if bucket.contains('.') => {
                let host = format!("s3.{region}.amazonaws.com");
                (self.at_aws(host), format!("/{bucket}/{key}"))
            }
            None => {
                let host = format!("{bucket}.s3.{region}.amazonaws.com");
                (self.at_aws(host), format!("/{key}"))
            }
        }
    }

    fn at_aws(&self, host: String) -> Server {
        Server {
            host,
            port: 443,
            tls: self.tls.clone(),
        }
    }
}

impl<'a> Question<'a> {
    fn of(method: &'a str, bucket: &'a str, key: &'a str) -> Self {
        Self {
            method,
            bucket,
            key,
            query: &[],
        }
    }
}

impl<'a> Part<'a> {
    fn of(file: &'a File, from: u64, length: u64) -> io::Result<Self> {
        let mut part = Self {
            file,
            from,
            length,
            hash: String::new(),
        };
        let mut context = digest::Context::new(&digest::SHA256);
        let mut reader = part.reader()?;
        let mut buffer = vec![0_u8; 64 * 1024];
        loop {
            let read = reader.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            context.update(&buffer[..read]);
        }
        part.hash = hex(context.finish().as_ref());
        Ok(part)
    }

    fn reader(&self) -> io::Result<impl Read + use<'a>> {
        let mut file = self.file;
        file.seek(SeekFrom::Start(self.from))?;
        Ok(file.take(self.length))
    }
}

fn hash(bytes: &[u8]) -> String {
    hex(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// A Secret that was made from the output of `echo` ends with a new line, which is no part of it; one
/// within would end the header that it is sent in.
fn credential(name: &str) -> Result<Option<String>> {
    let value = variable(name).map(|value| value.trim().to_owned());
    let value = value.filter(|value| !value.is_empty());
    let broken = value
        .as_deref()
        .is_some_and(|value| value.contains(|letter: char| letter.is_control()));
    ensure!(
        !broken,
        "{name} holds more than one line: the Secret named by s3Secret is wrong"
    );
    Ok(value)
}

/// `http://host:port` or `https://host:port`; anything else cannot be an endpoint.
fn endpoint(address: &str, tls: Option<std::sync::Arc<rustls::ClientConfig>>) -> Result<Server> {
    // Before an @ there may be a key.
    let shown = address.rsplit('@').next().unwrap_or_default();
    let wrong =
        || format!("AWS_ENDPOINT_URL is {shown:?}, not an address such as https://host:9000");
    let (scheme, rest) = address.split_once("://").with_context(wrong)?;
    ensure!(["http", "https"].contains(&scheme), wrong());
    let rest = rest.trim_end_matches('/');
    ensure!(
        !rest.is_empty() && !rest.contains(['/', '@', '?', ' ']),
        wrong()
    );
    let usual = if scheme == "http" { 80 } else { 443 };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().ok().with_context(wrong)?)
        }
        _ => (rest, usual),
    };
    Ok(Server {
        host: host.to_owned(),
        port,
        tls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_hosts_with_or_without_a_port() -> Result<()> {
        let of = |address| endpoint(address, None).map(|server| (server.host, server.port));
        assert_eq!(
            of("http://localhost:9000/")?,
            ("localhost".to_owned(), 9000)
        );
        assert_eq!(
            of("https://minio.example")?,
            ("minio.example".to_owned(), 443)
        );
        assert_eq!(of("http://[::1]")?, ("[::1]".to_owned(), 80));
        assert_eq!(of("http://[::1]:7")?, ("[::1]".to_owned(), 7));
        for wrong in [
            "localhost:9000",
            "ftp://a",
            "https://",
            "https://a/b",
            "https://k:s@a",
            "http://a:x",
        ] {
            let said = of(wrong).expect_err(wrong).to_string();
            assert!(!said.contains("k:s"), "{said}");
        }
        Ok(())
    }

    #[test]
    fn what_is_forbidden_is_not_tried_again() {
        let refusal = |status| Refusal {
            status,
            code: String::new(),
            message: String::new(),
        };
        for (status, passes) in [
            (403, false),
            (404, false),
            (500, true),
            (503, true),
            (429, true),
        ] {
            assert_eq!(refusal(status).may_pass(), passes, "{status}");
        }
    }
}
