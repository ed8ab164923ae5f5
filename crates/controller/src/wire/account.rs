//! ServiceAccounts, Roles and RoleBindings of jobs. One type reads all three; the Secrets that an
//! account names are not read.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use planner::observed;
use serde::Deserialize;
use serde_json::Value;

use super::{Child, Facts, IntoChild, assemble, lean_metadata, uid};

/// core/v1 ServiceAccount, rbac.authorization.k8s.io/v1 Role or RoleBinding.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct AccountObject {
    #[serde(deserialize_with = "lean_metadata")]
    metadata: ObjectMeta,
    #[serde(default)]
    rules: Value,
    #[serde(default)]
    subjects: Value,
}

dynamic_resource!(AccountObject);

impl IntoChild for AccountObject {
    fn child(self) -> Child {
        let facts = Facts::Account(Box::new(observed::AccountObject {
            uid: uid(&self.metadata),
            rules: self.rules,
            subjects: self.subjects,
        }));
        assemble(&self.metadata, facts)
    }
}
