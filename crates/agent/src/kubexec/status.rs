//! How a command ended, as the kubelet reports it. Decides the exit code; any other report is an error
//! with the API server's own message.

use anyhow::{Result, bail};
use serde_json::Value;

/// The command's exit code.
pub(crate) fn exit_code(words: &[u8]) -> Result<u8> {
    let status: Value = serde_json::from_slice(words).unwrap_or(Value::Null);
    if status["status"] == "Success" {
        return Ok(0);
    }
    let causes = status["details"]["causes"].as_array();
    let causes = causes.into_iter().flatten();
    let mut code = causes.filter(|cause| cause["reason"] == "ExitCode");
    let code = code.next().and_then(|cause| cause["message"].as_str());
    if let Some(code) = code.and_then(|code| code.trim().parse::<i64>().ok()) {
        // The command failed: 256 must not become 0.
        return Ok(u8::try_from(code).unwrap_or(255).max(1));
    }
    match status["message"].as_str() {
        Some(message) => bail!("{message}"),
        None => bail!(
            "the API server did not report how the command ended: {}",
            String::from_utf8_lossy(words)
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_exact_and_anything_else_is_an_error() {
        let failed = |code: &str| {
            format!(
                r#"{{"metadata":{{}},"status":"Failure","reason":"NonZeroExitCode",
                "message":"command terminated with exit code","details":{{"causes":[
                {{"reason":"ExitCode","message":"{code}"}}]}}}}"#
            )
        };
        let success = r#"{"metadata":{},"status":"Success"}"#;
        assert_eq!(exit_code(success.as_bytes()).ok(), Some(0));
        for (code, wanted) in [("3", 3), ("137", 137), ("255", 255), ("256", 255)] {
            assert_eq!(exit_code(failed(code).as_bytes()).ok(), Some(wanted));
        }
        let internal =
            r#"{"status":"Failure","reason":"InternalError","message":"no such container"}"#;
        let error = exit_code(internal.as_bytes()).expect_err("no end of a command");
        assert_eq!(error.to_string(), "no such container");
        assert!(exit_code(b"gibberish").is_err());
        assert!(exit_code(b"").is_err());
    }
}
