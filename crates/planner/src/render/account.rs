//! ServiceAccount, Role and RoleBinding of a job: who its launcher is for the API server, and what it
//! may do there.

use serde_json::{Value, json};

use super::child;
use crate::action::{Kind, Object};
use crate::job::{Account, AccountRule, Job};

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";
const RBAC_VERSION: &str = "rbac.authorization.k8s.io/v1";

pub(crate) fn service_account(job: &Job, account: &Account) -> Object {
    child(job, Kind::ServiceAccount, "v1", &account.name, json!({}))
}

pub(crate) fn role(job: &Job, account: &Account) -> Object {
    let body = json!({"rules": rules(account)});
    child(job, Kind::Role, RBAC_VERSION, &account.name, body)
}

/// Its rules, spelled as the API server gives them back.
pub(crate) fn rules(account: &Account) -> Value {
    // A rule that names nothing would mean everything.
    let names_none = |rule: &&AccountRule| rule.names.as_ref().is_some_and(Vec::is_empty);
    let rights = account.rules.iter();
    rights
        .filter(|right| !names_none(right))
        .map(rule)
        .collect()
}

fn rule(given: &AccountRule) -> Value {
    let mut rule = json!({
        "apiGroups": [""],
        "resources": [given.resource],
        "verbs": given.verbs,
    });
    if let Some(names) = &given.names {
        rule["resourceNames"] = json!(names);
    }
    rule
}

pub(crate) fn binding(job: &Job, account: &Account) -> Object {
    let body = json!({
        "roleRef": {"apiGroup": RBAC_GROUP, "kind": "Role", "name": account.name},
        "subjects": subjects(job, account),
    });
    child(job, Kind::RoleBinding, RBAC_VERSION, &account.name, body)
}

/// Whom it binds.
pub(crate) fn subjects(job: &Job, account: &Account) -> Value {
    json!([{
        "kind": "ServiceAccount",
        "name": account.name,
        "namespace": job.owner.namespace,
    }])
}
