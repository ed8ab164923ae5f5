//! Which gang schedulers the cluster has, told by the APIs that it serves. Decides when the cluster is asked
//! again; which of them a job gets is for `found_gang`.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use planner::Kind;
use planner::site::GangApi;
use serde::Deserialize;
use tokio::time::Instant;

use crate::api::Api;
use crate::api_error::ApiError;
use crate::wire;

/// A scheduler that was installed, or removed, is noticed after this long.
const KEPT: Duration = Duration::from_secs(60);

/// The APIs that the cluster serves, as last seen.
#[derive(Debug, Default)]
pub(crate) struct GangApis(Mutex<Option<(Vec<GangApi>, Instant)>>);

impl GangApis {
    /// Those that are served, the preferred one first.
    pub(crate) async fn served(&self, api: &Api) -> Result<Vec<GangApi>, ApiError> {
        let known = self.lock().clone();
        if let Some((served, at)) = known
            && at.elapsed() < KEPT
        {
            return Ok(served);
        }
        let mut served = Vec::new();
        for gang in GangApi::BY_PREFERENCE {
            if is_served(api, gang).await? {
                served.push(gang);
            }
        }
        *self.lock() = Some((served.clone(), Instant::now()));
        Ok(served)
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Vec<GangApi>, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The group alone proves nothing: Kubernetes has priority classes in that of its PodGroups.
async fn is_served(api: &Api, gang: GangApi) -> Result<bool, ApiError> {
    #[derive(Deserialize)]
    struct Resources {
        resources: Vec<Resource>,
    }
    #[derive(Deserialize)]
    struct Resource {
        name: String,
    }
    let (group, version) = gang.group_version();
    let request = http::Request::get(format!("/apis/{group}/{version}")).body(Vec::new());
    let request = request.map_err(kube::core::request::Error::BuildRequest);
    let text = match api.send(request).await {
        Ok(text) => text,
        Err(error) if error.code() == Some(404) => return Ok(false),
        Err(error) => return Err(error),
    };
    let listed: Resources = serde_json::from_str(&text).map_err(ApiError::Unreadable)?;
    let plural = wire::resource(&Kind::PodGroup(gang)).plural;
    Ok(listed.resources.iter().any(|one| one.name == plural))
}
