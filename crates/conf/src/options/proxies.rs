//! `proxies`: the proxies whose word about their clients counts.

use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::table::BlockKind;
use crate::value::{Node, Value};
use myelin_stdx::nkey;

/// The trusted proxies.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxiesOptions {
    /// Public keys, of any role, that proxies sign with.
    pub trusted: Vec<String>,
}

impl ProxiesOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        if field.name() != "proxies" {
            return Ok(false);
        }
        let Value::Map(map) = field.value() else {
            let found = field.value().type_name();
            return Err(field.diagnostic(format!("expected proxies to be a map/struct, got {found}")));
        };
        read_block(map, BlockKind::Proxies, report, |field, report| {
            match field.name() {
                "trusted" => self.trusted = trusted(field, report)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(true)
    }
}

fn trusted(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<String>> {
    let Value::Array(items) = field.value() else {
        let found = field.value().type_name();
        return Err(field.diagnostic(format!("expected proxies' trusted field to be an array, got {found}")));
    };
    let mut keys = Vec::new();
    for item in items {
        let key = trusted_key(item, report);
        keys.extend(report.keep(key));
    }
    Ok(keys)
}

/// Compat: an entry without a key is an error only when the server starts.
fn trusted_key(item: &Node, report: &mut Diagnostics) -> Read<String> {
    let Value::Map(map) = &item.value else {
        let found = item.value.type_name();
        let message = format!("expected proxies' trusted entry to be a map/struct, got {found}");
        return Err(diagnostic_at(&item.position, message));
    };
    let mut key = String::new();
    read_block(map, BlockKind::TrustedProxy, report, |field, _| {
        match field.name() {
            "key" | "public_key" => {
                let text = field.text()?;
                if nkey::public_key(text).is_none() {
                    return Err(field.diagnostic(format!("invalid proxy key {text:?}")));
                }
                text.clone_into(&mut key);
            }
            _ => return Ok(false),
        }
        Ok(true)
    });
    Ok(key)
}
