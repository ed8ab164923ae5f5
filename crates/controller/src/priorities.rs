//! Values of priority classes, asked for when a template names one. Few exist and their values
//! cannot be changed, so an answer is kept for a while and nothing is watched.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use kube::Resource as _;
use kube::api::GetParams;
use kube::core::{DynamicObject, Request};
use serde_json::Value;
use tokio::time::Instant;

use crate::api::Api;
use crate::api_error::ApiError;
use crate::error::chain;
use crate::wire::named_resource;

/// A class that was deleted and created again with another value is noticed after this long.
const KEPT: Duration = Duration::from_secs(60);

/// Known values.
#[derive(Debug, Default)]
pub(crate) struct Priorities(Mutex<HashMap<String, (Option<i32>, Instant)>>);

impl Priorities {
    /// The value of a class, if it exists.
    pub(crate) async fn value(&self, api: &Api, class: &str) -> Option<i32> {
        if let Some((value, at)) = self.lock().get(class).copied()
            && at.elapsed() < KEPT
        {
            return value;
        }
        let value = match ask(api, class).await {
            Ok(value) => value,
            Err(error) if error.code() == Some(404) => None,
            Err(error) => {
                tracing::warn!(
                    class,
                    error = chain(&error),
                    "cannot read the priority class"
                );
                // Without an answer, the last one stays valid.
                return self.lock().get(class).and_then(|(value, _)| *value);
            }
        };
        let mut known = self.lock();
        known.retain(|_, (_, at)| at.elapsed() < KEPT);
        known.insert(class.to_owned(), (value, Instant::now()));
        value
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (Option<i32>, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn ask(api: &Api, class: &str) -> Result<Option<i32>, ApiError> {
    let resource = named_resource(
        "scheduling.k8s.io",
        "v1",
        "PriorityClass",
        "priorityclasses",
    );
    let path = Request::new(DynamicObject::url_path(&resource, None));
    let text = api.send(path.get(class, &GetParams::default())).await?;
    let class: Value = serde_json::from_str(&text).map_err(ApiError::Unreadable)?;
    Ok(class["value"]
        .as_i64()
        .and_then(|value| i32::try_from(value).ok()))
}
