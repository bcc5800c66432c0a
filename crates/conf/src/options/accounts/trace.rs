//! `msg_trace`: where an account learns what became of messages that other systems trace.

use super::super::field::{Diagnostics, Field, Read, read_block};
use super::super::table::BlockKind;
use crate::value::Value;

/// Where traces go, and how many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageTraceOptions {
    /// Valid subject without wildcards.
    pub destination: String,
    /// Of a hundred messages that could be traced, how many are: 1 to 100. Default 100.
    pub sampling: u8,
}

impl MessageTraceOptions {
    /// A subject, or a block. `None` when no destination is set.
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Self>> {
        let map = match field.value() {
            Value::Text(_) => {
                return Ok(Some(Self { destination: destination(field)?, sampling: 100 }));
            }
            Value::Map(map) => map,
            other => {
                let (name, found) = (field.written(), other.type_name());
                let expected = "to be a string or a map/struct";
                let message = format!("Expected account message trace {name:?} {expected}, got {found}");
                return Err(field.diagnostic(message));
            }
        };
        let scope =
            BlockKind::MessageTrace(if field.name() == "trace_dest" { "trace_dest" } else { "msg_trace" });
        let (mut subject, mut share) = (None, None);
        let errors = report.errors.len();
        read_block(map, scope, report, |field, _| {
            match field.name() {
                "dest" => subject = Some(destination(field)?),
                "sampling" => share = Some(sampling(field)?),
                _ => return Ok(false),
            }
            Ok(true)
        });
        if report.errors.len() == errors && subject.is_none() && share.is_some() {
            let ignored = "Trace destination sampling ignored since no destination was set";
            report.warnings.push(field.diagnostic(ignored));
        }
        Ok(subject.map(|destination| Self { destination, sampling: share.unwrap_or(100) }))
    }
}

fn destination(field: &Field<'_>) -> Read<String> {
    let Value::Text(subject) = field.value() else {
        let (name, found) = (field.written(), field.value().type_name());
        return Err(field.diagnostic(format!("Field {name:?} should be a string, got {found}")));
    };
    if !myelin_subject::is_literal(subject.as_bytes()) {
        return Err(field.diagnostic(format!("Trace destination {subject:?} is not valid")));
    }
    Ok(subject.clone())
}

fn sampling(field: &Field<'_>) -> Read<u8> {
    let number = match field.value() {
        Value::Integer(number) => *number,
        Value::Text(text) => super::exports::percent(text)
            .map_err(|_| field.diagnostic(format!("Invalid trace destination sampling value {text:?}")))?,
        other => {
            let (name, found) = (field.written(), other.type_name());
            let expected = "should be an integer or a percentage";
            let message = format!("Trace destination sampling field {name:?} {expected}, got {found}");
            return Err(field.diagnostic(message));
        }
    };
    match u8::try_from(number) {
        Ok(share @ 1..=100) => Ok(share),
        // Compat: the typing mistake is the reference's.
        _ => Err(field.diagnostic(format!(
            "Ttrace destination sampling value {number} is invalid, needs to be [1..100]"
        ))),
    }
}
