//! What a pod asks of its node, counted from its template as the Kubernetes scheduler counts it.
//! Amounts that cannot be read are skipped: the API server refuses the pod anyway.

use std::collections::BTreeMap;

use quantity::Quantity;
use serde_json::{Map, Value};

/// Amounts by resource name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Requests(BTreeMap<String, Quantity>);

impl Requests {
    /// All that one pod of this template asks for.
    pub(crate) fn of_pod(template: &Value) -> Self {
        let spec = &template["spec"];
        let mut pod = Self::default();
        for container in items(&spec["containers"]) {
            pod.add(&Self::of_container(container));
        }

        // Init containers run one after the other, each beside the sidecars started before it.
        let (mut sidecars, mut peak) = (Self::default(), Self::default());
        for container in items(&spec["initContainers"]) {
            let mut moment = Self::of_container(container);
            if container["restartPolicy"] == "Always" {
                pod.add(&moment);
                sidecars.add(&moment);
            } else {
                moment.add(&sidecars);
                peak.raise(&moment);
            }
        }
        pod.raise(&peak);
        pod.override_with(&spec["resources"]);
        pod.add(&Self::of_list(&spec["overhead"]));
        pod
    }

    /// The request, or the limit where there is no request.
    fn of_container(container: &Value) -> Self {
        let resources = &container["resources"];
        let mut requests = Self::of_list(&resources["limits"]);
        requests.0.extend(Self::of_list(&resources["requests"]).0);
        requests
    }

    /// A resource list of the API: amounts by name.
    pub(crate) fn of_list(list: &Value) -> Self {
        let entries = list.as_object().into_iter().flat_map(Map::iter);
        let read = |(name, amount): (&String, &Value)| Some((name.clone(), quantity(amount)?));
        Self(entries.filter_map(read).collect())
    }

    /// What the pod as a whole asks for stands above the sum of its containers; a limit of the
    /// pod as a whole counts only for what no container asks for.
    fn override_with(&mut self, resources: &Value) {
        let whole = |name: &str| matches!(name, "cpu" | "memory") || name.starts_with("hugepages-");
        for (name, amount) in Self::of_list(&resources["limits"]).0 {
            if whole(&name) {
                self.0.entry(name).or_insert(amount);
            }
        }
        let requests = Self::of_list(&resources["requests"]).0;
        self.0
            .extend(requests.into_iter().filter(|(name, _)| whole(name)));
    }

    /// Both together.
    pub(crate) fn add(&mut self, other: &Self) {
        self.merge(other, Quantity::plus);
    }

    /// The larger of both, resource by resource.
    fn raise(&mut self, other: &Self) {
        self.merge(other, Quantity::or_larger);
    }

    fn merge(&mut self, other: &Self, of_both: impl Fn(Quantity, Quantity) -> Quantity) {
        for (name, amount) in &other.0 {
            let entry = self.0.entry(name.clone());
            entry
                .and_modify(|mine| *mine = of_both(*mine, *amount))
                .or_insert(*amount);
        }
    }

    /// Those of this many pods.
    pub(crate) fn times(mut self, count: u32) -> Self {
        self.0
            .values_mut()
            .for_each(|amount| *amount = amount.times(count));
        self
    }

    /// Nothing is asked for.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As a resource list of the API.
    pub(crate) fn into_json(self) -> Value {
        self.0
            .into_iter()
            .map(|(name, amount)| (name, amount.to_string()))
            .collect()
    }
}

/// Reads an amount, which is a text or a number.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text),
        Value::Number(number) => Quantity::parse(&number.to_string()),
        Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
    }
}

fn items(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{Requests, quantity};

    #[test]
    fn numbers_are_read_as_texts_are() {
        for (number, text) in [
            (json!(2), "2"),
            (json!(-3), "-3"),
            (json!(0.5), "500m"),
            (json!(1e21), "9223372036854775807"),
            (json!(u64::MAX), "9223372036854775807"),
        ] {
            let printed = quantity(&number).map(|amount| amount.to_string());
            assert_eq!(printed.as_deref(), Some(text));
        }
        for value in [json!(null), json!(true), json!([1]), json!({"a": 1})] {
            assert!(quantity(&value).is_none(), "{value}");
        }
    }

    fn asked(spec: &Value) -> Value {
        Requests::of_pod(&json!({"spec": spec})).into_json()
    }

    fn requests(list: &Value) -> Value {
        json!({"resources": {"requests": list}})
    }

    #[test]
    fn containers_add_up_by_request_or_limit() {
        let spec = json!({"containers": [
            {"resources": {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "9"}}},
            {"resources": {"limits": {"cpu": 1, "nvidia.com/gpu": "2"}}},
            {"name": "asks for nothing"},
        ]});
        let sum = json!({"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": "2"});
        assert_eq!(asked(&spec), sum);
    }

    #[test]
    fn init_containers_count_at_their_peak() {
        let spec = json!({
            "initContainers": [requests(&json!({"cpu": "3"})), requests(&json!({"memory": "2Gi"}))],
            "containers": [requests(&json!({"cpu": "2", "memory": "1Gi"}))],
        });
        assert_eq!(asked(&spec), json!({"cpu": "3", "memory": "2Gi"}));
    }

    #[test]
    fn sidecars_add_to_what_runs_beside_them() {
        let sidecar = json!({"restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}});
        let (early, late) = (
            requests(&json!({"cpu": "5"})),
            requests(&json!({"cpu": "6"})),
        );
        let main = requests(&json!({"cpu": "2"}));
        for (init, sum) in [
            (json!([sidecar]), "3"),
            (json!([sidecar, sidecar]), "4"),
            (json!([early, sidecar]), "5"),
            (json!([sidecar, early]), "6"),
            (json!([sidecar, late, sidecar]), "7"),
        ] {
            let spec = json!({"initContainers": init, "containers": [main]});
            assert_eq!(asked(&spec), json!({"cpu": sum}), "{init}");
        }
    }

    #[test]
    fn overhead_comes_on_top() {
        let spec = json!({
            "overhead": {"cpu": "250m", "memory": "64Mi"},
            "initContainers": [requests(&json!({"cpu": "4"}))],
            "containers": [requests(&json!({"cpu": "1"}))],
        });
        assert_eq!(asked(&spec), json!({"cpu": "4250m", "memory": "64Mi"}));
    }

    #[test]
    fn the_pod_as_a_whole_stands_above_its_containers() {
        let spec = json!({
            "resources": {
                "requests": {"cpu": "1", "nvidia.com/gpu": "8"},
                "limits": {"cpu": "7", "memory": "9Gi", "hugepages-2Mi": "4Mi"},
            },
            "containers": [requests(&json!({"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": "1"}))],
        });
        let sum =
            json!({"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "4Mi", "nvidia.com/gpu": "1"});
        assert_eq!(asked(&spec), sum);
    }

    #[test]
    fn templates_of_the_wrong_shape_ask_for_nothing() {
        for spec in [
            json!(null),
            json!("text"),
            json!({"containers": {"a": 1}, "initContainers": 3, "overhead": [], "resources": "x"}),
            json!({"containers": [null, 1, "x", {"resources": []}, {"resources": {"requests": 1}}]}),
            json!({"containers": [requests(&json!({"cpu": "much", "memory": null, "x": [1]}))]}),
        ] {
            assert_eq!(asked(&spec), json!({}), "{spec}");
        }
    }

    #[test]
    fn one_unreadable_amount_does_not_hide_the_others() {
        let spec = json!({"containers": [
            requests(&json!({"cpu": "much", "memory": "1Gi"})),
            requests(&json!({"cpu": "1"})),
        ]});
        assert_eq!(asked(&spec), json!({"cpu": "1", "memory": "1Gi"}));
    }
}
