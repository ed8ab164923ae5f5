//! A request of the operator, taken apart: verb, kind, name. Decides nothing.

use http::{Method, Request};

/// A request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
    pub(crate) query: String,
    pub(crate) is_watch: bool,
}

impl Call {
    pub(crate) fn of<B>(request: &Request<B>) -> Self {
        let path = request.uri().path().trim_matches('/');
        let query = request.uri().query().unwrap_or_default().to_owned();
        let mut parts = path.split('/');
        let group = match parts.next() {
            Some("apis") => parts.next().unwrap_or_default(),
            _ => "",
        };
        let _version = parts.next();
        let mut rest: Vec<&str> = parts.collect();
        let mut namespace = "";
        if rest.len() > 2 && rest[0] == "namespaces" {
            namespace = rest[1];
            rest.drain(..2);
        }
        let part = |index: usize| rest.get(index).copied().unwrap_or_default().to_owned();
        Self {
            method: request.method().clone(),
            group: group.to_owned(),
            namespace: namespace.to_owned(),
            plural: part(0),
            name: part(1),
            subresource: part(2),
            is_watch: query.contains("watch=true"),
            query,
        }
    }

    pub(crate) fn is_write(&self) -> bool {
        self.method != Method::GET
    }

    /// It asks what the API server serves.
    pub(crate) fn is_discovery(&self) -> bool {
        self.plural.is_empty()
    }

    /// As rules of a role name it.
    pub(crate) fn resource(&self) -> String {
        match self.subresource.as_str() {
            "" => self.plural.clone(),
            part => format!("{}/{part}", self.plural),
        }
    }

    /// As rules of a role name it.
    pub(crate) fn rbac_verb(&self) -> &'static str {
        let named = !self.name.is_empty();
        match self.method.as_str() {
            "GET" if self.is_watch => "watch",
            "GET" if named => "get",
            "GET" => "list",
            "POST" => "create",
            "PUT" => "update",
            "PATCH" => "patch",
            "DELETE" if named => "delete",
            _ => "deletecollection",
        }
    }

    /// One line for people.
    pub(crate) fn line(&self) -> String {
        let parts = [self.plural.as_str(), &self.name, &self.subresource];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        format!("{} {}", self.rbac_verb(), parts.join("/"))
    }
}
