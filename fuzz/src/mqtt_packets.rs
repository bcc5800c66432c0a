//! Packets of MQTT. The first byte of the input says the version and who sends, the rest is what
//! comes.
//!
//! Promised: whoever reads what is asked for, in whatever pieces, gets the packets and the fault of
//! who has all of it; nothing is asked for beyond the limits; a packet that is written again is
//! read as itself; and a fault has a text and a reason.

use crate::pieces::pieces;
use myelin_mqtt::packet::{
    ClientPacket, Decoded, PacketLimits, ProtocolLevel, ServerPacket, decode, decode_from_server,
};
use std::fmt::Debug;

const MAX: u32 = 600;
const LIMITS: PacketLimits =
    PacketLimits { max_connect: 300, max_packet: Some(MAX), accepts_5: true, accepts_qos2: true };

/// Any bytes from a connection.
pub fn mqtt_packets(data: &[u8]) {
    let Some((sender, bytes)) = data.split_first() else { return };
    let level = if sender & 1 == 0 { ProtocolLevel::V3 } else { ProtocolLevel::V5 };
    match sender >> 1 & 3 {
        0 => whole_and_in_pieces(bytes, Client(None)),
        1 => whole_and_in_pieces(bytes, Client(Some(level))),
        _ => whole_and_in_pieces(bytes, Server(level)),
    }
}

/// One side of a connection.
trait Peer: Copy {
    type Packet<'a>: Debug + PartialEq;
    type Fault: Debug + PartialEq + ToString;

    fn read<'a>(&self, bytes: &'a [u8]) -> Result<Decoded<Self::Packet<'a>>, Self::Fault>;
    /// Writes the packet, and knows what it says of those that follow.
    fn write(&mut self, packet: &Self::Packet<'_>, out: &mut Vec<u8>);
}

/// A client, with its version as far as it has told.
#[derive(Clone, Copy)]
struct Client(Option<ProtocolLevel>);

impl Peer for Client {
    type Packet<'a> = ClientPacket<'a>;
    type Fault = myelin_mqtt::packet::Malformed;

    fn read<'a>(&self, bytes: &'a [u8]) -> Result<Decoded<ClientPacket<'a>>, Self::Fault> {
        decode(bytes, self.0, &LIMITS)
    }

    fn write(&mut self, packet: &ClientPacket<'_>, out: &mut Vec<u8>) {
        if let ClientPacket::Connect(connect) = packet {
            self.0 = Some(connect.level);
        }
        packet.encode(self.0.expect("the first packet is a CONNECT"), out);
    }
}

#[derive(Clone, Copy)]
struct Server(ProtocolLevel);

impl Peer for Server {
    type Packet<'a> = ServerPacket<'a>;
    type Fault = myelin_mqtt::packet::PacketFault;

    fn read<'a>(&self, bytes: &'a [u8]) -> Result<Decoded<ServerPacket<'a>>, Self::Fault> {
        decode_from_server(bytes, self.0, MAX)
    }

    fn write(&mut self, packet: &ServerPacket<'_>, out: &mut Vec<u8>) {
        packet.encode(self.0, out);
    }
}

fn whole_and_in_pieces<P: Peer>(bytes: &[u8], peer: P) {
    let mut whole = Reader { peer, written: Vec::new() };
    let mut rest = bytes;
    let fault = whole.read(&mut rest).err();
    if let Some(fault) = &fault {
        assert!(!fault.to_string().is_empty());
    }
    let mut split = Reader { peer, written: Vec::new() };
    let mut buffer = Vec::new();
    for piece in pieces(bytes) {
        buffer.extend_from_slice(piece);
        let mut rest = &buffer[..];
        if let Err(other) = split.read(&mut rest) {
            assert_eq!(Some(other), fault);
            assert_eq!(split.written, whole.written);
            return;
        }
        let used = buffer.len() - rest.len();
        buffer.drain(..used);
    }
    assert_eq!(None, fault);
    assert_eq!(split.written, whole.written);
}

struct Reader<P> {
    peer: P,
    /// Packets so far, as they are written again.
    written: Vec<u8>,
}

impl<P: Peer> Reader<P> {
    /// Takes whole packets off the front of `bytes`.
    fn read(&mut self, bytes: &mut &[u8]) -> Result<(), P::Fault> {
        loop {
            let (packet, len) = match self.peer.read(bytes)? {
                Decoded::Packet(packet, len) => (packet, len),
                Decoded::Need(need) => {
                    assert!(need > bytes.len(), "asks for nothing more");
                    assert!(need <= MAX as usize, "asks for more than the limit");
                    return Ok(());
                }
            };
            assert!((2..=bytes.len()).contains(&len));
            let before = self.peer;
            let start = self.written.len();
            self.peer.write(&packet, &mut self.written);
            let again = &self.written[start..];
            assert!(again.len() <= len, "longer than what was read");
            assert_eq!(before.read(again), Ok(Decoded::Packet(packet, again.len())));
            *bytes = &bytes[len..];
        }
    }
}
