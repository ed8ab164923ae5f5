//! Services: what is filled in and refused. Addresses are numbers without a network: nothing
//! routes them.

use serde_json::{Value, json};

use super::defaults;
use crate::status::Cause;
use crate::value::{fill, items, text};

/// Fills in what a user left out, except the address.
pub(crate) fn default(object: &mut Value) {
    let spec = &mut object["spec"];
    fill(spec, "sessionAffinity", "None");
    fill(spec, "type", "ClusterIP");
    let kind = text(&spec["type"]).to_owned();
    for port in defaults::list_mut(spec, "ports") {
        fill(port, "protocol", "TCP");
        let number = port["port"].clone();
        fill(port, "targetPort", number);
    }
    if kind != "ExternalName" {
        fill(spec, "internalTrafficPolicy", "Cluster");
    }
    if matches!(kind.as_str(), "NodePort" | "LoadBalancer") {
        fill(spec, "externalTrafficPolicy", "Cluster");
    }
    fill(&mut object["status"], "loadBalancer", json!({}));
}

/// Gives an address to a new Service that wants one.
pub(crate) fn address(object: &mut Value, number: u32) {
    let spec = &mut object["spec"];
    if spec["type"] == "ExternalName" {
        return;
    }
    // Without a selector nobody knows yet which families its endpoints will have.
    if spec["clusterIP"] == "None" && super::metadata::is_empty(&spec["selector"]) {
        fill(spec, "ipFamilies", json!(["IPv4", "IPv6"]));
        fill(spec, "ipFamilyPolicy", "RequireDualStack");
    }
    fill(spec, "ipFamilies", json!(["IPv4"]));
    fill(spec, "ipFamilyPolicy", "SingleStack");
    if text(&spec["clusterIP"]).is_empty() {
        let [_, b, c, d] = number.to_be_bytes();
        spec["clusterIP"] = format!("10.{}.{c}.{d}", 96 + b % 16).into();
    }
    let address = spec["clusterIP"].clone();
    fill(spec, "clusterIPs", json!([address]));
}

/// What is wrong with a Service.
pub(crate) fn validate(object: &Value, before: Option<&Value>, causes: &mut Vec<Cause>) {
    let spec = &object["spec"];
    let headless = spec["clusterIP"] == "None";
    if items(&spec["ports"]).is_empty() && !headless && spec["type"] != "ExternalName" {
        causes.push(Cause::required("spec.ports", ""));
    }
    let many = items(&spec["ports"]).len() > 1;
    for (index, port) in items(&spec["ports"]).iter().enumerate() {
        let path = format!("spec.ports[{index}]");
        if many && text(&port["name"]).is_empty() {
            causes.push(Cause::required(&format!("{path}.name"), ""));
        }
        if !port["port"]
            .as_i64()
            .is_some_and(|port| (1..=65535).contains(&port))
        {
            let why = "must be between 1 and 65535, inclusive";
            let shown = port["port"].as_i64().unwrap_or_default();
            causes.push(Cause::invalid(&format!("{path}.port"), &json!(shown), why));
        }
        if !["TCP", "UDP", "SCTP"].contains(&text(&port["protocol"])) {
            let supported = [json!("SCTP"), json!("TCP"), json!("UDP")];
            let path = format!("{path}.protocol");
            causes.push(Cause::unsupported(&path, &port["protocol"], &supported));
        }
    }
    let kinds = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
    if !kinds.contains(&text(&spec["type"])) {
        let supported = kinds.map(|kind| json!(kind));
        causes.push(Cause::unsupported("spec.type", &spec["type"], &supported));
    }
    if let Some(before) = before {
        let old = &before["spec"];
        let had = !text(&old["clusterIP"]).is_empty() && old["type"] != "ExternalName";
        if had && spec["type"] != "ExternalName" && spec["clusterIP"] != old["clusterIP"] {
            let wanted = json!([spec["clusterIP"]]);
            let why = "may not change once set";
            causes.push(Cause::invalid("spec.clusterIPs[0]", &wanted, why));
        }
    }
}

/// An update that leaves the address out keeps it.
pub(crate) fn keep_address(object: &mut Value, before: &Value) {
    let old = &before["spec"];
    let spec = &mut object["spec"];
    if spec["type"] == "ExternalName" {
        return;
    }
    for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
        if spec[field].is_null() && !old[field].is_null() {
            spec[field] = old[field].clone();
        }
    }
}
