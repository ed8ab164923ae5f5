//! How strong the laws are: breaks muster on purpose, one way at a time, in a copy of the repository, and
//! tells which law notices. Decides how a mutant is written; knows nothing of what it breaks.
//!
//! All mutants are built at once, each behind a condition, because a build takes a minute and a run seconds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{self, cargo, output};
use crate::root;

const FILE: &str = "crates/simulator/mutants.txt";
/// Seeds that a mutant has to survive.
const SCHEDULES: &str = "2000";
/// What the conditions ask; every crate that a mutant breaks can call it.
const SWITCH_FILE: &str = "crates/contract/src/lib.rs";
const SWITCH: &str = r#"
/// Whether this is the mutant to try.
pub fn mutant(name: &str) -> bool {
    static TRIED: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    TRIED.get_or_init(|| std::env::var("MUTANT").unwrap_or_default()) == name
}
"#;

/// The mutants, and the changes that make them possible.
#[derive(Default)]
struct Mutants {
    /// What each does, by its name.
    sentences: BTreeMap<String, String>,
    changes: Vec<Change>,
}

struct Change {
    file: String,
    before: String,
    after: String,
}

/// Tries these mutants, or all. Fails if one survives.
pub(super) fn run(names: &[String]) -> Result<()> {
    let mutants = read(&fs::read_to_string(root().join(FILE))?)?;
    for name in names {
        ensure!(
            mutants.sentences.contains_key(name),
            "no mutant is called {name}"
        );
    }
    let weather = built(&mutants)?;
    ensure!(tried(&weather, "")?.is_none(), "muster itself breaks a law");
    let mut survivors = Vec::new();
    for (name, sentence) in &mutants.sentences {
        if !names.is_empty() && !names.contains(name) {
            continue;
        }
        let noticed = tried(&weather, name)?;
        let law = noticed.as_deref().unwrap_or("survived");
        println!("| `{name}` | {sentence} | {law} |");
        if noticed.is_none() {
            survivors.push(name.as_str());
        }
    }
    ensure!(survivors.is_empty(), "survived: {}", survivors.join(", "));
    Ok(())
}

fn read(text: &str) -> Result<Mutants> {
    let mut mutants = Mutants::default();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(named) = line.strip_prefix("# ") {
            let (name, sentence) = named.split_once(": ").context("a mutant has a sentence")?;
            mutants
                .sentences
                .insert(name.to_owned(), sentence.to_owned());
        } else if let Some(file) = line.strip_prefix("<<< ") {
            let until = |lines: &mut std::str::Lines<'_>, end: &str| {
                let part: Vec<&str> = lines.take_while(|line| *line != end).collect();
                part.join("\n")
            };
            mutants.changes.push(Change {
                file: file.to_owned(),
                before: until(&mut lines, "==="),
                after: until(&mut lines, ">>>"),
            });
        }
    }
    for name in mutants.sentences.keys() {
        let asked = format!("mutant(\"{name}\")");
        let makes = |change: &Change| change.after.contains(&asked);
        ensure!(mutants.changes.iter().any(makes), "nothing makes {name}");
    }
    Ok(mutants)
}

/// All changed files, with their text.
fn mutated(mutants: &Mutants) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for Change {
        file,
        before,
        after,
    } in &mutants.changes
    {
        let text = match files.remove(file) {
            Some(text) => text,
            None => fs::read_to_string(root().join(file))?,
        };
        let count = text.matches(before.as_str()).count();
        ensure!(count == 1, "{file} contains {count} times:\n{before}");
        files.insert(file.clone(), text.replace(before.as_str(), after));
    }
    let switch = fs::read_to_string(root().join(SWITCH_FILE))?;
    files.insert(SWITCH_FILE.to_owned(), switch + SWITCH);
    Ok(files)
}

/// The simulator of a copy of the repository with all mutants in it.
fn built(mutants: &Mutants) -> Result<PathBuf> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let files = output(Command::new("git").current_dir(root()).args(list))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root().join("target"));
    let copy = target.join("mutants");
    let mut mutated = mutated(mutants)?;
    for file in files.lines() {
        let text = match mutated.remove(file) {
            Some(text) => text.into_bytes(),
            // Deleted, and git does not know yet.
            None => match fs::read(root().join(file)) {
                Ok(bytes) => bytes,
                Err(_) => continue,
            },
        };
        write(&copy.join(file), &text)?;
    }
    let built = copy.join("target");
    let mut build = cargo("build");
    build.current_dir(&copy).env("CARGO_TARGET_DIR", &built);
    build.args(["--quiet", "--profile", "weather", "--package", "simulator"]);
    command::run(&mut build)?;
    Ok(built.join("weather/weather"))
}

/// A file that does not change keeps its age: otherwise cargo would build it again.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file lies in a directory")?)?;
    Ok(fs::write(path, bytes)?)
}

/// The law that notices a mutant, and where: in a scenario, or with a seed.
fn tried(weather: &Path, name: &str) -> Result<Option<String>> {
    let scenarios = root().join("crates/simulator/tests/scenarios");
    let mut paths = Vec::new();
    for entry in fs::read_dir(scenarios)? {
        let path = entry?.path();
        if path.extension().is_some_and(|end| end == "txt") {
            paths.push(path);
        }
    }
    paths.sort();
    let runs = [
        (Command::new(weather), vec!["scenarios"], paths),
        (
            Command::new(weather),
            vec!["run", "--schedules", SCHEDULES],
            Vec::new(),
        ),
    ];
    for (mut simulator, words, paths) in runs {
        let run = simulator
            .args(words)
            .args(paths)
            .env("MUTANT", name)
            .output()?;
        let said = String::from_utf8_lossy(&run.stdout);
        let broken = said.lines().find_map(|line| line.strip_prefix("broken "));
        match (run.status.success(), broken) {
            (true, _) => {}
            (false, Some(broken)) => return Ok(Some(broken.to_owned())),
            (false, None) => bail!("the simulator failed: {said}"),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutant_still_changes_what_it_names() {
        let text = fs::read_to_string(root().join(FILE)).expect("it can be read");
        let mutants = read(&text).expect("it can be understood");
        mutated(&mutants).expect("every change applies");
        assert!(mutants.sentences.len() >= 60, "{}", mutants.sentences.len());
    }
}
