//! Answers in fewer bytes, where the request's `Accept-Encoding` takes them.
//!
//! Snappy's stream format is a few lines around the blocks of `minlz`; its checksums are those of the store's.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write as _;

/// How an answer is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Packing {
    /// Nothing was asked for.
    Plain,
    /// Something was asked for that is not to be had.
    Identity,
    Gzip,
    Snappy,
}

impl Packing {
    /// What `Accept-Encoding` asks for. Compat: a word anywhere in it counts, and snappy first.
    pub(super) fn accepted(headers: &[u8]) -> Self {
        let Some(value) = myelin_wire::header::get(headers, b"Accept-Encoding") else { return Self::Plain };
        let value = String::from_utf8_lossy(value).to_lowercase();
        match value {
            value if value.is_empty() => Self::Plain,
            value if value.contains("snappy") || value.contains("s2") => Self::Snappy,
            value if value.contains("gzip") => Self::Gzip,
            _ => Self::Identity,
        }
    }

    /// The header block of the answer; none where nothing was asked for.
    pub(super) fn headers(self) -> Vec<u8> {
        let name = match self {
            Self::Plain => return Vec::new(),
            Self::Identity => "identity",
            Self::Gzip => "gzip",
            Self::Snappy => "snappy",
        };
        format!("NATS/1.0\r\nContent-Encoding: {name}\r\n\r\n").into_bytes()
    }

    /// Packs a body.
    pub(super) fn pack(self, body: Vec<u8>) -> Vec<u8> {
        match self {
            Self::Plain | Self::Identity => body,
            Self::Gzip => {
                let mut packed = GzEncoder::new(Vec::new(), Compression::default());
                // A vector takes every write.
                let written = packed.write_all(&body).and_then(|()| packed.finish());
                written.unwrap_or_default()
            }
            Self::Snappy => snappy(&body),
        }
    }
}

/// Bytes of a block before it is packed, at most.
const BLOCK: usize = 64 * 1024;

/// A stream of Snappy: its name, then blocks, each with the checksum of what is in it.
fn snappy(body: &[u8]) -> Vec<u8> {
    let mut stream = b"\xff\x06\x00\x00sNaPpY".to_vec();
    for block in body.chunks(BLOCK) {
        let packed = minlz::encode_snappy(block);
        let (kind, bytes) = if packed.len() < block.len() { (0, &packed[..]) } else { (1, block) };
        let checksum = minlz::crc::crc(block);
        // A block is far below the 16 MiB that its length has room for.
        let length = (bytes.len() + 4) as u32;
        stream.push(kind);
        stream.extend_from_slice(&length.to_le_bytes()[..3]);
        stream.extend_from_slice(&checksum.to_le_bytes());
        stream.extend_from_slice(bytes);
    }
    stream
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn what_is_asked_for_decides() {
        let accepted = |value: &str| {
            Packing::accepted(format!("NATS/1.0\r\nAccept-Encoding: {value}\r\n\r\n").as_bytes())
        };
        assert_eq!(accepted("gzip, S2"), Packing::Snappy);
        assert_eq!(accepted("GZIP"), Packing::Gzip);
        assert_eq!(accepted("br"), Packing::Identity);
        assert_eq!(Packing::accepted(b""), Packing::Plain);
    }

    #[test]
    fn what_is_packed_can_be_read() {
        let bodies = [Vec::new(), b"x".to_vec(), b"{\"a\":1}".repeat(30_000)];
        for body in bodies {
            let mut read = Vec::new();
            minlz::Reader::new(&Packing::Snappy.pack(body.clone())[..]).read_to_end(&mut read).unwrap();
            assert!(read == body);
            read.clear();
            flate2::read::GzDecoder::new(&Packing::Gzip.pack(body.clone())[..])
                .read_to_end(&mut read)
                .unwrap();
            assert!(read == body);
            assert!(Packing::Snappy.pack(body.clone()).len() < body.len() / 10 + 32);
        }
    }
}
