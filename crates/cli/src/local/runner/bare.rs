//! Containers without namespaces: nothing can be mounted, so words and variables that name a mount
//! are made to name its source. Decides what counts as naming it.

use std::path::Path;

use contract::{env, files};

use crate::local::stages::protocol::{Mount, Program};

/// Where the agent looks when nobody tells it, and the variable by which it is told.
const TOLD: [(&str, &str); 3] = [
    (env::TLS_DIR, files::TLS_MOUNT_PATH),
    (env::HOSTS_FILE, files::HOSTS_PATH),
    (env::TERMINATION_LOG, files::TERMINATION_LOG),
];

/// Makes a program find its volumes where they are.
pub(crate) fn reach(program: &mut Program, mounts: &[Mount]) {
    let mut told = |name: &str, value: &str| {
        if !program.variables.iter().any(|(known, _)| known == name) {
            program.variables.push((name.to_owned(), value.to_owned()));
        }
    };
    for (name, value) in TOLD {
        told(name, value);
    }
    // All pods have this machine's name, so Open MPI takes them for one host and would share
    // memory between processes that do not share a session directory.
    told("OMPI_MCA_btl", "tcp,self");
    for (_, value) in &mut program.variables {
        *value = moved(value, mounts);
    }
    for word in &mut program.words {
        *word = moved(word, mounts);
    }
}

/// The text with every path below a mount's target moved below its source. What is there on this
/// machine anyway is left alone.
fn moved(text: &str, mounts: &[Mount]) -> String {
    let mut text = text.to_owned();
    for mount in mounts {
        let Some((source, target)) = mount.source.to_str().zip(mount.target.to_str()) else {
            continue;
        };
        if Path::new(target).exists() && target != files::TERMINATION_LOG {
            continue;
        }
        text = replaced(&text, target, source);
    }
    text
}

fn replaced(text: &str, target: &str, source: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some(place) = rest.find(target) {
        let (before, after) = (&rest[..place], &rest[place + target.len()..]);
        let begins = before
            .chars()
            .next_back()
            .is_none_or(|char| " \t\n:=,;'\"<>(".contains(char));
        let ends = after
            .chars()
            .next()
            .is_none_or(|char| "/ \t\n:,;'\"<>)&|".contains(char));
        result.push_str(before);
        result.push_str(if begins && ends { source } else { target });
        rest = after;
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_paths_are_moved() {
        let to = |text: &str| replaced(text, "/muster/bin", "/s/b");
        assert_eq!(to("/muster/bin/ssh"), "/s/b/ssh");
        assert_eq!(to("/muster/bin:/usr/bin"), "/s/b:/usr/bin");
        assert_eq!(to("--x=/muster/bin"), "--x=/s/b");
        assert_eq!(to("/opt/muster/bin"), "/opt/muster/bin");
        assert_eq!(to("/muster/binary"), "/muster/binary");
    }
}
