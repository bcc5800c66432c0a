//! Frames of a WebSocket peer. The first byte says what was agreed on and how the rest is cut.
//!
//! Promised: any bytes give the same messages in any pieces and through any room; bytes behind the
//! end do not count; answers to pings are bounded. And a receiver gets any bytes out of the frames
//! that a sender made of them, however much of a frame the transport takes at once.

use myelin_wire::websocket::deflate::{Deflater, Inflaters};
use myelin_wire::websocket::{
    BufferSpan, Ending, Extensions, FrameFault, FrameReader, FrameWriter, InflateLimits,
};
use std::cell::RefCell;
use std::io::{self, IoSlice};

const BUDGET: u64 = 1 << 16;

type Outcome = (Vec<u8>, Option<Ending>);

thread_local! {
    /// Room for a piece and what comes out of it. Zeros are written once and not for each piece:
    /// nobody reads what they have not written.
    static ROOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    /// Windows of compression, which a shard's connections share as well.
    static INFLATERS: RefCell<Inflaters> = RefCell::default();
    static DEFLATER: RefCell<Deflater> = RefCell::default();
}

/// Any bytes as frames, and as the content of frames.
pub fn websocket_frames(data: &[u8]) {
    let Some((choice, bytes)) = data.split_first() else { return };
    let (is_masked, may_compress) = (choice & 1 != 0, choice & 2 != 0);
    let piece = 1 + usize::from(choice >> 2);
    let new = || FrameReader::new(is_masked, may_compress);
    let whole = receive(new(), bytes, bytes.len().max(1), 1 << 18, usize::MAX);
    let pieces = receive(new(), bytes, piece, 1 + piece * 3, usize::MAX);
    assert!(agree(&pieces, &whole), "{pieces:?} {whole:?}");
    // A client that is let in somewhere: until then messages are gathered, and those that never end
    // say nothing.
    let known = receive(new(), bytes, piece, 1 + piece * 3, bytes.len() / 2);
    assert!(is_prefix(&known.0, &whole.0));
    assert!(whole.0.len() as u64 <= bytes.len() as u64 * (BUDGET + 1));
    send(bytes, *choice, piece);
}

/// How much of a message comes out before it is found to be broken depends on the pieces, and so
/// whether it is found to be too long.
fn agree(one: &Outcome, other: &Outcome) -> bool {
    let is_broken = |outcome: &Outcome| outcome.1 == Some(Ending::FrameFault(FrameFault::Compression));
    let is_refused =
        |outcome: &Outcome| is_broken(outcome) || outcome.1 == Some(Ending::FrameFault(FrameFault::TooBig));
    match is_broken(one) || is_broken(other) {
        true => is_refused(one) && is_refused(other) && is_prefix(&one.0, &other.0),
        false => one == other,
    }
}

/// Whether one of them begins the other.
fn is_prefix(one: &[u8], other: &[u8]) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// Messages are gathered in the first `unknown` bytes, unless that is all.
fn receive(receiver: FrameReader, bytes: &[u8], read: usize, most: usize, unknown: usize) -> Outcome {
    INFLATERS.with_borrow_mut(|pool| {
        ROOM.with_borrow_mut(|room| receive_in((room, pool), receiver, bytes, read, (most, unknown)))
    })
}

fn receive_in(
    (room, pool): (&mut Vec<u8>, &mut Inflaters),
    mut receiver: FrameReader,
    bytes: &[u8],
    read: usize,
    (most, unknown): (usize, usize),
) -> Outcome {
    let (mut content, mut answers) = (Vec::new(), 0);
    let (from, most) = if receiver.may_compress() { (most, most) } else { (0, most.max(read)) };
    for (i, piece) in bytes.chunks(read).enumerate() {
        let gathered = (unknown < usize::MAX && i * read < unknown).then_some(1 << 20);
        let allowed = InflateLimits { content: BUDGET, gathered };
        let length = from + read + bytes.len();
        room.resize(room.len().max(length), 0);
        let buf = &mut room[..length];
        buf[from..from + piece.len()].copy_from_slice(piece);
        let n = receiver.decode(buf, BufferSpan { from, len: piece.len(), most }, allowed, pool);
        content.extend_from_slice(&buf[..n]);
        while receiver.has_rest() {
            let n = receiver.resume(buf, from, most, allowed, pool);
            content.extend_from_slice(&buf[..n]);
        }
        let taken = receiver.take_answers().unwrap_or_default().len();
        assert!(taken < 4 * 1024 + 200);
        answers += taken;
    }
    assert!(answers <= bytes.len());
    (content, receiver.ending().cloned())
}

/// The content, sent by a transport that takes so many bytes at once.
fn send(content: &[u8], choice: u8, allowed: usize) {
    let extensions = Extensions {
        is_browser: choice & 4 != 0,
        takes_whole_messages: choice & 8 != 0,
        compresses: choice & 16 != 0,
    };
    let mut sender = FrameWriter::new(extensions);
    let (mut wire, mut at, mut turn) = (Vec::new(), 0, 0);
    while at < content.len() {
        turn += 1;
        let mut out = |bufs: &[IoSlice<'_>]| {
            let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
            let n = all.len().min(if turn % 2 == 0 { allowed } else { allowed * 7 });
            wire.extend_from_slice(&all[..n]);
            Ok(n)
        };
        let middle = at + (content.len() - at) / 2;
        let bufs = [IoSlice::new(&content[at..middle]), IoSlice::new(&content[middle..])];
        let wrote = DEFLATER.with_borrow_mut(|deflater| sender.write(&bufs, Some(deflater), &mut out));
        match wrote {
            Ok(n) => at += n,
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
    let (came, ending) =
        receive(FrameReader::new(false, true), &wire, wire.len().max(1), 1 << 18, usize::MAX);
    assert!(ending.is_none() && came == content);
}
