//! Modules of a crate use each other in one direction. Decides what counts as use and what as a cycle:
//! the modules of one folder, each with everything below it, must form an order. A module and what
//! lies below it may refer to each other, since `foo.rs` is the face of its folder.

use std::collections::{BTreeMap, BTreeSet};

use super::Violation;
use super::rust::{Source, Token};

/// A path as it is written, without the name of the crate: `["plan", "gang", "decorate"]`.
type Path = Vec<String>;

pub(super) fn check(sources: &[Source<'_>]) -> Vec<Violation> {
    let crates: BTreeSet<_> = sources.iter().map(|source| source.krate).collect();
    let check = |krate| {
        let own: Vec<_> = sources.iter().filter(|one| one.krate == krate).collect();
        check_crate(&own)
    };
    crates.into_iter().flat_map(check).collect()
}

/// One module refers to another.
struct Use {
    file: String,
    line: usize,
    from: Path,
    to: Path,
}

fn check_crate(sources: &[&Source<'_>]) -> Vec<Violation> {
    let modules = Modules::of(sources);
    let mut folders: BTreeMap<Path, BTreeMap<String, Vec<(String, Use)>>> = BTreeMap::new();
    for one in uses(sources, &modules) {
        let shared = common(&one.from, &one.to);
        let next = |path: &Path| path.get(shared).cloned();
        if let Some((from, to)) = next(&one.from).zip(next(&one.to)) {
            let folder = folders.entry(one.from[..shared].to_vec()).or_default();
            folder.entry(from).or_default().push((to, one));
        }
    }
    folders.values().flat_map(cycles).collect()
}

/// Every use that leads back to where it comes from, one violation for each pair of modules.
fn cycles(folder: &BTreeMap<String, Vec<(String, Use)>>) -> Vec<Violation> {
    let mut found = BTreeMap::new();
    for (from, uses) in folder {
        for (to, one) in uses {
            if let Some(back) = way(folder, to, from) {
                let ring = [std::slice::from_ref(from), &back].concat().join(" → ");
                let advice = format!(
                    "`{}` uses `{}`, which uses it too ({ring}): move what both need",
                    one.from.join("::"),
                    one.to.join("::")
                );
                let violation = Violation::new(&one.file, one.line, advice);
                found.entry((from, to)).or_insert(violation);
            }
        }
    }
    found.into_values().collect()
}

/// A way from one module to another along uses, both ends included.
fn way(folder: &BTreeMap<String, Vec<(String, Use)>>, from: &str, to: &str) -> Option<Vec<String>> {
    let mut open = vec![vec![from.to_owned()]];
    let mut seen = BTreeSet::new();
    while let Some(way) = open.pop() {
        let last = way.last().expect("a way begins somewhere").clone();
        if last == to {
            return Some(way);
        }
        if seen.insert(last.clone()) {
            for (next, _) in folder.get(&last).into_iter().flatten() {
                open.push([way.as_slice(), std::slice::from_ref(next)].concat());
            }
        }
    }
    None
}

/// All modules of a crate, and what each imports under a name of its own.
struct Modules(BTreeMap<Path, BTreeMap<String, Path>>);

impl Modules {
    fn of(sources: &[&Source<'_>]) -> Self {
        let names = sources.iter().map(|source| owned(&source.module));
        let mut modules = Self(names.map(|name| (name, BTreeMap::new())).collect());
        for source in sources {
            let module = owned(&source.module);
            let imports = imports(&source.tokens).into_iter();
            let imports = imports
                .filter_map(|import| Some((import.name, modules.absolute(&module, &import.path)?)))
                .collect();
            modules.0.insert(module, imports);
        }
        modules
    }

    /// From the root of the crate, if the path does not begin in another crate.
    fn absolute(&self, module: &[String], path: &[String]) -> Option<Path> {
        let mut base = module.to_vec();
        let mut rest = path;
        let first = rest.first()?;
        match first.as_str() {
            "crate" => (base, rest) = (Path::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    base.pop()?;
                    rest = &rest[1..];
                }
            }
            _ => {
                base.push(first.clone());
                if !self.0.contains_key(&base) {
                    return None;
                }
                rest = &rest[1..];
            }
        }
        Some([base.as_slice(), rest].concat())
    }

    /// The module in which a path ends. A name that a module on the way merely passes on is looked for
    /// where it comes from.
    fn resolve(&self, path: &[String]) -> Path {
        let mut path = path.to_vec();
        // A chain of re-exports is short; a ring of them would not compile.
        for _ in 0..8 {
            let mut depth = path.len();
            while !self.0.contains_key(&path[..depth]) {
                depth -= 1;
            }
            let next = path
                .get(depth)
                .and_then(|name| self.0[&path[..depth]].get(name));
            match next {
                Some(target) if *target != path => {
                    path = [target.as_slice(), &path[depth + 1..]].concat();
                }
                _ => return path[..depth].to_vec(),
            }
        }
        path
    }
}

fn uses(sources: &[&Source<'_>], modules: &Modules) -> Vec<Use> {
    let mut found = Vec::new();
    for source in sources {
        let from = owned(&source.module);
        let imported = imports(&source.tokens).into_iter();
        let imported = imported.map(|import| (import.line, import.path));
        for (line, path) in imported.chain(inline_paths(&source.tokens)) {
            if let Some(path) = modules.absolute(&from, &path) {
                let to = modules.resolve(&path);
                let file = source.file.path.clone();
                found.push(Use {
                    file,
                    line,
                    from: from.clone(),
                    to,
                });
            }
        }
    }
    found
}

struct Import {
    line: usize,
    name: String,
    path: Path,
}

/// What `use` declarations bring into scope.
fn imports(tokens: &[Token]) -> Vec<Import> {
    let mut found = Vec::new();
    let mut rest = tokens;
    while let Some(at) = rest.iter().position(|token| token.text == "use") {
        rest = &rest[at + 1..];
        let end = rest.iter().position(|token| token.text == ";");
        let (tree, after) = rest.split_at(end.unwrap_or(rest.len()));
        use_tree(tree, &[], &mut found);
        rest = after;
    }
    found
}

fn use_tree(tokens: &[Token], prefix: &[String], found: &mut Vec<Import>) {
    let mut path = prefix.to_vec();
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token.text.as_str() {
            ":" => {}
            "{" => {
                for part in split_list(&tokens[at + 1..tokens.len() - 1]) {
                    use_tree(part, &path, found);
                }
                return;
            }
            "as" => {
                let name = tokens.get(at + 1).map_or("_", |token| token.text.as_str());
                found.push(Import {
                    line: token.line,
                    name: name.to_owned(),
                    path,
                });
                return;
            }
            part => path.push(part.to_owned()),
        }
        at += 1;
    }
    if path.last().is_some_and(|last| last == "self") {
        path.pop();
    }
    if let Some((name, line)) = path
        .last()
        .cloned()
        .zip(tokens.first().map(|first| first.line))
    {
        found.push(Import { line, name, path });
    }
}

/// The parts between the commas of a list, without those inside of braces.
fn split_list(tokens: &[Token]) -> Vec<&[Token]> {
    let mut depth = 0;
    let parts = tokens.split(|token| {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" => depth -= 1,
            _ => {}
        }
        depth == 0 && token.text == ","
    });
    parts.filter(|part| !part.is_empty()).collect()
}

/// Paths in the midst of code: `crate::plan::gang(…)`.
fn inline_paths(tokens: &[Token]) -> Vec<(usize, Path)> {
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| tokens[before].text.as_str());
        if !matches!(token.text.as_str(), "crate" | "super") || before == Some(":") {
            continue;
        }
        let mut path = vec![token.text.clone()];
        let mut rest = &tokens[at + 1..];
        while let [first, second, name, after @ ..] = rest
            && first.text == ":"
            && second.text == ":"
            && name
                .text
                .starts_with(|c: char| c.is_alphabetic() || c == '_')
        {
            path.push(name.text.clone());
            rest = after;
        }
        if path.len() > 1 {
            found.push((token.line, path));
        }
    }
    found
}

/// How many parts two paths share from the start.
fn common(one: &[String], other: &[String]) -> usize {
    one.iter()
        .zip(other)
        .take_while(|(one, other)| one == other)
        .count()
}

fn owned(path: &[&str]) -> Path {
    path.iter().map(|part| (*part).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::rust;
    use super::super::tree::Tree;
    use super::*;

    fn violations(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<_> = files
            .iter()
            .map(|(path, text)| (format!("crates/planner/src/{path}"), *text))
            .collect();
        let files: Vec<_> = paths
            .iter()
            .map(|(path, text)| (path.as_str(), *text))
            .collect();
        let tree = Tree::of(&files);
        check(&rust::sources(&tree))
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn two_modules_that_use_each_other_are_found_once_each() {
        let found = violations(&[
            ("lib.rs", "mod job;\nmod plan;\n"),
            ("job.rs", "use crate::plan::Kind;\n"),
            ("plan.rs", "fn a(job: &crate::job::Job) {}\n"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            found[0],
            "crates/planner/src/job.rs:1: `job` uses `plan`, which uses it too (job → plan → job): \
             move what both need"
        );
    }

    #[test]
    fn a_cycle_between_what_lies_below_is_found() {
        let found = violations(&[
            ("lib.rs", ""),
            ("plan.rs", "mod gang;\nmod cleanup;\n"),
            ("plan/gang.rs", ""),
            ("plan/cleanup.rs", "use crate::render;\n"),
            ("render.rs", "mod worker;\n"),
            ("render/worker.rs", "use crate::plan::gang::{self, Gang};\n"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_name_that_the_root_passes_on_counts_for_the_module_it_comes_from() {
        let found = violations(&[
            ("lib.rs", "pub use job::Job;\nmod job;\nmod plan;\n"),
            ("job.rs", "use crate::plan::Kind;\n"),
            ("plan.rs", "use crate::{Job};\n"),
        ]);
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn one_direction_and_a_face_of_a_folder_are_fine() {
        let found = violations(&[
            ("lib.rs", "pub use job::Job;\n"),
            ("job.rs", "use serde::Deserialize;\n"),
            (
                "plan.rs",
                "use crate::Job;\nmod gang;\nfn a() { gang::b() }\n",
            ),
            ("plan/gang.rs", "use super::Plan;\nuse crate::job::Job;\n"),
        ]);
        assert!(found.is_empty(), "{found:?}");
    }
}
