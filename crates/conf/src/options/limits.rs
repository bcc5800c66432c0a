//! Limits of one connection, and of all of them together.

use std::num::NonZeroU8;
use std::time::Duration;

use super::field::{Diagnostics, Field, Read};

/// The largest message when there is no limit (`max_payload: -1`): as many bytes as the protocol
/// can count.
pub const UNLIMITED_PAYLOAD: u32 = i32::MAX.unsigned_abs();

/// Reaction to a client whose socket accepts nothing within the write deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WriteTimeout {
    /// The kind of connection decides: clients are closed.
    #[default]
    Default,
    /// The connection is closed.
    Close,
    /// The write is tried again.
    Retry,
}

/// Limits of the client protocol and of the connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LimitOptions {
    /// Bytes of one protocol line. Default 4096.
    pub max_control_line: u32,
    /// Bytes of one message, headers included. Default 1 MiB. Never above `max_pending`, but for
    /// [`UNLIMITED_PAYLOAD`].
    pub max_payload: u32,
    /// Bytes that may wait for one client before it is a slow consumer. Default 64 MiB.
    pub max_pending: u64,
    /// Client connections. Default 65536; 0 admits none (`/varz` shows that as -1).
    pub max_connections: u32,
    /// Subscriptions of one connection; `None` is unlimited.
    pub max_subscriptions: Option<u32>,
    /// Tokens in a subscription's subject; `None` is unlimited.
    pub max_sub_tokens: Option<NonZeroU8>,
    /// Idle time after which the server pings a client. Default 2 minutes.
    pub ping_interval: Duration,
    /// Unanswered pings before a connection is stale. Default 2.
    pub ping_max: u32,
    /// Longest time one write may take. Default 10 s.
    pub write_deadline: Duration,
    /// Reaction when a write takes longer.
    pub write_timeout: WriteTimeout,
    /// Never hold a fast publisher back for slow receivers.
    pub no_fast_producer_stall: bool,
    /// Closed connections that `/connz` remembers. Default 10000.
    pub max_closed_clients: u32,
    /// Behave like a server that does not know message headers.
    pub no_header_support: bool,
}

impl Default for LimitOptions {
    fn default() -> Self {
        Self {
            max_control_line: 4096,
            max_payload: 1024 * 1024,
            max_pending: 64 * 1024 * 1024,
            max_connections: 64 * 1024,
            max_subscriptions: None,
            max_sub_tokens: None,
            ping_interval: Duration::from_secs(120),
            ping_max: 2,
            write_deadline: Duration::from_secs(10),
            write_timeout: WriteTimeout::Default,
            no_fast_producer_stall: false,
            max_closed_clients: 10_000,
            no_header_support: false,
        }
    }
}

impl LimitOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        let default = Self::default();
        match field.name() {
            "max_control_line" => {
                self.max_control_line = control_line(field, default.max_control_line, report)?
            }
            "max_payload" => self.max_payload = max_payload(field, default.max_payload, report)?,
            "max_pending" => self.max_pending = max_pending(field, default.max_pending, report)?,
            "max_connections" | "max_conn" => self.max_connections = field.limit()?.unwrap_or(0),
            "max_subscriptions" | "max_subs" => self.max_subscriptions = field.limit()?,
            "max_sub_tokens" | "max_subscription_tokens" => {
                self.max_sub_tokens = Some(max_sub_tokens(field)?)
            }
            "ping_interval" => self.ping_interval = field.duration_or(default.ping_interval, report)?,
            "ping_max" => self.ping_max = field.count_or(default.ping_max, report)?,
            "write_deadline" => self.write_deadline = field.duration_or(default.write_deadline, report)?,
            "write_timeout" => self.write_timeout = WriteTimeout::read(field)?,
            "no_fast_producer_stall" => self.no_fast_producer_stall = field.boolean()?,
            "max_closed_clients" => {
                self.max_closed_clients = field.count_or(default.max_closed_clients, report)?
            }
            "no_header_support" => self.no_header_support = field.boolean()?,
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// The reference keeps these in 32 bits and says so of larger numbers.
fn is_too_big(field: &Field<'_>) -> Read<()> {
    if field.integer()? > i64::from(i32::MAX) {
        return Err(field.diagnostic(format!("{} value is too big", field.written())));
    }
    Ok(())
}

fn control_line(field: &Field<'_>, default: u32, report: &mut Diagnostics) -> Read<u32> {
    is_too_big(field)?;
    field.count_or(default, report)
}

fn max_payload(field: &Field<'_>, default: u32, report: &mut Diagnostics) -> Read<u32> {
    is_too_big(field)?;
    if field.integer()? == -1 { Ok(UNLIMITED_PAYLOAD) } else { field.count_or(default, report) }
}

fn max_pending(field: &Field<'_>, default: u64, report: &mut Diagnostics) -> Read<u64> {
    match field.integer()? {
        0 => Ok(default),
        bytes if bytes < 0 => {
            let message = format!("max_payload cannot be higher than max_pending ({bytes})");
            report.refuse_start(field.diagnostic(message));
            Ok(default)
        }
        bytes => Ok(bytes.unsigned_abs()),
    }
}

fn max_sub_tokens(field: &Field<'_>) -> Read<NonZeroU8> {
    let tokens = field.count_up_to(i64::from(u8::MAX))?;
    let tokens = u8::try_from(tokens).ok().and_then(NonZeroU8::new);
    // Compat: zero is refused in the words that are meant for negative numbers.
    tokens.ok_or_else(|| field.diagnostic(format!("{} value can not be negative", field.written())))
}

impl LimitOptions {
    /// [`LimitOptions::max_payload`] for people. Compat: no limit is written as -1.
    pub fn shown_max_payload(&self) -> i64 {
        match self.max_payload {
            UNLIMITED_PAYLOAD => -1,
            max => i64::from(max),
        }
    }
}

impl WriteTimeout {
    /// Name in logs and pages; nothing for the default.
    pub fn name(self) -> &'static str {
        match self {
            WriteTimeout::Default => "",
            WriteTimeout::Close => "close",
            WriteTimeout::Retry => "retry",
        }
    }

    pub(super) fn read(field: &Field<'_>) -> Read<Self> {
        match field.text()? {
            "default" => Ok(WriteTimeout::Default),
            "close" => Ok(WriteTimeout::Close),
            "retry" => Ok(WriteTimeout::Retry),
            _ => Err(field.diagnostic("write_timeout must be 'default', 'close' or 'retry'")),
        }
    }
}
