//! Requests about consumers that exist. Each says how its body is read; errors are those that need
//! no look at the consumer. What creates them is
//! [`CreateConsumerRequest`](crate::consumer::config::CreateConsumerRequest), what asks them for
//! messages [`NextRequest`](crate::consumer::NextRequest).

use crate::api::request::{Paged, optional};
use crate::consumer::config::is_group_name;
use crate::error::ApiError;
use crate::json::{self, Moment, object};

/// `CONSUMER.NAMES` and `CONSUMER.LIST`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumersRequest {
    /// Consumers to skip.
    pub page: Paged,
}

/// `CONSUMER.PAUSE.<stream>.<consumer>`. Empty: go on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerPauseRequest {
    /// Until when; Go's zero time: go on.
    pub pause_until: Moment,
}

/// `CONSUMER.UNPIN.<stream>.<consumer>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConsumerUnpinRequest {
    /// The group whose client is served no longer.
    pub group: String,
}

/// `CONSUMER.RESET.<stream>.<consumer>`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerResetRequest {
    /// The message to go on with; 0: the one behind the last acknowledged.
    pub seq: u64,
}

object! { ConsumerPauseRequest, "JSApiConsumerPauseRequest":
    "pause_until" pause_until "time.Time",
}

object! { ConsumerUnpinRequest, "JSApiConsumerUnpinRequest":
    "group" group "string",
}

object! { ConsumerResetRequest, "JSApiConsumerResetRequest":
    "seq" seq "uint64",
}

object! { ConsumersRequest, "JSApiConsumersRequest": embeds page }

impl ConsumersRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        optional(body, "server.JSApiConsumersRequest", strict)
    }
}

impl ConsumerPauseRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        optional(body, "server.JSApiConsumerPauseRequest", strict)
    }
}

impl ConsumerUnpinRequest {
    /// Reads the body. Compat: unknown fields never matter here, and all of this is asked before
    /// the stream is looked for.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`], also when there is no group, or that no group can have this
    /// name.
    pub fn read(body: &[u8]) -> Result<Self, ApiError> {
        let mut read = Self::default();
        json::lenient(body, "server.JSApiConsumerUnpinRequest", &mut read).map_err(ApiError::invalid_json)?;
        if read.group.is_empty() {
            return Err(ApiError::invalid_json("consumer group not specified"));
        }
        if is_group_name(&read.group) { Ok(read) } else { Err(ApiError::CONSUMER_INVALID_GROUP_NAME) }
    }
}

impl ConsumerResetRequest {
    /// Reads the body. Compat: unknown fields never matter here. Only a consumer that exists is
    /// asked this: one that does not leaves the request without an answer.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn read(body: &[u8]) -> Result<Self, ApiError> {
        let mut read = Self::default();
        if !body.is_empty() {
            json::lenient(body, "server.JSApiConsumerResetRequest", &mut read)
                .map_err(ApiError::invalid_json)?;
        }
        Ok(read)
    }
}
