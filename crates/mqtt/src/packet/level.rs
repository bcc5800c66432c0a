//! Versions of the protocol.

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum ProtocolLevel {
    /// MQTT 3.1.1.
    V3 = 4,
    /// MQTT 5.
    V5 = 5,
}
