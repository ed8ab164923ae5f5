//! The cluster that a command talks to: a real one by kubeconfig, the one of `muster up`, or the
//! records of earlier local runs. Decides which, and turns API errors into sentences that say what
//! to do.

mod following;
mod look_back;
mod watched;

use std::path::Path;
use std::pin::Pin;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use contract::labels::JOB_UID_LABEL;
use futures::TryStreamExt as _;
use futures::io::AsyncBufRead;
use k8s_openapi::api::core::v1::{Event, Pod};
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, LogParams, PostParams,
    Preconditions, WatchParams,
};
use kube::config::{KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::core::discovery::Scope;
use kube::{Client, Config};
use serde_json::Value;

use crate::args::Global;
use crate::exit::{self, Failure};
use crate::manifest::{self, Api};
use crate::state::{self, Record};
use crate::view::{JobView, PodView};
pub(crate) use following::{Change, Pauses, Target, follow};
pub(crate) use watched::{Bell, Watched};

/// Seconds after which an API server ends a watch.
const WATCH_SECS: u32 = 60;
/// Who may read a job and not watch it looks this often.
const UNWATCHED_PAUSE: Duration = Duration::from_secs(2);

/// Stands for the name of the last run on this machine.
const LAST: &str = "@last";

/// A container's log, to be read line by line.
pub(crate) type LogReader = Pin<Box<dyn AsyncBufRead + Send>>;

/// Where jobs are.
pub(crate) struct Backend {
    source: Source,
    pub(crate) namespace: String,
    address: Address,
}

/// How the next command finds a job that this one has found.
enum Address {
    /// It is the last run on this machine.
    Last,
    /// By its name and these flags.
    Flags(String),
}

enum Source {
    Live(Client),
    /// Runs on this machine, newest first.
    Records(Vec<Record>),
}

impl Backend {
    /// The backend that the flags select. `@last` is always on this machine.
    pub(crate) async fn connect(global: &Global, name: Option<&str>) -> Result<Self> {
        let named = || global.namespace.clone();
        if name == Some(LAST) || (global.local && !state::up_is_alive()) {
            let records = state::records()?;
            return Ok(Self {
                source: Source::Records(records),
                namespace: named().unwrap_or_else(|| "default".to_owned()),
                address: match name {
                    Some(LAST) => Address::Last,
                    _ => Address::Flags(flags(global)),
                },
            });
        }
        let config = if global.local {
            config_of_up().await?
        } else {
            configured(global).await?
        };
        let namespace = named().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("cannot make a client for the cluster")?;
        Ok(Self {
            source: Source::Live(client),
            namespace,
            address: Address::Flags(flags(global)),
        })
    }

    /// The cluster of `muster run`, of which only a record will be left.
    pub(crate) fn of_run(client: Client, namespace: String) -> Self {
        Self {
            source: Source::Live(client),
            namespace,
            address: Address::Last,
        }
    }

    /// What to write after a command of muster, so that it finds this job in the same place.
    pub(crate) fn address(&self, name: &str) -> String {
        match &self.address {
            Address::Last => LAST.to_owned(),
            Address::Flags(flags) => format!("{name}{flags}"),
        }
    }

    /// Every job, in every dialect; of all namespaces when `all`.
    pub(crate) async fn jobs(&self, all: bool, selector: &str) -> Result<Vec<Value>> {
        let client = match &self.source {
            Source::Live(client) => client,
            Source::Records(records) => {
                let jobs = records.iter().flat_map(Record::jobs);
                return Ok(jobs.cloned().collect());
            }
        };
        let namespace = (!all).then_some(self.namespace.as_str());
        let mut jobs = Vec::new();
        for dialect in stored() {
            let api = api(client, &resource(dialect), namespace);
            for mut job in list(&api, &ListParams::default().labels(selector)).await? {
                job["apiVersion"] = manifest::api_version(dialect).into();
                job["kind"] = dialect.kind.into();
                jobs.push(job);
            }
        }
        Ok(jobs)
    }

    /// One job by NAME, TYPE/NAME or @last.
    pub(crate) async fn job(&self, name: &str) -> Result<Value> {
        let found = self.find(name).await?;
        found.ok_or_else(|| {
            let short = name.rsplit('/').next().unwrap_or(name);
            let namespace = &self.namespace;
            let text = format!(
                "there is no job {short} in namespace {namespace}; `muster get -A` lists all jobs"
            );
            Failure::new(exit::FAILED, text)
        })
    }

    /// The same, or nothing if the cluster has no job of that name.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<Value>> {
        let client = match &self.source {
            Source::Live(client) => client,
            Source::Records(records) => return recorded(records, name).map(Some),
        };
        let (kind, short) = name.split_once('/').unwrap_or(("", name));
        let mut found = Vec::new();
        for dialect in stored().filter(|dialect| is_called(dialect, kind)) {
            let api = api(client, &resource(dialect), Some(&self.namespace));
            match api.get(short).await {
                Ok(job) => found.push(serde_json::to_value(job)?),
                // No job of this name, or no such kind in this cluster.
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                Err(error) => return Err(explain(error, &format!("read {name}"))),
            }
        }
        match found.len() {
            0 | 1 => Ok(found.pop()),
            _ => {
                let names: Vec<String> = found.iter().map(manifest::typed_name).collect();
                let text = format!(
                    "{} have the same name; use one of these instead of {short}",
                    names.join(" and ")
                );
                Err(Failure::new(exit::USAGE, text))
            }
        }
    }

    pub(crate) async fn pods(&self, job: JobView<'_>) -> Result<Vec<Value>> {
        match &self.source {
            Source::Live(client) => {
                let api = api(
                    client,
                    &ApiResource::erase::<Pod>(&()),
                    Some(job.namespace()),
                );
                let selector = format!("{JOB_UID_LABEL}={}", job.uid());
                list(&api, &ListParams::default().labels(&selector)).await
            }
            Source::Records(records) => {
                let record = records.iter().find(|record| record.holds(job));
                let pods = record.into_iter().flat_map(|record| &record.pods);
                let own = pods.filter(|pod| PodView(pod).job_uid() == job.uid());
                Ok(own.cloned().collect())
            }
        }
    }

    /// Events about a job, oldest first.
    pub(crate) async fn events(&self, job: JobView<'_>) -> Result<Vec<Value>> {
        let mut events = match &self.source {
            Source::Live(client) => {
                let api = api(
                    client,
                    &ApiResource::erase::<Event>(&()),
                    Some(job.namespace()),
                );
                let selector = format!("involvedObject.uid={}", job.uid());
                list(&api, &ListParams::default().fields(&selector)).await?
            }
            Source::Records(records) => {
                let record = records.iter().find(|record| record.holds(job));
                let events = record.map(|record| record.events.clone());
                events.unwrap_or_default()
            }
        };
        events.retain(|event| event["involvedObject"]["uid"] == job.uid());
        events.sort_by_key(|event| event_time(event).to_owned());
        Ok(events)
    }

    /// The log of a container.
    pub(crate) async fn log(&self, pod: PodView<'_>, params: &LogParams) -> Result<LogReader> {
        match &self.source {
            Source::Live(client) => {
                let pods: kube::Api<Pod> = kube::Api::namespaced(client.clone(), pod.namespace());
                let stream = pods.log_stream(pod.name(), params).await;
                let doing = || format!("read the log of {}", pod.name());
                Ok(Box::pin(stream.map_err(|error| explain(error, &doing()))?))
            }
            Source::Records(records) => {
                let uid = &pod.0["metadata"]["uid"];
                let is_own = |own: &Value| own["metadata"]["uid"] == *uid;
                let mut records = records.iter();
                let record = records.find(|record| record.pods.iter().any(is_own));
                let record = record.context("the run of this pod is not recorded")?;
                let text = record.log(pod.0, params)?;
                Ok(Box::pin(futures::io::Cursor::new(text)))
            }
        }
    }

    /// Creates an object as it was written.
    pub(crate) async fn create(&self, object: &Value, dry_run: bool) -> Result<Value> {
        let client = self.live()?;
        let namespace = manifest::namespace(object).unwrap_or(&self.namespace);
        let name = manifest::typed_name(object);
        let doing = format!("create {name} in namespace {namespace}");
        let (version, kind) = (
            manifest::text(object, "apiVersion"),
            manifest::text(object, "kind"),
        );
        let (group, version) = version.split_once('/').unwrap_or(("", version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let (resource, capabilities) = kube::discovery::pinned_kind(client, &kind)
            .await
            .map_err(|error| explain(error, &doing))?;
        let object: DynamicObject = serde_json::from_value(object.clone())
            .with_context(|| format!("cannot {doing}: its metadata is malformed"))?;
        let namespace = (capabilities.scope == Scope::Namespaced).then_some(namespace);
        let params = PostParams {
            dry_run,
            field_manager: Some("muster".to_owned()),
        };
        let created = api(client, &resource, namespace)
            .create(&params, &object)
            .await
            .map_err(|error| explain(error, &doing))?;
        Ok(serde_json::to_value(created)?)
    }

    /// Deletes a job and what it owns.
    pub(crate) async fn delete(&self, job: JobView<'_>) -> Result<()> {
        let api = self.api_of(job)?;
        let params = DeleteParams::background().preconditions(Preconditions {
            uid: Some(job.uid().to_owned()),
            resource_version: None,
        });
        let deleted = api.delete(job.name(), &params).await;
        deleted.map_err(|error| explain(error, &format!("delete {}", job.name())))?;
        Ok(())
    }

    /// Waits until the job changes; an error of the watch counts as a change, after a pause.
    pub(crate) async fn changed(&self, job: JobView<'_>) -> Result<()> {
        if self.is_recorded() {
            return Ok(());
        }
        let params = WatchParams::default()
            .fields(&format!("metadata.name={}", job.name()))
            .timeout(WATCH_SECS)
            .disable_bookmarks();
        let version = job.0["metadata"]["resourceVersion"].as_str().unwrap_or("");
        let is_watched = match self.api_of(job)?.watch(&params, version).await {
            Ok(events) => {
                futures::pin_mut!(events);
                events.try_next().await.is_ok()
            }
            Err(_) => false,
        };
        if !is_watched {
            tokio::time::sleep(UNWATCHED_PAUSE).await;
        }
        Ok(())
    }

    /// Whether a record is all there is: nothing will change any more.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(self.source, Source::Records(_))
    }

    fn api_of(&self, job: JobView<'_>) -> Result<kube::Api<DynamicObject>> {
        let dialect = manifest::api(job.0).context("not a job that muster knows")?;
        Ok(api(self.live()?, &resource(dialect), Some(job.namespace())))
    }

    fn live(&self) -> Result<&Client> {
        match &self.source {
            Source::Live(client) => Ok(client),
            Source::Records(_) => Err(Failure::new(
                exit::FAILED,
                "no local cluster runs; `muster up` starts one, `muster run FILE` runs one job",
            )),
        }
    }
}

fn recorded(records: &[Record], name: &str) -> Result<Value> {
    let short = name.rsplit('/').next().unwrap_or(name);
    let mut jobs = records.iter().flat_map(Record::jobs);
    let (found, text) = match short {
        LAST => (
            jobs.next(),
            "no job has been run on this machine yet: `muster run FILE`".to_owned(),
        ),
        _ => (
            jobs.find(|job| manifest::name(job) == short),
            format!("no local run of {short} is recorded; `muster get --local` lists them"),
        ),
    };
    found
        .cloned()
        .ok_or_else(|| Failure::new(exit::FAILED, text))
}

async fn configured(global: &Global) -> Result<Config> {
    let read = match &global.kubeconfig {
        Some(path) => Kubeconfig::read_from(path),
        None => Kubeconfig::read(),
    };
    let file = match read {
        Ok(file) => file,
        Err(KubeconfigError::ReadConfig(..) | KubeconfigError::FindPath) if !is_named(global) => {
            return Config::incluster().map_err(|_| {
                anyhow!(
                    "no cluster configured: looked at $KUBECONFIG (unset), ~/.kube/config \
                     (absent), in-cluster (no)\n  do: set one, use --local, or run here: muster \
                     run FILE"
                )
            });
        }
        Err(error) => return Err(error).context("cannot read the kubeconfig"),
    };
    let options = KubeConfigOptions {
        context: global.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(file, &options).await;
    config.context("the kubeconfig names no usable cluster")
}

/// The flags that choose a place to look for jobs, as the user gave them.
fn flags(global: &Global) -> String {
    let mut flags = String::new();
    if global.local {
        flags += " --local";
    }
    let kubeconfig = global.kubeconfig.as_ref();
    let kubeconfig = kubeconfig.map(|path| path.display().to_string());
    for (flag, value) in [
        ("namespace", &global.namespace),
        ("context", &global.context),
        ("kubeconfig", &kubeconfig),
    ] {
        if let Some(value) = value {
            flags += &format!(" --{flag} {value}");
        }
    }
    flags
}

/// Whether the user said which kubeconfig to read.
fn is_named(global: &Global) -> bool {
    let variable = std::env::var_os("KUBECONFIG");
    global.kubeconfig.is_some() || variable.is_some_and(|paths| !paths.is_empty())
}

/// How to reach the cluster of `muster up`.
pub(crate) async fn config_of_up() -> Result<Config> {
    let path = state::up_kubeconfig()?;
    let cannot = |path: &Path| format!("cannot use the kubeconfig {}", path.display());
    let file = Kubeconfig::read_from(&path).with_context(|| cannot(&path))?;
    let config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
    config.with_context(|| cannot(&path))
}

fn api(
    client: &Client,
    resource: &ApiResource,
    namespace: Option<&str>,
) -> kube::Api<DynamicObject> {
    match namespace {
        Some(namespace) => kube::Api::namespaced_with(client.clone(), namespace, resource),
        None => kube::Api::all_with(client.clone(), resource),
    }
}

/// None where the cluster does not serve their kind.
async fn list(api: &kube::Api<DynamicObject>, params: &ListParams) -> Result<Vec<Value>> {
    let objects = match api.list(params).await {
        Ok(list) => list.items,
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(explain(error, &format!("list {}", api.resource_url()))),
    };
    let objects = objects.into_iter().map(serde_json::to_value);
    Ok(objects.collect::<Result<_, _>>()?)
}

/// Somebody may not do it, now or later.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Refused(String);

/// Trying again would not help.
pub(crate) fn is_refused(error: &anyhow::Error) -> bool {
    error.is::<Refused>()
}

/// An API error as a sentence, with what to do where that is known.
fn explain(error: kube::Error, doing: &str) -> anyhow::Error {
    let advice = "\n  do: install muster there, or run here: muster run FILE";
    match error {
        kube::Error::Api(status) if matches!(status.code, 401 | 403) => {
            anyhow!(Refused(format!("you may not {doing}: {}", status.message)))
        }
        kube::Error::Api(status) if status.code == 404 => {
            anyhow!("cannot {doing}: {}{advice}", status.message)
        }
        kube::Error::Api(status) => anyhow!("cannot {doing}: {}", status.message),
        kube::Error::Discovery(_) => {
            anyhow!("cannot {doing}: the cluster does not serve this kind{advice}")
        }
        other => anyhow!(other).context(format!("cannot {doing}")),
    }
}

/// Of an event: the last time it happened.
pub(crate) fn event_time(event: &Value) -> &str {
    ["lastTimestamp", "eventTime", "firstTimestamp"]
        .iter()
        .find_map(|field| event[*field].as_str())
        .unwrap_or("")
}

fn stored() -> impl Iterator<Item = &'static Api> {
    manifest::apis().iter().filter(|api| api.is_stored)
}

fn is_called(dialect: &Api, kind: &str) -> bool {
    let singular = dialect.kind.to_lowercase();
    let (name, group) = kind.split_once('.').unwrap_or((kind, ""));
    (name.is_empty() || name == singular || name == dialect.plural)
        && (group.is_empty() || group == dialect.group)
}

fn resource(dialect: &Api) -> ApiResource {
    let kind = GroupVersionKind::gvk(dialect.group, dialect.version, dialect.kind);
    ApiResource::from_gvk_with_plural(&kind, dialect.plural)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn the_next_command_looks_where_this_one_did() {
        for (words, expected) in [
            (&["get"][..], ""),
            (&["get", "--local"], " --local"),
            (
                &["get", "-n", "lab", "--context", "big", "--kubeconfig", "k"],
                " --namespace lab --context big --kubeconfig k",
            ),
        ] {
            let cli = Cli::parse_from(["muster"].iter().chain(words));
            assert_eq!(flags(&cli.global), expected);
        }
    }
}
