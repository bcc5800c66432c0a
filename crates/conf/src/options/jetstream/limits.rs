//! Limits of what clients may ask of JetStream on this server.

use std::time::Duration;

use crate::options::field::{Diagnostics, Field, Read, read_block};
use crate::options::table::BlockKind;

/// Batches that publishers may have open.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BatchLimits {
    /// Per stream. `None`: 50 atomic ones, 1,000 fast ones.
    pub max_inflight_per_stream: Option<u32>,
    /// On this server. `None`: 1,000 atomic ones, 50,000 fast ones.
    pub max_inflight_total: Option<u32>,
    /// Messages of one atomic batch. `None`: 1,000.
    pub max_msgs: Option<u32>,
    /// From the first message to the last. `None`: 10 s.
    pub timeout: Option<Duration>,
}

/// Limits that count for all accounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JetStreamLimits {
    /// Highest `max_ack_pending` of a consumer; `None` is no limit.
    pub max_ack_pending: Option<u32>,
    /// Streams and consumers with more than one replica that this server takes; `None` is no limit.
    pub max_ha_assets: Option<u32>,
    /// Messages of one pull request; `None` is no limit.
    pub max_request_batch: Option<u32>,
    /// Consumers of a stream that sets no limit itself; `None` is no limit. Default 1,000.
    pub default_max_consumers: Option<u32>,
    /// Longest window in which a stream finds duplicates; `None` is no limit.
    pub duplicate_window: Option<Duration>,
    /// Batches.
    pub batch: BatchLimits,
}

impl Default for JetStreamLimits {
    fn default() -> Self {
        Self {
            max_ack_pending: None,
            max_ha_assets: None,
            max_request_batch: None,
            default_max_consumers: Some(1_000),
            duplicate_window: None,
            batch: BatchLimits::default(),
        }
    }
}

impl JetStreamLimits {
    pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        let map = field.block("Expected a map to define JetStreamLimits")?;
        let mut limits = Self::default();
        read_block(map, BlockKind::JetStreamLimits, report, |inner, report| {
            match inner.name() {
                "max_ack_pending" => limits.max_ack_pending = inner.limit()?,
                "max_ha_assets" => limits.max_ha_assets = inner.limit()?,
                "max_request_batch" => limits.max_request_batch = inner.limit()?,
                "default_max_consumers" => {
                    // 0 keeps the default.
                    if inner.integer()? != 0 {
                        limits.default_max_consumers = inner.limit()?;
                    }
                }
                "duplicate_window" => limits.duplicate_window = duration(inner)?,
                "batch" => limits.batch = BatchLimits::read(inner, report)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(limits)
    }
}

impl BatchLimits {
    fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        let map = field.block("Expected a map to define batch limits")?;
        let mut limits = Self::default();
        read_block(map, BlockKind::JetStreamBatch, report, |inner, _| {
            match inner.name() {
                "max_inflight_per_stream" => limits.max_inflight_per_stream = inner.limit()?,
                "max_inflight_total" => limits.max_inflight_total = inner.limit()?,
                "max_msgs" => limits.max_msgs = inner.limit()?,
                "timeout" => limits.timeout = duration(inner)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        Ok(limits)
    }
}

/// 0 and less mean that none was chosen. Compat: the error is Go's alone; the reference gives no
/// place.
fn duration(field: &Field<'_>) -> Read<Option<Duration>> {
    let nanos = crate::duration::parse(field.text()?).map_err(|error| field.diagnostic(error))?;
    Ok(u64::try_from(nanos).ok().filter(|&nanos| nanos > 0).map(Duration::from_nanos))
}
