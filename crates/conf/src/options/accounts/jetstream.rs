//! `jetstream` of one account: whether it may use JetStream, and how much of it.

use super::super::field::{Diagnostics, Field, Read, read_block};
use super::super::table::BlockKind;
use crate::value::Value;

/// Limits of an account in JetStream; `None` is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AccountJetStreamOptions {
    /// Bytes of its memory streams.
    pub max_memory: Option<u64>,
    /// Bytes of its file streams.
    pub max_store: Option<u64>,
    /// Streams.
    pub max_streams: Option<u64>,
    /// Consumers of one stream.
    pub max_consumers: Option<u64>,
    /// Whether each stream must have a limit of bytes.
    pub max_bytes_required: bool,
    /// Bytes of one memory stream.
    pub memory_max_stream_bytes: Option<u64>,
    /// Bytes of one file stream.
    pub store_max_stream_bytes: Option<u64>,
    /// Deliveries of one consumer that wait for an acknowledgement.
    pub max_ack_pending: Option<u64>,
    /// Account that carries the traffic between replicas.
    pub cluster_traffic: ClusterTraffic,
}

/// The account that carries the traffic between replicas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClusterTraffic {
    /// The system account.
    #[default]
    System,
    /// The account whose streams they are.
    Owner,
}

impl AccountJetStreamOptions {
    /// A boolean, `enabled` or `disabled`, or a block of limits. `None` is no JetStream.
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Self>> {
        let map = match field.value() {
            Value::Boolean(enabled) => return Ok(enabled.then(Self::default)),
            Value::Text(text) => {
                return match text.to_lowercase().as_str() {
                    "enabled" | "enable" => Ok(Some(Self::default())),
                    "disabled" | "disable" => Ok(None),
                    _ => {
                        let expected = "Expected 'enabled' or 'disabled' for string value";
                        Err(field.diagnostic(format!("{expected}, got '{text}'")))
                    }
                };
            }
            Value::Map(map) => map,
            other => {
                let expected = "Expected map, bool or string to define JetStream";
                return Err(field.diagnostic(format!("{expected}, got {}", other.type_name())));
            }
        };
        let mut limits = Self::default();
        read_block(map, BlockKind::AccountJetStream, report, |field, _| limits.set(field));
        Ok(Some(limits))
    }

    fn set(&mut self, field: &Field<'_>) -> Read<bool> {
        match field.name() {
            "max_memory" | "max_mem" | "mem" | "memory" => self.max_memory = limit(field)?,
            "max_store" | "max_file" | "max_disk" | "store" | "disk" => self.max_store = limit(field)?,
            "max_streams" | "streams" => self.max_streams = limit(field)?,
            "max_consumers" | "consumers" => self.max_consumers = limit(field)?,
            "max_bytes_required" | "max_stream_bytes" | "max_bytes" => {
                let Value::Boolean(required) = field.value() else { return Err(unparseable(field, "bool")) };
                self.max_bytes_required = *required;
            }
            "mem_max_stream_bytes" | "memory_max_stream_bytes" => {
                self.memory_max_stream_bytes = limit(field)?;
            }
            "disk_max_stream_bytes" | "store_max_stream_bytes" => {
                self.store_max_stream_bytes = limit(field)?;
            }
            "max_ack_pending" => self.max_ack_pending = limit(field)?,
            "cluster_traffic" => self.cluster_traffic = ClusterTraffic::read(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// A negative number is no limit.
fn limit(field: &Field<'_>) -> Read<Option<u64>> {
    match field.value() {
        Value::Integer(number) => Ok(u64::try_from(*number).ok()),
        _ => Err(unparseable(field, "size")),
    }
}

fn unparseable(field: &Field<'_>, what: &str) -> crate::Diagnostic {
    let found = field.value().type_name();
    field.diagnostic(format!("Expected a parseable {what} for {:?}, got {found}", field.written()))
}

impl ClusterTraffic {
    fn read(field: &Field<'_>) -> Read<Self> {
        let expected = "'system' or 'owner' string value";
        match field.value() {
            Value::Text(text) => {
                match text.as_str() {
                    "system" | "" => Ok(ClusterTraffic::System),
                    "owner" => Ok(ClusterTraffic::Owner),
                    _ => Err(field
                        .diagnostic(format!("Expected {expected} for {:?}, got {text}", field.written()))),
                }
            }
            other => {
                let found = other.type_name();
                let written = field.written();
                Err(field.diagnostic(format!("Expected either {expected} for {written:?}, got {found}")))
            }
        }
    }
}
