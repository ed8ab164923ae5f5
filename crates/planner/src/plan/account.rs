//! Policy: the job's account with the API server exists before its launcher, and may do what the job
//! says now, in pods that are the job's own: a name alone may be somebody else's. A ServiceAccount is
//! made and then left alone: others write into it.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::pods;
use crate::action::{Action, Kind};
use crate::job::{Account, AccountRule};
use crate::observed::{AccountObject, Observed, Slot};
use crate::render::account as render;

/// The ServiceAccount and the Role, where they are missing or have drifted.
pub(super) fn ensure(observed: &Observed) -> Vec<Action> {
    let job = &observed.job;
    let Some(account) = job.account() else {
        return Vec::new();
    };
    let slots = &observed.account;
    let missing = slots.service_account.is_absent();
    let service_account = missing.then(|| Action::Create(render::service_account(job, account)));
    let role = match &slots.role {
        Slot::Absent => Some(Action::Create(render::role(job, &due(observed, account)))),
        Slot::Ours(_) => grant(observed, account),
        Slot::Foreign => None,
    };
    service_account.into_iter().chain(role).collect()
}

/// While something stands in the way, nothing is made; but a right to what is somebody else's by now
/// goes.
pub(super) fn narrow(observed: &Observed) -> Vec<Action> {
    let account = observed.job.account();
    account
        .and_then(|account| grant(observed, account))
        .into_iter()
        .collect()
}

/// Updates the rules of the Role, if they differ from those that are due.
fn grant(observed: &Observed, account: &Account) -> Option<Action> {
    let role = observed.account.role.ours()?;
    let rules = render::rules(&due(observed, account));
    let merge = json!({"rules": rules});
    (role.rules != rules).then(|| Action::patch(Kind::Role, &account.name, &role.uid, merge))
}

/// The account with the rights that are due now: to named pods only while they are there and the
/// job's own. The controller does not see pods of others, so it cannot know who has the name of a
/// pod that is gone. Before the launcher exists, nobody needs a right, and the Role grows once, when
/// all pods are there.
fn due(observed: &Observed, account: &Account) -> Account {
    let own: BTreeSet<&str> = pods::workers(observed)
        .map(|pod| pod.name.as_str())
        .collect();
    let had = granted_names(observed);
    let has_launcher = pods::launcher_exists(observed);
    let narrowed = |rule: &AccountRule| {
        let mut rule = rule.clone();
        if let Some(names) = &mut rule.names {
            let grows = has_launcher || names.iter().all(|name| own.contains(name.as_str()));
            names.retain(|name| {
                own.contains(name.as_str()) && (grows || had.contains(name.as_str()))
            });
        }
        rule
    };
    Account {
        rules: account.rules.iter().map(narrowed).collect(),
        ..account.clone()
    }
}

/// The names that the Role has now.
fn granted_names(observed: &Observed) -> BTreeSet<&str> {
    let role = observed.account.role.ours();
    let rules = role.and_then(|role| role.rules.as_array()).into_iter();
    let names = rules
        .flatten()
        .filter_map(|rule| rule["resourceNames"].as_array());
    names.flatten().filter_map(Value::as_str).collect()
}

/// The RoleBinding. The API server looks at the Role when it is made, so that comes before it.
pub(super) fn bind(observed: &Observed) -> Vec<Action> {
    let job = &observed.job;
    let Some(account) = job.account() else {
        return Vec::new();
    };
    let binding = match &observed.account.binding {
        Slot::Absent => Some(Action::Create(render::binding(job, account))),
        Slot::Ours(binding) => {
            let subjects = render::subjects(job, account);
            let merge = json!({"subjects": subjects});
            (binding.subjects != subjects)
                .then(|| Action::patch(Kind::RoleBinding, &account.name, &binding.uid, merge))
        }
        Slot::Foreign => None,
    };
    binding.into_iter().collect()
}

/// The account is complete, or none is needed.
pub(super) fn exists(observed: &Observed) -> bool {
    let slots = &observed.account;
    let is_there = |slot: &Slot<AccountObject>| slot.ours().is_some();
    observed.job.account().is_none()
        || is_there(&slots.service_account) && is_there(&slots.role) && is_there(&slots.binding)
}

/// The first of its objects whose name somebody else holds.
pub(super) fn foreign(observed: &Observed) -> Option<(Kind, String)> {
    let account = observed.job.account()?;
    let slots = &observed.account;
    let names = [
        (slots.service_account.is_foreign(), Kind::ServiceAccount),
        (slots.role.is_foreign(), Kind::Role),
        (slots.binding.is_foreign(), Kind::RoleBinding),
    ];
    let taken = names.into_iter().find(|(foreign, _)| *foreign);
    taken.map(|(_, kind)| (kind, account.name.clone()))
}
