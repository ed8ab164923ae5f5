//! What a report needs of a place beside jobs and pods: the events of both, runs that are over, and records as they are
//! now. Must not know what a report shows.

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::Result;
use k8s_openapi::api::core::v1::Event;
use kube::api::{ApiResource, ListParams};
use serde_json::Value;

use super::{Address, Backend, Source, api, event_time, list};
use crate::state::{self, Record};
use crate::view::{JobView, PodView};

impl Backend {
    /// A run that is over, the last one on this machine.
    pub(crate) fn of_record(record: Record) -> Self {
        Self {
            source: Source::Records(vec![record]),
            namespace: "default".to_owned(),
            address: Address::Last,
        }
    }

    /// The same place, as it is now: records are read anew.
    pub(crate) fn renewed(&self) -> Result<Self> {
        let source = match &self.source {
            Source::Live(client) => Source::Live(client.clone()),
            Source::Records(_) => Source::Records(state::records()?),
        };
        let address = match &self.address {
            Address::Last => Address::Last,
            Address::Flags(flags) => Address::Flags(flags.clone()),
        };
        let namespace = self.namespace.clone();
        Ok(Self {
            source,
            namespace,
            address,
        })
    }

    /// Events about a job and about these pods, oldest first.
    pub(crate) async fn all_events(&self, job: JobView<'_>, pods: &[Value]) -> Result<Vec<Value>> {
        let mut events = self.events(job).await?;
        let uids: BTreeSet<&str> = pods
            .iter()
            .filter_map(|pod| pod["metadata"]["uid"].as_str())
            .collect();
        let of_pods = match &self.source {
            Source::Live(_) if uids.is_empty() => Vec::new(),
            Source::Live(client) => {
                let api = api(
                    client,
                    &ApiResource::erase::<Event>(&()),
                    Some(job.namespace()),
                );
                list(
                    &api,
                    &ListParams::default().fields("involvedObject.kind=Pod"),
                )
                .await?
            }
            Source::Records(records) => {
                let record = records.iter().find(|record| record.holds(job));
                record
                    .map(|record| record.events.clone())
                    .unwrap_or_default()
            }
        };
        let is_own = |event: &Value| {
            let uid = event["involvedObject"]["uid"].as_str();
            uid.is_some_and(|uid| uids.contains(uid))
        };
        events.extend(of_pods.into_iter().filter(is_own));
        events.sort_by_key(|event| event_time(event).to_owned());
        Ok(events)
    }

    /// The directory that changes when a recorded pod writes into its log.
    pub(crate) fn log_directory(&self, pod: PodView<'_>) -> Option<PathBuf> {
        let Source::Records(records) = &self.source else {
            return None;
        };
        let container = pod.main_container();
        let mut records = records.iter().filter(|record| {
            record
                .pods
                .iter()
                .any(|own| own["metadata"]["uid"] == pod.0["metadata"]["uid"])
        });
        records.next()?.log_directory(pod.0, container)
    }
}
