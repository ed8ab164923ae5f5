//! How long this process may write. Decides by our own clock alone, which goes on while the process stands
//! still: whoever was stopped for longer than the lease lasts finds that out before the next write, and not
//! only when it renews the lease. Knows nothing of how a lease is kept.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;

/// A time that ends unless it is extended. Without an election, it never begins, and never ends.
#[derive(Clone, Debug, Default)]
pub struct Tenure(Arc<Mutex<Option<Instant>>>);

impl Tenure {
    /// It lasts until then.
    pub fn extend(&self, until: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(until);
    }

    /// Nothing may be written any more.
    pub fn is_over(&self) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| until <= Instant::now())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_ends_when_nobody_extends_it_and_never_where_nobody_is_elected() {
        let (tenure, endless) = (Tenure::default(), Tenure::default());
        let shared = tenure.clone();
        shared.extend(Instant::now() + Duration::from_secs(15));
        tokio::time::advance(Duration::from_secs(14)).await;
        assert!(!tenure.is_over());
        shared.extend(Instant::now() + Duration::from_secs(15));
        tokio::time::advance(Duration::from_secs(14)).await;
        assert!(!tenure.is_over());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(tenure.is_over());
        assert!(!endless.is_over());
    }
}
