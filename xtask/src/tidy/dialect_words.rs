//! A word of one dialect has no place in what serves all of them. Decides which words those are, from
//! the table of dialects: kinds and groups of their resources, names of fields that no other resource
//! has, and what they call themselves.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::{apps::v1::StatefulSet, batch::v1::Job, core::v1::Service};
use schemars::generate::SchemaSettings;
use serde_json::Value;

use super::Violation;
use super::rust::{Source, string};

/// Crates that serve every dialect.
const NEUTRAL: [&str; 4] = ["contract", "planner", "controller", "agent"];
/// The one list of exceptions: what some dialect has in common with everybody.
const OF_ALL: [&str; 15] = [
    // Names of dialects that are also those of an MPI, and of labels and objects that all jobs have.
    "kubeflow",
    "kubeflow.org",
    "muster",
    "muster.dev",
    "openmpi",
    "OpenMPI",
    "worker",
    // What all jobs are about; the group of an API may begin with it.
    "mpi",
    // Amounts as Kubernetes writes them.
    "cpu",
    "memory",
    // APIs of schedulers that a cluster has or has not, whatever its jobs are written in. One of them
    // is named after its maker, who also made a dialect.
    "T9k",
    "T9K",
    "scheduler.tensorstack.dev",
    "minResources",
    "scheduleTimeoutSeconds",
];

pub(super) fn check(sources: &[Source<'_>]) -> Vec<Violation> {
    let words = Words::of_table();
    let neutral = sources
        .iter()
        .filter(|source| NEUTRAL.contains(&source.krate));
    neutral.flat_map(|source| words.find(source)).collect()
}

/// Words, each with the resources it belongs to.
#[derive(Default)]
struct Words {
    /// Wherever they occur.
    anywhere: BTreeMap<String, String>,
    /// As a text of their own: elsewhere they are English.
    as_text: BTreeMap<String, String>,
}

impl Words {
    fn of_table() -> Self {
        let mut words = Self::default();
        let mut owners: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for resource in dialects::RESOURCES {
            let maker = resource.group.rsplit('.').nth(1);
            let own = [resource.kind, resource.plural, resource.group];
            let names = resource.dialects.iter().map(|dialect| dialect.name);
            for word in own.into_iter().chain(maker).chain(names) {
                let groups = words
                    .anywhere
                    .entry(word.to_owned())
                    .or_insert_with(String::new);
                *groups = format!("{groups} {}", resource.group);
            }
            for dialect in resource.dialects {
                let fields = dialect.fields.iter().copied().flatten();
                let fields = fields.filter_map(|field| field.path.rsplit('.').next());
                let fields = fields.filter_map(|name| name.split('[').next());
                for word in fields.chain([dialect.launcher_role]) {
                    owners.entry(word).or_default().insert(resource.group);
                }
            }
        }
        // A field that several resources have, or that Kubernetes has, belongs to none of them.
        let kubernetes = names_of_kubernetes();
        owners.retain(|word, owners| owners.len() == 1 && !kubernetes.contains(*word));
        for (word, owners) in owners {
            let is_english = word.bytes().all(|byte| byte.is_ascii_lowercase());
            let list = match is_english {
                true => &mut words.as_text,
                false => &mut words.anywhere,
            };
            list.extend(
                owners
                    .into_iter()
                    .map(|group| (word.to_owned(), group.to_owned())),
            );
        }
        // Versions of an API are numbered alike everywhere.
        let is_version = |word: &str| word.starts_with("v1") || word.starts_with("v2");
        let is_shared = |word: &String| OF_ALL.contains(&word.as_str()) || is_version(word);
        words.anywhere.retain(|word, _| !is_shared(word));
        words.as_text.retain(|word, _| !is_shared(word));
        words
    }

    fn find(&self, source: &Source<'_>) -> Vec<Violation> {
        let mut found = Vec::new();
        let mut tell = |line, word: &str, groups: &str| {
            let advice = format!("`{word}` is a word of {groups}: the dialect must say it");
            found.push(Violation::new(&source.file.path, line, advice));
        };
        for token in &source.tokens {
            let text = string(&token.text);
            if let Some((word, groups)) = text.and_then(|text| self.as_text.get_key_value(text)) {
                tell(token.line, word, groups);
            }
        }
        let tests = source.file.test_lines();
        for (number, line) in source
            .file
            .lines()
            .filter(|(number, _)| !tests.contains(number))
        {
            for word in words_of(line) {
                let small = word.to_ascii_lowercase();
                if let Some(groups) = self.anywhere.get(word).or(self.anywhere.get(&small)) {
                    tell(number, word, groups.trim());
                }
            }
        }
        found
    }
}

/// Words of a line as a reader sees them, with dots that belong to a name.
fn words_of(line: &str) -> impl Iterator<Item = &str> {
    line.split(|char: char| !char.is_ascii_alphanumeric() && !".-".contains(char))
        .map(|word| word.trim_matches(['.', '-']))
        .filter(|word| !OF_ALL.contains(word))
}

/// Every name of a field of the objects that jobs are made of.
fn names_of_kubernetes() -> BTreeSet<String> {
    let mut schemas = SchemaSettings::draft2020_12().into_generator();
    schemas.subschema_for::<StatefulSet>();
    schemas.subschema_for::<Job>();
    schemas.subschema_for::<Service>();
    let properties = |schema: &Value| {
        schema["properties"]
            .as_object()
            .cloned()
            .unwrap_or_default()
    };
    let definitions = schemas.definitions().values().map(properties);
    definitions
        .flat_map(|fields| fields.into_iter().map(|(name, _)| name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::rust;
    use super::super::tree::Tree;
    use super::*;

    fn violations(path: &str, text: &str) -> Vec<String> {
        let tree = Tree::of(&[(path, text)]);
        check(&rust::sources(&tree))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    const PLANNER: &str = "crates/planner/src/say.rs";

    #[test]
    fn the_kind_of_some_resources_is_found() {
        let found = violations(
            PLANNER,
            "fn a() {\n    say(\"this MPIJob is suspended\")\n}\n",
        );
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("crates/planner/src/say.rs:2: `MPIJob` is a word of "));
        assert!(
            violations(
                "crates/dialects/src/lib.rs",
                "const KIND: &str = \"MPIJob\";"
            )
            .is_empty()
        );
    }

    #[test]
    fn a_field_that_one_resource_has_is_found_in_code_and_comments() {
        for text in [
            "// See initTimeout.\n",
            "fn a() { get(\"initTimeout\") }",
            "// as bdap does\n",
            "// t9k's\n",
        ] {
            assert_eq!(violations("crates/agent/src/a.rs", text).len(), 1, "{text}");
        }
    }

    #[test]
    fn what_is_also_english_is_found_as_a_text_of_its_own_only() {
        assert_eq!(
            violations(PLANNER, "const ROLE: &str = \"master\";").len(),
            1
        );
        assert!(
            violations(
                PLANNER,
                "// The master copy.\nfn master() { say(\"a master\") }"
            )
            .is_empty()
        );
    }

    #[test]
    fn words_of_kubernetes_of_all_and_of_the_cluster_are_free() {
        let text = "// imagePullPolicy, nodeSelector, T9k, kubeflow\nfn a() { get(\"launcher\") }";
        assert!(
            violations(PLANNER, text).is_empty(),
            "{:?}",
            violations(PLANNER, text)
        );
    }
}
