//! The cluster that a verb speaks to: a real one by kubeconfig, the one of `muster up`, or what a
//! local run left behind. Decides where that is, and turns refusals into sentences.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use futures::io::AsyncBufRead;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::Value;

use crate::args::Global;
use crate::exit::{self, Failure};
use crate::manifest::{self, Api};
use crate::state::{self, Record};
use crate::view::{JobView, PodView};

/// Where jobs are.
pub(crate) struct Backend {
    source: Source,
    pub(crate) namespace: String,
}

enum Source {
    Live(Client),
    /// Runs of this machine, newest first.
    Records(Vec<Record>),
}

/// Which part of a log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LogOptions {
    pub(crate) container: String,
    pub(crate) follow: bool,
    pub(crate) tail: Option<u64>,
    pub(crate) since_secs: Option<u64>,
    pub(crate) previous: bool,
    pub(crate) timestamps: bool,
}

impl Backend {
    /// The backend that the flags name. `@last` is always on this machine.
    pub(crate) async fn connect(global: &Global, name: Option<&str>) -> Result<Self> {
        let named = || global.namespace.clone();
        if name == Some("@last") || (global.local && !state::up_is_alive()) {
            let records = state::records()?;
            return Ok(Self {
                source: Source::Records(records),
                namespace: named().unwrap_or_else(|| "default".to_owned()),
            });
        }
        let config = if global.local {
            from_file(&state::up_kubeconfig()?, None).await?
        } else {
            configured(global).await?
        };
        let namespace = named().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).context("cannot make a client for the cluster")?;
        Ok(Self::of(client, namespace))
    }

    /// A backend behind a client.
    pub(crate) fn of(client: Client, namespace: String) -> Self {
        Self {
            source: Source::Live(client),
            namespace,
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
        let mut jobs = Vec::new();
        for dialect in stored() {
            let mut path = collection(dialect, (!all).then_some(self.namespace.as_str()));
            if !selector.is_empty() {
                path += &format!("?labelSelector={}", encoded(selector));
            }
            let Some(list) = get(client, &path).await? else {
                continue;
            };
            for item in list["items"].as_array().into_iter().flatten() {
                let mut item = item.clone();
                item["apiVersion"] = manifest::api_version(dialect).into();
                item["kind"] = dialect.kind.into();
                jobs.push(item);
            }
        }
        Ok(jobs)
    }

    /// One job by NAME, TYPE/NAME or @last.
    pub(crate) async fn job(&self, name: &str) -> Result<Value> {
        let client = match &self.source {
            Source::Live(client) => client,
            Source::Records(records) => return recorded(records, name),
        };
        let (kind, short) = name.split_once('/').unwrap_or(("", name));
        let mut found = Vec::new();
        for dialect in stored().filter(|dialect| is_called(dialect, kind)) {
            let path = collection(dialect, Some(&self.namespace));
            found.extend(get(client, &format!("{path}/{}", encoded(short))).await?);
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(Failure {
                code: exit::FAILED,
                text: format!(
                    "there is no job {short} in namespace {}; `muster get -A` lists all",
                    self.namespace
                ),
            }
            .into()),
            _ => {
                let names: Vec<String> =
                    found.iter().map(crate::verbs::render::typed_name).collect();
                let text = format!("{short} is the name of {}: say which", names.join(" and "));
                Err(Failure::usage(text).into())
            }
        }
    }

    /// Pods of a job.
    pub(crate) async fn pods(&self, job: JobView<'_>) -> Result<Vec<Value>> {
        match &self.source {
            Source::Live(client) => {
                let selector = format!("{}={}", contract::labels::JOB_NAME_LABEL, job.name());
                let namespace = encoded(job.namespace());
                let path = format!(
                    "/api/v1/namespaces/{namespace}/pods?labelSelector={}",
                    encoded(&selector)
                );
                let list = get(client, &path).await?.unwrap_or_default();
                Ok(list["items"].as_array().cloned().unwrap_or_default())
            }
            Source::Records(records) => {
                let record = records.iter().find(|record| record.holds(job.0));
                let pods = record.map(|record| record.pods.clone()).unwrap_or_default();
                let own = pods
                    .into_iter()
                    .filter(|pod| PodView(pod).belongs_to(job.name()));
                Ok(own.collect())
            }
        }
    }

    /// Events about a job, oldest first.
    pub(crate) async fn events(&self, job: JobView<'_>) -> Result<Vec<Value>> {
        let uid = job.0["metadata"]["uid"].as_str().unwrap_or("");
        let mut events = match &self.source {
            Source::Live(client) => {
                let path = format!(
                    "/api/v1/namespaces/{}/events?fieldSelector={}",
                    encoded(job.namespace()),
                    encoded(&format!("involvedObject.uid={uid}"))
                );
                let list = get(client, &path).await?.unwrap_or_default();
                list["items"].as_array().cloned().unwrap_or_default()
            }
            Source::Records(records) => {
                let record = records.iter().find(|record| record.holds(job.0));
                record
                    .map(|record| record.events.clone())
                    .unwrap_or_default()
            }
        };
        events.retain(|event| event["involvedObject"]["uid"] == uid);
        events.sort_by_key(|event| event_time(event).to_owned());
        Ok(events)
    }

    /// The log of a container, line by line.
    pub(crate) async fn log(
        &self,
        pod: PodView<'_>,
        options: &LogOptions,
    ) -> Result<Box<dyn AsyncBufRead + Send + Unpin>> {
        match &self.source {
            Source::Live(client) => live_log(client, pod, options).await,
            Source::Records(records) => {
                let record = records.iter().find(|record| {
                    let uid = &pod.0["metadata"]["uid"];
                    record.pods.iter().any(|own| own["metadata"]["uid"] == *uid)
                });
                let record = record.context("the run of this pod is not recorded")?;
                let text = record.log(pod.0, options)?;
                Ok(Box::new(futures::io::Cursor::new(text)))
            }
        }
    }

    /// Creates an object as it was written; companions that exist already are left as they are.
    pub(crate) async fn create(&self, object: &Value, dry_run: bool) -> Result<Value> {
        let client = self.live()?;
        let namespace = manifest::namespace(object).unwrap_or(&self.namespace);
        let mut path = plural_path(object, namespace) + "?fieldManager=muster";
        if dry_run {
            path += "&dryRun=All";
        }
        let request = http::Request::post(&path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(object)?)?;
        client.request(request).await.map_err(|error| {
            let name = crate::verbs::render::typed_name(object);
            explain(error, &format!("create {name} in namespace {namespace}"))
        })
    }

    /// Deletes a job and what it owns.
    pub(crate) async fn delete(&self, job: JobView<'_>) -> Result<()> {
        let client = self.live()?;
        let dialect = manifest::api(job.0).context("not a job that muster knows")?;
        let path = format!(
            "{}/{}?propagationPolicy=Background",
            collection(dialect, Some(job.namespace())),
            job.name()
        );
        let body = serde_json::json!({
            "preconditions": {"uid": job.0["metadata"]["uid"]},
        });
        let request = http::Request::delete(&path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body)?)?;
        let _: Value = client
            .request(request)
            .await
            .map_err(|error| explain(error, &format!("delete {}", job.name())))?;
        Ok(())
    }

    /// Waits until the job changes after `version`; an error of the watch counts as a change.
    pub(crate) async fn changed(&self, job: JobView<'_>) -> Result<()> {
        use futures::TryStreamExt as _;
        let Source::Live(client) = &self.source else {
            return Ok(());
        };
        let dialect = manifest::api(job.0).context("not a job that muster knows")?;
        let version = job.0["metadata"]["resourceVersion"].as_str().unwrap_or("");
        let path = format!(
            "{}?watch=1&timeoutSeconds=60&resourceVersion={version}&fieldSelector={}",
            collection(dialect, Some(job.namespace())),
            encoded(&format!("metadata.name={}", job.name()))
        );
        let request = http::Request::get(path).body(Vec::new())?;
        let events = client.request_events::<Value>(request).await;
        let Ok(events) = events else {
            return Ok(());
        };
        futures::pin_mut!(events);
        let _ = events.try_next().await;
        Ok(())
    }

    /// Whether a record is all there is: nothing will change any more.
    pub(crate) fn is_recorded(&self) -> bool {
        matches!(self.source, Source::Records(_))
    }

    fn live(&self) -> Result<&Client> {
        match &self.source {
            Source::Live(client) => Ok(client),
            Source::Records(_) => Err(Failure {
                code: exit::FAILED,
                text: "no local cluster runs; `muster up` starts one, `muster run FILE` runs one \
                       job"
                .to_owned(),
            }
            .into()),
        }
    }
}

fn recorded(records: &[Record], name: &str) -> Result<Value> {
    let short = name.rsplit('/').next().unwrap_or(name);
    let found = match short {
        "@last" => records.first().and_then(|record| record.jobs().next()),
        _ => records
            .iter()
            .flat_map(Record::jobs)
            .find(|job| manifest::name(job) == short),
    };
    found.cloned().ok_or_else(|| {
        let text = match short {
            "@last" => "nothing was run on this machine yet: `muster run FILE`".to_owned(),
            _ => format!("no local run of {short} is recorded; `muster get --local` lists them"),
        };
        Failure {
            code: exit::FAILED,
            text,
        }
        .into()
    })
}

async fn configured(global: &Global) -> Result<Config> {
    let variable = std::env::var_os("KUBECONFIG").filter(|paths| !paths.is_empty());
    let given = global.kubeconfig.clone().or(variable.map(Into::into));
    if let Some(path) = given {
        return from_file(&path, global.context.as_deref()).await;
    }
    let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
    match home.filter(|path| path.exists()) {
        Some(path) => from_file(&path, global.context.as_deref()).await,
        None => Config::incluster().map_err(|_| {
            anyhow!(
                "no cluster configured: looked at $KUBECONFIG (unset), ~/.kube/config (absent), \
                 in-cluster (no)\n  do: set one, use --local, or run here: muster run FILE"
            )
        }),
    }
}

async fn from_file(path: &Path, context: Option<&str>) -> Result<Config> {
    // Variables of this kind may name several files.
    let first = path
        .to_str()
        .and_then(|paths| paths.split(':').find(|path| !path.is_empty()))
        .map_or(path, Path::new);
    let file = Kubeconfig::read_from(first)
        .with_context(|| format!("cannot read the kubeconfig {}", first.display()))?;
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    let config = Config::from_custom_kubeconfig(file, &options).await;
    config.with_context(|| format!("the kubeconfig {} names no usable cluster", first.display()))
}

async fn get(client: &Client, path: &str) -> Result<Option<Value>> {
    let request = http::Request::get(path).body(Vec::new())?;
    match client.request::<Value>(request).await {
        Ok(value) => Ok(Some(value)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(explain(error, &format!("read {path}"))),
    }
}

/// A refusal as a sentence with what to do.
fn explain(error: kube::Error, doing: &str) -> anyhow::Error {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            anyhow!("you may not {doing}: {}", status.message)
        }
        kube::Error::Api(status) if status.code == 404 => anyhow!(
            "cannot {doing}: {}\n  do: install muster there, or run here: muster run FILE",
            status.message
        ),
        kube::Error::Api(status) => anyhow!("cannot {doing}: {}", status.message),
        other => anyhow!(other).context(format!("cannot {doing}")),
    }
}

async fn live_log(
    client: &Client,
    pod: PodView<'_>,
    options: &LogOptions,
) -> Result<Box<dyn AsyncBufRead + Send + Unpin>> {
    let namespace = manifest::namespace(pod.0).unwrap_or("default");
    let mut path = format!(
        "/api/v1/namespaces/{}/pods/{}/log?container={}",
        encoded(namespace),
        encoded(pod.name()),
        encoded(&options.container)
    );
    for (flag, name) in [
        (options.follow, "follow"),
        (options.previous, "previous"),
        (options.timestamps, "timestamps"),
    ] {
        if flag {
            path += &format!("&{name}=true");
        }
    }
    if let Some(lines) = options.tail {
        path += &format!("&tailLines={lines}");
    }
    if let Some(secs) = options.since_secs {
        path += &format!("&sinceSeconds={secs}");
    }
    let request = http::Request::get(path).body(Vec::new())?;
    let stream = client.request_stream(request).await;
    let stream =
        stream.map_err(|error| explain(error, &format!("read the log of {}", pod.name())))?;
    Ok(Box::new(Box::pin(stream)))
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

fn collection(dialect: &Api, namespace: Option<&str>) -> String {
    let base = format!("/apis/{}/{}", dialect.group, dialect.version);
    match namespace {
        Some(namespace) => format!(
            "{base}/namespaces/{}/{}",
            encoded(namespace),
            dialect.plural
        ),
        None => format!("{base}/{}", dialect.plural),
    }
}

fn plural_path(object: &Value, namespace: &str) -> String {
    let version = manifest::text(object, "apiVersion");
    let base = match version.contains('/') {
        true => format!("/apis/{version}"),
        false => format!("/api/{version}"),
    };
    let kind = manifest::text(object, "kind").to_lowercase();
    let plural = match kind.strip_suffix('y') {
        Some(stem) if !stem.ends_with(['a', 'e', 'o']) => format!("{stem}ies"),
        _ if kind.ends_with('s') => format!("{kind}es"),
        _ => format!("{kind}s"),
    };
    match kind.as_str() {
        "namespace" | "persistentvolume" | "clusterrole" | "clusterrolebinding"
        | "storageclass" | "priorityclass" => format!("{base}/{plural}"),
        _ => format!("{base}/namespaces/{}/{plural}", encoded(namespace)),
    }
}

/// A part of a URL.
fn encoded(text: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    text.bytes()
        .map(|byte| match plain(&byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        })
        .collect()
}
