//! AWS Signature Version 4: what is signed, in which order, with which key. The caller passes the time and
//! the hash of the body.

use ring::{digest, hmac};

/// Who uses a store.
#[derive(Default)]
pub(super) struct Credentials {
    pub(super) key_id: String,
    pub(super) secret: String,
    pub(super) token: Option<String>,
}

/// A request as it will be sent.
pub(super) struct Signable<'a> {
    pub(super) method: &'a str,
    pub(super) host: &'a str,
    /// Already encoded.
    pub(super) path: &'a str,
    /// Already encoded, in order.
    pub(super) query: &'a str,
    pub(super) body_hash: &'a str,
    /// `20261116T051200Z`.
    pub(super) time: &'a str,
    pub(super) region: &'a str,
}

/// Headers that make the request a signed one.
pub(super) fn headers(
    request: &Signable<'_>,
    credentials: &Credentials,
) -> Vec<(&'static str, String)> {
    let mut headers = vec![
        ("host", request.host.to_owned()),
        ("x-amz-content-sha256", request.body_hash.to_owned()),
        ("x-amz-date", request.time.to_owned()),
    ];
    if let Some(token) = &credentials.token {
        headers.push(("x-amz-security-token", token.clone()));
    }
    let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
    let names = names.join(";");
    let lines: String = headers
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();
    let canonical = format!(
        "{}\n{}\n{}\n{lines}\n{names}\n{}",
        request.method, request.path, request.query, request.body_hash
    );
    let day = &request.time[..8];
    let scope = format!("{day}/{}/s3/aws4_request", request.region);
    let hash = hex(digest::digest(&digest::SHA256, canonical.as_bytes()).as_ref());
    let text = format!("AWS4-HMAC-SHA256\n{}\n{scope}\n{hash}", request.time);
    let mut key = format!("AWS4{}", credentials.secret).into_bytes();
    for part in [day, request.region, "s3", "aws4_request"] {
        key = keyed(&key, part);
    }
    let signature = hex(&keyed(&key, &text));
    let credential = format!("{}/{scope}", credentials.key_id);
    headers.push((
        "authorization",
        format!(
            "AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
        ),
    ));
    headers
}

fn keyed(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

/// In hexadecimal, lower case.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of AWS's manual: "GET Bucket Lifecycle".
    #[test]
    fn the_manuals_example_is_signed_as_there() {
        let credentials = Credentials {
            key_id: "AKIAIOSFODNN7EXAMPLE".to_owned(),
            secret: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY".to_owned(),
            token: None,
        };
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        let request = Signable {
            method: "GET",
            host: "examplebucket.s3.amazonaws.com",
            path: "/",
            query: "lifecycle=",
            body_hash: empty,
            time: "20130524T000000Z",
            region: "us-east-1",
        };
        let headers = headers(&request, &credentials);
        let authorization = &headers.last().expect("there is one").1;
        let signature = "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543";
        assert!(authorization.ends_with(signature), "{authorization}");
    }
}
