//! The PROXY protocol, versions 1 and 2: what a load balancer says in front of a connection about
//! who is behind it.
//!
//! Reads bytes that somebody else has collected. Never wants more of them than the header has, with
//! one exception: the line of version 1 has no length, and what was read behind it is the client's.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// How version 1 begins.
const LINE: &[u8] = b"PROXY ";
/// The longest line of version 1, with its CRLF.
const LONGEST_LINE: usize = 107;
/// How version 2 begins.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of either that tell a header from what a client sends.
const TELLING: usize = 6;
/// Bytes in front of the addresses of version 2.
const FIXED: usize = 16;

/// Step to do with the bytes read so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeaderStep {
    /// Read on, at most so many bytes.
    More(usize, HeaderPart),
    /// There is no header: all of it is the client's.
    Absent,
    /// The header is whole.
    Whole(ProxyHeader),
}

/// Content of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxyHeader {
    /// Address of the client behind the proxy; `None` if the proxy speaks for itself, as in a
    /// health check.
    pub client: Option<SocketAddr>,
    /// Bytes of the header. Version 2 may have more than were read: they are to be read and thrown
    /// away.
    pub length: usize,
    /// Part of the header that they belong to.
    pub part: HeaderPart,
}

/// A part of a header, for what is said when it does not come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum HeaderPart {
    Version,
    Line,
    Signature,
    Fixed,
    Ipv4,
    Ipv6,
    Local,
    Unspecified,
}

/// Compat: the reference's words.
impl fmt::Display for HeaderPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Version => "failed to read protocol version",
            Self::Line => "failed to read v1 line",
            Self::Signature => "failed to read v2 signature",
            Self::Fixed => "failed to read v2 header",
            Self::Ipv4 => "failed to read IPv4 address data",
            Self::Ipv6 => "failed to read IPv6 address data",
            Self::Local => "failed to discard LOCAL command address data",
            Self::Unspecified => "failed to discard UNSPEC address address data",
        })
    }
}

impl HeaderPart {
    /// Compat: whether an end in the middle of it is told from one before it.
    pub fn is_read_whole(self) -> bool {
        !matches!(self, Self::Line | Self::Local | Self::Unspecified)
    }
}

/// Why a header is none.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum ProxyError {
    LineTooLong,
    LineFormat,
    Address,
    SourcePort(String),
    DestinationPort(String),
    Tcp4WithIpv6,
    Tcp6WithIpv4,
    LineProtocol(String),
    Signature,
    Version(u8),
    Command(u8),
    NoStream,
    Family(u8),
    TooShort(HeaderPart, usize),
}

/// Compat: the reference's words.
impl fmt::Display for ProxyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let invalid = "invalid PROXY protocol header";
        let unsupported = "unsupported PROXY protocol feature";
        match self {
            Self::LineTooLong => write!(f, "{invalid}: v1 line too long"),
            Self::LineFormat => write!(f, "{invalid}: invalid v1 format"),
            Self::Address => write!(f, "{invalid}: invalid address"),
            Self::SourcePort(why) => write!(f, "invalid source port: {why}"),
            Self::DestinationPort(why) => write!(f, "invalid dest port: {why}"),
            Self::Tcp4WithIpv6 => write!(f, "{invalid}: TCP4 with IPv6 address"),
            Self::Tcp6WithIpv4 => write!(f, "{invalid}: TCP6 with IPv4 address"),
            Self::LineProtocol(name) => write!(f, "{invalid}: invalid protocol {name}"),
            Self::Signature => write!(f, "{invalid}: invalid signature"),
            Self::Version(version) => write!(f, "{invalid}: invalid version 0x{version:02x}"),
            Self::Command(command) => write!(f, "unknown PROXY protocol command: 0x{command:02x}"),
            Self::NoStream => write!(f, "{unsupported}: only STREAM protocol supported"),
            Self::Family(family) => {
                write!(f, "{unsupported}: unsupported address family 0x{family:02x}")
            }
            Self::TooShort(HeaderPart::Ipv6, length) => {
                write!(f, "IPv6 address data too short: {length} bytes")
            }
            Self::TooShort(_, length) => write!(f, "IPv4 address data too short: {length} bytes"),
        }
    }
}

impl std::error::Error for ProxyError {}

/// Looks at all bytes that were read from the front of a connection.
///
/// # Errors
/// When they begin a header that is no good: nothing behind it can be trusted either.
pub fn next(bytes: &[u8]) -> Result<HeaderStep, ProxyError> {
    let begin = &bytes[..bytes.len().min(TELLING)];
    if LINE.starts_with(begin) || SIGNATURE.starts_with(begin) {
        if begin.len() < TELLING {
            return Ok(HeaderStep::More(TELLING - begin.len(), HeaderPart::Version));
        }
        return if begin == LINE { line(bytes) } else { binary(bytes) };
    }
    Ok(HeaderStep::Absent)
}

fn line(bytes: &[u8]) -> Result<HeaderStep, ProxyError> {
    let most = &bytes[..bytes.len().min(LONGEST_LINE)];
    let Some(end) = most.windows(2).position(|pair| pair == b"\r\n") else {
        return match LONGEST_LINE - most.len() {
            0 => Err(ProxyError::LineTooLong),
            missing => Ok(HeaderStep::More(missing, HeaderPart::Line)),
        };
    };
    let text = String::from_utf8_lossy(&most[LINE.len()..end]);
    let fields: Vec<_> = text.split_whitespace().collect();
    let client = match fields[..] {
        ["UNKNOWN", ..] => None,
        [protocol, source, destination, source_port, destination_port] => {
            let address = |text: &str| text.parse::<IpAddr>().map_err(|_| ProxyError::Address);
            let ip = address(source)?;
            address(destination)?;
            let port = port(source_port).map_err(ProxyError::SourcePort)?;
            self::port(destination_port).map_err(ProxyError::DestinationPort)?;
            check_protocol(protocol, [source, destination])?;
            Some(SocketAddr::new(ip.to_canonical(), port))
        }
        _ => return Err(ProxyError::LineFormat),
    };
    Ok(HeaderStep::Whole(ProxyHeader { client, length: end + 2, part: HeaderPart::Line }))
}

fn check_protocol(protocol: &str, addresses: [&str; 2]) -> Result<(), ProxyError> {
    let is_v6 = addresses.map(|address| address.contains(':'));
    match protocol {
        "TCP4" if is_v6.contains(&true) => Err(ProxyError::Tcp4WithIpv6),
        "TCP6" if is_v6.contains(&false) => Err(ProxyError::Tcp6WithIpv4),
        "TCP4" | "TCP6" => Ok(()),
        _ => Err(ProxyError::LineProtocol(protocol.to_owned())),
    }
}

/// A port; else, what Go says of it.
fn port(text: &str) -> Result<u16, String> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    let why = if is_number { "value out of range" } else { "invalid syntax" };
    let port = text.parse().ok().filter(|_| is_number);
    port.ok_or_else(|| format!("strconv.ParseUint: parsing {text:?}: {why}"))
}

fn binary(bytes: &[u8]) -> Result<HeaderStep, ProxyError> {
    let signature = &bytes[..bytes.len().min(SIGNATURE.len())];
    if signature.len() < SIGNATURE.len() {
        return Ok(HeaderStep::More(SIGNATURE.len() - signature.len(), HeaderPart::Signature));
    }
    if signature != SIGNATURE {
        return Err(ProxyError::Signature);
    }
    let Some(&[version_command, family_protocol, high, low]) = bytes[SIGNATURE.len()..].first_chunk() else {
        return Ok(HeaderStep::More(FIXED - bytes.len(), HeaderPart::Fixed));
    };
    let (version, command) = (version_command & 0xf0, version_command & 0x0f);
    let (family, protocol) = (family_protocol & 0xf0, family_protocol & 0x0f);
    let length = usize::from(u16::from_be_bytes([high, low]));
    if version != 0x20 {
        return Err(ProxyError::Version(version));
    }
    let whole = |client, part| Ok(HeaderStep::Whole(ProxyHeader { client, length: FIXED + length, part }));
    match (command, protocol, family) {
        (0, ..) => whole(None, HeaderPart::Local),
        (1, 1, 0x00) => whole(None, HeaderPart::Unspecified),
        (1, 1, 0x10) => addresses(&bytes[FIXED..], length, HeaderPart::Ipv4),
        (1, 1, 0x20) => addresses(&bytes[FIXED..], length, HeaderPart::Ipv6),
        (1, 1, _) => Err(ProxyError::Family(family)),
        (1, ..) => Err(ProxyError::NoStream),
        _ => Err(ProxyError::Command(command)),
    }
}

/// Source and destination, then their ports, and then whatever else there is.
fn addresses(bytes: &[u8], length: usize, part: HeaderPart) -> Result<HeaderStep, ProxyError> {
    let size = if part == HeaderPart::Ipv6 { 16 } else { 4 };
    let needed = 2 * (size + 2);
    if length < needed {
        return Err(ProxyError::TooShort(part, length));
    }
    if bytes.len() < needed {
        return Ok(HeaderStep::More(needed - bytes.len(), part));
    }
    let ip = match (bytes.first_chunk::<16>(), bytes.first_chunk::<4>()) {
        (Some(octets), _) if part == HeaderPart::Ipv6 => IpAddr::V6(Ipv6Addr::from(*octets)),
        (_, Some(octets)) => IpAddr::V4(Ipv4Addr::from(*octets)),
        _ => return Err(ProxyError::TooShort(part, length)),
    };
    let port = u16::from_be_bytes([bytes[2 * size], bytes[2 * size + 1]]);
    let client = Some(SocketAddr::new(ip.to_canonical(), port));
    Ok(HeaderStep::Whole(ProxyHeader { client, length: FIXED + length, part }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Version 2, with `more` behind what the addresses need.
    fn v2(version_command: u8, family_protocol: u8, data: &[u8]) -> Vec<u8> {
        let length = u16::try_from(data.len()).expect("short").to_be_bytes();
        [SIGNATURE, &[version_command, family_protocol], &length, data].concat()
    }

    fn whole(client: Option<&str>, length: usize, part: HeaderPart) -> Result<HeaderStep, String> {
        Ok(HeaderStep::Whole(ProxyHeader {
            client: client.map(|text| text.parse().expect(text)),
            length,
            part,
        }))
    }

    #[track_caller]
    fn check(bytes: &[u8], expected: &Result<HeaderStep, String>) {
        assert_eq!(next(bytes).map_err(|error| error.to_string()), *expected, "{}", bytes.escape_ascii());
    }

    /// As nats-server 2.15.2 answers them.
    #[test]
    fn lines_are_read_as_the_reference_reads_them() {
        let good = |client, text: &str| check(text.as_bytes(), &whole(client, text.len(), HeaderPart::Line));
        good(Some("1.2.3.4:5"), "PROXY TCP4 1.2.3.4 6.7.8.9 5 6\r\n");
        good(Some("1.2.3.4:5"), "PROXY \t TCP4  1.2.3.4 6.7.8.9\x0b5 65535 \r\n");
        good(Some("[2001:db8::1]:0"), "PROXY TCP6 2001:db8::1 ::1 0 6\r\n");
        good(Some("1.2.3.4:5"), "PROXY TCP6 ::ffff:1.2.3.4 ::1 5 6\r\n");
        good(None, "PROXY UNKNOWN\r\n");
        good(None, "PROXY UNKNOWN and whatever comes\r\n");
        let bad = |text: &str, why: &str| check(text.as_bytes(), &Err(why.to_owned()));
        let invalid = |text: &str, why: &str| bad(text, &format!("invalid PROXY protocol header: {why}"));
        invalid("PROXY \r\n", "invalid v1 format");
        invalid("PROXY TCP4 1.2.3.4 6.7.8.9 5\r\n", "invalid v1 format");
        invalid("PROXY TCP4 1.2.3.4 6.7.8.9 5 6 7\r\n", "invalid v1 format");
        invalid("PROXY TCP4 1.2.3.04 6.7.8.9 5 6\r\n", "invalid address");
        invalid("PROXY TCP6 fe80::1%eth0 ::1 5 6\r\n", "invalid address");
        invalid("PROXY TCP4 ::1 ::1 5 6\r\n", "TCP4 with IPv6 address");
        invalid("PROXY TCP6 ::1 1.2.3.4 5 6\r\n", "TCP6 with IPv4 address");
        invalid("PROXY tcp4 1.2.3.4 1.2.3.4 5 6\r\n", "invalid protocol tcp4");
        let syntax = "strconv.ParseUint: parsing \"+5\": invalid syntax";
        bad("PROXY TCP4 1.2.3.4 1.2.3.4 +5 6\r\n", &format!("invalid source port: {syntax}"));
        let range = "strconv.ParseUint: parsing \"65536\": value out of range";
        bad("PROXY TCP4 1.2.3.4 1.2.3.4 5 65536\r\n", &format!("invalid dest port: {range}"));
        let long = format!("PROXY UNKNOWN {}", "a".repeat(91));
        check(long.as_bytes(), &Ok(HeaderStep::More(2, HeaderPart::Line)));
        invalid(&format!("{long}aa"), "v1 line too long");
        check(format!("{long}\r\n").as_bytes(), &whole(None, 107, HeaderPart::Line));
        invalid(&format!("{long}a\r\n"), "v1 line too long");
    }

    #[test]
    fn binary_headers_are_read_as_the_reference_reads_them() {
        let v4 = [1, 2, 3, 4, 6, 7, 8, 9, 0x12, 0x34, 0, 1];
        check(&v2(0x21, 0x11, &v4), &whole(Some("1.2.3.4:4660"), 28, HeaderPart::Ipv4));
        let more = [&v4[..], &[9; 500]].concat();
        check(&v2(0x21, 0x11, &more), &whole(Some("1.2.3.4:4660"), 528, HeaderPart::Ipv4));
        check(&v2(0x21, 0x11, &more)[..28], &whole(Some("1.2.3.4:4660"), 528, HeaderPart::Ipv4));
        check(&v2(0x21, 0x11, &more)[..27], &Ok(HeaderStep::More(1, HeaderPart::Ipv4)));
        let mapped: Ipv6Addr = "::ffff:1.2.3.4".parse().expect("an address");
        let v6 = [&mapped.octets()[..], &[0; 16], &[0, 7, 0, 8]].concat();
        check(&v2(0x21, 0x21, &v6), &whole(Some("1.2.3.4:7"), 52, HeaderPart::Ipv6));
        check(&v2(0x20, 0xff, &[]), &whole(None, 16, HeaderPart::Local));
        check(&v2(0x20, 0x11, &v4), &whole(None, 28, HeaderPart::Local));
        check(&v2(0x21, 0x01, &[0; 3]), &whole(None, 19, HeaderPart::Unspecified));
        let bad = |bytes: &[u8], why: &str| check(bytes, &Err(why.to_owned()));
        bad(&v2(0x11, 0x11, &v4), "invalid PROXY protocol header: invalid version 0x10");
        bad(&v2(0x22, 0x11, &v4), "unknown PROXY protocol command: 0x02");
        bad(&v2(0x21, 0x12, &v4), "unsupported PROXY protocol feature: only STREAM protocol supported");
        bad(&v2(0x21, 0x00, &v4), "unsupported PROXY protocol feature: only STREAM protocol supported");
        bad(&v2(0x21, 0x31, &v4), "unsupported PROXY protocol feature: unsupported address family 0x30");
        bad(&v2(0x21, 0x11, &v4[1..]), "IPv4 address data too short: 11 bytes");
        bad(&v2(0x21, 0x21, &v4), "IPv6 address data too short: 12 bytes");
        bad(b"\r\n\r\n\0\r\nQUIX\n", "invalid PROXY protocol header: invalid signature");
    }

    #[test]
    fn what_a_client_says_is_no_header() {
        for text in [
            "CONNECT {}\r\n",
            "PING\r\n",
            "PUB a 1\r\n",
            "proxy TCP4",
            "PROXYTCP4 ",
            "\r\nPING",
            "\x16\x03\x01",
        ] {
            check(text.as_bytes(), &Ok(HeaderStep::Absent));
        }
        for (text, missing) in [("", 6), ("P", 5), ("PROXY", 1), ("\r\n", 4), ("\r\n\r\n\0", 1)] {
            check(text.as_bytes(), &Ok(HeaderStep::More(missing, HeaderPart::Version)));
        }
    }

    proptest! {
        /// Whoever reads what is asked for, in whatever pieces, comes to the same end, and has read
        /// nothing of what is behind a binary header.
        #[test]
        fn pieces_make_no_difference(
            kind in 0usize..4, noise in proptest::collection::vec(any::<u8>(), 0..60), pieces in 1usize..9
        ) {
            let bytes = match kind {
                0 => noise,
                1 => [LINE, &noise].concat(),
                2 => v2(0x21, 0x11, &noise),
                _ => v2(noise.first().copied().unwrap_or(0), 0x21, &noise),
            };
            let mut read = 0;
            loop {
                match next(&bytes[..read]) {
                    Ok(HeaderStep::More(most, _)) => {
                        prop_assert!(most > 0);
                        let n = most.min(pieces).min(bytes.len() - read);
                        if n == 0 {
                            break;
                        }
                        read += n;
                    }
                    end => {
                        prop_assert_eq!(end.clone(), next(&bytes));
                        if let (Ok(HeaderStep::Whole(header)), true) = (end, kind > 1) {
                            prop_assert!(read <= header.length);
                        }
                        break;
                    }
                }
            }
        }
    }
}
