//! How much is kept of the objects of one kind, namespace by namespace. Decides what is left out when
//! somebody writes more than we can keep. Anybody may write our labels and name any owner, so nothing
//! that an object says of itself makes it ours: only its namespace is sure.
//!
//! Left-out objects cost at most eight bytes each. As long as one of them may be a job's own, the jobs
//! of its namespace are held, because nothing may be concluded from a part of the objects.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::sync::Arc;

use planner::Kind;

/// What objects of one kind may use, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of one namespace.
    namespace_max: usize,
    /// Of all namespaces together, besides the share of each.
    pool: usize,
}

/// What no other namespace can take from one.
const SHARE: usize = 256 << 10;
/// Of one namespace, for objects that belong to no job we know: children of jobs that we are about
/// to see, and of jobs that are gone.
const UNCLAIMED_MAX: usize = 64 << 10;
/// Left-out objects that are counted one by one; with more, only a new list shows what is there.
const LEFT_OUT_MAX: usize = 1 << 16;

/// Use of memory by namespace.
#[derive(Debug)]
pub(crate) struct Tenants {
    limits: Limits,
    total: usize,
    by_namespace: HashMap<Arc<str>, Tenant>,
}

/// Whose an object is, as far as can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// It names a job that we know.
    Claimed,
    /// It does not.
    Unclaimed,
}

#[derive(Debug, Default)]
struct Tenant {
    claimed: usize,
    unclaimed: usize,
    now: LeftOut,
    /// Left out before the list that runs now, which may show them.
    before: LeftOut,
}

/// What a namespace has and we do not keep.
#[derive(Debug, Default)]
struct LeftOut {
    /// Objects that may be a job's own, by UID.
    claimed: HashSet<u64>,
    uncounted: bool,
    /// Some that no known job owned, and whether a job has come since then that may own them.
    unclaimed: bool,
    missed: bool,
}

impl LeftOut {
    fn hides_children(&self) -> bool {
        !self.claimed.is_empty() || self.uncounted || self.missed
    }
}

impl Limits {
    /// Pods are many: there is room for about 35 000 of one namespace. Of other kinds a job has one.
    pub(crate) fn of(kind: &Kind) -> Self {
        match kind {
            Kind::Pod => Self {
                namespace_max: 16 << 20,
                pool: 32 << 20,
            },
            _ => Self {
                namespace_max: 2 << 20,
                pool: 6 << 20,
            },
        }
    }
}

impl Tenants {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            total: 0,
            by_namespace: HashMap::new(),
        }
    }

    /// Whether there is room for so many more bytes.
    pub(crate) fn has_room(&self, namespace: &str, bytes: usize, class: Class) -> bool {
        let tenant = self.by_namespace.get(namespace);
        let (claimed, unclaimed) =
            tenant.map_or((0, 0), |tenant| (tenant.claimed, tenant.unclaimed));
        let next = claimed + unclaimed + bytes;
        let within_pool = next <= SHARE || self.total + bytes <= self.limits.pool;
        match class {
            Class::Claimed => within_pool && next <= self.limits.namespace_max,
            Class::Unclaimed => within_pool && unclaimed + bytes <= UNCLAIMED_MAX,
        }
    }

    /// An object is kept.
    pub(crate) fn add(&mut self, namespace: &Arc<str>, bytes: usize, class: Class) {
        self.total += bytes;
        *self.tenant(namespace).used(class) += bytes;
    }

    /// An object is no longer kept. Returns whether there is room again for what was left out.
    pub(crate) fn remove(&mut self, namespace: &Arc<str>, bytes: usize, class: Class) -> bool {
        self.total = self.total.saturating_sub(bytes);
        let enough = self.limits.namespace_max / 4 * 3;
        let Some(tenant) = self.by_namespace.get_mut(namespace) else {
            return false;
        };
        let used = tenant.used(class);
        *used = used.saturating_sub(bytes);
        let left = tenant.claimed + tenant.unclaimed;
        let crossed = left <= enough && left + bytes > enough;
        let fits = crossed && tenant.now.hides_children();
        self.drop_if_empty(namespace);
        fits
    }

    /// An object is not kept. Returns whether it is the first of its namespace.
    pub(crate) fn leave_out(&mut self, namespace: &Arc<str>, uid: &str, class: Class) -> bool {
        let now = &mut self.tenant(namespace).now;
        match class {
            Class::Unclaimed => !std::mem::replace(&mut now.unclaimed, true),
            Class::Claimed => {
                let first = !now.hides_children();
                if now.claimed.len() < LEFT_OUT_MAX {
                    now.claimed.insert(hash(uid));
                } else {
                    now.uncounted = true;
                }
                first
            }
        }
    }

    /// A left-out object is gone, or is kept now.
    pub(crate) fn accounted_for(&mut self, namespace: &Arc<str>, uid: &str) {
        if let Some(tenant) = self.by_namespace.get_mut(namespace) {
            if !tenant.now.claimed.is_empty() {
                tenant.now.claimed.remove(&hash(uid));
            }
            self.drop_if_empty(namespace);
        }
    }

    /// A job has come that may have had children before. Returns whether some may have been left out.
    pub(crate) fn job_came(&mut self, namespace: &str) -> bool {
        let Some(tenant) = self.by_namespace.get_mut(namespace) else {
            return false;
        };
        let missed = tenant.now.unclaimed || tenant.before.unclaimed;
        tenant.now.missed |= missed;
        missed
    }

    /// Objects of jobs of this namespace may have been left out.
    pub(crate) fn hides_children(&self, namespace: &str) -> bool {
        let tenant = self.by_namespace.get(namespace);
        tenant.is_some_and(|tenant| tenant.now.hides_children() || tenant.before.hides_children())
    }

    /// A new list shows all there is.
    pub(crate) fn relist_started(&mut self) {
        for tenant in self.by_namespace.values_mut() {
            // The list before may not have come to its end.
            let LeftOut {
                claimed,
                uncounted,
                unclaimed,
                missed,
            } = std::mem::take(&mut tenant.now);
            let before = &mut tenant.before;
            before.uncounted |= uncounted || !claimed.is_empty();
            before.unclaimed |= unclaimed;
            before.missed |= missed;
        }
    }

    /// What is not kept now was left out of the new list.
    pub(crate) fn relist_done(&mut self) {
        for tenant in self.by_namespace.values_mut() {
            tenant.before = LeftOut::default();
        }
        self.by_namespace.retain(|_, tenant| !tenant.is_empty());
    }

    fn tenant(&mut self, namespace: &Arc<str>) -> &mut Tenant {
        self.by_namespace.entry(Arc::clone(namespace)).or_default()
    }

    fn drop_if_empty(&mut self, namespace: &Arc<str>) {
        let tenant = self.by_namespace.get(namespace);
        if tenant.is_some_and(Tenant::is_empty) {
            self.by_namespace.remove(namespace);
        }
    }
}

impl Tenant {
    fn used(&mut self, class: Class) -> &mut usize {
        match class {
            Class::Claimed => &mut self.claimed,
            Class::Unclaimed => &mut self.unclaimed,
        }
    }

    fn is_empty(&self) -> bool {
        let left_out = |left: &LeftOut| left.hides_children() || left.unclaimed;
        self.claimed + self.unclaimed == 0 && !left_out(&self.now) && !left_out(&self.before)
    }
}

fn hash(uid: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(uid.as_bytes());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECT: usize = 1 << 10;

    /// Adds objects until there is no room, and returns how many there were.
    fn fill(tenants: &mut Tenants, namespace: &str, class: Class) -> usize {
        let namespace: Arc<str> = namespace.into();
        (0..)
            .take_while(|_| {
                let room = tenants.has_room(&namespace, OBJECT, class);
                if room {
                    tenants.add(&namespace, OBJECT, class);
                }
                room
            })
            .count()
    }

    #[test]
    fn the_page_of_limits_has_these_numbers() {
        let page = include_str!("../../../docs/limits.md");
        let share = SHARE >> 10;
        for (kind, objects) in [
            (Kind::Pod, "pods"),
            (Kind::Job, "objects of each other kind"),
        ] {
            let Limits {
                namespace_max,
                pool,
            } = Limits::of(&kind);
            let own = format!("| {} MiB | `NamespaceOverBudget` |", namespace_max >> 20);
            let all = format!("| {} MiB | `NamespaceOverBudget` |", pool >> 20);
            let besides = format!("besides {share} KiB for each namespace");
            for (whose, end) in [("a namespace", own), ("all namespaces", all)] {
                let begin = format!("| {whose}: the operator's memory for {objects}");
                let rows = page.lines().filter(|line| line.starts_with(&begin));
                let mut rows = rows.filter(|row| whose == "a namespace" || row.contains(&besides));
                assert!(rows.any(|row| row.ends_with(&end)), "{begin} … {end}");
            }
        }
        let unclaimed = format!("name no job | {} KiB |", UNCLAIMED_MAX >> 10);
        assert!(page.contains(&unclaimed), "{unclaimed}");
    }

    #[test]
    fn s01c_many_full_namespaces_leave_every_other_its_share() {
        let mut tenants = Tenants::new(Limits::of(&Kind::ConfigMap));
        assert_eq!(fill(&mut tenants, "a", Class::Claimed), 2 << 10);
        for greedy in ["b", "c", "d", "e"] {
            fill(&mut tenants, greedy, Class::Claimed);
        }
        assert_eq!(fill(&mut tenants, "late", Class::Claimed), 256);
        assert_eq!(fill(&mut tenants, "late", Class::Unclaimed), 0);
        assert_eq!(fill(&mut tenants, "last", Class::Unclaimed), 64);
    }

    #[test]
    fn s01c_a_namespace_is_whole_again_when_what_was_left_out_is_gone() {
        let mut tenants = Tenants::new(Limits::of(&Kind::ConfigMap));
        let namespace: Arc<str> = "a".into();
        assert!(tenants.leave_out(&namespace, "u1", Class::Claimed));
        assert!(!tenants.leave_out(&namespace, "u2", Class::Claimed));
        tenants.accounted_for(&namespace, "u1");
        assert!(tenants.hides_children("a") && !tenants.hides_children("b"));
        tenants.accounted_for(&namespace, "u2");
        assert!(!tenants.hides_children("a"));
        assert!(tenants.by_namespace.is_empty());
    }

    #[test]
    fn s01c_room_again_asks_for_one_list_and_the_list_decides() {
        let mut tenants = Tenants::new(Limits::of(&Kind::ConfigMap));
        let namespace: Arc<str> = "a".into();
        let kept = fill(&mut tenants, "a", Class::Claimed);
        tenants.leave_out(&namespace, "u1", Class::Claimed);
        let asked = (0..kept).filter(|_| tenants.remove(&namespace, OBJECT, Class::Claimed));
        assert_eq!(asked.count(), 1);
        for _ in 0..2 {
            tenants.relist_started();
            assert!(tenants.hides_children("a"), "the list is not complete");
        }
        tenants.relist_done();
        assert!(!tenants.hides_children("a"));
    }

    #[test]
    fn s01c_a_job_that_comes_late_waits_for_its_children() {
        let mut tenants = Tenants::new(Limits::of(&Kind::Pod));
        assert!(!tenants.job_came("a"));
        assert!(tenants.leave_out(&"a".into(), "u1", Class::Unclaimed));
        assert!(!tenants.hides_children("a"), "no job missed it");
        assert!(tenants.job_came("a") && tenants.hides_children("a"));
        tenants.relist_started();
        tenants.relist_done();
        assert!(!tenants.hides_children("a"));
    }
}
