//! What must hold of the words of a call of ssh for any bytes at all.

use agent::ssh_args::{self, SshArgs};

/// Any words, separated by zero bytes, make a call or an error; a call's command is made of the last
/// words, unchanged.
pub fn check(bytes: &[u8]) {
    let words: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
    let Ok(SshArgs::Run(call)) = ssh_args::parse(&words) else {
        return;
    };
    assert!(!call.host.is_empty());
    let joined = words.join(&b' ');
    assert!(joined.ends_with(&call.command), "the command was changed");
    let before = joined.len() - call.command.len();
    let host_and_options = String::from_utf8_lossy(&joined[..before]).into_owned();
    assert!(host_and_options.contains(&call.host));
}
