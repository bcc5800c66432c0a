//! Which subjects a user may publish and subscribe to, as written in the configuration.

use std::time::Duration;

use myelin_subject::is_valid_pattern;

use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::table::BlockKind;
use crate::duration;
use crate::value::{Map, Node, Value};

/// An entry of a subscribe list: a subject, and the queue group it is limited to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueSubject {
    /// Valid subject, wildcards allowed.
    pub subject: String,
    /// Valid queue pattern, wildcards allowed; `None` means any kind of subscription.
    pub queue: Option<String>,
}

/// Allowed and denied entries. Deny wins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SubjectPermission<T> {
    /// `None` allows everything; an empty list allows nothing.
    pub allow: Option<Vec<T>>,
    /// Entries that are refused.
    pub deny: Vec<T>,
}

impl<T> Default for SubjectPermission<T> {
    fn default() -> Self {
        Self { allow: None, deny: Vec::new() }
    }
}

/// Permission to publish to the reply subject of a received request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResponsePermission {
    /// Replies per request; `None` is unlimited. Default 1.
    pub max_messages: Option<u32>,
    /// How long after the request; `None` is unlimited. Default 2 minutes.
    pub expires: Option<Duration>,
}

impl Default for ResponsePermission {
    fn default() -> Self {
        Self { max_messages: Some(1), expires: Some(Duration::from_secs(120)) }
    }
}

/// Everything a `permissions` block says. `None` in a direction means no restriction in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Rules for PUB and HPUB.
    pub publish: Option<SubjectPermission<String>>,
    /// Rules for SUB.
    pub subscribe: Option<SubjectPermission<QueueSubject>>,
    /// Set by `allow_responses`; `publish.allow` is then never `None`.
    pub responses: Option<ResponsePermission>,
}

impl Permissions {
    /// Reads a `permissions` block.
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        let Value::Map(map) = field.value() else {
            let found = field.value().type_name();
            return Err(field.diagnostic(format!("Expected permissions to be a map/struct, got {found}")));
        };
        let mut permissions = Self::default();
        read_block(map, BlockKind::Permissions, report, |field, report| {
            match field.name() {
                "pub" | "publish" | "import" => {
                    permissions.publish = SubjectPermission::read(field, report, subject)?
                }
                "sub" | "subscribe" | "export" => {
                    permissions.subscribe = SubjectPermission::read(field, report, queue_subject)?;
                }
                "publish_allow_responses" | "allow_responses" => {
                    permissions.responses = ResponsePermission::read(field, report)?;
                }
                _ => return Ok(false),
            }
            Ok(true)
        });
        permissions.close_publish_to_responses();
        Ok(permissions)
    }

    /// Allows responses only, where responses are allowed and no list of allowed subjects is given.
    fn close_publish_to_responses(&mut self) {
        if self.responses.is_some() {
            self.publish.get_or_insert_default().allow.get_or_insert_default();
        }
    }
}

impl<T> SubjectPermission<T> {
    /// Reads one direction: a subject, a list of subjects, or a block of `allow` and `deny`.
    ///
    /// Compat: an empty block and an empty list of allowed subjects restrict nothing.
    fn read(
        field: &Field<'_>,
        report: &mut Diagnostics,
        entry: fn(&str) -> Result<T, String>,
    ) -> Read<Option<Self>> {
        match field.value() {
            Value::Map(map) if map.is_empty() => Ok(None),
            Value::Map(map) => Ok(Some(Self::read_allow_and_deny(map, report, entry))),
            _ => Ok(Some(Self { allow: non_empty(entries(field.node(), entry)?), deny: Vec::new() })),
        }
    }

    fn read_allow_and_deny(
        map: &Map,
        report: &mut Diagnostics,
        entry: fn(&str) -> Result<T, String>,
    ) -> Self {
        let mut permission = Self::default();
        read_block(map, BlockKind::SubjectPermission, report, |field, _| {
            match field.name() {
                "allow" => permission.allow = non_empty(entries(field.node(), entry)?),
                "deny" => permission.deny = entries(field.node(), entry)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        permission
    }
}

fn non_empty<T>(list: Vec<T>) -> Option<Vec<T>> {
    (!list.is_empty()).then_some(list)
}

/// One entry, or a list of them.
fn entries<T>(node: &Node, entry: fn(&str) -> Result<T, String>) -> Read<Vec<T>> {
    let read = |node: &Node, wrong_type: String| match &node.value {
        Value::Text(text) => entry(text).map_err(|message| diagnostic_at(&node.position, message)),
        _ => Err(diagnostic_at(&node.position, wrong_type)),
    };
    match &node.value {
        Value::Array(items) => items
            .iter()
            .map(|item| read(item, "Subject in permissions array cannot be cast to string".to_owned()))
            .collect(),
        other => {
            let expected = "Expected subject permissions to be a subject, or array of subjects";
            read(node, format!("{expected}, got {}", other.type_name())).map(|entry| vec![entry])
        }
    }
}

fn subject(text: &str) -> Result<String, String> {
    if is_valid_pattern(text.as_bytes()) {
        Ok(text.to_owned())
    } else {
        Err(format!("subject {text:?} is not a valid subject"))
    }
}

fn queue_subject(text: &str) -> Result<QueueSubject, String> {
    if is_valid_pattern(text.as_bytes()) {
        return Ok(QueueSubject { subject: text.to_owned(), queue: None });
    }
    let words: Vec<&str> = text.split_whitespace().collect();
    let &[name, queue] = &words[..] else { return Err(format!("subject {text:?} is not a valid subject")) };
    if !is_valid_pattern(queue.as_bytes()) {
        return Err(format!("queue {queue:?} is not a valid queue"));
    }
    Ok(QueueSubject { subject: subject(name)?, queue: Some(queue.to_owned()) })
}

impl ResponsePermission {
    fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Self>> {
        let map = match field.value() {
            Value::Boolean(allowed) => return Ok(allowed.then(Self::default)),
            Value::Map(map) => map,
            _ => {
                return Err(
                    field.diagnostic("error parsing response permissions, expected a boolean or a map")
                );
            }
        };
        let mut permission = Self::default();
        read_block(map, BlockKind::Responses, report, |field, _| {
            match field.name() {
                "max" | "max_msgs" | "max_messages" | "max_responses" => permission.set_max(field)?,
                "expires" | "expiration" | "ttl" => permission.set_expires(field)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(Some(permission))
    }

    /// Zero keeps the default, a negative number removes the limit.
    fn set_max(&mut self, field: &Field<'_>) -> Read<()> {
        match field.integer()? {
            0 => {}
            number if number < 0 => self.max_messages = None,
            _ => self.max_messages = Some(field.count()?),
        }
        Ok(())
    }

    /// Zero keeps the default, a negative duration removes the limit.
    fn set_expires(&mut self, field: &Field<'_>) -> Read<()> {
        let Value::Text(text) = field.value() else {
            return Err(field.diagnostic("error parsing expires, not a duration string"));
        };
        let nanos =
            duration::parse(text).map_err(|e| field.diagnostic(format!("error parsing expires: {e}")))?;
        if nanos != 0 {
            self.expires = u64::try_from(nanos).ok().map(Duration::from_nanos);
        }
        Ok(())
    }
}
