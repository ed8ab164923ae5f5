//! Long runs of the fuzz targets: builds the coverage-guided fuzzer, runs it for a time and counts. Decides the
//! instrumentation, so that the stable compiler can be used; which targets there are, and what must hold, is
//! `fuzz/`'s business (`docs/fuzzing.md`).

use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::command::{self, cargo};
use crate::root;

/// What `cargo fuzz` passes to a nightly compiler, without a sanitizer: coverage of edges, and of what is compared.
const INSTRUMENTED: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=16";
/// The variable of `fuzz::TARGET_VARIABLE`.
const TARGET: &str = "MUSTER_FUZZ_TARGET";
/// How often a line of progress is shown.
const PROGRESS: Duration = Duration::from_secs(10);

/// Have a coverage-guided fuzzer choose the bytes for the targets of `fuzz/`
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Names of targets, which are those of the folders of `fuzz/corpus`; all, if none is given
    targets: Vec<String>,
    /// How long each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many targets run at a time
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// The longest input, in bytes
    #[arg(long, default_value_t = 4096)]
    max_len: usize,
    /// Run one target over this file, once
    #[arg(long, value_name = "PATH")]
    file: Option<PathBuf>,
}

/// What a run of one target came to.
struct Ran {
    target: String,
    executions: u64,
    seconds: f64,
    /// The last line of progress, with coverage.
    coverage: String,
    /// What was found, as the fuzzer says it.
    finding: Option<String>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    let known = folders(&root().join("fuzz/corpus"))?;
    for name in &args.targets {
        ensure!(
            known.contains(name),
            "no target is called {name}; there are {}",
            known.join(", ")
        );
    }
    let targets = if args.targets.is_empty() {
        known
    } else {
        args.targets.clone()
    };
    let fuzzer = built()?;
    if let Some(file) = &args.file {
        ensure!(
            targets.len() == 1,
            "name the target that reads {}",
            file.display()
        );
        return command::run(Command::new(fuzzer).env(TARGET, &targets[0]).arg(file));
    }
    let dictionary = work().join("dictionary");
    fs::create_dir_all(work())?;
    fs::write(&dictionary, words())?;
    let (waiting, done) = (Mutex::new(targets.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..args.jobs.max(1) {
            scope.spawn(|| {
                let next = || waiting.lock().expect("no thread panics with it").next();
                while let Some(target) = next() {
                    let ran = fuzzed(&fuzzer, &target, &dictionary, args);
                    done.lock().expect("no thread panics with it").push(ran);
                }
            });
        }
    });
    let ran: Result<Vec<Ran>> = done
        .into_inner()
        .expect("no thread panicked")
        .into_iter()
        .collect();
    let mut ran = ran?;
    ran.sort_by(|a, b| a.target.cmp(&b.target));
    print!("{}", table(&ran));
    let found: Vec<_> = ran
        .iter()
        .filter_map(|ran| ran.finding.as_deref())
        .collect();
    ensure!(found.is_empty(), "found:\n{}", found.join("\n"));
    Ok(())
}

/// Where cargo and the fuzzer keep what they make.
fn work() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| root().join("target")).join("fuzz")
}

fn folders(path: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(path).with_context(|| format!("cannot list {}", path.display()))? {
        names.extend(entry?.file_name().into_string().ok());
    }
    names.sort();
    Ok(names)
}

/// With a target system, cargo leaves build scripts and macros as they are.
fn built() -> Result<PathBuf> {
    let system = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut build = cargo("build");
    build.current_dir(root().join("fuzz/libfuzzer"));
    build.args(["--release", "--locked", "--target", &system]);
    build
        .env("CARGO_TARGET_DIR", work())
        .env("RUSTFLAGS", INSTRUMENTED);
    command::run(&mut build)?;
    Ok(work().join(system).join("release/libfuzzer"))
}

/// Paths and values of fields, for inputs that are edits of jobs.
fn words() -> String {
    let mut text = String::new();
    let quoted = |word: &str| word.replace('\\', "\\\\").replace('"', "\\\"");
    for dialect in dialects::RESOURCES
        .iter()
        .flat_map(|resource| resource.dialects)
    {
        for field in dialect.fields.iter().copied().flatten() {
            let path = field
                .path
                .replace("[]", "/0")
                .replace(['[', '.'], "/")
                .replace(']', "");
            let _ = writeln!(text, "\"\\x0a/{} {}\"", quoted(&path), quoted(field.sample));
        }
    }
    text
}

fn fuzzed(fuzzer: &Path, target: &str, dictionary: &Path, args: &Args) -> Result<Ran> {
    let corpus = work().join("corpus").join(target);
    let found = work().join("found");
    fs::create_dir_all(&corpus)?;
    fs::create_dir_all(&found)?;
    let mut command = Command::new(fuzzer);
    command
        .env(TARGET, target)
        .arg(corpus)
        .arg(root().join("fuzz/corpus").join(target));
    command.arg(format!("-max_total_time={}", args.seconds));
    command.arg(format!("-max_len={}", args.max_len));
    command.arg(format!("-dict={}", dictionary.display()));
    command.arg(format!("-artifact_prefix={}/{target}-", found.display()));
    command.args(["-print_final_stats=1", "-timeout=20", "-rss_limit_mb=3000"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let begun = Instant::now();
    let mut process = command.spawn().context("cannot start the fuzzer")?;
    let stderr = process.stderr.take().context("its output is piped")?;
    let mut ran = Ran {
        target: target.to_owned(),
        executions: 0,
        seconds: 0.0,
        coverage: String::new(),
        finding: None,
    };
    let (mut said, mut shown) = (Vec::new(), Instant::now());
    for line in BufReader::new(stderr).lines() {
        let line = line.context("the fuzzer writes text")?;
        if let Some(number) = line.strip_prefix("stat::number_of_executed_units:") {
            ran.executions = number.trim().parse().unwrap_or_default();
        } else if let (true, Some(at)) = (line.starts_with('#'), line.find("cov:")) {
            ran.coverage = coverage(&line[at..]);
            if shown.elapsed() >= PROGRESS {
                shown = Instant::now();
                println!("{target}: {line}");
            }
            continue;
        }
        said.push(line);
    }
    let status = process.wait()?;
    ran.seconds = begun.elapsed().as_secs_f64();
    if !status.success() {
        let kept = said
            .iter()
            .find_map(|line| Some(line.split_once("Test unit written to ")?.1));
        let Some(kept) = kept else {
            bail!("{target}: the fuzzer failed: {status}: {}", said.join("\n"));
        };
        let panic = said.iter().position(|line| line.contains("panicked at"));
        let words = panic.map_or(String::new(), |at| {
            said[at..]
                .iter()
                .take(6)
                .cloned()
                .collect::<Vec<_>>()
                .join("\n")
        });
        ran.finding = Some(format!("{words}\ncargo xtask fuzz {target} --file {kept}"));
    }
    Ok(ran)
}

/// `cov: 412 ft: 1817` of a line of progress.
fn coverage(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    match words.as_slice() {
        ["cov:", edges, "ft:", features, ..] => format!("{edges} ({features})"),
        _ => String::new(),
    }
}

fn table(ran: &[Ran]) -> String {
    let mut text = "| target | executions | seconds | a second | edges (features) | found |\n|---|---|---|---|---|---|\n".to_owned();
    for Ran {
        target,
        executions,
        seconds,
        coverage,
        finding,
    } in ran
    {
        let rate = *executions as f64 / seconds.max(1.0);
        let found = if finding.is_some() {
            "a failure"
        } else {
            "nothing"
        };
        let _ = writeln!(
            text,
            "| `{target}` | {executions} | {seconds:.0} | {rate:.0} | {coverage} | {found} |"
        );
    }
    let sum: u64 = ran.iter().map(|ran| ran.executions).sum();
    let _ = writeln!(text, "{sum} executions");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coverage_is_read_from_a_line_of_progress() {
        assert_eq!(
            coverage("cov: 412 ft: 1817 corp: 90/3Kb exec/s: 12"),
            "412 (1817)"
        );
        assert_eq!(coverage("nothing"), "");
    }

    #[test]
    fn every_field_is_a_word_of_the_dictionary() {
        let words = words();
        assert!(
            words.contains(r#""\x0a/spec/runPolicy/suspend true""#),
            "{words}"
        );
        assert!(
            words
                .lines()
                .all(|line| line.starts_with('"') && line.ends_with('"'))
        );
    }
}
