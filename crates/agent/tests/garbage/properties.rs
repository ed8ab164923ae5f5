//! What must hold for any bytes at all. Shared by the short run of `cargo test` and the fuzz targets.

use agent::frame::{Decoder, FRAME_BYTES_MAX, Frame};
use agent::ssh_words::{self, Words};

/// Any bytes are frames or an error, however they are cut; frames survive being sent again, and
/// what is kept stays below a frame and a read.
pub(crate) fn frames(bytes: &[u8]) {
    let step = bytes.first().map_or(1, |byte| usize::from(*byte) + 1);
    let whole = decode(bytes, bytes.len().max(1));
    let pieces = decode(bytes, step);
    assert_eq!(whole, pieces, "cuts change what is read");
    for frame in &whole.0 {
        let sent = frame.encode();
        assert!(frame.fits() && sent.len() <= FRAME_BYTES_MAX + 4);
        assert_eq!(decode(&sent, sent.len()), (vec![frame.clone()], false));
    }
}

fn decode(bytes: &[u8], step: usize) -> (Vec<Frame>, bool) {
    let mut decoder = Decoder::default();
    let mut frames = Vec::new();
    for chunk in bytes.chunks(step) {
        decoder.push(chunk);
        loop {
            match decoder.next_frame() {
                Ok(Some(frame)) => frames.push(frame),
                Ok(None) => break,
                Err(_) => return (frames, true),
            }
        }
        assert!(decoder.pending() < FRAME_BYTES_MAX + 4);
    }
    (frames, false)
}

/// Any words, separated by zero bytes, make a call or an error; a call's command is made of the last
/// words, unchanged.
pub(crate) fn words(bytes: &[u8]) {
    let words: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let Ok(Words::Run(call)) = ssh_words::parse(&words) else {
        return;
    };
    assert!(!call.host.is_empty());
    let joined = words.join(&b' ');
    assert!(joined.ends_with(&call.command), "the command was changed");
    let before = joined.len() - call.command.len();
    let host_and_options = String::from_utf8_lossy(&joined[..before]).into_owned();
    assert!(host_and_options.contains(&call.host));
}
