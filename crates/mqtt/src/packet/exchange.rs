//! QoS, and the exchange of packets that it asks for.

use std::num::NonZeroU16;

/// Number of an exchange of packets; never 0.
pub type PacketId = NonZeroU16;

/// How sure a delivery is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Qos {
    /// QoS 0.
    #[default]
    AtMostOnce = 0,
    /// QoS 1.
    AtLeastOnce = 1,
    /// QoS 2.
    ExactlyOnce = 2,
}

impl Qos {
    /// The QoS with this number.
    pub fn new(number: u8) -> Option<Self> {
        match number {
            0 => Some(Self::AtMostOnce),
            1 => Some(Self::AtLeastOnce),
            2 => Some(Self::ExactlyOnce),
            _ => None,
        }
    }
}

/// QoS of a PUBLISH, with the number of the exchange that follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exchange {
    /// QoS 0: none follows.
    AtMostOnce,
    /// QoS 1: PUBACK follows.
    AtLeastOnce(PacketId),
    /// QoS 2: PUBREC, PUBREL and PUBCOMP follow.
    ExactlyOnce(PacketId),
}

impl Exchange {
    /// QoS that asks for the exchange.
    pub fn qos(self) -> Qos {
        match self {
            Self::AtMostOnce => Qos::AtMostOnce,
            Self::AtLeastOnce(_) => Qos::AtLeastOnce,
            Self::ExactlyOnce(_) => Qos::ExactlyOnce,
        }
    }

    /// Number of the exchange.
    pub fn packet_id(self) -> Option<PacketId> {
        match self {
            Self::AtMostOnce => None,
            Self::AtLeastOnce(id) | Self::ExactlyOnce(id) => Some(id),
        }
    }
}
