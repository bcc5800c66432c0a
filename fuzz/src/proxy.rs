//! PROXY headers. The first byte of the input is how many bytes come at once, the rest is what
//! comes.
//!
//! Promised: whoever reads what is asked for, in whatever pieces, comes to the same end as who has
//! all of it; of what stands behind a binary header nothing is asked for; and a header is never
//! said to be longer than it can be.

use myelin_wire::proxy::{self, HeaderStep};

/// Any bytes from the front of a connection.
pub fn proxy(data: &[u8]) {
    let Some((pieces, bytes)) = data.split_first() else { return };
    let pieces = usize::from(*pieces).max(1);
    let mut read = 0;
    loop {
        match proxy::next(&bytes[..read]) {
            Ok(HeaderStep::More(most, _)) => {
                assert!(most > 0, "asks for nothing");
                let n = most.min(pieces).min(bytes.len() - read);
                if n == 0 {
                    return;
                }
                read += n;
            }
            end => {
                assert_eq!(end, proxy::next(bytes));
                if let Ok(HeaderStep::Whole(header)) = end {
                    let is_binary = bytes.starts_with(b"\r");
                    assert!(!is_binary || read <= header.length);
                    assert!(is_binary || header.length <= 107.min(read));
                    assert!(header.length <= 16 + usize::from(u16::MAX));
                }
                return;
            }
        }
    }
}
