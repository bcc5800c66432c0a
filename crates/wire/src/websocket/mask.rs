//! The mask that clients put over what they send.

/// Bytes per step.
const WIDE: usize = 64;

/// Takes the mask off `len` bytes at `from` and moves them to `to`, which is not behind `from`.
/// `key` is that of the first of them; the key of the byte behind the last is returned.
///
/// Perf: one pass for both, since what stands between frames has to be closed up anyway.
pub(super) fn unmask(buf: &mut [u8], from: usize, to: usize, len: usize, key: [u8; 4]) -> [u8; 4] {
    debug_assert!(to <= from, "bytes are moved to the front");
    let mut wide = [0; WIDE];
    wide.chunks_exact_mut(4).for_each(|part| part.copy_from_slice(&key));
    let mut at = 0;
    while len - at >= WIDE {
        let mut chunk = [0; WIDE];
        chunk.copy_from_slice(&buf[from + at..from + at + WIDE]);
        chunk.iter_mut().zip(&wide).for_each(|(byte, key)| *byte ^= key);
        buf[to + at..to + at + WIDE].copy_from_slice(&chunk);
        at += WIDE;
    }
    while at < len {
        buf[to + at] = buf[from + at] ^ key[at % 4];
        at += 1;
    }
    let mut key = key;
    key.rotate_left(len % 4);
    key
}

/// Appends bytes with the mask over them; the key for those that follow is returned.
pub(super) fn mask_into(to: &mut Vec<u8>, bytes: &[u8], key: [u8; 4]) -> [u8; 4] {
    let mut key = key;
    let (from, len) = (to.len(), bytes.len());
    to.extend_from_slice(bytes);
    let mut wide = [0; WIDE];
    wide.chunks_exact_mut(4).for_each(|part| part.copy_from_slice(&key));
    for chunk in to[from..].chunks_mut(WIDE) {
        chunk.iter_mut().zip(&wide).for_each(|(byte, key)| *byte ^= key);
    }
    key.rotate_left(len % 4);
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_masked_in_pieces_is_masked_as_a_whole() {
        let plain: Vec<u8> = (0..500u32).map(|i| (i * 7) as u8).collect();
        let key = [1, 0x80, 3, 0xff];
        let masked: Vec<u8> = plain.iter().enumerate().map(|(i, byte)| byte ^ key[i % 4]).collect();
        for piece in [1, 3, 63, 64, 65, 130, 500] {
            let (mut to, mut next) = (b"ahead".to_vec(), key);
            for part in plain.chunks(piece) {
                next = mask_into(&mut to, part, next);
            }
            assert_eq!(&to[5..], masked, "{piece}");
        }
    }

    #[test]
    fn what_is_unmasked_in_pieces_and_moved_is_what_was_masked() {
        let plain: Vec<u8> = (0..500u32).map(|i| (i * 7) as u8).collect();
        let key = [1, 0x80, 3, 0xff];
        let masked: Vec<u8> = plain.iter().enumerate().map(|(i, byte)| byte ^ key[i % 4]).collect();
        for shift in [0, 1, 6, 14, 100] {
            for piece in [1, 3, 63, 64, 65, 130, 500] {
                let mut buf = vec![0xAA; shift];
                buf.extend(&masked);
                let (mut at, mut key) = (0, key);
                while at < plain.len() {
                    let len = piece.min(plain.len() - at);
                    key = unmask(&mut buf, shift + at, at, len, key);
                    at += len;
                }
                assert_eq!(&buf[..plain.len()], plain, "{shift} {piece}");
            }
        }
    }
}
