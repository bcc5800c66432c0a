//! The parser of what other servers say.
//!
//! Promised for any bytes, with and without the account in the line, and of leaf nodes: the result
//! does not depend on how they were split; the parser asks for more than it has, and never for more
//! than the operation takes; the tail of a message is what would be rendered; the quick way through
//! the parser says what the long one does.

use crate::pieces::pieces;
use myelin_wire::encode;
use myelin_wire::peer::parser::{Parsed, PeerError, PeerLimits, PeerOp, Routed, next, plain_message};

const ROOMY: PeerLimits = PeerLimits {
    max_line: 4096,
    max_payload: 1 << 20,
    is_dedicated: false,
    names_origin: true,
    is_leaf: false,
};
const TIGHT: PeerLimits =
    PeerLimits { max_line: 32, max_payload: 20, is_dedicated: true, names_origin: false, is_leaf: false };
const LEAF: PeerLimits = PeerLimits { is_dedicated: true, is_leaf: true, ..ROOMY };

/// Any bytes as what another server sends.
pub fn peer_parser(data: &[u8]) {
    for limits in [&ROOMY, &TIGHT, &LEAF] {
        let whole = replay([data].into_iter(), limits);
        assert_eq!(replay(pieces(data), limits), whole, "in pieces");
        assert_eq!(replay(data.chunks(1), limits), whole, "byte by byte");
    }
}

/// Every operation as its debug text, what was refused, and bytes of the one that is not whole.
type Outcome = (Vec<String>, Option<PeerError>, usize);

fn replay<'a>(pieces: impl Iterator<Item = &'a [u8]>, limits: &PeerLimits) -> Outcome {
    let (mut operations, mut held, mut need) = (Vec::new(), Vec::new(), 1);
    for piece in pieces {
        held.extend_from_slice(piece);
        loop {
            if let Some((message, len)) = plain_message(&held, limits) {
                let long_way = next(&held, limits);
                assert_eq!(long_way, Ok(Parsed::Op(PeerOp::Message(message), len)), "both ways say the same");
            }
            match next(&held, limits) {
                Ok(Parsed::Op(op, len)) => {
                    assert!((1..=held.len()).contains(&len), "an operation of {len} bytes in {}", held.len());
                    assert!(len >= need, "asked for {need} bytes, but {len} were enough");
                    if let PeerOp::Message(message) = &op {
                        is_told(message);
                    }
                    operations.push(format!("{op:?}"));
                    held.drain(..len);
                    need = 1;
                }
                Ok(Parsed::Need(more)) => {
                    assert!(more > held.len(), "asks for {more} bytes of {}", held.len());
                    need = more;
                    break;
                }
                Err(error) => return (operations, Some(error), 0),
            }
        }
    }
    (operations, None, held.len())
}

fn is_told(message: &Routed<'_>) {
    assert!(message.header_len as usize <= message.body.len());
    assert!(message.queues.iter().all(|queue| !queue.is_empty()));
    if !message.tail.is_empty() {
        let mut tail = Vec::new();
        encode::tail(&mut tail, message.reply, message.digits.0, message.digits.1, message.body);
        assert_eq!(message.tail, tail, "the tail is another");
    }
}
