//! Request of a client to create or update a stream.

use super::StreamConfig;
use crate::error::ApiError;
use crate::json::{self, Abort, Decode, JsonReader, Object, same_name};
use myelin_wire::json::Value;

/// A configuration as it was sent, and how strictly it is meant.
#[derive(Clone, Debug, Default)]
pub struct StreamConfigRequest {
    /// Not yet checked, without defaults.
    pub config: StreamConfig,
    /// Refuse what would otherwise be adjusted.
    pub pedantic: bool,
    /// Whether `storage` was sent: only then is a limit of bytes checked before everything else.
    pub(super) names_storage: bool,
}

impl StreamConfigRequest {
    /// Reads the body of a request; an empty one is an empty configuration. Without `strict`
    /// (`jetstream { strict: false }`), unknown fields are ignored.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        json::request(body, "server.StreamConfigRequest", strict).map_err(ApiError::invalid_json)
    }
}

impl Object for StreamConfigRequest {
    const NAME: &'static str = "StreamConfigRequest";

    fn member(
        &mut self,
        owner: &'static str,
        key: &str,
        value: Value<'_>,
        reader: &mut JsonReader,
    ) -> Option<Result<(), Abort>> {
        if same_name("pedantic", key) {
            return Some(reader.field(owner, "pedantic", |r| self.pedantic.decode(value, "bool", r)));
        }
        self.names_storage |= same_name("storage", key);
        json::embedded(&mut self.config, owner, key, value, reader)
    }
}

impl Decode for StreamConfigRequest {
    fn decode(&mut self, value: Value<'_>, go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        reader.object(self, value, go_type)
    }
}
