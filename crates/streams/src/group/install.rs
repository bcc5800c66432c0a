//! Installs as messages between two servers: one has a whole stream, the other lacks what is no
//! more in the log of its group.
//!
//! Owns the bytes of these messages, and what makes all pieces together right. Who sends what when
//! is for whoever has threads and connections. Must never take a message whose checksum is wrong.
//!
//! ```text
//!  0 u32 CRC-32C of what follows   4 u8 version, 1   5 u8 kind   6 u16 0
//!  8 u64 group   16 u32 epoch   20 u32 0   24 u64 number of the install   32 body
//! ```

use myelin_replica::GroupId;
use myelin_replica::frame::GroupPlace;
use myelin_store::{GroupPosition, InstallPoint};

/// Version of the messages. Others are not understood.
const VERSION: u8 = 1;
/// Bytes before the body.
const HEAD_BYTES: usize = 32;

/// Message about one install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstallMessage {
    /// The group whose stream it is.
    pub place: GroupPlace,
    /// Number of the install, drawn by who has the stream.
    pub install: u64,
    /// Its body.
    pub body: InstallBody,
}

/// Body of a message about an install.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InstallBody {
    /// The stream can be had.
    Offer {
        /// As of this point.
        point: InstallPoint,
        /// Up to which sequence messages may have lifetimes of which only their headers tell.
        lifetimes_until: u64,
    },
    /// A piece: its number, from 1, and its bytes.
    Piece(u64, Vec<u8>),
    /// There were so many pieces, with this digest.
    End(u64, InstallDigest),
    /// The other server has taken so many pieces; none yet, but the offer.
    Taken(u64),
    /// The other server has the stream.
    Done,
    /// One of the two has given up.
    GivenUp,
    /// The other server, which is a member, wants the stream: what it has of it is damaged.
    Wanted,
}

/// Digest of pieces in order: their bytes, and a checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InstallDigest {
    bytes: u64,
    checksum: u32,
}

impl InstallDigest {
    /// Adds the next piece.
    pub fn add(&mut self, piece: &[u8]) {
        self.bytes += piece.len() as u64;
        self.checksum = crc32c::crc32c_append(self.checksum, piece);
    }
}

impl InstallMessage {
    /// The message as bytes.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let Self { place, install, body } = self;
        let kind = match body {
            InstallBody::Offer { .. } => 1,
            InstallBody::Piece(..) => 2,
            InstallBody::End(..) => 3,
            InstallBody::Taken(_) => 4,
            InstallBody::Done => 5,
            InstallBody::GivenUp => 6,
            InstallBody::Wanted => 7,
        };
        let mut out = vec![0; 4];
        out.extend_from_slice(&[VERSION, kind, 0, 0]);
        put(&[place.group.0, u64::from(place.epoch), *install], &mut out);
        match body {
            InstallBody::Offer { point, lifetimes_until } => {
                put(&[*lifetimes_until], &mut out);
                put_point(point, &mut out);
            }
            InstallBody::Piece(number, bytes) => {
                put(&[*number], &mut out);
                out.extend_from_slice(bytes);
            }
            InstallBody::End(pieces, InstallDigest { bytes, checksum }) => {
                put(&[*pieces, *bytes, u64::from(*checksum)], &mut out);
            }
            InstallBody::Taken(pieces) => put(&[*pieces], &mut out),
            InstallBody::Done | InstallBody::GivenUp | InstallBody::Wanted => {}
        }
        let checksum = crc32c::crc32c(&out[4..]);
        out[..4].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    /// Reads what [`encode`](Self::encode) wrote. `None` for all other bytes.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (checksum, rest) = bytes.split_first_chunk::<4>()?;
        if crc32c::crc32c(rest) != u32::from_le_bytes(*checksum) {
            return None;
        }
        let (head, body) = bytes.split_at_checked(HEAD_BYTES)?;
        let [VERSION, kind, 0, 0] = head[4..8] else { return None };
        let [group, epoch, install] = numbers(&head[8..])?;
        let place = GroupPlace { group: GroupId(group), epoch: u32::try_from(epoch).ok()? };
        let body = match kind {
            1 => {
                let (lifetimes_until, body) = body.split_first_chunk::<8>()?;
                let lifetimes_until = u64::from_le_bytes(*lifetimes_until);
                InstallBody::Offer { point: point(body)?, lifetimes_until }
            }
            2 => {
                let (number, piece) = body.split_first_chunk::<8>()?;
                InstallBody::Piece(u64::from_le_bytes(*number), piece.to_vec())
            }
            3 => {
                let [pieces, bytes, checksum] = numbers(body)?;
                InstallBody::End(pieces, InstallDigest { bytes, checksum: u32::try_from(checksum).ok()? })
            }
            4 => {
                let [pieces] = numbers(body)?;
                InstallBody::Taken(pieces)
            }
            5 if body.is_empty() => InstallBody::Done,
            6 if body.is_empty() => InstallBody::GivenUp,
            7 if body.is_empty() => InstallBody::Wanted,
            _ => return None,
        };
        Some(Self { place, install, body })
    }
}

fn put(numbers: &[u64], out: &mut Vec<u8>) {
    numbers.iter().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
}

/// Just as many numbers, and nothing else.
fn numbers<const N: usize>(bytes: &[u8]) -> Option<[u64; N]> {
    let mut all = [0; N];
    if bytes.len() != 8 * N {
        return None;
    }
    for (number, bytes) in all.iter_mut().zip(bytes.chunks_exact(8)) {
        *number = u64::from_le_bytes(bytes.try_into().ok()?);
    }
    Some(all)
}

fn put_point(point: &InstallPoint, out: &mut Vec<u8>) {
    let &InstallPoint { position, first_seq, last_seq, last_time, next_consumer, config_index } = point;
    let GroupPosition { epoch, term, index, chain, .. } = position;
    let time = last_time.cast_unsigned();
    put(&[epoch, term, index, chain, first_seq, last_seq, time, next_consumer, config_index], out);
}

/// A point at which a stream can be: an entry with a term, and sequences in order.
fn point(bytes: &[u8]) -> Option<InstallPoint> {
    let [epoch, term, index, chain, first_seq, last_seq, time, next_consumer, config_index] = numbers(bytes)?;
    let position = GroupPosition { epoch, term, index, chain, commit: index };
    let is_right = index > 0
        && term > 0
        && first_seq > 0
        && first_seq <= last_seq.saturating_add(1)
        && last_seq <= myelin_store::MAX_SEQ
        && config_index <= index;
    let last_time = time.cast_signed();
    let point = InstallPoint { position, first_seq, last_seq, last_time, next_consumer, config_index };
    is_right.then_some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages() -> Vec<InstallMessage> {
        let mut digest = InstallDigest::default();
        digest.add(b"abc");
        let position = GroupPosition { epoch: 2, term: 3, index: 9, chain: u64::MAX, commit: 9 };
        let point = InstallPoint {
            position,
            first_seq: 4,
            last_seq: 3,
            last_time: -1,
            next_consumer: 7,
            config_index: 9,
        };
        let bodies = [
            InstallBody::Offer { point, lifetimes_until: 12 },
            InstallBody::Piece(1, b"abc".to_vec()),
            InstallBody::Piece(2, Vec::new()),
            InstallBody::End(1, digest),
            InstallBody::Taken(5),
            InstallBody::Done,
            InstallBody::GivenUp,
            InstallBody::Wanted,
        ];
        let place = GroupPlace { group: GroupId(7), epoch: 2 };
        bodies.map(|body| InstallMessage { place, install: 11, body }).to_vec()
    }

    #[test]
    fn messages_come_back() {
        for message in messages() {
            assert_eq!(InstallMessage::decode(&message.encode()), Some(message));
        }
    }

    #[test]
    fn damaged_messages_are_none() {
        for message in messages() {
            let bytes = message.encode();
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 0x10;
                assert_eq!(InstallMessage::decode(&damaged), None);
                assert_eq!(InstallMessage::decode(&bytes[..at]), None);
            }
        }
    }

    #[test]
    fn points_that_no_stream_can_have_are_none() {
        let InstallBody::Offer { point: good, .. } = messages()[0].body.clone() else { panic!("an offer") };
        let is_taken = |point: InstallPoint| {
            let message = InstallMessage {
                body: InstallBody::Offer { point, lifetimes_until: 0 },
                ..messages()[0].clone()
            };
            InstallMessage::decode(&message.encode()).is_some()
        };
        assert!(is_taken(good));
        assert!(!is_taken(InstallPoint { first_seq: 5, ..good }));
        assert!(!is_taken(InstallPoint { first_seq: 0, ..good }));
        assert!(!is_taken(InstallPoint { last_seq: u64::MAX, ..good }));
        assert!(!is_taken(InstallPoint { config_index: 10, ..good }));
        assert!(!is_taken(InstallPoint { position: GroupPosition { term: 0, ..good.position }, ..good }));
    }
}
