//! Names that other servers say of themselves, and that are said on to third ones.
//!
//! The name of a leaf node's cluster is a word of lines to routes: what would end the word, or the
//! line, would be a word or a line of whoever has chosen the name. So such a name is refused where
//! it is heard, and whoever writes lines need not look.

use myelin_wire::peer::NO_ORIGIN;

/// Longest name in bytes: a name goes over each route with each message.
const LONGEST: usize = 255;

/// Checks that a text can be one word of a line.
pub(crate) fn check_word(text: &str) -> Result<(), &'static str> {
    if text.len() > LONGEST {
        return Err("is too long");
    }
    if text.contains(' ') {
        return Err("cannot contain spaces");
    }
    let breaks = |byte: u8| byte <= b' ' || byte == 0x7f;
    if text.bytes().any(breaks) { Err("cannot contain control characters") } else { Ok(()) }
}

/// Checks the name of the other side's cluster; says what is wrong with it.
pub(crate) fn check_cluster(name: &str) -> Result<(), &'static str> {
    if name == NO_ORIGIN { Err("is reserved") } else { check_word(name) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_one_word() {
        for good in ["", "C", "cluster-1", "häuser", &"x".repeat(LONGEST)] {
            assert_eq!(check_cluster(good), Ok(()), "{good:?}");
        }
        assert_eq!(check_cluster("a b"), Err("cannot contain spaces"));
        assert_eq!(check_cluster("_"), Err("is reserved"));
        assert_eq!(check_cluster(&"x".repeat(LONGEST + 1)), Err("is too long"));
        for byte in (0..b' ').chain([0x7f]) {
            let name = format!("a{}b", char::from(byte));
            assert_eq!(check_cluster(&name), Err("cannot contain control characters"), "{name:?}");
        }
    }
}
