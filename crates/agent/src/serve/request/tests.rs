//! The environment of a command.

use super::*;

fn pairs(text: &str) -> Vec<(OsString, OsString)> {
    text.split_whitespace()
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

#[test]
fn what_was_asked_for_lies_on_top_of_the_containers_environment() {
    let own = pairs("FOO=worker PATH=/bin HOME=/h MUSTER_TLS_DIR=/muster/tls");
    let merged = environment(own.into_iter(), &pairs("FOO=launcher BAR=1"));
    assert_eq!(merged, pairs("PATH=/bin HOME=/h FOO=launcher BAR=1"));
}

#[test]
fn there_is_always_a_home() {
    for own in ["A=1", "HOME= A=1"] {
        let merged = environment(pairs(own).into_iter(), &[]);
        let (name, value) = merged.last().unwrap();
        assert_eq!(name, "HOME");
        assert!(!value.is_empty());
    }
}
