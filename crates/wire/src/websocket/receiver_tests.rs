//! The receiver against a plain twin that sees everything at once, and its faults one by one.

use super::super::deflate::Deflater;
use super::*;
use proptest::prelude::*;

/// A frame as a client sends it.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    let key = [0x12, 0xf4, 0x56, payload.len() as u8];
    let mut frame = FrameHeader::new(first, payload.len()).bytes().to_vec();
    frame[1] |= MASK;
    frame.extend(key);
    frame.extend(payload.iter().enumerate().map(|(i, byte)| byte ^ key[i % 4]));
    frame
}

fn packed(plain: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    Deflater::default().deflate([plain].into_iter(), &mut packed).unwrap();
    packed
}

/// Outcome of bytes: content, answers, the end.
type Outcome = (Vec<u8>, Vec<u8>, Option<Ending>);

const BUDGET: u64 = 1 << 20;
const FREELY: InflateLimits = InflateLimits { content: BUDGET, gathered: None };
const WHOLE: InflateLimits = InflateLimits { content: BUDGET, gathered: Some(4000) };

/// Feeds `bytes` in reads of at most `read` bytes, with room for `most` bytes of content at once.
fn receive(receiver: FrameReader, bytes: &[u8], read: usize, most: usize) -> Outcome {
    receive_as(|_| FREELY, receiver, bytes, read, most)
}

/// Feeds `bytes` in reads of at most `read` bytes; `allowed` says what may be inflated after so
/// many bytes.
fn receive_as(
    allowed: impl Fn(usize) -> InflateLimits,
    mut receiver: FrameReader,
    bytes: &[u8],
    read: usize,
    most: usize,
) -> Outcome {
    let mut pool = Inflaters::default();
    let (mut plain, mut answers) = (Vec::new(), Vec::new());
    let most = if receiver.may_compress() { most } else { most.max(read) };
    let from = if receiver.may_compress() { most } else { 0 };
    let mut take = |receiver: &mut FrameReader, buf: &[u8]| {
        plain.extend_from_slice(buf);
        answers.extend(receiver.take_answers().unwrap_or_default());
    };
    for (i, piece) in bytes.chunks(read).enumerate() {
        let allowed = allowed(i * read);
        let mut buf = vec![0; from + read.max(piece.len())];
        buf[from..from + piece.len()].copy_from_slice(piece);
        let n = receiver.decode(&mut buf, BufferSpan { from, len: piece.len(), most }, allowed, &mut pool);
        take(&mut receiver, &buf[..n]);
        while receiver.has_rest() {
            let mut buf = vec![0; from + read + 10_000];
            let n = receiver.resume(&mut buf, from, most, allowed, &mut pool);
            take(&mut receiver, &buf[..n]);
        }
    }
    (plain, answers, receiver.ending().cloned())
}

fn plainly(bytes: &[u8]) -> Outcome {
    receive(FrameReader::new(true, false), bytes, bytes.len().max(1), bytes.len().max(1))
}

#[test]
fn frames_become_what_they_carry() {
    let mut bytes = frame(BINARY | FIN, b"PUB a 1\r\n");
    bytes.extend(frame(TEXT, b"x"));
    bytes.extend(frame(PING | FIN, b"hi"));
    bytes.extend(frame(CONTINUATION, b""));
    bytes.extend(frame(CONTINUATION | FIN, b"\r\n"));
    bytes.extend(frame(BINARY | FIN, b""));
    bytes.extend(frame(PONG | FIN, b"nobody asked"));
    let expected = (b"PUB a 1\r\nx\r\n".to_vec(), b"\x8a\x02hi".to_vec(), None);
    for read in 1..=bytes.len() {
        assert_eq!(receive(FrameReader::new(true, false), &bytes, read, read), expected, "{read}");
    }
}

#[test]
fn a_frame_may_be_longer_than_any_buffer() {
    let long: Vec<u8> = (0..300_000u32).map(|i| i as u8).collect();
    for len in [125, 126, 65535, 65536, 300_000] {
        let bytes = frame(BINARY | FIN, &long[..len]);
        let (plain, _, ending) = receive(FrameReader::new(true, false), &bytes, 1000, 1000);
        assert!(plain == long[..len] && ending.is_none(), "{len}");
    }
}

#[test]
fn every_fault_is_named_and_what_came_before_counts() {
    let mut no_mask = FrameHeader::new(BINARY | FIN, 3).bytes().to_vec();
    no_mask.extend(b"abc");
    let mut lengthy = vec![BINARY | FIN, MASK | 127];
    lengthy.extend([0xff; 12]);
    let two = |one: Vec<u8>, other: Vec<u8>| [one, other].concat();
    for (bytes, fault) in [
        (no_mask, FrameFault::NoMask),
        (lengthy, FrameFault::Length),
        (frame(BINARY | FIN | 0x20, b"a"), FrameFault::Reserved),
        (frame(BINARY | FIN | 0x10, b"a"), FrameFault::Reserved),
        (frame(BINARY | FIN | COMPRESSED, b"a"), FrameFault::NotCompressing),
        (frame(3 | FIN, b"a"), FrameFault::Opcode(3)),
        (frame(11 | FIN, b"a"), FrameFault::Opcode(11)),
        (frame(CONTINUATION | FIN, b"a"), FrameFault::Continuation),
        (two(frame(TEXT, b""), frame(TEXT, b"")), FrameFault::Nested),
        (frame(PING | FIN, &[0; 126]), FrameFault::LongControl),
        (frame(PING, b""), FrameFault::SplitControl),
        (frame(CLOSE | FIN, b"x"), FrameFault::ShortClose),
        (frame(CLOSE | FIN, &[3, 0xed]), FrameFault::CloseStatus(1005)),
    ] {
        let all = [frame(BINARY | FIN, b"before"), bytes, frame(BINARY | FIN, b"behind")].concat();
        for read in [1, 2, 5, all.len()] {
            let (plain, _, ending) = receive(FrameReader::new(true, false), &all, read, read);
            assert_eq!((plain, ending), (b"before".to_vec(), Some(Ending::FrameFault(fault))), "{read}");
        }
    }
}

#[test]
fn compression_has_faults_of_its_own() {
    let first = BINARY | COMPRESSED;
    let receive = |bytes: &[u8]| receive(FrameReader::new(true, true), bytes, 100, 100).2;
    assert_eq!(
        receive(&[frame(first, b""), frame(CONTINUATION | FIN | COMPRESSED, b"")].concat()),
        Some(Ending::FrameFault(FrameFault::Continuation))
    );
    assert_eq!(
        receive(&frame(PING | FIN | COMPRESSED, b"")),
        Some(Ending::FrameFault(FrameFault::CompressedControl))
    );
    assert_eq!(receive(&frame(first | FIN, &[0xff; 20])), Some(Ending::FrameFault(FrameFault::Compression)));
}

#[test]
fn a_close_frame_ends_it() {
    let bytes = [frame(BINARY | FIN, b"a"), frame(CLOSE | FIN, b"\x03\xe8bye"), frame(BINARY, b"b")];
    let (plain, _, ending) = plainly(&bytes.concat());
    assert_eq!((plain, ending), (b"a".to_vec(), Some(Ending::Closed(b"\x03\xe8bye".to_vec()))));
    assert_eq!(plainly(&frame(CLOSE | FIN, b"")).2, Some(Ending::Closed(Vec::new())));
}

#[test]
fn pings_without_end_are_answered_as_far_as_there_is_room() {
    let bytes = frame(PING | FIN, &[7; 125]).repeat(1000);
    let (plain, answers, ending) = plainly(&bytes);
    assert!(plain.is_empty() && ending.is_none());
    assert!((MOST_ANSWERS..MOST_ANSWERS + 200).contains(&answers.len()), "{}", answers.len());
}

#[test]
fn who_need_not_mask_may_do_both() {
    let mut bytes = FrameHeader::new(BINARY | FIN, 3).bytes().to_vec();
    bytes.extend(b"abc");
    bytes.extend(frame(BINARY | FIN, b"def"));
    assert_eq!(receive(FrameReader::new(false, false), &bytes, 100, 100).0, b"abcdef");
}

#[test]
fn a_bomb_is_refused_when_its_budget_is_spent_and_not_later() {
    let bomb = frame(BINARY | FIN | COMPRESSED, &packed(&vec![0; 100 << 20]));
    assert!(bomb.len() < 1 << 20);
    let (plain, _, ending) = receive(FrameReader::new(true, true), &bomb, 8192, 8192);
    assert_eq!(ending, Some(Ending::FrameFault(FrameFault::TooBig)));
    assert_eq!(plain.len() as u64, BUDGET);
    // The budget is that of a message: several may follow each other.
    let half = frame(BINARY | FIN | COMPRESSED, &packed(&vec![1; BUDGET as usize]));
    let (plain, _, ending) = receive(FrameReader::new(true, true), &half.repeat(3), 8192, 8192);
    assert_eq!((plain.len() as u64, ending), (3 * BUDGET, None));
}

#[test]
fn what_is_gathered_has_a_limit() {
    let next = |seed: &u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let noise: Vec<u8> = std::iter::successors(Some(1), next).take(9000).map(|n| (n >> 40) as u8).collect();
    let bytes = frame(BINARY | FIN | COMPRESSED, &packed(&noise));
    assert!(bytes.len() > 4100, "{}", bytes.len());
    let (plain, _, ending) = receive_as(|_| WHOLE, FrameReader::new(true, true), &bytes, 100, 100);
    assert_eq!((plain, ending), (Vec::new(), Some(Ending::FrameFault(FrameFault::TooBig))));
    // Nothing comes out before the message is whole.
    let bytes = frame(BINARY | FIN | COMPRESSED, &packed(b"hello hello hello"));
    let cut = bytes.len() - 1;
    assert_eq!(receive_as(|_| WHOLE, FrameReader::new(true, true), &bytes[..cut], 100, 100).0, b"");
    assert_eq!(receive_as(|_| WHOLE, FrameReader::new(true, true), &bytes, 100, 100).0, b"hello hello hello");
}

/// A message of any kind, cut into frames with pings between them.
fn message() -> impl Strategy<Value = (Vec<u8>, Vec<u8>, usize)> {
    let content = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..200),
        proptest::collection::vec(Just(b'x'), 0..3000),
    ];
    (content, any::<bool>(), 1..400usize, any::<bool>()).prop_map(|(content, is_packed, cut, pings)| {
        let payload = if is_packed { packed(&content) } else { content.clone() };
        let mut bytes = Vec::new();
        let mut pieces: Vec<_> = payload.chunks(cut).collect();
        if pieces.is_empty() {
            pieces.push(b"");
        }
        let last = pieces.len() - 1;
        for (i, piece) in pieces.iter().enumerate() {
            let opcode = if i == 0 { BINARY } else { CONTINUATION };
            let compressed = if i == 0 && is_packed { COMPRESSED } else { 0 };
            bytes.extend(frame(opcode | compressed | if i == last { FIN } else { 0 }, piece));
            if pings {
                bytes.extend(frame(PING | FIN, b"p"));
            }
        }
        let count = if pings { pieces.len() } else { 0 };
        (content, bytes, count)
    })
}

proptest! {
    #[test]
    fn any_split_gives_the_same(
        messages in proptest::collection::vec(message(), 0..6),
        read in 1..3000usize,
        most in 1..3000usize,
        gathered in 0..6000usize,
    ) {
        let bytes: Vec<u8> = messages.iter().flat_map(|(_, bytes, _)| bytes.clone()).collect();
        let content: Vec<u8> = messages.iter().flat_map(|(content, _, _)| content.clone()).collect();
        let pings: usize = messages.iter().map(|(_, _, pings)| pings).sum();
        let allowed = |at: usize| if at < gathered { WHOLE } else { FREELY };
        let (plain, answers, ending) = receive_as(allowed, FrameReader::new(true, true), &bytes, read, most);
        prop_assert!(plain == content, "{} of {} bytes", plain.len(), content.len());
        prop_assert_eq!(answers, b"\x8a\x01p".repeat(pings));
        prop_assert_eq!(ending, None);
    }

    #[test]
    fn any_bytes_are_taken_alike_in_any_pieces(
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        read in 1..100usize,
        may_compress: bool,
        is_masked: bool,
    ) {
        let new = || FrameReader::new(is_masked, may_compress);
        let whole = receive(new(), &bytes, bytes.len().max(1), 1 << 20);
        let pieces = receive(new(), &bytes, read, 64);
        if whole.2 == Some(Ending::FrameFault(FrameFault::Compression)) {
            // How much comes before that depends on the pieces.
            prop_assert_eq!(pieces.2, whole.2);
        } else {
            prop_assert_eq!(pieces, whole);
        }
    }
}
