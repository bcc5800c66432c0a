//! Properties of a message as headers of NATS, and headers as properties (MQTT 5).
//!
//! | property | header |
//! |---|---|
//! | user property | one with its name and value, or `Nmqtt-User` where NATS has no such header |
//! | content type | `Content-Type` |
//! | payload format 1 | `Nmqtt-Payload-Format: 1` |
//! | message expiry | `Nmqtt-Expiry`, in seconds; read from `Nats-TTL`, too |
//! | response topic | none: the reply subject, or `Nmqtt-Response-Topic` where that is an inbox |
//! | correlation data | `Nmqtt-Correlation-Data`, base64 |
//!
//! A stored message also has the response topic, since its reply subject is the stream's; and with
//! an expiry when it was published, `Nmqtt-Published`, in milliseconds since 1970. What was
//! published to be retained has `Nmqtt-Retain: 1`, and `Nmqtt-From` names the publisher's session.
//!
//! Headers that begin with `Nmqtt-` are the server's own: no user property becomes one of them, and
//! none of them becomes a user property.

use crate::packet::{Properties, Property, PropertyBuf};
use crate::topic;
use myelin_stdx::base64;
use myelin_wire::header;

/// Beginning of the headers that are the server's own.
const OWN: &str = "Nmqtt-";
/// A user property that cannot be a header: `name=value`, with `%` and two digits for what is not
/// plain text.
const USER: &str = "Nmqtt-User";
const CONTENT_TYPE: &str = "Content-Type";
/// A content type that would not be read as it was, escaped as user properties are.
const ODD_CONTENT_TYPE: &str = "Nmqtt-Content-Type";
const PAYLOAD_FORMAT: &str = "Nmqtt-Payload-Format";
const EXPIRY: &str = "Nmqtt-Expiry";
const TTL: &str = "Nats-TTL";
const CORRELATION_DATA: &str = "Nmqtt-Correlation-Data";
const RESPONSE_TOPIC: &str = "Nmqtt-Response-Topic";
const PUBLISHED: &str = "Nmqtt-Published";
const RETAIN: &str = "Nmqtt-Retain";
const FROM: &str = "Nmqtt-From";
/// Beginning of the headers that streams obey, or add.
const STREAMS: &str = "Nats-";

/// Beginning of the reply subjects that stand for a response topic with correlation data: the
/// server of the requester knows what they stand for.
pub const RESPONSE_INBOX: &str = "_INBOX.mqtt5.";

/// Appends a line for each property of a message that NATS clients or other MQTT clients are to
/// see.
pub fn write(properties: Properties<'_>, out: &mut Vec<u8>) {
    write_lines(properties, false, out);
}

/// Appends a line for each property of a message that is stored, but for its expiry
/// ([`write_expiry`]). None of them says anything to the stream.
pub fn write_stored(properties: Properties<'_>, out: &mut Vec<u8>) {
    write_lines(properties, true, out);
    for property in properties.iter() {
        if let Property::ResponseTopic(topic) = property {
            write_response_topic(topic, out);
        }
    }
}

fn write_lines(properties: Properties<'_>, is_stored: bool, out: &mut Vec<u8>) {
    for property in properties.iter() {
        match property {
            Property::User((name, value)) => write_user(name, value, is_stored, out),
            Property::MessageExpiry(_) if is_stored => {}
            Property::ContentType(text) if is_value(text) => line(CONTENT_TYPE, text, out),
            Property::ContentType(text) => line(ODD_CONTENT_TYPE, &escaped(text), out),
            Property::PayloadFormat(true) => line(PAYLOAD_FORMAT, "1", out),
            Property::MessageExpiry(seconds) => line(EXPIRY, &seconds.to_string(), out),
            Property::CorrelationData(data) => line(CORRELATION_DATA, &base64::encode(data), out),
            _ => {}
        }
    }
}

/// Appends the line that keeps a response topic while an inbox stands for it.
pub fn write_response_topic(topic: &str, out: &mut Vec<u8>) {
    line(RESPONSE_TOPIC, &escaped(topic), out);
}

fn line(name: &str, value: &str, out: &mut Vec<u8>) {
    for part in [name, ": ", value, "\r\n"] {
        out.extend_from_slice(part.as_bytes());
    }
}

/// Appends the lines of a message that is stored at `now`, in milliseconds since 1970, and is
/// nobody's after so many seconds.
pub fn write_expiry(seconds: u32, now: u64, out: &mut Vec<u8>) {
    line(EXPIRY, &seconds.to_string(), out);
    line(PUBLISHED, &now.to_string(), out);
}

/// Appends the line by which a stream removes a message after so many seconds: at least one, for
/// streams know no less.
pub fn write_lifetime(seconds: u32, out: &mut Vec<u8>) {
    line(TTL, &format!("{}s", seconds.max(1)), out);
}

/// Appends the line of a message that was published to be retained.
pub fn write_retain(out: &mut Vec<u8>) {
    line(RETAIN, "1", out);
}

/// Whether a message was published to be retained.
pub fn is_retained(block: &[u8]) -> bool {
    header::get(block, RETAIN.as_bytes()) == Some(b"1")
}

/// Appends the line that names the session of the publisher.
pub fn write_publisher(session: &str, out: &mut Vec<u8>) {
    line(FROM, session, out);
}

/// The session of the publisher.
pub fn publisher(block: &[u8]) -> Option<&[u8]> {
    header::get(block, FROM.as_bytes())
}

/// Time that a stored message has left at `now`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeLeft {
    /// No end.
    Unlimited,
    /// Seconds, rounded up.
    Seconds(u32),
    /// None: the message is nobody's any more.
    Expired,
}

/// Time that a stored message with this header block has left at `now`, in milliseconds since 1970.
pub fn time_left(block: &[u8], now: u64) -> TimeLeft {
    let number = |name: &str| std::str::from_utf8(header::get(block, name.as_bytes())?).ok()?.parse().ok();
    let expiry: Option<u64> = number(EXPIRY).filter(|seconds| u32::try_from(*seconds).is_ok());
    let (Some(seconds), Some(published)) = (expiry, number(PUBLISHED)) else { return TimeLeft::Unlimited };
    // One of 0 seconds is for those who are there.
    let ends = published.saturating_add(seconds.max(1) * 1000);
    match ends.saturating_sub(now) {
        0 => TimeLeft::Expired,
        left => TimeLeft::Seconds(u32::try_from(left.div_ceil(1000).min(seconds)).unwrap_or(u32::MAX)),
    }
}

fn write_user(name: &str, value: &str, is_stored: bool, out: &mut Vec<u8>) {
    let is_taken = starts_with(name, OWN)
        || is_stored && starts_with(name, STREAMS)
        || [CONTENT_TYPE, TTL].iter().any(|own| name.eq_ignore_ascii_case(own));
    match is_name(name) && is_value(value) && !is_taken {
        true => line(name, value, out),
        false => line(USER, &format!("{}={}", escaped(name), escaped(value)), out),
    }
}

fn starts_with(name: &str, prefix: &str) -> bool {
    name.get(..prefix.len()).is_some_and(|start| start.eq_ignore_ascii_case(prefix))
}

/// Whether the name of a property can be that of a header.
fn is_name(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_graphic() && byte != b':')
}

/// Whether a value stands in a header as it is, and is read as it was.
fn is_value(value: &str) -> bool {
    value.trim_ascii() == value && !value.bytes().any(|byte| matches!(byte, b'\r' | b'\n'))
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for char in text.chars() {
        match char {
            '%' | '=' | ' ' => out.push_str(&format!("%{:02x}", char as u32)),
            _ if char.is_control() => out.push_str(&percent(char)),
            _ => out.push(char),
        }
    }
    out
}

fn percent(char: char) -> String {
    let mut bytes = [0; 4];
    char.encode_utf8(&mut bytes).bytes().map(|byte| format!("%{byte:02x}")).collect()
}

/// `None` where `text` was not written by [`escaped`].
fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, behind) = rest.split_first_chunk::<2>()?;
        rest = behind;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
    }
    String::from_utf8(bytes).ok()
}

/// Appends the properties with which a message with this header block and reply subject goes to
/// clients of MQTT 5. Whatever no property can say is left out.
pub fn read(block: &[u8], reply: &[u8], out: &mut PropertyBuf) {
    let mut once = Once::default();
    let topic = read_lines(block, false, &mut once, out);
    let topic = topic.filter(|_| reply.starts_with(RESPONSE_INBOX.as_bytes()));
    if !push_topic(topic, &mut once, out) {
        push_reply(reply, &mut once, out);
    }
}

/// Appends the properties of a stored message, which has so much time left.
pub fn read_stored(block: &[u8], left: TimeLeft, out: &mut PropertyBuf) {
    let mut once = Once::default();
    let topic = read_lines(block, true, &mut once, out);
    push_topic(topic, &mut once, out);
    if let TimeLeft::Seconds(seconds) = left {
        once.push(Property::MessageExpiry(seconds), out);
    }
}

fn push_topic(topic: Option<String>, once: &mut Once, out: &mut PropertyBuf) -> bool {
    let topic = topic.filter(|topic| !topic.is_empty() && topic::check_name(topic).is_ok());
    topic.iter().for_each(|topic| once.push(Property::ResponseTopic(topic), out));
    topic.is_some()
}

/// Appends the properties that lines say; answers the response topic.
fn read_lines(block: &[u8], is_stored: bool, once: &mut Once, out: &mut PropertyBuf) -> Option<String> {
    let mut topic = None;
    // The first line is the protocol's.
    for line in block.split(|byte| *byte == b'\n').skip(1) {
        let Ok(line) = std::str::from_utf8(line) else { continue };
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim_ascii();
        match name {
            CONTENT_TYPE => once.push(Property::ContentType(value), out),
            ODD_CONTENT_TYPE => {
                let text = unescaped(value);
                text.iter().for_each(|text| once.push(Property::ContentType(text), out));
            }
            PAYLOAD_FORMAT if value == "1" => once.push(Property::PayloadFormat(true), out),
            EXPIRY | TTL if is_stored => {}
            EXPIRY | TTL => {
                seconds(value).into_iter().for_each(|s| once.push(Property::MessageExpiry(s), out));
            }
            CORRELATION_DATA => {
                let data = base64::decode(value);
                data.into_iter().for_each(|data| once.push(Property::CorrelationData(&data), out));
            }
            RESPONSE_TOPIC => topic = unescaped(value),
            USER => {
                let pair = value.split_once('=').and_then(|(n, v)| Some((unescaped(n)?, unescaped(v)?)));
                // One that does not fit is left out.
                pair.iter().for_each(|(n, v)| _ = out.push(Property::User((n, v))));
            }
            _ if starts_with(name, OWN) || is_stored && starts_with(name, STREAMS) => {}
            _ => _ = out.push(Property::User((name, value))),
        }
    }
    topic
}

fn push_reply(reply: &[u8], once: &mut Once, out: &mut PropertyBuf) {
    if reply.is_empty() || !topic::is_topic(reply) {
        return;
    }
    let mut bytes = Vec::with_capacity(reply.len());
    topic::subject_to_topic(reply, &mut bytes);
    if let Ok(topic) = std::str::from_utf8(&bytes) {
        once.push(Property::ResponseTopic(topic), out);
    }
}

/// Properties that are there already, of those that may be there once: a bit for each.
#[derive(Default)]
struct Once(u64);

impl Once {
    fn push(&mut self, property: Property<'_>, out: &mut PropertyBuf) {
        let bit = 1 << property.id();
        if self.0 & bit == 0 && out.push(property) {
            self.0 |= bit;
        }
    }
}

/// Seconds of a lifetime: a number, or one of a unit of time.
fn seconds(text: &str) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let unit = match unit {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.parse::<u32>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn block(properties: &PropertyBuf) -> Vec<u8> {
        let mut block = b"NATS/1.0\r\nNmqtt-Pub:0\r\n".to_vec();
        write(properties.properties(), &mut block);
        block.extend_from_slice(b"\r\n");
        block
    }

    fn properties(block: &[u8], reply: &str) -> Vec<String> {
        let mut out = PropertyBuf::default();
        read(block, reply.as_bytes(), &mut out);
        out.properties().iter().map(|property| format!("{property:?}")).collect()
    }

    #[test]
    fn properties_are_headers_that_nats_clients_can_read() {
        let mut buf = PropertyBuf::default();
        for property in [
            Property::PayloadFormat(true),
            Property::MessageExpiry(30),
            Property::ContentType("text/plain"),
            Property::CorrelationData(&[0, 255]),
            Property::User(("a", "1")),
            Property::User(("a", "2")),
            Property::User(("nmqtt-pub", "9")),
            Property::User(("a b", "x\r\ny=%")),
            Property::User(("content-type", "x")),
        ] {
            assert!(buf.push(property));
        }
        let block = block(&buf);
        let expected = "NATS/1.0\r\nNmqtt-Pub:0\r\nNmqtt-Payload-Format: 1\r\nNmqtt-Expiry: 30\r\n\
                        Content-Type: text/plain\r\nNmqtt-Correlation-Data: AP8=\r\na: 1\r\na: 2\r\n\
                        Nmqtt-User: nmqtt-pub=9\r\nNmqtt-User: a%20b=x%0d%0ay%3d%25\r\n\
                        Nmqtt-User: content-type=x\r\n\r\n";
        assert_eq!(String::from_utf8_lossy(&block), expected);
        let mut out = PropertyBuf::default();
        read(&block, b"", &mut out);
        assert_eq!(out.properties(), buf.properties());
    }

    #[test]
    fn headers_of_nats_clients_are_properties() {
        let headers = b"NATS/1.0 503 No\r\nA:1\r\nB:  two \r\nNats-TTL: 5m\r\nNmqtt-Expiry: 7\r\nodd\r\n\
                        Nmqtt-Pub:1\r\nNmqtt-User: =\r\nNmqtt-User: %zz=1\r\nX: \xff\r\n\r\n";
        let expected = [
            r#"User(("A", "1"))"#,
            r#"User(("B", "two"))"#,
            "MessageExpiry(300)",
            r#"User(("", ""))"#,
            r#"ResponseTopic("_INBOX/x")"#,
        ];
        assert_eq!(properties(headers, "_INBOX.x"), expected);
        assert!(properties(b"", "").is_empty());
        assert!(properties(b"NATS/1.0\r\nNats-TTL: never\r\n\r\n", "a+b").is_empty());
    }

    #[test]
    fn an_inbox_stands_for_the_response_topic_and_nothing_else_does() {
        let mut block = b"NATS/1.0\r\n".to_vec();
        write_response_topic("answers/a b=%/me", &mut block);
        block.extend_from_slice(b"\r\n");
        assert_eq!(properties(&block, "_INBOX.mqtt5.x.1"), [r#"ResponseTopic("_INBOX/mqtt5/x/1")"#]);
        let mut block = b"NATS/1.0\r\n".to_vec();
        write_response_topic("answers/%/me", &mut block);
        assert_eq!(properties(&block, "_INBOX.mqtt5.x.1"), [r#"ResponseTopic("answers/%/me")"#]);
        assert_eq!(properties(&block, "_R_.x"), [r#"ResponseTopic("_R_/x")"#]);
    }

    #[test]
    fn a_stored_message_says_nothing_to_its_stream_and_comes_back_as_it_was() {
        let mut buf = PropertyBuf::default();
        for property in [
            Property::PayloadFormat(true),
            Property::User(("Nats-Rollup", "all")),
            Property::User(("nats-msg-id", "1")),
            Property::CorrelationData(b"c"),
            Property::ResponseTopic("a/b%c"),
        ] {
            assert!(buf.push(property));
        }
        let mut block = b"NATS/1.0\r\nNmqtt-Pub:1\r\n".to_vec();
        write_stored(buf.properties(), &mut block);
        write_expiry(30, 1_000_000, &mut block);
        write_lifetime(30, &mut block);
        write_retain(&mut block);
        write_publisher("hash", &mut block);
        block.extend_from_slice(b"Nats-Sequence: 7\r\n\r\n");
        for name in [&b"Nats-Rollup"[..], b"nats-msg-id"] {
            assert_eq!(header::get(&block, name), None);
        }
        assert_eq!(
            (header::get(&block, b"Nats-TTL"), publisher(&block)),
            (Some(&b"30s"[..]), Some(&b"hash"[..]))
        );
        assert!(is_retained(&block) && !is_retained(b"NATS/1.0\r\nNmqtt-Pub:1\r\n\r\n"));
        let left = time_left(&block, 1_001_500);
        assert_eq!(left, TimeLeft::Seconds(29));
        let mut out = PropertyBuf::default();
        read_stored(&block, left, &mut out);
        assert!(buf.push(Property::MessageExpiry(29)));
        assert_eq!(out.properties(), buf.properties());
    }

    #[test]
    fn stored_messages_expire() {
        let left = |seconds, now| {
            let mut block = b"NATS/1.0\r\n".to_vec();
            write_expiry(seconds, 10_000, &mut block);
            block.extend_from_slice(b"\r\n");
            time_left(&block, now)
        };
        assert_eq!([left(2, 10_000), left(2, 9_000)], [TimeLeft::Seconds(2); 2]);
        assert_eq!([left(2, 11_999), left(2, 12_000)], [TimeLeft::Seconds(1), TimeLeft::Expired]);
        assert_eq!([left(0, 10_999), left(0, 11_000)], [TimeLeft::Seconds(0), TimeLeft::Expired]);
        assert_eq!(left(u32::MAX, 10_001), TimeLeft::Seconds(u32::MAX));
        assert_eq!(time_left(b"NATS/1.0\r\nNmqtt-Expiry: 1\r\n\r\n", u64::MAX), TimeLeft::Unlimited);
    }

    proptest! {
        #[test]
        fn user_properties_come_back_as_they_were(pairs in proptest::collection::vec((".*", ".*"), 0..4)) {
            let mut buf = PropertyBuf::default();
            let fits = pairs.iter().all(|(name, value)| buf.push(Property::User((name, value))));
            prop_assume!(fits);
            let mut out = PropertyBuf::default();
            read(&block(&buf), b"", &mut out);
            prop_assert_eq!(out.properties(), buf.properties());
        }

        #[test]
        fn any_headers_make_properties_that_a_packet_may_have(
            block in proptest::collection::vec(any::<u8>(), 0..200),
            reply in "[a-z+#./ ]{0,9}",
        ) {
            let mut out = PropertyBuf::default();
            read(&block, reply.as_bytes(), &mut out);
            let packet = crate::packet::PublishPacket {
                dup: false,
                retain: false,
                exchange: crate::packet::Exchange::AtMostOnce,
                topic: "t",
                properties: out.properties(),
                payload: b"",
            };
            let mut bytes = Vec::new();
            let level = crate::packet::ProtocolLevel::V5;
            crate::packet::ServerPacket::Publish(packet).encode(level, &mut bytes);
            let read = crate::packet::decode_from_server(&bytes, level, u32::MAX);
            prop_assert!(read.is_ok(), "{read:?}");
        }
    }
}
