//! Answers of the API server, and what comes instead. Decides nothing.

use std::convert::Infallible;

use bytes::Bytes;
use futures::StreamExt as _;
use futures::channel::mpsc::UnboundedReceiver;
use http::Response;
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};

/// An answer, or why there is none.
pub(crate) type Reply = Result<Response<UnsyncBoxBody<Bytes, Infallible>>, std::io::Error>;

/// An answer that is there at once.
pub(crate) fn whole(answer: Response<Vec<u8>>) -> Reply {
    Ok(answer.map(|bytes| Full::new(Bytes::from(bytes)).boxed_unsync()))
}

/// An answer whose lines come as things change.
pub(crate) fn streamed(lines: UnboundedReceiver<Bytes>) -> Reply {
    let frames = lines.map(|line| Ok(Frame::data(line)));
    Ok(Response::new(StreamBody::new(frames).boxed_unsync()))
}

/// An answer of a server in trouble.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> Response<Vec<u8>> {
    let body = serde_json::json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "code": code, "reason": reason, "message": message,
    });
    let answer = Response::builder().status(code);
    let answer = match code {
        429 => answer.header("Retry-After", "1"),
        _ => answer,
    };
    let body = body.to_string().into_bytes();
    answer.body(body).expect("the parts are valid")
}

/// A broken connection.
pub(crate) fn broken() -> Reply {
    Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset))
}
