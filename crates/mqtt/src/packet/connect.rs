//! CONNECT and CONNACK.

use super::{Level, Properties, Qos, ReasonCode};

/// A client's first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectPacket<'a> {
    /// Version that the client speaks.
    pub level: Level,
    /// Whether a session that exists ends: clean start, in version 3.1.1 clean session.
    pub clean: bool,
    /// Seconds that may pass without a packet; 0 is for ever.
    pub keep_alive: u16,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// Empty when the server shall choose one.
    pub client_id: &'a str,
    /// Message for when the connection ends without a DISCONNECT.
    pub will: Option<Will<'a>>,
    /// Name of the user; never empty in version 3.1.1.
    pub user_name: Option<&'a str>,
    /// Password or token.
    pub password: Option<&'a [u8]>,
}

/// Message that the server publishes for a client that is gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Will<'a> {
    /// QoS of the message.
    pub qos: Qos,
    /// Whether the message is retained.
    pub retain: bool,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
    /// A topic that can be published to.
    pub topic: &'a str,
    /// Payload of the message.
    pub payload: &'a [u8],
}

/// Answer to a CONNECT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnAckPacket<'a> {
    /// Whether the client's session was there already.
    pub session_present: bool,
    /// Success or why not; version 3.1.1 has the few of [`ReasonCode::return_code`].
    pub reason: ReasonCode,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
}
