//! Everything that two of muster's programs must agree on, spelled once. The operator renders these
//! names into pods, the agent reads them there, and the command-line tool shows them to people.
//!
//! Decides spellings and defaults only. Must not know what a program does with them, and depends on
//! nothing, so that the agent stays small.

pub mod agent_report;
pub mod commands;
pub mod env;
pub mod exit_code;
pub mod files;
pub mod host_list;
pub mod labels;
pub mod milestone;
pub mod mpi;
pub mod protocol;
pub mod reason;
mod vocabulary;

pub use reason::Reason;

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    /// Two names for one spelling would drift apart, and two variables of one name would mix up.
    #[test]
    fn no_spelling_of_a_module_has_two_names() {
        let modules = [
            ("commands", include_str!("commands.rs")),
            ("env", include_str!("env.rs")),
            ("files", include_str!("files.rs")),
            ("labels", include_str!("labels.rs")),
        ];
        for (module, source) in modules {
            let mut names = BTreeMap::new();
            for line in source.lines() {
                let constant = line.strip_prefix("pub const ").unwrap_or_default();
                let Some((name, text)) = constant.split_once(": &str = \"") else {
                    continue;
                };
                let other = names.insert(text, name);
                assert_eq!(other, None, "{module}::{name} is spelled {text}");
            }
            assert!(names.len() > 5, "{module}: no constants were found");
        }
    }
}
