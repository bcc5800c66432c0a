//! Whether JetStream was asked for, and where it would store.

use std::path::PathBuf;

use super::field::{Field, Read, Report, read_block};
use super::table::Scope;
use crate::value::Value;

/// What the operator asked of JetStream. Nothing serves it yet: the server warns when it is enabled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JetStreamOptions {
    /// `jetstream: true`, a `jetstream` block, or `-js`.
    pub enabled: bool,
    /// Storage directory, without the `jetstream` subdirectory.
    pub store_dir: Option<PathBuf>,
}

/// Fields of a `jetstream` block that mean something to the reference. They are accepted, because the
/// server says once that it has no JetStream, and that covers them.
const WITHOUT_EFFECT_YET: &[&str] = &[
    "strict",
    "sync",
    "sync_interval",
    "max_memory_store",
    "max_mem_store",
    "max_mem",
    "max_file_store",
    "max_file",
    "domain",
    "key",
    "ek",
    "encryption_key",
    "prev_key",
    "prev_ek",
    "prev_encryption_key",
    "cipher",
    "extension_hint",
    "limits",
    "tpm",
    "unique_tag",
    "max_outstanding_catchup",
    "max_buffered_size",
    "max_buffered_msgs",
    "request_queue_limit",
    "info_queue_limit",
    "meta_compact",
    "meta_compact_size",
    "meta_compact_sync",
    "max_concurrent_io",
];

impl JetStreamOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Report) -> Read<bool> {
        match field.name() {
            "store_dir" | "storedir" => self.set_store_dir(field)?,
            "jetstream" => self.set_block(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_block(&mut self, field: &Field<'_>, report: &mut Report) -> Read<()> {
        match field.value() {
            Value::Boolean(enabled) => self.enabled = *enabled,
            Value::Text(text) => match text.to_ascii_lowercase().as_str() {
                "enabled" | "enable" => self.enabled = true,
                "disabled" | "disable" => self.enabled = false,
                _ => {
                    let expected = "Expected 'enabled' or 'disabled' for string value";
                    return Err(field.complaint(format!("{expected}, got '{text}'")));
                }
            },
            Value::Map(map) => {
                let mut enabled = true;
                read_block(map, Scope::JetStream, report, |inner, _| {
                    match inner.name() {
                        "enable" | "enabled" => enabled = inner.boolean()?,
                        "store" | "store_dir" | "storedir" => self.set_store_dir(inner)?,
                        name => return Ok(WITHOUT_EFFECT_YET.contains(&name)),
                    }
                    Ok(true)
                });
                self.enabled = enabled;
            }
            other => {
                let expected = "Expected map, bool or string to define JetStream";
                return Err(field.complaint(format!("{expected}, got {}", other.type_name())));
            }
        }
        Ok(())
    }

    /// Compat: a directory given by a flag counts as the first of two.
    fn set_store_dir(&mut self, field: &Field<'_>) -> Read<()> {
        if self.store_dir.is_some() {
            return Err(field.complaint("Duplicate 'store_dir' configuration"));
        }
        self.store_dir = field.optional_path()?;
        Ok(())
    }
}
