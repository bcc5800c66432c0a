//! Compressed messages of a WebSocket peer. The first two bytes say how a message is cut and how
//! much room there is.
//!
//! Promised: any bytes inflate to no more than their budget, and to the same content in any pieces;
//! bytes that are no compressed message end the connection and nothing else. Any bytes come back
//! from deflating and inflating.

use myelin_wire::websocket::deflate::{Deflater, Inflaters};
use myelin_wire::websocket::{
    BufferSpan, Ending, Extensions, FrameFault, FrameReader, FrameWriter, InflateLimits,
};
use std::cell::RefCell;
use std::io::IoSlice;

const BUDGET: u64 = 1 << 14;
const ALLOWED: InflateLimits = InflateLimits { content: BUDGET, gathered: None };

thread_local! {
    /// Large, and made to be used again: inputs share them, and find nothing in them of those
    /// before.
    static WINDOWS: RefCell<(Inflaters, Deflater)> = RefCell::default();
}

/// Any bytes as a compressed message, and as the content of one.
pub fn websocket_inflate(data: &[u8]) {
    WINDOWS.with_borrow_mut(|(inflaters, deflater)| run(data, inflaters, deflater));
}

fn run(data: &[u8], inflaters: &mut Inflaters, deflater: &mut Deflater) {
    let [cut, room, bytes @ ..] = data else { return };
    let (cut, room) = (1 + usize::from(*cut), 1 + 16 * usize::from(*room));
    let whole = inflate(bytes, bytes.len().max(1), 1 << 15, inflaters);
    let pieces = inflate(bytes, cut, room, inflaters);
    let is_broken = |ending: &Option<Ending>| *ending == Some(Ending::FrameFault(FrameFault::Compression));
    if is_broken(&whole.1) || is_broken(&pieces.1) {
        // How much comes before that depends on the pieces, and so whether it is too long.
        assert!(whole.1.is_some() && pieces.1.is_some());
        assert!(whole.0.starts_with(&pieces.0) || pieces.0.starts_with(&whole.0));
    } else {
        assert_eq!(pieces, whole);
    }
    if let Some(Ending::FrameFault(fault)) = &whole.1 {
        assert!(matches!(fault, FrameFault::Compression | FrameFault::TooBig));
    }
    deflate(bytes, inflaters, deflater);
}

/// Inflates the bytes as one message in frames of `cut` bytes. Gives the content, and the end of
/// the connection if there was one.
fn inflate(bytes: &[u8], cut: usize, room: usize, pool: &mut Inflaters) -> (Vec<u8>, Option<Ending>) {
    let mut receiver = FrameReader::new(false, true);
    let mut content = Vec::new();
    let mut pieces: Vec<_> = bytes.chunks(cut).collect();
    if pieces.is_empty() {
        pieces.push(b"");
    }
    let last = pieces.len() - 1;
    for (i, piece) in pieces.iter().enumerate() {
        let first = if i == 0 { 0x42 } else { 0 } | if i == last { 0x80 } else { 0 };
        let mut frame = vec![first, 127];
        frame.extend((piece.len() as u64).to_be_bytes());
        frame.extend_from_slice(piece);
        let mut buf = vec![0; room + frame.len()];
        buf[room..].copy_from_slice(&frame);
        let place = BufferSpan { from: room, len: frame.len(), most: room };
        let mut n = receiver.decode(&mut buf, place, ALLOWED, pool);
        loop {
            content.extend_from_slice(&buf[..n]);
            if !receiver.has_rest() {
                break;
            }
            n = receiver.resume(&mut buf, room, room, ALLOWED, pool);
        }
    }
    assert!(content.len() as u64 <= BUDGET);
    (content, receiver.ending().cloned())
}

fn deflate(content: &[u8], inflaters: &mut Inflaters, deflater: &mut Deflater) {
    let extensions = Extensions { compresses: true, ..Extensions::default() };
    let mut wire = Vec::new();
    let mut out = |bufs: &[IoSlice<'_>]| {
        wire.extend(bufs.iter().flat_map(|buf| buf.iter().copied()));
        Ok(bufs.iter().map(|buf| buf.len()).sum())
    };
    if content.is_empty() {
        return;
    }
    let written = FrameWriter::new(extensions).write(&[IoSlice::new(content)], Some(deflater), &mut out);
    assert_eq!(written.expect("the transport takes all"), content.len());
    let mut receiver = FrameReader::new(false, true);
    let half = content.len() + 64;
    let mut buf = vec![0; half + wire.len()];
    buf[half..].copy_from_slice(&wire);
    let place = BufferSpan { from: half, len: wire.len(), most: half };
    let allowed = InflateLimits { content: 1 << 20, gathered: None };
    let n = receiver.decode(&mut buf, place, allowed, inflaters);
    assert_eq!(&buf[..n], content);
}
