//! Which API groups the cluster serves. Few clusters serve all of ours, and a missing one may be
//! installed later: one request asks for all of them. Decides when to ask again.

use std::collections::BTreeSet;
use std::time::Duration;

use serde::Deserialize;
use tokio::sync::watch;

use crate::api::Api;
use crate::backoff::doubled;

/// Between two requests: short at first, because new RBAC rules take a moment to apply, then four times as
/// long each time.
const FIRST: Duration = Duration::from_secs(1);
const MAX: Duration = Duration::from_secs(120);

/// The groups, as last seen.
#[derive(Debug, Default)]
pub(crate) struct Discovery(watch::Sender<Seen>);

/// One look.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// Unknown before the first answer, and where nobody may ask.
    groups: Option<BTreeSet<String>>,
}

impl Seen {
    /// The group is served, as far as we know.
    pub(crate) fn may_serve(&self, group: &str) -> bool {
        self.groups
            .as_ref()
            .is_none_or(|groups| groups.contains(group))
    }
}

impl Discovery {
    /// A receiver of all further looks.
    pub(crate) fn looks(&self) -> watch::Receiver<Seen> {
        self.0.subscribe()
    }

    /// Looks again and again, as long as somebody waits for a group.
    pub(crate) async fn run(&self, api: &Api) {
        let mut wait = None;
        while self.0.receiver_count() > 0 {
            let groups = groups(api).await;
            self.0.send_replace(Seen { groups });
            let next = doubled(wait, FIRST, MAX);
            tokio::time::sleep(next).await;
            wait = Some(doubled(Some(next), FIRST, MAX));
        }
    }
}

/// Without an answer, each API is asked for by itself.
async fn groups(api: &Api) -> Option<BTreeSet<String>> {
    #[derive(Deserialize)]
    struct Groups {
        groups: Vec<Group>,
    }
    #[derive(Deserialize)]
    struct Group {
        name: String,
    }
    let request = http::Request::get("/apis").body(Vec::new()).ok()?;
    let text = api.send(Ok(request)).await.ok()?;
    let groups: Groups = serde_json::from_str(&text).ok()?;
    Some(groups.groups.into_iter().map(|group| group.name).collect())
}
