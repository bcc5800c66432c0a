//! However the bytes come, the outcome is one.

use super::round_trip::level_of;
use super::samples::{of_clients, of_servers};
use super::*;
use proptest::prelude::*;

/// Asks of every beginning of `bytes` what is to be read further; each answer is more than there
/// is and at most the packet. Gives the outcome with all bytes.
pub(super) fn read_in_pieces<'a, P: PartialEq + std::fmt::Debug, E: PartialEq + std::fmt::Debug>(
    bytes: &'a [u8],
    read: impl Fn(&'a [u8]) -> Result<Decoded<P>, E>,
) -> Result<Decoded<P>, E> {
    let whole = read(bytes);
    for cut in 0..bytes.len() {
        match read(&bytes[..cut]) {
            Ok(Decoded::Need(need)) => {
                assert!(need > cut, "asks for nothing more");
                match whole {
                    Ok(Decoded::Packet(_, len)) => assert!(need <= len, "{need} of {len} at {cut}"),
                    Ok(Decoded::Need(most)) => assert!(need <= most),
                    Err(_) => {}
                }
            }
            other => assert_eq!(other, whole, "at {cut} of {bytes:02x?}"),
        }
    }
    whole
}

#[test]
fn packets_say_how_much_they_need() {
    for level in [ProtocolLevel::V3, ProtocolLevel::V5] {
        for bytes in of_clients(level) {
            let outcome = read_in_pieces(&bytes, |part| decode(part, level_of(&bytes, level), &LIMITS));
            assert!(matches!(outcome, Ok(Decoded::Packet(_, len)) if len == bytes.len()));
        }
        for bytes in of_servers(level) {
            let outcome = read_in_pieces(&bytes, |part| decode_from_server(part, level, 1 << 20));
            assert!(matches!(outcome, Ok(Decoded::Packet(_, len)) if len == bytes.len()));
        }
    }
}

#[test]
fn packets_follow_each_other() {
    for level in [ProtocolLevel::V3, ProtocolLevel::V5] {
        let packets = of_clients(level);
        let all = packets.concat();
        let mut rest = &all[..];
        for bytes in &packets {
            let Decoded::Packet(_, len) = decode(rest, level_of(bytes, level), &LIMITS).unwrap() else {
                panic!("{bytes:02x?} is whole");
            };
            assert_eq!(len, bytes.len());
            rest = &rest[len..];
        }
        assert!(rest.is_empty());
    }
}

#[test]
fn a_long_packet_is_refused_with_its_header() {
    let limits = PacketLimits { max_connect: 100, max_packet: Some(200), ..LIMITS };
    let connect = decode(&hex("10 63"), None, &limits).unwrap_err();
    assert_eq!(connect.fault, PacketFault::TooLong(101, 100));
    assert_eq!(decode(&hex("10 62"), None, &limits), Ok(Decoded::Need(100)));
    let publish = decode(&hex("30 c6 01"), Some(ProtocolLevel::V3), &limits).unwrap_err();
    assert_eq!(publish.fault, PacketFault::TooLong(201, 200));
    assert_eq!(publish.to_string(), "maximum payload exceeded: 201 vs 200");
    assert_eq!(decode(&hex("30 c5 01"), Some(ProtocolLevel::V3), &limits), Ok(Decoded::Need(200)));
    let unlimited = PacketLimits { max_packet: None, ..limits };
    assert_eq!(
        decode(&hex("30 ff ff ff 7f"), Some(ProtocolLevel::V3), &unlimited),
        Ok(Decoded::Need(268_435_460))
    );
    assert_eq!(decode_from_server(&hex("30 09"), ProtocolLevel::V5, 10), Err(PacketFault::TooLong(11, 10)));
}

proptest! {
    /// Whatever comes: no panic, one outcome, and a packet that is written again is read as itself.
    #[test]
    fn any_bytes_have_one_outcome(
        first in any::<u8>(),
        body in prop::collection::vec(prop_oneof![0u8..8, any::<u8>(), b'a'..b'c'], 0..40),
        is_connected in any::<bool>(),
        level in prop_oneof![Just(ProtocolLevel::V3), Just(ProtocolLevel::V5)],
    ) {
        let first = if is_connected { first } else { 0x10 };
        let mut bytes = vec![first, body.len() as u8];
        bytes.extend_from_slice(&body);
        let known = is_connected.then_some(level);
        if let Ok(Decoded::Packet(packet, _)) = read_in_pieces(&bytes, |part| decode(part, known, &LIMITS)) {
            let mut again = Vec::new();
            packet.encode(level, &mut again);
            prop_assert_eq!(decode(&again, known, &LIMITS), Ok(Decoded::Packet(packet, again.len())));
        }
        if let Ok(Decoded::Packet(packet, _)) =
            read_in_pieces(&bytes, |part| decode_from_server(part, level, 1 << 20))
        {
            let mut again = Vec::new();
            packet.encode(level, &mut again);
            prop_assert_eq!(decode_from_server(&again, level, 1 << 20), Ok(Decoded::Packet(packet, again.len())));
        }
    }

    /// A byte changed or the end cut off a good packet.
    #[test]
    fn nearly_good_packets_have_one_outcome(
        which in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        level in prop_oneof![Just(ProtocolLevel::V3), Just(ProtocolLevel::V5)],
    ) {
        let packets = of_clients(level);
        let mut bytes = packets[which.index(packets.len())].clone();
        let known = level_of(&bytes, level);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = read_in_pieces(&bytes, |part| decode(part, known, &LIMITS));
        let packets = of_servers(level);
        let mut bytes = packets[which.index(packets.len())].clone();
        let at = at % bytes.len();
        bytes[at] = byte;
        let _ = read_in_pieces(&bytes, |part| decode_from_server(part, level, 1 << 20));
    }
}
