//! ServiceAccounts, Roles and RoleBindings of jobs. One type reads all three; the Secrets that an
//! account names are not read.

use planner::observed;
use serde::Deserialize;
use serde_json::Value;

use super::{Child, Facts, IntoChild, Metadata, assemble};

/// core/v1 ServiceAccount, rbac.authorization.k8s.io/v1 Role or RoleBinding.
#[derive(Debug, Deserialize)]
pub(super) struct AccountObject {
    metadata: Metadata,
    #[serde(default)]
    rules: Value,
    #[serde(default)]
    subjects: Value,
}

impl IntoChild for AccountObject {
    fn child(self) -> Child {
        let facts = Facts::Account(Box::new(observed::AccountObject {
            uid: self.metadata.uid(),
            rules: self.rules,
            subjects: self.subjects,
        }));
        assemble(&self.metadata, facts)
    }
}
