//! Kinds of packets.

/// Kind of a packet, by the number in its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum PacketKind {
    Connect = 1,
    ConnAck,
    Publish,
    PubAck,
    PubRec,
    PubRel,
    PubComp,
    Subscribe,
    SubAck,
    Unsubscribe,
    UnsubAck,
    PingReq,
    PingResp,
    Disconnect,
    Auth,
}

impl PacketKind {
    /// The kind that the first byte of a packet says; 0 is none.
    pub fn of(first: u8) -> Option<Self> {
        Some(match first >> 4 {
            1 => Self::Connect,
            2 => Self::ConnAck,
            3 => Self::Publish,
            4 => Self::PubAck,
            5 => Self::PubRec,
            6 => Self::PubRel,
            7 => Self::PubComp,
            8 => Self::Subscribe,
            9 => Self::SubAck,
            10 => Self::Unsubscribe,
            11 => Self::UnsubAck,
            12 => Self::PingReq,
            13 => Self::PingResp,
            14 => Self::Disconnect,
            15 => Self::Auth,
            _ => return None,
        })
    }

    /// Flags that the first byte has to have; `None` where they say something.
    pub fn fixed_flags(self) -> Option<u8> {
        match self {
            Self::Publish => None,
            Self::PubRel | Self::Subscribe | Self::Unsubscribe => Some(2),
            _ => Some(0),
        }
    }

    /// First byte of a packet of this kind, the flags of a PUBLISH aside.
    pub fn first_byte(self) -> u8 {
        (self as u8) << 4 | self.fixed_flags().unwrap_or(0)
    }
}
