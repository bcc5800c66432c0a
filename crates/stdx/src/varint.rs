//! Numbers of one to ten bytes, in LEB128: what the formats of the store and of nats-server write
//! small numbers in.

/// Bytes of the longest one.
pub const LONGEST: usize = 10;

/// Appends `value` as LEB128: seven bits per byte, low bits first, the high bit says that more
/// follow.
pub fn put(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number off the front of `input`. `None` if it is cut, or above 64 bits.
pub fn take(input: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for (index, byte) in input.iter().enumerate().take(LONGEST) {
        let bits = u64::from(byte & 0x7f);
        if index == LONGEST - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            *input = &input[index + 1..];
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back(value in prop_oneof![any::<u64>(), 0u64..300, Just(u64::MAX)], rest in any::<[u8; 3]>()) {
            let mut bytes = Vec::new();
            put(value, &mut bytes);
            prop_assert!(bytes.len() <= LONGEST);
            for cut in 0..bytes.len() {
                prop_assert_eq!(take(&mut &bytes[..cut]), None);
            }
            bytes.extend_from_slice(&rest);
            let mut input = &bytes[..];
            prop_assert_eq!(take(&mut input), Some(value));
            prop_assert_eq!(input, &rest[..]);
        }
    }

    #[test]
    fn numbers_beyond_64_bits_are_refused() {
        let mut bytes = [0xff; 10];
        bytes[9] = 1;
        assert_eq!(take(&mut &bytes[..]), Some(u64::MAX));
        bytes[9] = 2;
        assert_eq!(take(&mut &bytes[..]), None);
    }
}
