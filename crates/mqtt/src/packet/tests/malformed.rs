//! Malformed packets, of both versions: what the log says, and what the peer is told.

use super::pieces::read_in_pieces;
use super::*;

/// Bytes of a first packet, the text for the log, the answer.
type FirstRow = (&'static str, &'static str, &'static str);
/// Bytes of a later packet, the text for the log, and the reason that a DISCONNECT of MQTT 5 says;
/// a row of version 3.1.1 has none.
type Row = (&'static str, &'static str, Option<u8>);

/// A CONNECT of version 3.1.1 up to its flags, without the fixed header.
const V3: &str = "0004 4d515454 04";
const V5: &str = "0004 4d515454 05";

#[test]
fn first_packets() {
    // Texts and answers of nats-server 2.15.2 where the row is of version 3.1.1.
    let rows: &[FirstRow] = &[
        ("30", "the first packet should be a CONNECT (16), got 48", ""),
        ("00", "the first packet should be a CONNECT (16), got 0", ""),
        ("47455420", "MQTT clients over websocket must connect to the Websocket port, not the MQTT port", ""),
        ("47455421", "the first packet should be a CONNECT (16), got 64", ""),
        ("11", "invalid fixed header flags 1 for packet type 10", ""),
        ("10ffffffff", "malformed variable int", ""),
        ("1000", "error reading protocol name: unexpected EOF", ""),
        ("1003 0004 4d", "error reading protocol name: unexpected EOF", ""),
        ("1006 0004 4d515454", "error reading protocol level: EOF", ""),
        ("1009 0006 4d5149736470 03", "older protocol \"MQIsdp\" not supported", ""),
        ("1007 0004 4d515455 04", "expected connect packet with protocol name \"MQTT\", got \"MQTU\"", ""),
        ("1007 0004 4d515454 03", "unacceptable protocol version of 3", "20020001"),
        ("1007 0004 4d515454 06", "unacceptable protocol version of 6", "20020001"),
    ];
    for (bytes, text, answer) in rows {
        refused_first(bytes, text, answer, &LIMITS);
    }
    let limits = PacketLimits { accepts_5: false, accepts_qos2: false, ..LIMITS };
    refused_first("1007 0004 4d515454 05", "unacceptable protocol version of 5", "20020001", &limits);
    let text = "server does not accept QoS2 for Will messages";
    refused_first(&packet(0x10, &format!("{V3} 14")), text, "20020010", &limits);
    refused_first(
        &packet(0x10, &format!("{V3} 14")),
        "error reading keep alive: unexpected EOF",
        "",
        &LIMITS,
    );
    let limits = PacketLimits { accepts_5: true, ..limits };
    refused_first(&packet(0x10, &format!("{V5} 14")), text, "2003009b00", &limits);
}

#[test]
fn connects() {
    // What stands behind the version; the answer of version 3.1.1, and of MQTT 5.
    let rows: &[(&str, &str, &str, &str)] = &[
        ("", "error reading flags: EOF", "", "81"),
        ("01", "connect flags reserved bit not set to 0", "", "81"),
        ("08", "if Will flag is set to 0, Will QoS must be 0 too, got 1", "", "81"),
        ("20", "if Will flag is set to 0, Will Retain flag must be 0 too", "", "81"),
        ("1c", "if Will flag is set to 1, Will QoS can be 0, 1 or 2, got 3", "", "81"),
        ("02 00", "error reading keep alive: unexpected EOF", "", "81"),
        ("02 0000 P", "error reading client ID: unexpected EOF", "", "81"),
        ("02 0000 P 0002 61", "error reading client ID: unexpected EOF", "", "81"),
        ("02 0000 P 0001 ff", "invalid utf8 for client ID \"\\xff\"", "02", "81"),
        ("02 0000 P 0003 eda080", "invalid utf8 for client ID \"\\xed\\xa0\\x80\"", "02", "81"),
        ("02 0000 P 0003 610062", "invalid null character in client ID \"a\\x00b\"", "02", "81"),
        ("02 0000 P 0003 612e62", "invalid character in client ID \"a.b\"", "02", "85"),
        ("02 0000 P 0001 2a", "invalid character in client ID \"*\"", "02", "85"),
        ("02 0000 P 0001 3e", "invalid character in client ID \">\"", "02", "85"),
        ("02 0000 P 0001 0d", "invalid character in client ID \"\\r\"", "02", "85"),
        ("02 0000 P 0001 07", "invalid character in client ID \"\\a\"", "02", "85"),
        ("06 0000 P 0001 61 P 0000", "empty Will topic not allowed", "", "90"),
        ("06 0000 P 0001 61 P 0001 00", "invalid null character in Will topic \"\\x00\"", "", "81"),
        ("06 0000 P 0001 61 P 0001 c0", "invalid utf8 for Will topic \"\\xc0\"", "", "81"),
        ("06 0000 P 0001 61 P 0001 23", "wildcards not allowed in publish's topic: \"#\"", "", "90"),
        ("06 0000 P 0001 61 P 0003 610a62", "character not supported for MQTT topics", "", "90"),
        ("06 0000 P 0001 61 P 0001 62 0002 01", "error reading Will message: unexpected EOF", "", "81"),
        ("82 0000 P 0001 61 00", "error reading user name: unexpected EOF", "", "81"),
        ("82 0000 P 0001 61 0001 ff", "invalid utf8 for user name \"\\xff\"", "04", "81"),
        ("82 0000 P 0001 61 0002 0061", "invalid null character in user name \"\\x00a\"", "04", "81"),
        ("c2 0000 P 0001 61 0001 75", "error reading password: unexpected EOF", "", "81"),
        ("02 0000 P 0001 61 00", "packet goes on behind its last field", "", "81"),
    ];
    for (rest, text, code, reason) in rows {
        let answer = if code.is_empty() { String::new() } else { format!("200200{code}") };
        refused_first(&packet(0x10, &format!("{V3} {}", rest.replace('P', ""))), text, &answer, &LIMITS);
        let answer = format!("200300{reason}00");
        refused_first(&packet(0x10, &format!("{V5} {}", rest.replace('P', "00"))), text, &answer, &LIMITS);
    }
    // What only version 3.1.1 refuses.
    for (rest, text, answer) in [
        ("00 0000 0000", "when client ID is empty, clean session flag must be set to 1", "20020002"),
        ("42", "password flag set but username flag is not", ""),
        ("82 0000 0001 61 0000", "empty user name not allowed", "20020004"),
    ] {
        refused_first(&packet(0x10, &format!("{V3} {rest}")), text, answer, &LIMITS);
    }
    for rest in ["00 0000 00 0000", "42 0000 00 0000 0000", "82 0000 00 0001 61 0000"] {
        let bytes = hex(&packet(0x10, &format!("{V5} {rest}")));
        assert!(matches!(decode(&bytes, None, &LIMITS), Ok(Decoded::Packet(..))), "{rest}");
    }
}

#[test]
fn the_client_id_is_told_once_it_is_read() {
    let told = |rest: &str| {
        let bytes = hex(&packet(0x10, &format!("{V3} {rest}")));
        decode(&bytes, None, &LIMITS).unwrap_err().client_id.map(Vec::from)
    };
    assert_eq!(told("01 0000 0001 61"), None);
    assert_eq!(told("02 0000 0002 61"), None);
    assert_eq!(told("02 0000 0001 ff"), Some(b"\xff".to_vec()));
    assert_eq!(told("00 0000 0000"), Some(Vec::new()));
    assert_eq!(told("82 0000 0001 61 0000"), Some(b"a".to_vec()));
}

#[test]
fn connects_with_properties() {
    let rows: &[(&str, &str, &str)] = &[
        ("", "error reading property length: EOF", "81"),
        ("80 00", "malformed variable int", "81"),
        ("8080808001", "malformed variable int", "81"),
        ("05 11 0000", "error reading property: unexpected EOF", "81"),
        ("03 11 0000", "error reading property: unexpected EOF", "81"),
        ("01 7f", "unknown property 0x7f", "81"),
        ("02 80 01", "unknown property 0x80", "81"),
        ("02 24 01", "property 0x24 is not one of this packet", "81"),
        ("0a 11 00000001 11 00000001", "property 0x11 is there twice", "82"),
        ("03 21 0000", "invalid value of property 0x21", "82"),
        ("05 27 00000000", "invalid value of property 0x27", "82"),
        ("02 17 02", "invalid value of property 0x17", "82"),
        ("04 16 0001 61", "authentication data without authentication method", "82"),
        ("04 15 0001 ff", "invalid utf8 for property \"\\xff\"", "81"),
        ("07 26 0001 61 0001 00", "invalid null character in property \"\\x00\"", "81"),
    ];
    for (properties, text, reason) in rows {
        let answer = format!("200300{reason}00");
        refused_first(&packet(0x10, &format!("{V5} 02 0000 {properties}")), text, &answer, &LIMITS);
    }
}

#[test]
fn later_packets_of_both_versions() {
    let rows: &[Row] = &[
        ("10", "received a second CONNECT packet", Some(0x82)),
        ("00", "received unknown packet type 0", Some(0x81)),
        ("20", "received unknown packet type 2", Some(0x82)),
        ("90", "received unknown packet type 9", Some(0x82)),
        ("b0", "received unknown packet type 11", Some(0x82)),
        ("d0", "received unknown packet type 13", Some(0x82)),
        ("41", "invalid fixed header flags 1 for packet type 40", Some(0x81)),
        ("60", "invalid fixed header flags 0 for packet type 60", Some(0x81)),
        ("80", "invalid fixed header flags 0 for packet type 80", Some(0x81)),
        ("a3", "invalid fixed header flags 3 for packet type a0", Some(0x81)),
        ("c1", "invalid fixed header flags 1 for packet type c0", Some(0x81)),
        ("e8", "invalid fixed header flags 8 for packet type e0", Some(0x81)),
        ("c001", "invalid remaining length 1 for packet type c0", Some(0x81)),
        ("30ffffffff", "malformed variable int", Some(0x81)),
        ("4002 0000", "packet identifier cannot be 0", Some(0x82)),
        ("6202 0000", "packet identifier cannot be 0", Some(0x82)),
        ("3600", "QoS=3 is invalid in MQTT", Some(0x81)),
        ("3001 00", "error reading topic: unexpected EOF", Some(0x81)),
        ("3003 0002 61", "error reading topic: unexpected EOF", Some(0x81)),
        ("3003 0001 ff", "invalid utf8 for topic \"\\xff\"", Some(0x81)),
        ("3005 0003 610023", "invalid null character in topic \"a\\x00#\"", Some(0x81)),
        ("3005 0003 612f2b", "wildcards not allowed in publish's topic: \"a/+\"", Some(0x90)),
        ("3005 0003 610d0a", "character not supported for MQTT topics", Some(0x90)),
        ("3003 0001 20", "character not supported for MQTT topics", Some(0x90)),
        ("3003 0001 01", "character not supported for MQTT topics", Some(0x90)),
        ("3003 0001 7f", "character not supported for MQTT topics", Some(0x90)),
        ("3204 0001 61 00", "error reading packet identifier: unexpected EOF", Some(0x81)),
        ("3205 0001 61 0000", "with QoS=1, packet identifier cannot be 0", Some(0x82)),
        ("3405 0001 61 0000", "with QoS=2, packet identifier cannot be 0", Some(0x82)),
        ("8201 00", "error reading packet identifier: unexpected EOF", Some(0x81)),
        ("a202 0000", "packet identifier cannot be 0", Some(0x82)),
    ];
    for (bytes, text, reason) in rows {
        refused_later(bytes, text, None);
        refused_later(bytes, text, *reason);
    }
    let limits = PacketLimits { accepts_qos2: false, ..LIMITS };
    for level in [ProtocolLevel::V3, ProtocolLevel::V5] {
        let fault = decode(&hex("3402 0000"), Some(level), &limits).unwrap_err();
        assert_eq!(fault.to_string(), "QoS=2 is disabled for PUBLISH messages");
        assert_eq!(fault.fault.reason(), ReasonCode::QosNotSupported);
    }
}

#[test]
fn later_packets_of_version_3() {
    for (bytes, text) in [
        ("f0", "received unknown packet type 15"),
        ("4001", "invalid remaining length 1 for packet type 40"),
        ("5003", "invalid remaining length 3 for packet type 50"),
        ("6200", "invalid remaining length 0 for packet type 60"),
        ("7004", "invalid remaining length 4 for packet type 70"),
        ("e001", "invalid remaining length 1 for packet type e0"),
        ("3002 0000", "topic cannot be empty"),
        ("8202 0001", "subscribe protocol must contain at least 1 topic filter"),
        ("a202 0001", "unsubscribe protocol must contain at least 1 topic filter"),
        ("8205 0001 0000 00", "topic filter cannot be empty"),
        ("8205 0001 0001 61", "error reading QoS: EOF"),
        ("8206 0001 0001 61 03", "subscribe QoS value must be 0, 1 or 2, got 3"),
        ("8206 0001 0001 61 04", "subscribe QoS value must be 0, 1 or 2, got 4"),
        ("8206 0001 0001 00 00", "invalid null character in topic filter \"\\x00\""),
        ("a205 0001 0001 fe", "invalid utf8 for topic filter \"\\xfe\""),
        ("a207 0001 0001 61 0000", "topic filter cannot be empty"),
    ] {
        refused_later(bytes, text, None);
    }
}

#[test]
fn later_packets_of_version_5() {
    let rows: &[(&str, &str, u8)] = &[
        ("c08000", "malformed variable int", 0x81),
        ("4001 00", "error reading packet identifier: unexpected EOF", 0x81),
        ("4003 0001 11", "invalid reason code 0x11", 0x82),
        ("4003 0001 7f", "invalid reason code 0x7f", 0x82),
        ("4004 0001 00 05", "error reading property: unexpected EOF", 0x81),
        ("4006 0001 00 02 0b01", "property 0x0b is not one of this packet", 0x81),
        ("4005 0001 00 00 00", "packet goes on behind its last field", 0x81),
        ("3803 0000 00", "DUP flag set with QoS=0", 0x81),
        ("3003 0000 00", "topic cannot be empty", 0x82),
        ("3006 0000 03 230000", "topic alias cannot be 0", 0x94),
        ("3006 0001 61 02 0b01", "property 0x0b is not one of this packet", 0x81),
        ("3008 0001 61 04 08 0001 2b", "invalid value of property 0x08", 0x82),
        ("3003 0001 61", "error reading property length: EOF", 0x81),
        ("8203 0001 00", "subscribe protocol must contain at least 1 topic filter", 0x82),
        ("a203 0001 00", "unsubscribe protocol must contain at least 1 topic filter", 0x82),
        ("8206 0001 00 0000 00", "topic filter cannot be empty", 0x81),
        ("8207 0001 00 0001 61 03", "subscribe QoS value must be 0, 1 or 2, got 3", 0x82),
        ("8207 0001 00 0001 61 40", "subscribe QoS value must be 0, 1 or 2, got 64", 0x81),
        ("8207 0001 00 0001 61 30", "subscribe retain handling value must be 0, 1 or 2, got 3", 0x82),
        ("820f 0001 00 0009 2473686172652f672f 04 61", "shared subscription with the no local flag", 0x82),
        ("8209 0001 02 0b00 0001 61 00", "invalid value of property 0x0b", 0x82),
        ("820b 0001 04 0b01 0b02 0001 61 00", "property 0x0b is there twice", 0x82),
        ("e001 01", "invalid reason code 0x01", 0x82),
        ("e006 00 04 1c 0001 61", "property 0x1c is not one of this packet", 0x81),
        ("f001 01", "invalid reason code 0x01", 0x82),
        ("f005 18 03 16 0000", "authentication data without authentication method", 0x82),
    ];
    for (bytes, text, reason) in rows {
        refused_later(bytes, text, Some(*reason));
    }
}

#[test]
fn packets_of_servers_are_checked() {
    let rows: &[(&str, ProtocolLevel, PacketFault)] = &[
        ("10", ProtocolLevel::V5, PacketFault::UnknownKind(0x10)),
        ("82", ProtocolLevel::V5, PacketFault::UnknownKind(0x82)),
        ("e0", ProtocolLevel::V3, PacketFault::UnknownKind(0xe0)),
        ("2002 02 00", ProtocolLevel::V3, PacketFault::ConnectReserved),
        ("2002 01 05", ProtocolLevel::V3, PacketFault::ConnectReserved),
        ("2002 00 06", ProtocolLevel::V3, PacketFault::Reason(6)),
        ("2003 00 01 00", ProtocolLevel::V5, PacketFault::Reason(1)),
        ("9002 0001", ProtocolLevel::V3, PacketFault::CutByte(PacketField::Reason)),
        ("9003 0001 03", ProtocolLevel::V3, PacketFault::Reason(3)),
        ("9004 0001 00 11", ProtocolLevel::V5, PacketFault::Reason(0x11)),
        ("b003 0001 00", ProtocolLevel::V3, PacketFault::Trailing),
        ("b003 0001 00", ProtocolLevel::V5, PacketFault::CutByte(PacketField::Reason)),
        ("b004 0001 00 01", ProtocolLevel::V5, PacketFault::Reason(1)),
        ("d001 00", ProtocolLevel::V3, PacketFault::Length(0xd0, 1)),
        ("e007 00 05 11 00000001", ProtocolLevel::V5, PacketFault::PropertyPlace(0x11)),
    ];
    for (bytes, level, fault) in rows {
        let bytes = hex(bytes);
        let bytes = whole(&bytes);
        let read = read_in_pieces(&bytes, |part| decode_from_server(part, *level, 1000));
        assert_eq!(read.as_ref(), Err(fault), "{bytes:02x?}");
    }
}

/// `bytes`, with a length where there is only the first byte.
fn whole(bytes: &[u8]) -> Vec<u8> {
    if bytes.len() == 1 { vec![bytes[0], 0] } else { bytes.to_vec() }
}

/// A packet in hexadecimal digits, with its length in front.
fn packet(first: u8, body: &str) -> String {
    format!("{first:02x}{:02x} {body}", hex(body).len())
}

fn refused_first(bytes: &str, text: &str, answer: &str, limits: &PacketLimits) {
    let fault = read_in_pieces(&hex(bytes), |part| decode(part, None, limits)).unwrap_err();
    assert_eq!(fault.to_string(), text, "{bytes}");
    let mut out = Vec::new();
    fault.refusal.encode(&mut out);
    assert_eq!(out, hex(answer), "{bytes}: {text}");
}

fn refused_later(bytes: &str, text: &str, reason: Option<u8>) {
    let level = if reason.is_some() { ProtocolLevel::V5 } else { ProtocolLevel::V3 };
    let bytes = whole(&hex(bytes));
    let fault = read_in_pieces(&bytes, |part| decode(part, Some(level), &LIMITS)).unwrap_err();
    assert_eq!(fault.to_string(), text, "{bytes:02x?}");
    let mut out = Vec::new();
    fault.refusal.encode(&mut out);
    let answer = reason.map_or(Vec::new(), |reason| vec![0xe0, 1, reason]);
    assert_eq!(out, answer, "{bytes:02x?}: {text}");
}
