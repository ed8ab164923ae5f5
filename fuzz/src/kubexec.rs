//! What must hold of kubexec's side of a WebSocket, and of the report of how a command ended.

use agent::untrusted::{exit_code, web_socket_frame, web_socket_frames};
use serde_json::Value;

/// Frames are the same however they are cut; each survives being sent; a report counts as a success only if it
/// says so.
pub fn check(bytes: &[u8]) {
    let piece = bytes.first().map_or(1, |byte| usize::from(*byte) + 1);
    let whole = web_socket_frames(bytes, bytes.len());
    assert_eq!(
        whole,
        web_socket_frames(bytes, piece),
        "cuts change what is read"
    );
    for (opcode, payload) in &whole.0 {
        let sent = web_socket_frame(*opcode, payload, [7, 0, 255, 1]);
        assert_unmasked(&sent, *opcode, payload);
        check_report(payload);
    }
    check_report(bytes);
}

/// What we send is what servers send, with a mask.
fn assert_unmasked(sent: &[u8], opcode: u8, payload: &[u8]) {
    let mut bare = sent[..sent.len() - payload.len() - 4].to_vec();
    assert_eq!(bare[1] & 0x80, 0x80, "it is masked");
    bare[1] &= 0x7f;
    bare.extend(payload);
    let back = (vec![(opcode, payload.to_vec())], true);
    assert_eq!(web_socket_frames(&bare, bare.len()), back);
    let masked = &sent[sent.len() - payload.len()..];
    let mask = [7, 0, 255, 1].iter().cycle();
    assert!(
        masked
            .iter()
            .zip(mask)
            .map(|(a, b)| a ^ b)
            .eq(payload.iter().copied())
    );
}

fn check_report(report: &[u8]) {
    match exit_code(report) {
        Ok(0) => {
            let report: Value = serde_json::from_slice(report).expect("a success is JSON");
            assert_eq!(report["status"], "Success");
        }
        Ok(_) => {}
        Err(words) => assert!(!words.is_empty() || has_empty_message(report)),
    }
}

/// The API server's own message is shown as it is.
fn has_empty_message(report: &[u8]) -> bool {
    let report = serde_json::from_slice(report).unwrap_or(Value::Null);
    report["message"] == ""
}
