//! What the operator may do: the rules of the roles that it ships with. A request that no rule allows is a
//! bug of the operator, or of the role.

use std::cell::RefCell;
use std::collections::BTreeSet;

use serde_json::Value;

const ROLES: &[&str] = &[
    include_str!("../../../deploy/base/cluster-roles.yaml"),
    include_str!("../../../deploy/overlays/bdap/rights.yaml"),
];

thread_local! {
    static ALLOWED: RefCell<Option<BTreeSet<(String, String, String)>>> = const { RefCell::new(None) };
}

/// Whether the shipped role allows this verb on this resource (with its subresource) of this group.
pub(crate) fn allows(group: &str, resource: &str, verb: &str) -> bool {
    ALLOWED.with_borrow_mut(|allowed| {
        let allowed = allowed.get_or_insert_with(read);
        allowed.contains(&(group.to_owned(), resource.to_owned(), verb.to_owned()))
    })
}

fn read() -> BTreeSet<(String, String, String)> {
    let documents = ROLES.iter().flat_map(|text| text.split("\n---"));
    let roles: Vec<Value> = documents
        .map(|text| serde_saphyr::from_str(text).expect("a role is YAML"))
        .collect();
    let texts = |value: &Value| -> Vec<String> {
        let items = value.as_array().into_iter().flatten();
        items
            .filter_map(|item| item.as_str().map(str::to_owned))
            .collect()
    };
    let mut allowed = BTreeSet::new();
    for rule in roles
        .iter()
        .filter_map(|role| role["rules"].as_array())
        .flatten()
    {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    allowed.insert((group.clone(), resource.clone(), verb));
                }
            }
        }
    }
    allowed
}
