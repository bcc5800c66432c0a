//! Which bit is wrong in bytes that carry their CRC-32C, if it is one.
//!
//! Two different flips of one bit never have the same effect on the checksum, and a flip of two is
//! never taken for one of one: so a short block whose single wrong bit is known is as good as a
//! sound one. Bytes that are wrong altogether are taken for such a block once in 2^32 for each of
//! their bits; so this is for headers and other short blocks.

use std::io;

use myelin_disk::File;

/// The polynomial, reflected.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// The bit that is wrong in `bytes`, whose last four are the checksum of those before it, seeded
/// with `seed`. `None` if none is wrong, or more than one.
pub(crate) fn bit(bytes: &[u8], seed: u32) -> Option<usize> {
    let (covered, checksum) = bytes.split_last_chunk::<4>()?;
    let difference = crc32c::crc32c_append(seed, covered) ^ u32::from_le_bytes(*checksum);
    // The register as a wrong bit leaves it, from the last bit of the checksum to the first one of
    // all.
    let mut effect = 1 << 31;
    for bit in (0..bytes.len() * 8).rev() {
        if effect == difference {
            return Some(bit);
        }
        effect = if effect & 1 == 1 { effect >> 1 ^ POLYNOMIAL } else { effect >> 1 };
    }
    None
}

/// The checksum of what stands before `bytes`, if `checksum` is that of all.
pub(crate) fn unappend(checksum: u32, bytes: &[u8]) -> u32 {
    let mut register = !checksum;
    for byte in bytes.iter().rev() {
        for _ in 0..8 {
            // The polynomial has its highest bit set, and nothing else sets it.
            register = if register >> 31 == 1 { (register ^ POLYNOMIAL) << 1 | 1 } else { register << 1 };
        }
        register ^= u32::from(*byte);
    }
    !register
}

/// Writes the byte with this bit anew, with the other value of the bit, and syncs it.
pub(crate) fn write_back(file: &dyn File, bit: usize) -> io::Result<()> {
    let (offset, mut byte) = ((bit / 8) as u64, [0]);
    if file.read_at(&mut byte, offset)? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    byte[0] ^= 1 << (bit % 8);
    file.write_at(&byte, offset)?;
    file.sync()
}

/// Words for an operator about a bit.
pub(crate) fn words(bit: usize) -> String {
    format!("bit {} of byte {} was not what was written", bit % 8, bit / 8)
}

/// Puts the single wrong bit of `bytes` right; as [`bit`].
pub(crate) fn correct(bytes: &mut [u8], seed: u32) -> Option<usize> {
    let bit = bit(bytes, seed)?;
    bytes[bit / 8] ^= 1 << (bit % 8);
    Some(bit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checksum_leads_back_to_what_it_was_seeded_with() {
        for seed in [0, 1, 0xffff_ffff, 0x1234_5678] {
            let bytes: Vec<u8> = (0..40).map(|at| (at * 77 + 3) as u8).collect();
            assert_eq!(unappend(crc32c::crc32c_append(seed, &bytes), &bytes), seed);
        }
    }

    #[test]
    fn each_single_bit_is_found_and_two_are_not() {
        for (length, seed) in [(0, 0), (1, 7), (76, 0xdead_beef), (124, 0), (700, 3)] {
            let mut good: Vec<u8> = (0..length).map(|at| (at * 31 + 7) as u8).collect();
            let checksum = crc32c::crc32c_append(seed, &good);
            good.extend_from_slice(&checksum.to_le_bytes());
            assert_eq!(bit(&good, seed), None);
            for first in 0..good.len() * 8 {
                let mut bad = good.clone();
                bad[first / 8] ^= 1 << (first % 8);
                let second = (first * 7 + 13) % (good.len() * 8);
                let mut worse = bad.clone();
                worse[second / 8] ^= 1 << (second % 8);
                assert_eq!(correct(&mut bad, seed), Some(first));
                assert_eq!(bad, good);
                assert!(second == first || bit(&worse, seed).is_none(), "{first} and {second}");
            }
        }
    }
}
