//! Streams of S2 from a peer of a compressed link. The first byte says how they are cut, the rest
//! is what comes.
//!
//! Promised: any bytes mean the same in any pieces, whoever keeps the blocks; what is held is
//! bounded by the block that is allowed, and given back. And what a writer makes of any bytes is
//! what a reader gets out of it.

use myelin_wire::s2::{S2Error, S2Level, S2Reader, S2Writer};

/// Bytes of a block that is allowed here.
const ALLOWED: usize = 1 << 16;
/// A chunk that came in part, and a block, each with what a vector sets aside to grow.
const HELD: usize = 2 * (ALLOWED + ALLOWED / 6 + 68) + 2 * ALLOWED;

/// Any bytes as a stream, and as the content of one.
pub fn s2_frames(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let piece = 1 + usize::from(*choice);
    let whole = read(bytes, bytes.len().max(1));
    assert_eq!(read(bytes, piece), whole);
    assert_eq!(read_into(bytes, piece), whole);
    let level = [S2Level::Uncompressed, S2Level::Fast, S2Level::Better][piece % 3];
    let (mut writer, mut stream) = (S2Writer::new(level), Vec::new());
    writer.write(bytes.chunks(piece), &mut stream);
    writer.write([bytes], &mut stream);
    assert_eq!(read(&stream, piece), (bytes.repeat(2), None));
}

type Outcome = (Vec<u8>, Option<S2Error>);

fn read(bytes: &[u8], piece: usize) -> Outcome {
    let (mut reader, mut all) = (S2Reader::new(ALLOWED), Vec::new());
    for mut rest in bytes.chunks(piece) {
        while !rest.is_empty() {
            match reader.read(rest) {
                Ok((used, data)) => {
                    assert!(used > 0 && data.len() <= ALLOWED);
                    all.extend_from_slice(data);
                    rest = &rest[used..];
                }
                Err(error) => return (all, Some(error)),
            }
            assert!(reader.held() <= HELD, "{}", reader.held());
        }
    }
    let is_between = reader.is_between_chunks();
    reader.release();
    assert!(!is_between || reader.held() == 0);
    (all, None)
}

fn read_into(bytes: &[u8], piece: usize) -> Outcome {
    let (mut reader, mut all, mut block) = (S2Reader::new(ALLOWED), Vec::new(), Vec::new());
    for mut rest in bytes.chunks(piece) {
        while !rest.is_empty() {
            match reader.read_into(rest, &mut block) {
                Ok(used) => {
                    all.extend_from_slice(&block);
                    rest = &rest[used..];
                }
                Err(error) => return (all, Some(error)),
            }
        }
    }
    (all, None)
}
