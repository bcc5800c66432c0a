//! Bytes cut into pieces, the way a network might deliver them.
//!
//! The cuts follow from the bytes themselves: a find stays a find when it is replayed.

use myelin_stdx::rng::Rng;

/// The pieces of `data`, none of them empty, a few bytes long each and sometimes many.
pub(crate) fn pieces(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let seed = data.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    let mut rng = Rng::seeded(seed);
    let mut rest = data;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let most = if rng.below(4) == 0 { rest.len() as u64 } else { 6 };
        let len = (1 + rng.below(most) as usize).min(rest.len());
        let (piece, after) = rest.split_at(len);
        rest = after;
        Some(piece)
    })
}
