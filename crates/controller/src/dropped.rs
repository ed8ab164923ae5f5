//! Status fields that the API server drops from our writes, because its CustomResourceDefinition does not
//! know them. Decides for how long that is believed: somebody may install another definition.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::merge;

/// After this long, one write shows whether the definition is still the same.
const BELIEVED: Duration = Duration::from_secs(600);

/// What one resource drops.
#[derive(Debug, Default)]
pub(crate) struct Dropped(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    fields: Map<String, Value>,
    /// When a write last showed them.
    shown_at: Option<Instant>,
}

impl Dropped {
    /// If the API server would store nothing of this change: for how long it is not worth writing. It
    /// would change nothing and be due again in the next pass.
    pub(crate) fn all_of(&self, change: &Value) -> Option<Duration> {
        let state = self.lock();
        let believed = BELIEVED.checked_sub(state.shown_at?.elapsed())?;
        let mut change = change.as_object()?.clone();
        merge::remove_dropped(&mut change, &state.fields);
        (change.is_empty() && !believed.is_zero()).then_some(believed)
    }

    /// A status was written, and this is what the API server stored of it. Returns the fields that it
    /// dropped and that nobody knew of.
    pub(crate) fn learn(&self, status: &Value, stored: &Value) -> Vec<String> {
        let now = merge::dropped(status, stored);
        let mut state = self.lock();
        let state = &mut *state;
        let is_new = |key: &&String| !state.fields.contains_key(*key);
        let new = now.keys().filter(is_new).cloned().collect();
        if let Value::Object(stored) = stored {
            merge::remove_stored(&mut state.fields, stored);
        }
        // Another job may have other fields.
        merge::add_dropped(&mut state.fields, now);
        state.shown_at = (!state.fields.is_empty()).then(Instant::now);
        new
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn c12_what_is_dropped_is_tried_again_after_a_while() {
        let (dropped, status) = (Dropped::default(), json!({"a": 1, "muster": {"b": 2}}));
        let change = json!({"muster": {"b": 3}});
        assert_eq!(dropped.all_of(&change), None);
        assert_eq!(dropped.learn(&status, &json!({"a": 1})), ["muster"]);
        assert_eq!(dropped.all_of(&change), Some(BELIEVED));
        assert_eq!(dropped.all_of(&json!({"a": 2, "muster": {"b": 3}})), None);
        tokio::time::advance(BELIEVED).await;
        assert_eq!(dropped.all_of(&change), None);
        assert!(
            dropped.learn(&status, &json!({"a": 1})).is_empty(),
            "it was said"
        );
        assert_eq!(dropped.all_of(&change), Some(BELIEVED));
        assert!(dropped.learn(&status, &status).is_empty());
        assert_eq!(dropped.all_of(&change), None, "the definition was repaired");
    }

    #[tokio::test(start_paused = true)]
    async fn c12_jobs_with_different_fields_do_not_make_each_other_forget() {
        let dropped = Dropped::default();
        let one = json!({"muster": {"restarts": 1, "phase": "Running"}});
        let two = json!({"muster": {"replaced": 1, "phase": "Running"}});
        let stored = json!({"muster": {"phase": "Running"}});
        dropped.learn(&one, &stored);
        dropped.learn(&two, &stored);
        for change in [
            json!({"muster": {"restarts": 2}}),
            json!({"muster": {"replaced": 2}}),
        ] {
            assert!(dropped.all_of(&change).is_some(), "{change}");
        }
        let stored = json!({"muster": {"phase": "Running", "restarts": 1}});
        dropped.learn(&one, &stored);
        assert_eq!(dropped.all_of(&json!({"muster": {"restarts": 2}})), None);
    }
}
