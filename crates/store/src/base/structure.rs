//! Whether a base's bytes are those that were written, which can be told without keys.

use crate::lengths::in_memory;
use myelin_disk::File;

use super::{BLOCK_HEAD_BYTES, BaseHeader, BaseSummary, HEADER_BYTES, TRAILER_BYTES, WHAT};
use crate::damage::Damage;

/// Bytes read at once.
const PIECE: u64 = 1 << 20;

/// Checks trailer and blocks of the file with this header. Nothing is said of what an encrypted
/// block holds.
///
/// # Errors
/// What is wrong with it.
pub fn check_structure(file: &dyn File, header: &BaseHeader) -> Result<BaseSummary, Damage> {
    let context = header.context(None);
    let summary = BaseSummary::read(file, &context)?;
    let end = summary.file_len - TRAILER_BYTES as u64;
    let mut at = HEADER_BYTES as u64;
    while at < end {
        let mut head = [0; BLOCK_HEAD_BYTES];
        if at + BLOCK_HEAD_BYTES as u64 > end || file.read_at(&mut head, at)? < head.len() {
            return Err(Damage::Short(WHAT));
        }
        let next = at
            + BLOCK_HEAD_BYTES as u64
            + u64::from(u32::from_le_bytes([head[4], head[5], head[6], head[7]]));
        if next > end {
            return Err(Damage::Short(WHAT));
        }
        let seed = crc32c::crc32c_append(context.seed, &head[4..]);
        let checksum = checksum(file, seed, at + BLOCK_HEAD_BYTES as u64, next)?;
        if checksum.to_le_bytes() != head[..4] {
            return Err(Damage::Checksum(WHAT));
        }
        at = next;
    }
    Ok(summary)
}

fn checksum(file: &dyn File, mut checksum: u32, from: u64, to: u64) -> Result<u32, Damage> {
    let mut at = from;
    let mut piece = vec![0; in_memory(PIECE.min(to - from))];
    while at < to {
        let wanted = usize::try_from(to - at).map_or(piece.len(), |rest| rest.min(piece.len()));
        let read = file.read_at(&mut piece[..wanted], at)?;
        if read == 0 {
            return Err(Damage::Short(WHAT));
        }
        checksum = crc32c::crc32c_append(checksum, &piece[..read]);
        at += read as u64;
    }
    Ok(checksum)
}
