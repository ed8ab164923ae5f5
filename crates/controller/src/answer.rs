//! Reads answers whose size others decide. Decides how much of one is read, and for how long a silent API
//! server is waited for. Knows nothing of what the answers mean.

use std::time::Duration;

use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use tokio::time::timeout;

use crate::encoding::Encoding;

/// An API server that does not begin to answer, or sends nothing more, for this long will not.
const STALLS: Duration = Duration::from_secs(30);
/// Of a refusal, this much is read, and kept if it is plain text.
const REFUSAL_BYTES_MAX: usize = 64 << 10;
const MESSAGE_BYTES_MAX: usize = 1024;

/// Sends a request, and returns the head of the answer. A compressed answer could become of any size, and
/// a compressed watch is read in part only.
pub(crate) async fn begin(
    client: &Client,
    mut request: http::Request<Body>,
) -> Result<http::Response<Body>, kube::Error> {
    let encoding = http::HeaderValue::from_static("identity");
    let headers = request.headers_mut();
    headers.insert(http::header::ACCEPT_ENCODING, encoding);
    let answer = timeout(STALLS, client.send(request)).await;
    answer.map_err(|_| stalled())?
}

/// The whole body; nothing if it has more bytes than this. The rest is not read.
pub(crate) async fn read(mut body: Body, bytes_max: usize) -> Result<Option<Vec<u8>>, kube::Error> {
    let mut bytes = Vec::new();
    loop {
        let frame = timeout(STALLS, body.frame()).await;
        let Some(frame) = frame.map_err(|_| stalled())? else {
            return Ok(Some(bytes));
        };
        if let Ok(data) = frame?.into_data() {
            if bytes.len() + data.len() > bytes_max {
                return Ok(None);
            }
            bytes.extend_from_slice(&data);
        }
    }
}

/// What the API server answered instead. About a missing API it answers in plain text.
pub(crate) async fn refusal(answer: http::Response<Body>) -> kube::Error {
    let code = answer.status().as_u16();
    let encoding = Encoding::of(answer.headers());
    let bytes = match read(answer.into_body(), REFUSAL_BYTES_MAX).await {
        Ok(bytes) => bytes.unwrap_or_default(),
        Err(error) => return error,
    };
    let mut status = encoding.refusal(&bytes);
    if status.code == 0 {
        status.code = code;
        let text = String::from_utf8_lossy(&bytes);
        status.message = planner::text::truncated(text.trim(), MESSAGE_BYTES_MAX);
    }
    kube::Error::Api(Box::new(status))
}

/// The HTTP status of a request that ended so: 200 for every success, none if nobody answered.
pub(crate) fn code<T>(ended: &Result<T, kube::Error>) -> Option<u16> {
    match ended {
        Ok(_) => Some(200),
        Err(kube::Error::Api(status)) => Some(status.code),
        Err(_) => None,
    }
}

fn stalled() -> kube::Error {
    kube::Error::Service("the API server does not answer".into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::{Bytes, Frame};

    use super::*;

    #[tokio::test]
    async fn c13_an_answer_is_read_no_further_than_its_bound() {
        const FRAME: usize = 16 << 10;
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&sent);
        let endless = tower::service_fn(move |_: http::Request<Body>| {
            let counted = Arc::clone(&counted);
            let frames = stream::repeat_with(move || {
                counted.fetch_add(FRAME, Ordering::Relaxed);
                Ok::<_, std::io::Error>(Frame::data(Bytes::from_static(&[b' '; FRAME])))
            });
            async { Ok::<_, std::io::Error>(http::Response::new(StreamBody::new(frames))) }
        });
        let client = Client::new(endless, "default");
        let request = http::Request::get("/").body(Body::empty());
        let request = request.expect("the parts are valid");
        let answer = begin(&client, request).await.expect("it answers");
        let read = read(answer.into_body(), 1 << 20).await;
        assert!(read.is_ok_and(|bytes| bytes.is_none()));
        assert_eq!(sent.load(Ordering::Relaxed), (1 << 20) + FRAME);
    }
}
