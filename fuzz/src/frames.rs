//! What must hold of the frame decoder of the agent for any bytes at all.

use agent::frame::{Decoder, FRAME_BYTES_MAX, Frame};

/// Any bytes are frames or an error, however they are cut; frames survive being sent again, and
/// what is kept stays below a frame and a read.
pub fn check(bytes: &[u8]) {
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
