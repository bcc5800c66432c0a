//! Packets of MQTT 3.1.1 and 5: a buffer in, one packet at a time out, and the way back.
//!
//! Pure and without state: [`decode`] looks at a buffer that begins at a packet and either gives
//! one whole packet that borrows it, says how many bytes it needs, or refuses. Nothing is allocated
//! for a packet; lists (filters, properties) are checked when the packet is decoded and read from
//! the buffer when somebody walks through them. [`decode_from_server`] reads what a server sends,
//! for tests and load generators. Packets write themselves: [`ClientPacket::encode`],
//! [`ServerPacket::encode`]; a delivered PUBLISH has a way of its own, [`PublishHeader`].
//!
//! Bounds hold before a body is buffered: the fixed header alone says the length, and a packet that
//! is too long is refused with the first bytes.
//!
//! Compat: version 3.1.1 is read with nats-server's checks in nats-server's order, and
//! [`PacketFault`] has its words. Stricter: a packet has to fill its length exactly (nats-server
//! takes bytes behind the fields of a CONNECT for the next packet).

mod ack;
mod client;
mod connect;
mod decode;
mod disconnect;
mod exchange;
mod fault;
mod fields;
mod header;
mod kind;
mod level;
mod limits;
mod property;
mod publish;
mod reason;
mod server;
mod subscribe;
mod write;

pub use ack::AckPacket;
pub use client::ClientPacket;
pub use connect::{ConnAckPacket, ConnectPacket, Will};
pub use decode::{Decoded, decode, decode_from_server};
pub use disconnect::{AuthPacket, DisconnectPacket};
pub use exchange::{Exchange, PacketId, Qos};
pub use fault::{Malformed, PacketFault, PacketField, Refusal};
pub use header::{FixedHeader, fixed_header};
pub use kind::PacketKind;
pub use level::ProtocolLevel;
pub use limits::PacketLimits;
pub use property::{Properties, Property, PropertyBuf, SubscriptionId};
pub use publish::{PublishHeader, PublishPacket};
pub use reason::ReasonCode;
pub use server::ServerPacket;
pub use subscribe::{
    RetainHandling, SubAckPacket, SubscribeFilters, SubscribeOptions, SubscribePacket, UnsubAckPacket,
    UnsubscribeFilters, UnsubscribePacket,
};

#[cfg(test)]
mod tests;
