//! Reading a Pod as JSON. Decides what an absent field means, as the Kubernetes API has it; the
//! other files of the runner ask here and index nothing themselves.

use serde_json::Value;

/// A Pod as stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pod<'v>(pub(crate) &'v Value);

/// One of its containers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Container<'v>(pub(crate) &'v Value);

/// Seconds between TERM and KILL when the pod does not say.
pub(crate) const GRACE_SECS: u64 = 30;

impl<'v> Pod<'v> {
    /// `metadata.<field>` as text.
    pub(crate) fn meta(self, field: &str) -> &'v str {
        self.0["metadata"][field].as_str().unwrap_or("")
    }

    /// `spec.<field>` as text.
    pub(crate) fn spec(self, field: &str) -> &'v str {
        self.0["spec"][field].as_str().unwrap_or("")
    }

    /// The host name that its processes see.
    pub(crate) fn hostname(self) -> &'v str {
        match self.spec("hostname") {
            "" => self.meta("name"),
            name => name,
        }
    }

    /// Names under which other pods find it, longest first.
    pub(crate) fn names(self) -> Vec<String> {
        let (host, subdomain) = (self.hostname(), self.spec("subdomain"));
        let mut names = Vec::new();
        if !subdomain.is_empty() {
            let namespace = self.meta("namespace");
            for end in [".svc.cluster.local", ".svc", ""] {
                names.push(format!("{host}.{subdomain}.{namespace}{end}"));
            }
            names.push(format!("{host}.{subdomain}"));
        }
        names.push(host.to_owned());
        names
    }

    /// Labels or annotations.
    pub(crate) fn map(self, field: &str) -> impl Iterator<Item = (&'v str, &'v str)> + use<'v> {
        let map = self.0["metadata"][field].as_object();
        map.into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// `spec.volumes`.
    pub(crate) fn volumes(self) -> impl Iterator<Item = &'v Value> + use<'v> {
        self.0["spec"]["volumes"].as_array().into_iter().flatten()
    }

    /// A container of either list.
    pub(crate) fn container(self, name: &str) -> Option<Container<'v>> {
        let lists = ["initContainers", "containers"];
        let all = lists
            .iter()
            .flat_map(|list| self.0["spec"][list].as_array().into_iter().flatten());
        all.map(Container)
            .find(|container| container.text("name") == name)
    }

    /// A number of the security context, the container's before the pod's.
    pub(crate) fn identity(self, container: Container<'_>, field: &str) -> Option<u32> {
        let own = container.0["securityContext"][field].as_u64();
        let number = own.or(self.0["spec"]["securityContext"][field].as_u64());
        number.and_then(|number| u32::try_from(number).ok())
    }

    /// A launcher that takes ranks: it has a place among the hosts.
    pub(crate) fn is_launcher_and_host(self) -> bool {
        let labels = &self.0["metadata"]["labels"];
        self.is_launcher() && labels.get(contract::labels::REPLICA_INDEX_LABEL).is_some()
    }

    pub(crate) fn is_launcher(self) -> bool {
        crate::view::PodView(self.0).is_launcher()
    }
}

impl<'v> Container<'v> {
    /// A field as text.
    pub(crate) fn text(self, field: &str) -> &'v str {
        self.0[field].as_str().unwrap_or("")
    }

    /// A field as a list of words.
    pub(crate) fn words(self, field: &str) -> Vec<&'v str> {
        let words = self.0[field].as_array().into_iter().flatten();
        words.filter_map(Value::as_str).collect()
    }

    /// A field as a list.
    pub(crate) fn list(self, field: &str) -> impl Iterator<Item = &'v Value> + use<'v> {
        self.0[field].as_array().into_iter().flatten()
    }

    /// Where it leaves its last words.
    pub(crate) fn message_path(self) -> &'v str {
        match self.text("terminationMessagePath") {
            "" => contract::files::TERMINATION_LOG,
            path => path,
        }
    }

    /// The end of its log serves as last words when it fails without any.
    pub(crate) fn falls_back_to_log(self) -> bool {
        self.text("terminationMessagePolicy") == "FallbackToLogsOnError"
    }
}
