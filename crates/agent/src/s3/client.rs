//! The S3 requests that copying needs: list, get, put, and put in parts. Decides where a bucket is (in
//! the path at an endpoint of one's own, in the host name at AWS) and how large a part is.

use std::cell::RefCell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use percent_encoding::utf8_percent_encode;
use ring::digest;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use thiserror::Error;

use super::sign::{self, Credentials, Signable, hex};
use super::xml;
use crate::http::{self, Answer, RESERVED, Request, Server};
use crate::settings::variable;

const MIB: u64 = 1024 * 1024;
/// Larger files are sent in parts, each with its own retries. S3 accepts 5 GiB in one request.
const PART_BYTES: u64 = 64 * MIB;
/// S3's own limit.
const PARTS_MAX: u64 = 10_000;
const ANSWER_BYTES_MAX: u64 = 16 * MIB;
const REGION: &str = "us-east-1";
/// Where distributions, and our image, keep the certificates of the authorities that they trust.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// The store refused a request.
#[derive(Debug, Error)]
#[error("the store answered {status} {code}: {message}")]
pub(super) struct S3Error {
    status: u16,
    code: String,
    message: String,
}

impl S3Error {
    fn of(status: u16, answer: &str) -> Self {
        Self {
            status,
            code: xml::first(answer, "Code").unwrap_or_default(),
            message: xml::first(answer, "Message").unwrap_or_default(),
        }
    }

    /// A busy or broken server may recover; what is forbidden stays forbidden.
    pub(super) fn is_retryable(&self) -> bool {
        self.status >= 500 || [408, 429].contains(&self.status)
    }
}

/// A part of a list of keys, and where the next part begins.
pub(super) struct Page {
    pub(super) keys: Vec<String>,
    pub(super) next: Option<String>,
}

/// A store, and the credentials for it.
pub(super) struct Client {
    /// None for AWS.
    endpoint: Option<Server>,
    tls: Option<Arc<ClientConfig>>,
    credentials: Credentials,
    /// AWS names another one when the bucket is there.
    region: RefCell<String>,
}

/// One request.
#[derive(Clone, Copy)]
struct Operation<'a> {
    method: &'a str,
    bucket: &'a str,
    key: &'a str,
    /// Sorted by name.
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
    /// As AWS's usual variables describe it.
    pub(super) fn of_environment() -> Result<Self> {
        let required = |name: &str| {
            credential(name)?.with_context(|| {
                format!("{name} is not set; the Secret with the S3 credentials must hold it")
            })
        };
        let credentials = Credentials {
            key_id: required("AWS_ACCESS_KEY_ID")?,
            secret: required("AWS_SECRET_ACCESS_KEY")?,
            token: credential("AWS_SESSION_TOKEN")?,
        };
        let address = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        let tls = match &address {
            Some(address) if address.starts_with("http://") => None,
            _ => Some(Arc::new(tls_config()?)),
        };
        let endpoint = address.map(|address| endpoint(&address, tls.clone()));
        let region = variable("AWS_REGION").or_else(|| variable("AWS_DEFAULT_REGION"));
        Ok(Self {
            endpoint: endpoint.transpose()?,
            tls,
            credentials,
            region: RefCell::new(region.unwrap_or_else(|| REGION.to_owned())),
        })
    }

    /// Keys that begin with the prefix, a thousand at a time.
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
        let list = Operation::new("GET", bucket, "").query(&query);
        let text = self.ask(list, None)?.text(ANSWER_BYTES_MAX)?;
        let is_encoded = xml::first(&text, "EncodingType").as_deref() == Some("url");
        let mut keys = Vec::new();
        for entry in xml::all(&text, "Contents") {
            let key = xml::first(entry, "Key").context("an object of the list has no key")?;
            let key = match is_encoded {
                true => xml::decoded(&key).context("the key of an object is not UTF-8")?,
                false => key,
            };
            keys.push(key);
        }
        let is_truncated = xml::first(&text, "IsTruncated").as_deref() == Some("true");
        let next = xml::first(&text, "NextContinuationToken").filter(|_| is_truncated);
        ensure!(
            next.is_some() == is_truncated,
            "the list is truncated and has no continuation token"
        );
        Ok(Page { keys, next })
    }

    /// Writes an object to a file. Returns its length.
    pub(super) fn get(&self, bucket: &str, key: &str, into: &mut File) -> Result<u64> {
        let mut answer = self.ask(Operation::new("GET", bucket, key), None)?;
        let bytes = io::copy(&mut answer, into)?;
        into.flush()?;
        Ok(bytes)
    }

    /// Makes an object from a file. Returns its length.
    pub(super) fn put(&self, bucket: &str, key: &str, file: &File) -> Result<u64> {
        let length = file.metadata()?.len();
        if length <= PART_BYTES {
            let part = Part::new(file, 0, length)?;
            self.ask(Operation::new("PUT", bucket, key), Some(&part))?;
        } else {
            self.put_in_parts(bucket, key, file, length)?;
        }
        Ok(length)
    }

    fn put_in_parts(&self, bucket: &str, key: &str, file: &File, length: u64) -> Result<()> {
        let begin = Operation::new("POST", bucket, key).query(&[("uploads", "")]);
        let text = self.ask(begin, None)?.text(ANSWER_BYTES_MAX)?;
        let upload = xml::first(&text, "UploadId").context("the store gave the upload no ID")?;
        let query = [("uploadId", upload.as_str())];
        let of_upload = |method| Operation::new(method, bucket, key).query(&query);
        let done = self
            .send_parts(of_upload("PUT"), file, length)
            .and_then(|parts| self.complete(of_upload("POST"), &parts));
        if done.is_err() {
            // The owner pays for the parts of an upload that nobody completes. The error that is
            // returned is the one that matters.
            drop(self.ask(of_upload("DELETE"), None));
        }
        done
    }

    /// Sends the file. Returns the list of its parts.
    fn send_parts(&self, put: Operation<'_>, file: &File, length: u64) -> Result<String> {
        let size = PART_BYTES.max(length.div_ceil(PARTS_MAX));
        let mut parts = String::new();
        for (index, from) in (0..length).step_by(usize::try_from(size)?).enumerate() {
            let part = Part::new(file, from, size.min(length - from))?;
            let number = (index + 1).to_string();
            let query = [&[("partNumber", number.as_str())], put.query].concat();
            let answer = super::retry(|| self.ask(put.query(&query), Some(&part)))?;
            let tag = answer
                .header("etag")
                .context("the store gave a part no tag")?;
            parts += &format!("<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag></Part>");
        }
        Ok(parts)
    }

    fn complete(&self, post: Operation<'_>, parts: &str) -> Result<()> {
        let body = format!("<CompleteMultipartUpload>{parts}</CompleteMultipartUpload>");
        let (length, hash) = (body.len() as u64, hash(body.as_bytes()));
        let mut answer = self.send(post, &mut body.as_bytes(), length, &hash)?;
        let text = answer.text(ANSWER_BYTES_MAX)?;
        // AWS answers 200 before it has tried.
        match xml::first(&text, "Code") {
            Some(_) => bail!(S3Error::of(500, &text)),
            None => Ok(()),
        }
    }

    fn ask(&self, operation: Operation<'_>, part: Option<&Part<'_>>) -> Result<Answer> {
        match part {
            None => self.send(operation, &mut io::empty(), 0, &hash(b"")),
            Some(part) => self.send(operation, &mut part.reader()?, part.length, &part.hash),
        }
    }

    fn send(
        &self,
        operation: Operation<'_>,
        body: &mut dyn Read,
        length: u64,
        hash: &str,
    ) -> Result<Answer> {
        let region = self.region.borrow().clone();
        let (server, path) = self.locate(&operation, &region);
        let query: Vec<String> = operation
            .query
            .iter()
            .map(|(name, value)| format!("{}={}", encoded(name), encoded(value)))
            .collect();
        let query = query.join("&");
        let headers = sign::headers(
            &Signable {
                method: operation.method,
                host: &server.authority(),
                path: &path,
                query: &query,
                body_hash: hash,
                time: &jiff::Timestamp::now()
                    .strftime("%Y%m%dT%H%M%SZ")
                    .to_string(),
                region: &region,
            },
            &self.credentials,
        );
        let target = match query.is_empty() {
            true => path,
            false => format!("{path}?{query}"),
        };
        let request = Request {
            method: operation.method,
            target: &target,
            headers: &headers,
        };
        let connection = server.connect(None);
        let connection =
            connection.with_context(|| format!("cannot reach {}", server.authority()))?;
        let mut answer = connection.ask(&request, body, length)?;
        if answer.status < 300 {
            return Ok(answer);
        }
        let elsewhere = answer.header("x-amz-bucket-region").map(str::to_owned);
        let text = answer.text(ANSWER_BYTES_MAX).unwrap_or_default();
        let mut error = S3Error::of(answer.status, &text);
        if let Some(elsewhere) = elsewhere.filter(|elsewhere| *elsewhere != region) {
            // The next attempt goes there.
            error.message += &format!(" (the bucket is in {elsewhere})");
            error.status = 503;
            self.region.replace(elsewhere);
        }
        bail!(error)
    }

    /// The server that has the bucket, and the path there.
    fn locate(&self, operation: &Operation<'_>, region: &str) -> (Server, String) {
        let bucket = operation.bucket;
        let key = encoded(operation.key).replace("%2F", "/");
        let at_aws = |host| Server {
            host,
            port: 443,
            tls: self.tls.clone(),
        };
        match &self.endpoint {
            Some(server) => (
                server.clone(),
                format!("/{bucket}/{key}").trim_end_matches('/').to_owned(),
            ),
            // A certificate for *.s3 covers no name with a dot before that.
            None if bucket.contains('.') => (
                at_aws(format!("s3.{region}.amazonaws.com")),
                format!("/{bucket}/{key}"),
            ),
            None => (
                at_aws(format!("{bucket}.s3.{region}.amazonaws.com")),
                format!("/{key}"),
            ),
        }
    }
}

impl<'a> Operation<'a> {
    fn new(method: &'a str, bucket: &'a str, key: &'a str) -> Self {
        Self {
            method,
            bucket,
            key,
            query: &[],
        }
    }

    fn query<'b>(self, query: &'b [(&'b str, &'b str)]) -> Operation<'b>
    where
        'a: 'b,
    {
        Operation { query, ..self }
    }
}

impl<'a> Part<'a> {
    fn new(file: &'a File, from: u64, length: u64) -> io::Result<Self> {
        let mut part = Self {
            file,
            from,
            length,
            hash: String::new(),
        };
        let mut hash = digest::Context::new(&digest::SHA256);
        let mut reader = BufReader::new(part.reader()?);
        loop {
            let bytes = reader.fill_buf()?;
            if bytes.is_empty() {
                break;
            }
            hash.update(bytes);
            let read = bytes.len();
            reader.consume(read);
        }
        part.hash = hex(hash.finish().as_ref());
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

/// As parts of paths and queries must be spelled to be signed.
fn encoded(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

/// A Secret that was made from the output of `echo` ends with a newline, which does not belong to the
/// credential. A newline within would end the header that the credential is sent in.
fn credential(name: &str) -> Result<Option<String>> {
    let value = variable(name).map(|value| value.trim().to_owned());
    let value = value.filter(|value| !value.is_empty());
    let broken = value
        .as_deref()
        .is_some_and(|value| value.contains(|letter: char| letter.is_control()));
    ensure!(
        !broken,
        "{name} holds more than one line; correct the Secret with the S3 credentials"
    );
    Ok(value)
}

/// Trusts the authorities that the environment names, or the system's.
fn tls_config() -> Result<ClientConfig> {
    let file = variable("AWS_CA_BUNDLE").or_else(|| variable("SSL_CERT_FILE"));
    let file = file.as_deref().unwrap_or(AUTHORITIES);
    let advice =
        "put the certificate of the store's authority into a file and name it in AWS_CA_BUNDLE";
    let certificates = CertificateDer::pem_file_iter(file).with_context(|| {
        format!("cannot read certificates of authorities from {file}; {advice}")
    })?;
    let mut authorities = RootCertStore::empty();
    authorities.add_parsable_certificates(certificates.filter_map(Result::ok));
    ensure!(
        !authorities.is_empty(),
        "{file} holds no certificate of an authority; {advice}"
    );
    http::tls_config(authorities)
}

/// `http://host:port` or `https://host:port`.
fn endpoint(address: &str, tls: Option<Arc<ClientConfig>>) -> Result<Server> {
    // There may be a key before an @.
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
    let default_port = if scheme == "http" { 80 } else { 443 };
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            (host, port.parse().ok().with_context(wrong)?)
        }
        _ => (rest, default_port),
    };
    Ok(Server {
        host: host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned(),
        port,
        tls,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_hosts_with_or_without_a_port() -> Result<()> {
        let of = |address| endpoint(address, None).map(|server| server.authority());
        assert_eq!(of("http://localhost:9000/")?, "localhost:9000");
        assert_eq!(of("https://minio.example")?, "minio.example:443");
        assert_eq!(of("http://[::1]")?, "[::1]");
        assert_eq!(of("http://[::1]:7")?, "[::1]:7");
        for wrong in [
            "localhost:9000",
            "ftp://a",
            "https://",
            "https://a/b",
            "https://k:s@a",
            "http://a:x",
        ] {
            let error = of(wrong).expect_err(wrong).to_string();
            assert!(!error.contains("k:s"), "{error}");
        }
        Ok(())
    }

    #[test]
    fn what_is_forbidden_is_not_tried_again() {
        for (status, retryable) in [
            (403, false),
            (404, false),
            (500, true),
            (503, true),
            (429, true),
        ] {
            assert_eq!(
                S3Error::of(status, "").is_retryable(),
                retryable,
                "{status}"
            );
        }
    }

    #[test]
    fn keys_keep_their_slashes_and_nothing_else_that_is_reserved() {
        let client = Client {
            endpoint: endpoint("http://minio", None).ok(),
            tls: None,
            credentials: Credentials::default(),
            region: RefCell::default(),
        };
        let path = |key| client.locate(&Operation::new("GET", "b", key), "").1;
        assert_eq!(path("a b/ü+~"), "/b/a%20b/%C3%BC%2B~");
        assert_eq!(encoded("a/b"), "a%2Fb");
    }
}
