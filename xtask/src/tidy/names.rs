//! Which files there may be and which must be there: no `mod.rs`, no module whose name says
//! nothing, the same five files for every dialect.

use super::Violation;
use super::tree::{File, Tree};

const SAYS_NOTHING: [&str; 6] = ["util", "utils", "helper", "helpers", "common", "misc"];
const DIALECTS: &str = "crates/dialects/src/";
const DIALECT_FILES: [&str; 5] = ["fields", "types", "defaults", "lower", "report"];

pub(super) fn check(tree: &Tree) -> Vec<Violation> {
    let code = tree
        .files
        .iter()
        .filter(|file| matches!(file.extension(), "rs" | "go"));
    code.flat_map(file_name)
        .chain(tree.with_extension("rs").flat_map(inline_modules))
        .chain(
            tree.with_extension("rs")
                .flat_map(|file| missing_dialect_files(tree, file)),
        )
        .collect()
}

fn file_name(file: &File) -> Vec<Violation> {
    let mut found = Vec::new();
    let stem = |part: &str| part.split('.').next().unwrap_or_default().to_owned();
    for part in file.path.split('/').map(stem) {
        if SAYS_NOTHING.contains(&part.as_str()) {
            found.push(Violation::new(&file.path, 1, name_advice(&part)));
        }
    }
    if file.path.ends_with("/mod.rs") {
        let advice = "name it after its folder and put it beside: `foo.rs` and `foo/`";
        found.push(Violation::new(&file.path, 1, advice));
    }
    found
}

fn inline_modules(file: &File) -> Vec<Violation> {
    let module = |line: &str| {
        let (_, name) = line.split_once("mod ")?;
        let name = name.strip_suffix(" {")?;
        SAYS_NOTHING.contains(&name).then(|| name_advice(name))
    };
    file.lines()
        .filter_map(|(number, line)| Some(Violation::new(&file.path, number, module(line)?)))
        .collect()
}

fn name_advice(name: &str) -> String {
    format!("a module called `{name}` says nothing: name it after what it decides")
}

/// A dialect is a module with a row of the table; its folder is beside it.
fn missing_dialect_files(tree: &Tree, file: &File) -> Vec<Violation> {
    let module = file
        .path
        .strip_prefix(DIALECTS)
        .and_then(|name| name.strip_suffix(".rs"));
    let Some(module) = module.filter(|name| !name.contains('/')) else {
        return Vec::new();
    };
    let Some((line, _)) = file
        .lines()
        .find(|(_, line)| line.contains("const DIALECT: Dialect"))
    else {
        return Vec::new();
    };
    DIALECT_FILES
        .iter()
        .filter(|name| {
            !tree
                .paths
                .contains(&format!("{DIALECTS}{module}/{name}.rs"))
        })
        .map(|name| {
            let advice = format!("the dialect has no {module}/{name}.rs: each has the same five");
            Violation::new(&file.path, line, advice)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        check(&Tree::of(files))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn mod_rs_is_found() {
        let found = violations(&[("crates/a/src/plan/mod.rs", "//! Plan.\n")]);
        assert!(
            found[0].starts_with("crates/a/src/plan/mod.rs:1: name it after"),
            "{found:?}"
        );
    }

    #[test]
    fn a_module_name_that_says_nothing_is_found_as_file_folder_and_block() {
        for path in [
            "a/src/util.rs",
            "a/tests/common/api.rs",
            "e2e/cluster/helpers/main.go",
        ] {
            assert_eq!(violations(&[(path, "")]).len(), 1, "{path}");
        }
        let found = violations(&[("a/src/lib.rs", "//! A.\npub(crate) mod misc {\n}\n")]);
        assert!(
            found[0].starts_with("a/src/lib.rs:2: a module called `misc`"),
            "{found:?}"
        );
        assert!(violations(&[("a/src/utility_bills.rs", "")]).is_empty());
    }

    #[test]
    fn a_dialect_without_one_of_its_five_files_is_found() {
        let row = (
            "crates/dialects/src/x_v1.rs",
            "//! X.\npub const DIALECT: Dialect = X;\n",
        );
        let paths = DIALECT_FILES.map(|name| format!("crates/dialects/src/x_v1/{name}.rs"));
        let mut files = vec![row];
        files.extend(paths.iter().map(|path| (path.as_str(), "//! Part.\n")));
        assert!(violations(&files).is_empty());
        files.retain(|(path, _)| !path.ends_with("lower.rs"));
        let found = violations(&files);
        assert!(
            found[0].contains("x_v1.rs:2: the dialect has no x_v1/lower.rs"),
            "{found:?}"
        );
    }
}
