//! Policy: the job's account with the API server exists before its launcher, and may do what the job
//! says now. A ServiceAccount is made and then left alone: others write into it.

use serde_json::{Value, json};

use crate::observed::{AccountObject, Observed, Slot};
use crate::plan::{Action, Kind};
use crate::render::account as render;

/// The ServiceAccount and the Role, where they are missing or have drifted.
pub(crate) fn ensure(observed: &Observed) -> Vec<Action> {
    let job = &observed.job;
    let Some(account) = &job.account else {
        return Vec::new();
    };
    let slots = &observed.account;
    let missing = account.given.is_none() && slots.service_account.is_absent();
    let service_account = missing.then(|| Action::Create(render::service_account(job, account)));
    let role = match &slots.role {
        Slot::Absent => Some(Action::Create(render::role(job, account))),
        Slot::Ours(role) => {
            let rules = render::rules(account);
            (role.rules != rules)
                .then(|| patch(Kind::Role, &account.name, role, json!({"rules": rules})))
        }
        Slot::Foreign => None,
    };
    service_account.into_iter().chain(role).collect()
}

/// The RoleBinding. The API server looks at the Role when it is made, so that comes before it.
pub(crate) fn bind(observed: &Observed) -> Vec<Action> {
    let job = &observed.job;
    let Some(account) = &job.account else {
        return Vec::new();
    };
    let binding = match &observed.account.binding {
        Slot::Absent => Some(Action::Create(render::binding(job, account))),
        Slot::Ours(binding) => {
            let subjects = render::subjects(job, account);
            let merge = json!({"subjects": subjects});
            (binding.subjects != subjects)
                .then(|| patch(Kind::RoleBinding, &account.name, binding, merge))
        }
        Slot::Foreign => None,
    };
    binding.into_iter().collect()
}

/// The account is complete, or none is needed.
pub(crate) fn exists(observed: &Observed) -> bool {
    let slots = &observed.account;
    let is_there = |slot: &Slot<AccountObject>| slot.ours().is_some();
    observed.job.account.as_ref().is_none_or(|account| {
        (account.given.is_some() || is_there(&slots.service_account))
            && is_there(&slots.role)
            && is_there(&slots.binding)
    })
}

/// The first of its objects whose name somebody else holds.
pub(crate) fn foreign(observed: &Observed) -> Option<(Kind, String)> {
    let account = observed.job.account.as_ref()?;
    let slots = &observed.account;
    let made = account.given.is_none();
    let names = [
        (
            made && slots.service_account.is_foreign(),
            Kind::ServiceAccount,
        ),
        (slots.role.is_foreign(), Kind::Role),
        (slots.binding.is_foreign(), Kind::RoleBinding),
    ];
    let taken = names.into_iter().find(|(foreign, _)| *foreign);
    taken.map(|(_, kind)| (kind, account.name.clone()))
}

fn patch(kind: Kind, name: &str, object: &AccountObject, merge: Value) -> Action {
    Action::Patch {
        kind,
        name: name.to_owned(),
        uid: object.uid.clone(),
        subresource: None,
        merge,
    }
}
