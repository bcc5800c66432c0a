//! DISCONNECT and AUTH.

use super::{Properties, ReasonCode};

/// The end of a connection, told by the side that ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DisconnectPacket<'a> {
    /// Why; always a success in version 3.1.1, which cannot say it.
    pub reason: ReasonCode,
    /// Empty in version 3.1.1.
    pub properties: Properties<'a>,
}

/// A step of an enhanced authentication; MQTT 5 only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuthPacket<'a> {
    /// How it goes on.
    pub reason: ReasonCode,
    /// Method and data.
    pub properties: Properties<'a>,
}
