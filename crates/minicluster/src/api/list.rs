//! Lists. Decides which objects are on a page, at which revision, and how the next page is asked
//! for. A page belongs to the state at the list's beginning, whatever changed since.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::select::Selector;
use super::{Call, Outcome, present};
use crate::server::Server;
use crate::status::Refusal;
use crate::store::{Key, TooOld};
use crate::value::text;

const TOO_OLD: &str = "The provided continue parameter is too old to display a consistent list \
    result. You can start a new list without the continue parameter, or use the continue token in \
    this response to retrieve the remainder of the results. Continuing with the provided token \
    results in an inconsistent list - objects that were created, modified, or deleted between the \
    time the first chunk was returned and now may show up in the list.";

/// Where a list goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    revision: u64,
    namespace: String,
    name: String,
}

impl Token {
    fn write(&self) -> String {
        let text = format!("{}/{}/{}", self.revision, self.namespace, self.name);
        text.bytes().map(|byte| format!("{byte:02x}")).collect()
    }

    fn parse(text: &str) -> Option<Self> {
        let bytes = (0..text.len()).step_by(2);
        let bytes: Option<Vec<u8>> = bytes
            .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
            .collect();
        let text = String::from_utf8(bytes?).ok()?;
        let mut parts = text.splitn(3, '/');
        Some(Self {
            revision: parts.next()?.parse().ok()?,
            namespace: parts.next()?.to_owned(),
            name: parts.next()?.to_owned(),
        })
    }
}

/// A part of a list.
pub(crate) struct Page {
    pub(crate) objects: Vec<Arc<Value>>,
    pub(crate) revision: u64,
    /// Where it goes on, and how many follow, where that is known.
    pub(crate) more: Option<(String, Option<u64>)>,
}

impl Server {
    /// What a request is limited to.
    pub(crate) fn selector(&self, call: &Call) -> Result<Selector, Refusal> {
        let (labels, fields) = (
            call.params.text("labelSelector"),
            call.params.text("fieldSelector"),
        );
        let selector = Selector::parse(labels, fields).map_err(Refusal::bad_request)?;
        let custom = call.resource.custom.as_ref();
        let extra = custom
            .map(|custom| custom.selectable.as_slice())
            .unwrap_or_default();
        if let Some(field) = selector.unsupported_field(
            if custom.is_some() {
                ""
            } else {
                &call.resource.plural
            },
            extra,
        ) {
            return Err(Refusal::bad_request(format!(
                "field label not supported: {field}"
            )));
        }
        Ok(selector)
    }

    pub(crate) fn list(&mut self, call: &Call) -> Result<Outcome, Refusal> {
        let Page {
            objects,
            revision,
            more,
        } = self.page(call)?;
        let text = present::list(call, &objects, revision, more);
        Ok(Outcome::Written(200, text))
    }

    /// The objects that a request selects, as far as its limit goes.
    pub(crate) fn page(&self, call: &Call) -> Result<Page, Refusal> {
        let selector = self.selector(call)?;
        let current = self.store.revision();
        let token = match call.params.text("continue") {
            "" => None,
            text => Some(Token::parse(text).ok_or_else(|| {
                Refusal::bad_request("invalid continue token: continue key is not valid")
            })?),
        };
        let wanted = wanted_revision(call)?;
        if let Some(wanted) = wanted.filter(|wanted| *wanted > current) {
            return Err(Refusal::too_large_version(wanted, current));
        }
        let exact = wanted.filter(|_| call.params.text("resourceVersionMatch") == "Exact");
        let revision = token
            .as_ref()
            .map(|token| token.revision)
            .or(exact)
            .unwrap_or(current);
        let objects = self
            .at(call, revision, token.as_ref())
            .map_err(|TooOld { oldest }| {
                if token.is_some() {
                    Refusal::expired(TOO_OLD.to_owned())
                } else {
                    Refusal::expired(format!("too old resource version: {revision} ({oldest})"))
                }
            })?;
        let limit = call.params.number("limit").filter(|limit| *limit > 0);
        let limit = limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(usize::MAX);
        let mut page: Vec<Arc<Value>> = Vec::new();
        let mut left = 0_u64;
        for object in objects {
            if !selector.matches(&object) {
                continue;
            }
            if page.len() < limit {
                page.push(object);
            } else {
                left += 1;
            }
        }
        let more = page.last().filter(|_| left > 0).map(|last| {
            let token = Token {
                revision,
                namespace: text(&last["metadata"]["namespace"]).to_owned(),
                name: text(&last["metadata"]["name"]).to_owned(),
            };
            (token.write(), selector.is_empty().then_some(left))
        });
        Ok(Page {
            objects: page,
            revision,
            more,
        })
    }

    /// Objects as they were at a revision, from just after a token.
    fn at(
        &self,
        call: &Call,
        revision: u64,
        after: Option<&Token>,
    ) -> Result<Vec<Arc<Value>>, TooOld> {
        let kind = &call.resource.id;
        let namespace = (!call.namespace.is_empty()).then_some(call.namespace.as_str());
        let start =
            after.map(|token| (token.namespace.as_str().into(), token.name.as_str().into()));
        if revision >= self.store.revision() {
            return Ok(self.store.list(kind, namespace, start).cloned().collect());
        }
        // Undo what happened since: the first change of an object tells how it was before.
        let mut was: BTreeMap<Key, Option<Arc<Value>>> = BTreeMap::new();
        for event in self.store.events(kind, revision)? {
            let key = super::delete::key_of(kind, &event.object);
            was.entry(key).or_insert_with(|| event.before.clone());
        }
        let mut all: BTreeMap<Key, Arc<Value>> = self
            .store
            .list(kind, namespace, start.clone())
            .map(|object| (super::delete::key_of(kind, object), Arc::clone(object)))
            .collect();
        for (key, before) in was {
            let inside = namespace.is_none_or(|namespace| *key.namespace == *namespace)
                && start
                    .as_ref()
                    .is_none_or(|(of, name)| (&key.namespace, &key.name) > (of, name));
            match before {
                Some(object) if inside => {
                    all.insert(key, object);
                }
                _ => {
                    all.remove(&key);
                }
            }
        }
        Ok(all.into_values().collect())
    }
}

/// `resourceVersion`, when it limits anything.
fn wanted_revision(call: &Call) -> Result<Option<u64>, Refusal> {
    match call.params.text("resourceVersion") {
        "" | "0" => Ok(None),
        text => text.parse().map(Some).map_err(|_| {
            Refusal::bad_request(format!(
                "invalid resource version: resourceVersion: Invalid value: {text:?}: \
                 strconv.ParseUint: parsing {text:?}: invalid syntax"
            ))
        }),
    }
}
