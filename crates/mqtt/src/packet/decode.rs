//! Packets out of a buffer: the fixed header with its bounds, and the kinds.

use super::ack::AckPacket;
use super::client::ClientPacket;
use super::connect::{ConnAckPacket, ConnectPacket};
use super::disconnect::{AuthPacket, DisconnectPacket};
use super::exchange::Qos;
use super::fault::{Malformed, PacketFault, Said};
use super::fields::Fields;
use super::header::{FixedHeader, fixed_header};
use super::kind::PacketKind;
use super::level::ProtocolLevel;
use super::limits::PacketLimits;
use super::property::PropertyPlace;
use super::publish::PublishPacket;
use super::server::ServerPacket;
use super::subscribe::{SubAckPacket, SubscribePacket, UnsubAckPacket, UnsubscribePacket};

/// The shortest packet, in bytes.
const SHORTEST: usize = 2;
/// How an HTTP request begins, of somebody who has taken the port for that of WebSocket.
const HTTP: &[u8] = b"GET ";

/// The outcome of [`decode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decoded<P> {
    /// A whole packet and the bytes that it took.
    Packet(P, usize),
    /// The packet needs at least this many bytes from the start of the buffer.
    Need(usize),
}

/// Reads the packet of a client at the front of `buf`. `level` is that of the connection, `None`
/// before its CONNECT.
///
/// # Errors
/// A [`Malformed`] ends the connection; its refusal is sent before.
#[inline]
pub fn decode<'a>(
    buf: &'a [u8],
    level: Option<ProtocolLevel>,
    limits: &PacketLimits,
) -> Result<Decoded<ClientPacket<'a>>, Malformed> {
    match level {
        Some(level) => from_client(buf, level, limits).map_err(|fault| Malformed::connected(fault, level)),
        None => {
            let mut said = Said::default();
            first(buf, limits, &mut said).map_err(|fault| Malformed::before_connect(fault, &said))
        }
    }
}

/// Outcome of a look at the front of a buffer.
enum FramedPacket<'a> {
    /// The fields of a packet, and the bytes of all of it.
    Whole(Fields<'a>, usize),
    /// The packet needs at least this many bytes.
    Need(usize),
}

/// Finds the packet at the front of `buf`; `check` says of the header alone whether the packet is
/// one that can be read.
#[inline]
fn frame(
    buf: &[u8],
    check: impl FnOnce(&FixedHeader) -> Result<(), PacketFault>,
) -> Result<FramedPacket<'_>, PacketFault> {
    let Some(header) = fixed_header(buf)? else { return Ok(FramedPacket::Need(SHORTEST.max(buf.len() + 1))) };
    check(&header)?;
    let len = header.packet_len();
    match buf.get(header.len..len) {
        Some(fields) => Ok(FramedPacket::Whole(Fields::new(fields), len)),
        None => Ok(FramedPacket::Need(len)),
    }
}

/// The kind of a packet with this first byte, unless its flags are wrong.
#[inline]
fn kind(first: u8) -> Result<PacketKind, PacketFault> {
    let kind = PacketKind::of(first).ok_or(PacketFault::UnknownKind(first))?;
    match kind.fixed_flags() {
        Some(flags) if flags != first & 0x0f => Err(PacketFault::HeaderFlags(first)),
        _ => Ok(kind),
    }
}

fn bounded(header: &FixedHeader, most: Option<u32>) -> Result<(), PacketFault> {
    let len = header.packet_len() as u64;
    match most {
        Some(most) if len > u64::from(most) => Err(PacketFault::TooLong(len, most)),
        _ => Ok(()),
    }
}

/// Reads a connection's first packet.
fn first<'a>(
    buf: &'a [u8],
    limits: &PacketLimits,
    said: &mut Said<'a>,
) -> Result<Decoded<ClientPacket<'a>>, PacketFault> {
    let Some(&first) = buf.first() else { return Ok(Decoded::Need(SHORTEST)) };
    if PacketKind::of(first) != Some(PacketKind::Connect) {
        return match buf.len() < HTTP.len() && HTTP.starts_with(buf) {
            true => Ok(Decoded::Need(HTTP.len())),
            false if buf.starts_with(HTTP) => Err(PacketFault::WebSocketPort),
            false => Err(PacketFault::FirstPacket(first)),
        };
    }
    kind(first)?;
    match frame(buf, |header| bounded(header, Some(limits.max_connect)))? {
        FramedPacket::Need(len) => Ok(Decoded::Need(len)),
        FramedPacket::Whole(fields, len) => {
            let connect = ConnectPacket::read(fields, limits, said)?;
            Ok(Decoded::Packet(ClientPacket::Connect(connect), len))
        }
    }
}

#[inline]
fn from_client<'a>(
    buf: &'a [u8],
    level: ProtocolLevel,
    limits: &PacketLimits,
) -> Result<Decoded<ClientPacket<'a>>, PacketFault> {
    let Some(&first) = buf.first() else { return Ok(Decoded::Need(SHORTEST)) };
    let kind = kind(first)?;
    expect_of_client(kind, first, level)?;
    let check = |header: &FixedHeader| check_length(header, kind, level, limits.max_packet);
    let (fields, len) = match frame(buf, check)? {
        FramedPacket::Whole(fields, len) => (fields, len),
        FramedPacket::Need(len) => return Ok(Decoded::Need(len)),
    };
    let packet = match kind {
        PacketKind::Publish => {
            let is_qos2 = first & 6 == (Qos::ExactlyOnce as u8) << 1;
            if is_qos2 && !limits.accepts_qos2 {
                return Err(PacketFault::PublishQos2);
            }
            ClientPacket::Publish(PublishPacket::read(first, fields, level, PropertyPlace::Publish)?)
        }
        PacketKind::PubAck => ClientPacket::PubAck(AckPacket::read(kind, fields, level)?),
        PacketKind::PubRec => ClientPacket::PubRec(AckPacket::read(kind, fields, level)?),
        PacketKind::PubRel => ClientPacket::PubRel(AckPacket::read(kind, fields, level)?),
        PacketKind::PubComp => ClientPacket::PubComp(AckPacket::read(kind, fields, level)?),
        PacketKind::Subscribe => ClientPacket::Subscribe(SubscribePacket::read(fields, level)?),
        PacketKind::Unsubscribe => ClientPacket::Unsubscribe(UnsubscribePacket::read(fields, level)?),
        PacketKind::PingReq => ClientPacket::PingReq,
        PacketKind::Disconnect => {
            ClientPacket::Disconnect(DisconnectPacket::read(fields, level, PropertyPlace::Leave)?)
        }
        _ => ClientPacket::Auth(AuthPacket::read(fields)?),
    };
    Ok(Decoded::Packet(packet, len))
}

/// Refuses kinds that nobody sends who is connected.
fn expect_of_client(kind: PacketKind, first: u8, level: ProtocolLevel) -> Result<(), PacketFault> {
    match kind {
        PacketKind::Connect => Err(PacketFault::SecondConnect),
        PacketKind::ConnAck | PacketKind::SubAck | PacketKind::UnsubAck | PacketKind::PingResp => {
            Err(PacketFault::UnknownKind(first))
        }
        PacketKind::Auth if level == ProtocolLevel::V3 => Err(PacketFault::UnknownKind(first)),
        _ => Ok(()),
    }
}

/// Says of a header alone whether the packet can be right, and is not too long.
#[inline]
fn check_length(
    header: &FixedHeader,
    kind: PacketKind,
    level: ProtocolLevel,
    most: Option<u32>,
) -> Result<(), PacketFault> {
    if level == ProtocolLevel::V5 && !header.is_shortest() {
        return Err(PacketFault::LengthForm);
    }
    let exact = match kind {
        PacketKind::PingReq | PacketKind::PingResp => Some(0),
        PacketKind::Disconnect if level == ProtocolLevel::V3 => Some(0),
        PacketKind::PubAck | PacketKind::PubRec | PacketKind::PubRel | PacketKind::PubComp
            if level == ProtocolLevel::V3 =>
        {
            Some(2)
        }
        _ => None,
    };
    match exact {
        Some(exact) if header.remaining != exact => Err(PacketFault::Length(header.first, header.remaining)),
        _ => bounded(header, most),
    }
}

/// Reads the packet of a server at the front of `buf`, of at most `max_packet` bytes.
///
/// # Errors
/// A fault in the packet.
pub fn decode_from_server(
    buf: &[u8],
    level: ProtocolLevel,
    max_packet: u32,
) -> Result<Decoded<ServerPacket<'_>>, PacketFault> {
    let Some(&first) = buf.first() else { return Ok(Decoded::Need(SHORTEST)) };
    let kind = kind(first)?;
    let check = |header: &FixedHeader| check_length(header, kind, level, Some(max_packet));
    let (fields, len) = match frame(buf, check)? {
        FramedPacket::Whole(fields, len) => (fields, len),
        FramedPacket::Need(len) => return Ok(Decoded::Need(len)),
    };
    let packet = match kind {
        PacketKind::ConnAck => ServerPacket::ConnAck(ConnAckPacket::read(fields, level)?),
        PacketKind::Publish => {
            ServerPacket::Publish(PublishPacket::read(first, fields, level, PropertyPlace::Deliver)?)
        }
        PacketKind::PubAck => ServerPacket::PubAck(AckPacket::read(kind, fields, level)?),
        PacketKind::PubRec => ServerPacket::PubRec(AckPacket::read(kind, fields, level)?),
        PacketKind::PubRel => ServerPacket::PubRel(AckPacket::read(kind, fields, level)?),
        PacketKind::PubComp => ServerPacket::PubComp(AckPacket::read(kind, fields, level)?),
        PacketKind::SubAck => ServerPacket::SubAck(SubAckPacket::read(fields, level)?),
        PacketKind::UnsubAck => ServerPacket::UnsubAck(UnsubAckPacket::read(fields, level)?),
        PacketKind::PingResp => ServerPacket::PingResp,
        PacketKind::Disconnect if level == ProtocolLevel::V5 => {
            ServerPacket::Disconnect(DisconnectPacket::read(fields, level, PropertyPlace::Dismiss)?)
        }
        PacketKind::Auth if level == ProtocolLevel::V5 => ServerPacket::Auth(AuthPacket::read(fields)?),
        _ => return Err(PacketFault::UnknownKind(first)),
    };
    Ok(Decoded::Packet(packet, len))
}
