//! Where the frames of a packed segment are: the table that stands behind them, at the end of what
//! counts as records.
//!
//! Owns its layout. Without it the frames are found again (`pack::rebuild`), so a damaged table
//! loses nothing.
//!
//! ```text
//! table  24 bytes per frame     then  u64 bytes of the table   u32 0   u32 checksum of all that
//! ```

use crate::lengths::in_memory;
use myelin_disk::File;

use super::{HEADER_BYTES, Trailer};
use crate::damage::Damage;
use crate::pack::{self, FrameTable};
use crate::record::FileContext;

/// Bytes behind the table.
const TAIL_BYTES: usize = 16;
const WHAT: &str = "table of frames";

/// Appends the table and what stands behind it. The end of it is the segment's `records_end`.
pub(crate) fn encode_frames(frames: &FrameTable, context: &FileContext, out: &mut Vec<u8>) {
    let start = out.len();
    frames.encode(out);
    let length = (out.len() - start) as u64;
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    let checksum = crc32c::crc32c_append(context.seed, &out[start..]);
    out.extend_from_slice(&checksum.to_le_bytes());
}

/// The frames of a sealed and packed file: from their table, or from the frames themselves if it is
/// damaged.
///
/// # Errors
/// `Io`; `Content` if neither the table nor the frames tell where everything is.
pub fn read_frames(file: &dyn File, trailer: &Trailer, context: &FileContext) -> Result<FrameTable, Damage> {
    match read_table(file, trailer.records_end, context) {
        Err(Damage::Io(error)) => Err(Damage::Io(error)),
        Err(_) => {
            let range = HEADER_BYTES as u64..trailer.records_end;
            Ok(pack::rebuild(file, context.seed, range)?.table)
        }
        table => table,
    }
}

fn read_table(file: &dyn File, end: u64, context: &FileContext) -> Result<FrameTable, Damage> {
    let begin = HEADER_BYTES as u64;
    let mut tail = [0; TAIL_BYTES];
    let tail_at = end.checked_sub(TAIL_BYTES as u64).filter(|at| *at >= begin).ok_or(Damage::Short(WHAT))?;
    if file.read_at(&mut tail, tail_at)? < TAIL_BYTES {
        return Err(Damage::Short(WHAT));
    }
    let length = u64::from_le_bytes(tail.as_chunks::<8>().0[0]);
    let table_at = tail_at.checked_sub(length).filter(|at| *at >= begin).ok_or(Damage::Content(WHAT))?;
    // No longer than the file, as was seen above.
    let mut bytes = vec![0; usize::try_from(end - table_at).map_err(|_| Damage::Content(WHAT))?];
    if file.read_at(&mut bytes, table_at)? < bytes.len() {
        return Err(Damage::Short(WHAT));
    }
    let (framed, checksum) = bytes.split_last_chunk::<4>().ok_or(Damage::Short(WHAT))?;
    if crc32c::crc32c_append(context.seed, framed).to_le_bytes() != *checksum {
        return Err(Damage::Checksum(WHAT));
    }
    let table = &bytes[..in_memory(tail_at - table_at)];
    FrameTable::decode(table, begin..table_at).map_err(|_| Damage::Content(WHAT))
}

#[cfg(test)]
mod tests {
    use myelin_disk::memory::MemoryFile;

    use super::*;
    use crate::pack::Packer;
    use crate::segment::{Footer, read_trailer};

    /// A file of some frames, and where its table begins.
    fn packed(context: &FileContext) -> (MemoryFile, FrameTable, u64) {
        let mut bytes = vec![0; HEADER_BYTES];
        let mut packer = Packer::new(context.seed, None);
        for frame in 0..5u8 {
            let at = bytes.len() as u64;
            let raw_offset = 128 + 1000 * u64::from(frame);
            packer.push_frame(raw_offset, &[frame; 1000], &mut bytes, at).expect("frames are in order");
        }
        let table = packer.finish();
        let table_at = bytes.len() as u64;
        encode_frames(&table, context, &mut bytes);
        let end = bytes.len() as u64;
        bytes.extend_from_slice(&Footer::default().encode(end, context));
        let file = MemoryFile::new();
        file.write_at(&bytes, 0).expect("memory takes it");
        (file, table, table_at)
    }

    #[test]
    fn a_table_comes_back_also_when_it_is_damaged() {
        let context = FileContext { seed: 77, cipher: None };
        let (file, table, table_at) = packed(&context);
        let trailer = read_trailer(&file, &context).expect("it is sound").expect("it is sealed");
        assert_eq!(read_table(&file, trailer.records_end, &context).expect("it is sound"), table);
        for at in table_at..trailer.records_end {
            let mut byte = [0];
            file.read_at(&mut byte, at).expect("memory gives it");
            file.write_at(&[byte[0] ^ 0x40], at).expect("memory takes it");
            assert!(read_table(&file, trailer.records_end, &context).is_err(), "a flipped bit at {at}");
            assert_eq!(read_frames(&file, &trailer, &context).expect("the frames are sound"), table);
            file.write_at(&byte, at).expect("memory takes it");
        }
    }
}
