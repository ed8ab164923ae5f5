//! Flyte as its users meet it: flytekit writes the template of a task, and Flyte's own backend plugin
//! makes the job of it and reads the task's phase from the live job. Decides where those programs are
//! and how they are called; must not know any cluster.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::operator::repository;

/// The template of a task, in a file, with what flytekit wrote beside it.
#[derive(Debug)]
pub struct Template {
    directory: PathBuf,
}

/// What Flyte makes of a job's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phase {
    /// Flyte's word, without the prefix that all of them have.
    pub phase: String,
    /// Why it is so.
    pub reason: String,
    /// What the user is told of a failure.
    pub message: String,
}

impl Template {
    /// A task of `e2e/flyte/tasks.py` that runs in this image.
    pub fn of_task(task: &str, image: &str) -> Result<Self> {
        static COUNT: AtomicUsize = AtomicUsize::new(1);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("muster-flyte-{}-{count}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory).with_context(|| format!("making {}", directory.display()))?;
        let template = Self { directory };
        let output = Command::new(program("MUSTER_E2E_FLYTEKIT")?)
            .arg(repository().join("e2e/flyte/tasks.py"))
            .args([task, image])
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("TMPDIR", &template.directory)
            .output()
            .context("starting flytekit")?;
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            bail!("flytekit does not serialise task {task}: {said}");
        }
        fs::write(template.file(), output.stdout).context("writing a template")?;
        Ok(template)
    }

    fn file(&self) -> PathBuf {
        self.directory.join("template.pb")
    }

    /// The job that Flyte would create.
    pub fn build(&self, namespace: &str, name: &str) -> Result<Value> {
        let file = self.file();
        call(&["build", &file.to_string_lossy(), namespace, name], None)
    }

    /// The phase of the task whose job this is. Flyte gives up on a task whose phase is an error.
    pub fn phase(&self, job: &Value) -> Result<Phase> {
        let said = call(&["phase", &self.file().to_string_lossy()], Some(job))?;
        let text = |key: &str| said[key].as_str().unwrap_or_default().to_owned();
        Ok(Phase {
            phase: text("phase").trim_start_matches("Phase").to_owned(),
            reason: text("reason"),
            message: text("message"),
        })
    }
}

impl Drop for Template {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// What Flyte writes back when it is done with a job: without its finalizer, and without whatever its
/// Go types do not know.
pub fn finalized(job: &Value) -> Result<Value> {
    call(&["finalize"], Some(job))
}

/// A program that `cargo xtask test` has made ready.
pub fn program(variable: &str) -> Result<PathBuf> {
    let path = std::env::var_os(variable);
    let path = path.with_context(|| {
        format!("{variable} is not set: run these tests with `cargo xtask test`, which sets it")
    })?;
    Ok(path.into())
}

fn call(words: &[&str], input: Option<&Value>) -> Result<Value> {
    let mut child = Command::new(program("MUSTER_E2E_FLYTE")?)
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("starting Flyte's plugin")?;
    let mut stdin = child.stdin.take().expect("its input was piped");
    let input = input.map(Value::to_string).unwrap_or_default();
    let writer = thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child
        .wait_with_output()
        .context("waiting for Flyte's plugin")?;
    // One that refuses its words does not read its input.
    drop(writer.join());
    if !output.status.success() {
        // Its log comes first, its last line is the error.
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{}", said.trim().lines().last().unwrap_or_default());
    }
    serde_json::from_slice(&output.stdout).context("Flyte's plugin printed something else")
}
