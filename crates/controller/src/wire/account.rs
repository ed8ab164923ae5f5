//! ServiceAccounts, Roles and RoleBindings of jobs: what they are follows from where they are read,
//! so one shape does for the three. A Secret that an account names is not read.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::{ApiResource, DynamicResourceScope};
use planner::observed;
use serde::Deserialize;
use serde_json::Value;

use super::{Child, Facts, IntoChild, assemble, is_managed, lean_metadata, uid};

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

impl Resource for AccountObject {
    type DynamicType = ApiResource;
    type Scope = DynamicResourceScope;

    fn kind(resource: &ApiResource) -> Cow<'_, str> {
        resource.kind.as_str().into()
    }
    fn group(resource: &ApiResource) -> Cow<'_, str> {
        resource.group.as_str().into()
    }
    fn version(resource: &ApiResource) -> Cow<'_, str> {
        resource.version.as_str().into()
    }
    fn plural(resource: &ApiResource) -> Cow<'_, str> {
        resource.plural.as_str().into()
    }
    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl IntoChild for AccountObject {
    fn unreadable(&self) -> bool {
        false
    }

    fn child(self) -> Child {
        let has_watch_label = is_managed(&self.metadata);
        let facts = Facts::Account(Box::new(observed::AccountObject {
            uid: uid(&self.metadata),
            rules: self.rules,
            subjects: self.subjects,
        }));
        assemble(&self.metadata, has_watch_label, facts)
    }
}
