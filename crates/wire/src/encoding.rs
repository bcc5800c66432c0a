//! `Accept-Encoding` and `Content-Encoding` of what the server itself publishes: events and answers
//! that a client wants compressed.

use crate::s2;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// The header by which a request says what it takes; it is always spelt like this.
pub const ACCEPT: &str = "Accept-Encoding";

/// How a body is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    /// The framing format of Snappy, which readers of S2 take too.
    Snappy,
    /// RFC 1952.
    Gzip,
    /// As it is, and said so: something was asked for that the server does not know.
    Identity,
}

impl Encoding {
    /// Encoding that a value of `Accept-Encoding` comes to. An empty one, like none, asks for
    /// nothing.
    pub fn accepted(value: &[u8]) -> Option<Self> {
        let value = value.to_ascii_lowercase();
        let names = |name: &[u8]| value.windows(name.len()).any(|part| part == name);
        if value.is_empty() {
            None
        } else if names(b"snappy") || names(b"s2") {
            Some(Self::Snappy)
        } else if names(b"gzip") {
            Some(Self::Gzip)
        } else {
            Some(Self::Identity)
        }
    }

    /// The header block that tells how the body is written.
    pub fn headers(self) -> &'static [u8] {
        match self {
            Self::Snappy => b"NATS/1.0\r\nContent-Encoding: snappy\r\n\r\n",
            Self::Gzip => b"NATS/1.0\r\nContent-Encoding: gzip\r\n\r\n",
            Self::Identity => b"NATS/1.0\r\nContent-Encoding: identity\r\n\r\n",
        }
    }

    /// The body in this form.
    pub fn encode(self, body: &[u8]) -> Vec<u8> {
        match self {
            Self::Snappy => snappy(body),
            Self::Gzip => gzip(body),
            Self::Identity => body.to_vec(),
        }
    }
}

fn gzip(body: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    // Writing into a vector cannot fail.
    let _ = encoder.write_all(body);
    encoder.finish().unwrap_or_default()
}

fn snappy(body: &[u8]) -> Vec<u8> {
    let mut out = s2::SNAPPY_IDENTIFIER.to_vec();
    for chunk in body.chunks(s2::MAX_SNAPPY_BLOCK) {
        s2::put_chunk(chunk, Some(&minlz::s2::encode_snappy(chunk)), &mut out);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::read::GzDecoder;
    use std::io::Read;

    #[test]
    fn what_is_asked_for_is_found_in_any_letters() {
        for (value, encoding) in [
            ("", None),
            ("gzip", Some(Encoding::Gzip)),
            ("br, GZip", Some(Encoding::Gzip)),
            ("gzip, Snappy", Some(Encoding::Snappy)),
            ("S2", Some(Encoding::Snappy)),
            ("br", Some(Encoding::Identity)),
        ] {
            assert_eq!(Encoding::accepted(value.as_bytes()), encoding, "{value:?}");
        }
    }

    #[test]
    fn bodies_come_back() {
        let long = b"{\"server\":{},".repeat(20_000);
        let noise: Vec<u8> = (0..100_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for body in [&b""[..], b"x", &long, &noise] {
            let mut unpacked = Vec::new();
            let packed = Encoding::Gzip.encode(body);
            GzDecoder::new(&packed[..]).read_to_end(&mut unpacked).expect("gzip");
            assert_eq!(unpacked, body);
            assert_eq!(unsnap(&Encoding::Snappy.encode(body)), body);
            assert_eq!(Encoding::Identity.encode(body), body);
        }
        assert!(Encoding::Snappy.encode(&long).len() < long.len() / 4);
    }

    fn unsnap(packed: &[u8]) -> Vec<u8> {
        let (mut reader, mut out, mut rest) = (s2::S2Reader::default(), Vec::new(), packed);
        while !rest.is_empty() {
            let (used, data) = reader.read(rest).expect("a stream");
            assert!(data.len() <= 64 << 10);
            out.extend_from_slice(data);
            rest = &rest[used..];
        }
        assert!(reader.is_between_chunks());
        out
    }
}
