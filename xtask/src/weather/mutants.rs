//! How strong the laws and the agent's tests are: breaks muster on purpose, one way at a time, in a copy of the
//! repository, and tells which law or which test notices. Decides how a mutant is written; knows nothing of
//! what it breaks.
//!
//! All mutants are built at once, each behind a condition, because a build takes a minute and a run seconds.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::command::{self, cargo, output};
use crate::root;

/// Who has to notice the mutants of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Judge {
    /// The laws of the simulator.
    Laws,
    /// The tests of the agent.
    AgentTests,
}

const FILES: [(&str, Judge); 2] = [
    ("crates/simulator/mutants.txt", Judge::Laws),
    ("crates/agent/mutants.txt", Judge::AgentTests),
];
/// Which of the agent's tests: those of attempts, of recovery, and of workers that leave.
const AGENT_TESTS: [&str; 3] = ["attempt", "recovery", "leaving"];
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

/// The mutants of a file, and the changes that make them possible.
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
    let mut all = Vec::new();
    for (file, judge) in FILES {
        let mutants = read(&fs::read_to_string(root().join(file))?);
        all.push((mutants.with_context(|| format!("in {file}"))?, judge));
    }
    for name in names {
        let mut files = all.iter();
        ensure!(
            files.any(|(mutants, _)| mutants.sentences.contains_key(name)),
            "no mutant is called {name}"
        );
    }
    let copy = copied(all.iter().flat_map(|(mutants, _)| &mutants.changes))?;
    let is_wanted = |name: &&String| names.is_empty() || names.contains(name);
    let mut survivors = Vec::new();
    for (mutants, judge) in &all {
        if !mutants.sentences.keys().any(|name| is_wanted(&name)) {
            continue;
        }
        let tries = Tries::built(&copy, *judge)?;
        let itself = tries.noticed("")?;
        ensure!(itself.is_none(), "muster itself is noticed: {itself:?}");
        for (name, sentence) in &mutants.sentences {
            if !is_wanted(&name) {
                continue;
            }
            let noticed = tries.noticed(name)?;
            let law = noticed.as_deref().unwrap_or("survived");
            println!("| `{name}` | {sentence} | {law} |");
            if noticed.is_none() {
                survivors.push(name.as_str());
            }
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
fn mutated<'a>(changes: impl Iterator<Item = &'a Change>) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for Change {
        file,
        before,
        after,
    } in changes
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

/// A copy of the repository with all mutants in it.
fn copied<'a>(changes: impl Iterator<Item = &'a Change>) -> Result<PathBuf> {
    let list = ["ls-files", "--cached", "--others", "--exclude-standard"];
    let files = output(Command::new("git").current_dir(root()).args(list))?;
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    let target = target.unwrap_or_else(|| root().join("target"));
    let copy = target.join("mutants");
    let mut mutated = mutated(changes)?;
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
    Ok(copy)
}

/// A file that does not change keeps its age: otherwise cargo would build it again.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|known| known == bytes) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file lies in a directory")?)?;
    Ok(fs::write(path, bytes)?)
}

/// What has all mutants in it, and shows that one is noticed.
enum Tries {
    Simulator(PathBuf),
    /// The copy of the repository.
    AgentTests(PathBuf),
}

impl Tries {
    fn built(copy: &Path, judge: Judge) -> Result<Self> {
        match judge {
            Judge::Laws => {
                let mut build = in_copy(copy, "build");
                build.args(["--quiet", "--profile", "weather", "--package", "simulator"]);
                command::run(&mut build)?;
                Ok(Self::Simulator(built_in(copy).join("weather/weather")))
            }
            Judge::AgentTests => {
                command::run(agent_tests(copy).arg("--no-run"))?;
                Ok(Self::AgentTests(copy.to_owned()))
            }
        }
    }

    /// What notices a mutant, if anything does.
    fn noticed(&self, name: &str) -> Result<Option<String>> {
        match self {
            Self::Simulator(weather) => by_law(weather, name),
            Self::AgentTests(copy) => by_test(copy, name),
        }
    }
}

fn built_in(copy: &Path) -> PathBuf {
    copy.join("target")
}

/// Cargo with a directory of the copy's own: in one that it shared with the repository, both would have
/// files of the same names, and cargo would take the one's for the other's.
fn in_copy(copy: &Path, subcommand: &str) -> Command {
    let mut command = cargo(subcommand);
    command.current_dir(copy);
    command.env("CARGO_TARGET_DIR", built_in(copy));
    command
}

fn agent_tests(copy: &Path) -> Command {
    let mut tests = in_copy(copy, "test");
    tests.args(["--quiet", "--package"]);
    tests.args(["agent", "--lib", "--test", "loopback"]);
    tests
}

/// The first test that fails.
fn by_test(copy: &Path, name: &str) -> Result<Option<String>> {
    let mut tests = agent_tests(copy);
    let run = tests.arg("--").args(AGENT_TESTS).env("MUTANT", name);
    let run = run.output()?;
    let said = String::from_utf8_lossy(&run.stdout);
    let failed = said.lines().find_map(|line| {
        let rest = line.strip_prefix("---- ")?;
        rest.strip_suffix(" stdout ----")
    });
    match (run.status.success(), failed) {
        (true, _) => Ok(None),
        (false, Some(test)) => Ok(Some(test.to_owned())),
        (false, None) => bail!("the tests failed: {said}"),
    }
}

/// The law that notices a mutant, and where: in a scenario, or with a seed.
fn by_law(weather: &Path, name: &str) -> Result<Option<String>> {
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
        let read_file = |(file, _)| {
            let text = fs::read_to_string(root().join(file)).expect("it can be read");
            read(&text).expect("it can be understood")
        };
        let all: Vec<Mutants> = FILES.into_iter().map(read_file).collect();
        let changes = all.iter().flat_map(|mutants| &mutants.changes);
        mutated(changes).expect("every change applies");
        let count: usize = all.iter().map(|mutants| mutants.sentences.len()).sum();
        assert!(count >= 80, "{count}");
    }
}
