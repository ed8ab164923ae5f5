//! A container's variables and words. Decides where each comes from, and expands `$(NAME)` as the
//! kubelet does. What of this machine's own environment a container sees is decided here too.

use std::collections::BTreeMap;

use anyhow::{Result, bail};
use quantity::Quantity;
use serde_json::Value;

use super::config_source::{ConfigLookup, ConfigSource, Referenced};
use super::pod::{Container, Pod};

/// Variables of this machine that stand in for those of an image. Not the rest: a shell's
/// environment holds tokens that no job should see unasked.
const HOST_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "LD_LIBRARY_PATH",
    "LIBRARY_PATH",
    "OPAL_PREFIX",
    "PYTHONPATH",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "JAVA_HOME",
    "CUDA_HOME",
    "I_MPI_ROOT",
    "FI_PROVIDER_PATH",
];
const PATH_DEFAULT: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What a container's variables are made from, beside its pod.
pub(crate) struct PodContext<'a> {
    /// Address of the pod.
    pub(crate) ip: &'a str,
    /// Directory for temporary files, as the container sees it.
    pub(crate) temporary: &'a str,
    /// Variables that were asked for by hand; they win over this machine's and lose to the pod's.
    pub(crate) extra: &'a [(String, String)],
    pub(crate) lookup: &'a ConfigLookup,
}

/// The whole environment of a container, in order.
pub(crate) fn variables(
    pod: Pod<'_>,
    container: Container<'_>,
    context: &PodContext<'_>,
) -> Result<Vec<(String, String)>> {
    let mut variables = Variables::default();
    for name in HOST_VARIABLES {
        if let Ok(value) = std::env::var(name) {
            variables.set(name, value);
        }
    }
    for (name, value) in std::env::vars().filter(|(name, _)| name.starts_with("LC_")) {
        variables.set(&name, value);
    }
    if variables.get("PATH").is_none() {
        variables.set("PATH", PATH_DEFAULT.to_owned());
    }
    if rustix::process::geteuid().is_root() {
        // Open MPI refuses to run as root until it is told twice.
        for name in contract::mpi::Setting::AllowRoot.names() {
            variables.set(name, "1".to_owned());
        }
    }
    variables.set("HOSTNAME", pod.hostname().to_owned());
    variables.set("TMPDIR", context.temporary.to_owned());
    for (name, value) in context.extra {
        variables.set(name, value.clone());
    }
    for source in container.list("envFrom") {
        from_config(pod, source, context.lookup, &mut variables)?;
    }
    for variable in container.list("env") {
        let name = variable["name"].as_str().unwrap_or("");
        let value = match &variable["valueFrom"] {
            Value::Object(_) => from_reference(pod, container, variable, context)?,
            _ => Some(variables.expand(variable["value"].as_str().unwrap_or(""))),
        };
        if let Some(value) = value {
            variables.set(name, value);
        }
    }
    Ok(variables.0)
}

/// Program and arguments, expanded.
pub(crate) fn words(container: Container<'_>, variables: &[(String, String)]) -> Vec<String> {
    let known = Variables(variables.to_vec());
    let command = container.words("command").into_iter();
    command
        .chain(container.words("args"))
        .map(|word| known.expand(word))
        .collect()
}

/// Another user's home is not ours.
pub(crate) fn set_user(variables: &mut Vec<(String, String)>, user: u32) {
    if user == rustix::process::geteuid().as_raw() {
        return;
    }
    let (name, home) = account(user).unwrap_or((user.to_string(), String::new()));
    // Open MPI crashes without one.
    let home = match std::path::Path::new(&home).is_dir() {
        true => home,
        false => "/tmp".to_owned(),
    };
    for (key, value) in [("HOME", home), ("USER", name.clone()), ("LOGNAME", name)] {
        variables.retain(|(known, _)| known != key);
        variables.push((key.to_owned(), value));
    }
}

/// Name and home directory of a user of this machine.
pub(super) fn account(user: u32) -> Option<(String, String)> {
    let accounts = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    accounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, id, _, _, home, ..] = fields.as_slice() else {
            return None;
        };
        (id.parse() == Ok(user)).then(|| ((*name).to_owned(), (*home).to_owned()))
    })
}

/// A field of the pod, as `fieldRef` names it.
pub(crate) fn field(pod: Pod<'_>, path: &str, ip: &str) -> Result<String> {
    if let Some((field, key)) = path
        .strip_suffix("']")
        .and_then(|path| path.split_once("['"))
    {
        let field = field.strip_prefix("metadata.").unwrap_or(field);
        let found = pod.map(field).find(|(name, _)| *name == key);
        return Ok(found.map_or(String::new(), |(_, value)| value.to_owned()));
    }
    Ok(match path {
        "metadata.name" => pod.meta("name").to_owned(),
        "metadata.namespace" => pod.meta("namespace").to_owned(),
        "metadata.uid" => pod.meta("uid").to_owned(),
        "metadata.labels" => listed(pod, "labels"),
        "metadata.annotations" => listed(pod, "annotations"),
        "spec.nodeName" => pod.spec("nodeName").to_owned(),
        "spec.serviceAccountName" => match pod.spec("serviceAccountName") {
            "" => "default".to_owned(),
            name => name.to_owned(),
        },
        "status.podIP" | "status.podIPs" => ip.to_owned(),
        "status.hostIP" | "status.hostIPs" => "127.0.0.1".to_owned(),
        _ => bail!("fieldPath {path:?} is not a field that a pod may read"),
    })
}

/// Labels or annotations as a file: one `key="value"` per line, by key.
fn listed(pod: Pod<'_>, field: &str) -> String {
    let sorted: BTreeMap<_, _> = pod.map(field).collect();
    let lines: Vec<String> = sorted
        .iter()
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    lines.join("\n")
}

/// A limit or request, in whole units; what is not set is all of this machine.
pub(crate) fn resource(
    pod: Pod<'_>,
    container: Option<Container<'_>>,
    reference: &Value,
) -> String {
    let named = reference["containerName"]
        .as_str()
        .and_then(|name| pod.container(name));
    let (Some(container), Some(path)) = (named.or(container), reference["resource"].as_str())
    else {
        return String::new();
    };
    let (list, name) = path.split_once('.').unwrap_or((path, ""));
    let quantity = &container.0["resources"][list][name];
    let text = match quantity {
        Value::String(text) => text.clone(),
        Value::Number(number) => number.to_string(),
        _ => {
            return if name == "cpu" {
                processors()
            } else {
                "0".to_owned()
            };
        }
    };
    // Rounded up to whole units, as with the default divisor.
    Quantity::parse(&text).map_or(text, |amount| amount.ones().to_string())
}

fn processors() -> String {
    std::thread::available_parallelism().map_or_else(|_| "1".to_owned(), |count| count.to_string())
}

fn from_config(
    pod: Pod<'_>,
    source: &Value,
    lookup: &ConfigLookup,
    variables: &mut Variables,
) -> Result<()> {
    let prefix = source["prefix"].as_str().unwrap_or("");
    for (field, kind) in [
        ("configMapRef", ConfigSource::ConfigMap),
        ("secretRef", ConfigSource::Secret),
    ] {
        if let Some(reference) = source.get(field) {
            for (key, value) in Referenced::find(kind, pod, reference, lookup)?.data {
                let value = String::from_utf8_lossy(&value).into_owned();
                variables.set(&format!("{prefix}{key}"), value);
            }
        }
    }
    Ok(())
}

fn from_reference(
    pod: Pod<'_>,
    container: Container<'_>,
    variable: &Value,
    context: &PodContext<'_>,
) -> Result<Option<String>> {
    let from = &variable["valueFrom"];
    if let Some(path) = from["fieldRef"]["fieldPath"].as_str() {
        return field(pod, path, context.ip).map(Some);
    }
    if let Some(reference) = from.get("resourceFieldRef").filter(|it| it.is_object()) {
        return Ok(Some(resource(pod, Some(container), reference)));
    }
    for (field, kind) in [
        ("configMapKeyRef", ConfigSource::ConfigMap),
        ("secretKeyRef", ConfigSource::Secret),
    ] {
        if let Some(reference) = from.get(field) {
            let found = Referenced::find(kind, pod, reference, context.lookup)?;
            let value = found.get(reference["key"].as_str().unwrap_or(""))?;
            return Ok(value.map(|bytes| String::from_utf8_lossy(bytes).into_owned()));
        }
    }
    bail!("variable {} has no source", variable["name"])
}

/// In the order in which they were first set.
#[derive(Default)]
struct Variables(Vec<(String, String)>);

impl Variables {
    fn set(&mut self, name: &str, value: String) {
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, old)) => *old = value,
            None => self.0.push((name.to_owned(), value)),
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(known, _)| known == name)?;
        Some(value)
    }

    /// `$(NAME)` becomes its value if there is one; `$$` is one dollar.
    fn expand(&self, text: &str) -> String {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some(dollar) = rest.find('$') {
            expanded.push_str(&rest[..dollar]);
            rest = &rest[dollar..];
            if let Some(after) = rest.strip_prefix("$$") {
                expanded.push('$');
                rest = after;
                continue;
            }
            let name = rest
                .strip_prefix("$(")
                .and_then(|inner| inner.split_once(')'))
                .map(|(name, _)| name);
            let known = name.and_then(|name| Some((name, self.get(name)?)));
            match known {
                Some((name, value)) => {
                    expanded.push_str(value);
                    rest = &rest[name.len() + 3..];
                }
                None => {
                    expanded.push('$');
                    rest = &rest[1..];
                }
            }
        }
        expanded + rest
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn context(lookup: &ConfigLookup) -> PodContext<'_> {
        PodContext {
            ip: "127.65.0.2",
            temporary: "/.muster/tmp",
            extra: &[],
            lookup,
        }
    }

    #[test]
    fn variables_come_from_fields_books_and_one_another() {
        let pod = json!({
            "metadata": {
                "name": "p", "namespace": "n", "labels": {"a": "1"},
                "annotations": {"x/y": "two\nlines"},
            },
            "spec": {"containers": [{
                "name": "c",
                "envFrom": [{"prefix": "S_", "secretRef": {"name": "s"}}],
                "env": [
                    {"name": "A", "value": "a"},
                    {"name": "B", "value": "$(A)$(LATER)$$(A)$(S_k)"},
                    {"name": "LATER", "value": "late"},
                    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    {"name": "X", "valueFrom": {"fieldRef":
                        {"fieldPath": "metadata.annotations['x/y']"}}},
                    {"name": "ALL", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}},
                    {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                    {"name": "MEM", "valueFrom":
                        {"resourceFieldRef": {"resource": "limits.memory"}}},
                    {"name": "GONE", "valueFrom":
                        {"configMapKeyRef": {"name": "no", "key": "k", "optional": true}}},
                ],
                "command": ["run", "$(A)", "$(NOBODY)"],
                "resources": {"limits": {"cpu": "1500m", "memory": "2Ki"}},
            }]},
        });
        let lookup = |kind: ConfigSource, _: &str, name: &str| {
            (kind == ConfigSource::Secret && name == "s").then(|| json!({"data": {"k": "djE="}}))
        };
        let container = Pod(&pod).container("c").unwrap();
        let variables = variables(Pod(&pod), container, &context(&lookup)).unwrap();
        let get = |name: &str| {
            let found = variables.iter().find(|(key, _)| key == name);
            found.map(|(_, value)| value.as_str())
        };
        assert_eq!(get("B"), Some("a$(LATER)$(A)v1"));
        assert_eq!(get("IP"), Some("127.65.0.2"));
        assert_eq!(get("X"), Some("two\nlines"));
        assert_eq!(get("ALL"), Some("a=\"1\""));
        assert_eq!(get("CPU"), Some("2"));
        assert_eq!(get("MEM"), Some("2048"), "in bytes, as from a kubelet");
        assert_eq!(get("GONE"), None);
        assert_eq!(get("HOSTNAME"), Some("p"));
        assert_eq!(words(container, &variables), ["run", "a", "$(NOBODY)"]);
    }

    #[test]
    fn a_missing_key_is_named() {
        let pod = json!({"metadata": {"namespace": "n"}, "spec": {"containers": [{
            "name": "c",
            "env": [{"name": "LR", "valueFrom": {"configMapKeyRef": {"name": "cfg", "key": "lr"}}}],
        }]}});
        let lookup = |kind: ConfigSource, _: &str, _: &str| {
            (kind == ConfigSource::ConfigMap).then(|| json!({"data": {}}))
        };
        let container = Pod(&pod).container("c").unwrap();
        let error = variables(Pod(&pod), container, &context(&lookup)).unwrap_err();
        assert_eq!(error.to_string(), "ConfigMap \"cfg\" has no key \"lr\"");
    }

    #[test]
    fn secrets_of_the_shell_stay_outside() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}});
        let lookup = |_: ConfigSource, _: &str, _: &str| None;
        let container = Pod(&pod).container("c").unwrap();
        let variables = variables(Pod(&pod), container, &context(&lookup)).unwrap();
        // Set by cargo for every test, and not on the list.
        assert!(std::env::var("CARGO_PKG_NAME").is_ok());
        assert!(variables.iter().all(|(name, _)| name != "CARGO_PKG_NAME"));
        assert!(variables.iter().any(|(name, _)| name == "PATH"));
    }
}
