//! Waiting for objects of a cluster by watching them: no state is missed between two looks, and a
//! waiting test costs no processor time. Must not know what the objects mean.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::{Deserializer, Value};

use super::ClusterFixture;

/// Objects by name, as last seen.
pub type Seen = BTreeMap<String, Value>;

impl ClusterFixture {
    /// Calls `look` whenever one of the objects appears or changes, until it finds something. It is
    /// not called while there are none, so it cannot wait for the last one to go.
    pub fn watch<T>(
        &self,
        what: &str,
        query: &[&str],
        at_most: Duration,
        mut look: impl FnMut(&Seen) -> Result<Option<T>>,
    ) -> Result<T> {
        let start = Instant::now();
        let mut seen = Seen::new();
        // A watch may end before its time, as any connection; the next one starts over.
        while let Some(left) = at_most
            .checked_sub(start.elapsed())
            .filter(|left| !left.is_zero())
        {
            seen.clear();
            let mut watching = Watching::start(self, query, left)?;
            let stdout = watching.0.stdout.take().expect("its output was piped");
            for event in Deserializer::from_reader(BufReader::new(stdout)).into_iter::<Value>() {
                let Ok(event) = event else { break };
                if start.elapsed() >= at_most {
                    break;
                }
                apply(&mut seen, event);
                if let Some(found) = look(&seen).with_context(|| format!("waiting for {what}"))? {
                    return Ok(found);
                }
            }
            watching.expect_not_refused(&seen)?;
        }
        bail!("timed out after {at_most:?}: {what}");
    }
}

fn apply(seen: &mut Seen, mut event: Value) {
    let object = event["object"].take();
    let name = object["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    if event["type"] == "DELETED" {
        seen.remove(&name);
    } else {
        seen.insert(name, object);
    }
}

/// Every state of some objects since a moment, for what must hold at all times.
pub struct Recording {
    file: PathBuf,
    _watching: Watching,
}

impl Recording {
    /// From now on, and as the objects are now.
    pub fn start(fixture: &ClusterFixture, query: &[&str]) -> Result<Self> {
        let name = format!("{}-{}.json", fixture.namespace, query.join("-"));
        let file = std::env::temp_dir().join(name);
        let out = File::create(&file).with_context(|| format!("making {}", file.display()))?;
        let mut command = command(fixture, query, &[]);
        let watching = command.stdout(out).spawn().context("starting kubectl")?;
        Ok(Self {
            file,
            _watching: Watching(watching),
        })
    }

    /// The events so far, in their order. One that is still being written is left out.
    pub fn events(&self) -> Result<Vec<Value>> {
        let text = fs::read_to_string(&self.file)?;
        let events = Deserializer::from_str(&text).into_iter::<Value>();
        Ok(events.map_while(Result::ok).collect())
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        // Whoever removed it before did what this does.
        let _ = fs::remove_file(&self.file);
    }
}

/// What prints the objects as JSON, now and after each change.
fn command(fixture: &ClusterFixture, query: &[&str], more: &[&str]) -> Command {
    let format = ["--watch", "--output-watch-events", "--output=json"];
    let get = ["get", "--namespace", &fixture.namespace];
    let args = [&get[..], query, &format, more].concat();
    let mut command = fixture.cluster.command(&args);
    command.stdin(Stdio::null());
    command
}

/// A kubectl that ends with this value.
struct Watching(Child);

impl Watching {
    fn start(fixture: &ClusterFixture, query: &[&str], at_most: Duration) -> Result<Self> {
        // Longer than our own patience, so that it is never what ends the wait early.
        let limit = format!("--request-timeout={}s", at_most.as_secs() + 1);
        let mut command = command(fixture, query, &[&limit]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self(command.spawn().context("starting kubectl")?))
    }

    /// What was refused without having seen anything would be refused again.
    fn expect_not_refused(&mut self, seen: &Seen) -> Result<()> {
        // It may still run, if it was our patience that ended.
        let _ = self.0.kill();
        let status = self.0.wait().context("waiting for kubectl")?;
        let mut said = String::new();
        if let Some(mut stderr) = self.0.stderr.take() {
            stderr
                .read_to_string(&mut said)
                .context("reading what kubectl says")?;
        }
        if status.code().is_some_and(|code| code != 0) && seen.is_empty() {
            bail!("kubectl get --watch: {}", said.trim());
        }
        Ok(())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // The only way to fail is that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
