//! How much of the texts of users' jobs is kept, namespace by namespace. Decides which job is asked for
//! again when it is looked at; that costs a request, and nothing else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A larger text is never kept: an ordinary job has a few kilobytes.
const TEXT_MAX: usize = 64 << 10;
/// Of one namespace: some thousand ordinary jobs.
const NAMESPACE_MAX: usize = 8 << 20;
/// Of all namespaces together, besides the share of each.
const POOL: usize = 24 << 20;
/// What no other namespace can take from one.
const SHARE: usize = 256 << 10;

/// The texts that are kept.
#[derive(Debug, Default)]
pub(crate) struct JobTexts(Mutex<Used>);

#[derive(Debug, Default)]
struct Used {
    total: usize,
    by_namespace: HashMap<Arc<str>, usize>,
}

/// A kept text, as long as it lives.
#[derive(Debug)]
pub(crate) struct Charge {
    texts: Arc<JobTexts>,
    namespace: Arc<str>,
    bytes: usize,
}

impl JobTexts {
    /// The text is too large to be kept.
    pub(crate) fn is_large(bytes: usize) -> bool {
        bytes > TEXT_MAX
    }

    /// Room for a text, if there is any.
    pub(crate) fn charge(self: &Arc<Self>, namespace: &str, bytes: usize) -> Option<Charge> {
        let mut used = self.lock();
        let next = used.by_namespace.get(namespace).unwrap_or(&0) + bytes;
        let within_pool = next <= SHARE || used.total + bytes <= POOL;
        if Self::is_large(bytes) || next > NAMESPACE_MAX || !within_pool {
            return None;
        }
        used.total += bytes;
        let known = used.by_namespace.get_key_value(namespace);
        let namespace: Arc<str> =
            known.map_or_else(|| namespace.into(), |(key, _)| Arc::clone(key));
        used.by_namespace.insert(Arc::clone(&namespace), next);
        drop(used);
        Some(Charge {
            texts: Arc::clone(self),
            namespace,
            bytes,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        let mut used = self.texts.lock();
        used.total -= self.bytes;
        if let Some(bytes) = used.by_namespace.get_mut(&self.namespace) {
            *bytes -= self.bytes;
            if *bytes == 0 {
                used.by_namespace.remove(&self.namespace);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: usize = 32 << 10;

    fn fill(texts: &Arc<JobTexts>, namespace: &str) -> Vec<Charge> {
        std::iter::from_fn(|| texts.charge(namespace, TEXT)).collect()
    }

    #[test]
    fn s01b_full_namespaces_leave_every_other_its_share() {
        let texts = Arc::default();
        let greedy: Vec<_> = ["a", "b", "c", "d"].map(|name| fill(&texts, name)).into();
        assert_eq!(greedy[0].len() * TEXT, NAMESPACE_MAX);
        assert_eq!(fill(&texts, "late").len() * TEXT, SHARE);
        assert!(texts.charge("late", TEXT_MAX + 1).is_none());
        drop(greedy);
        assert_eq!(texts.lock().total, 0);
        assert!(texts.lock().by_namespace.is_empty());
    }
}
