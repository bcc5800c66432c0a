//! The sender through transports of all kinds, read back by the receiver.

use super::super::deflate::Inflaters;
use super::super::frame_reader::{BufferSpan, Ending, FrameReader, InflateLimits};
use super::*;
use proptest::prelude::*;

/// A transport that takes as many bytes as it is told, then none. One that holds back, as TLS does,
/// has encrypted all that it was given and reports less; it wants to be given the same again.
struct Wire {
    allowed: usize,
    holds_back: bool,
    ahead: usize,
    seen: Vec<u8>,
    writes: usize,
}

impl Wire {
    fn new(holds_back: bool) -> Self {
        Self { allowed: 0, holds_back, ahead: 0, seen: Vec::new(), writes: 0 }
    }

    fn take(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        let all: Vec<u8> = bufs.iter().flat_map(|buf| buf.iter().copied()).collect();
        self.writes += 1;
        if self.holds_back {
            return self.take_all(&all);
        }
        let n = all.len().min(self.allowed);
        self.allowed -= n;
        self.seen.extend_from_slice(&all[..n]);
        if n == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(n) }
    }

    fn take_all(&mut self, all: &[u8]) -> io::Result<usize> {
        if self.ahead == 0 {
            self.seen.extend_from_slice(all);
            self.ahead = all.len();
        } else {
            assert!(all.len() >= self.ahead, "what was held back comes again");
            let before = &self.seen[self.seen.len() - self.ahead..];
            assert_eq!(&all[..self.ahead], before, "and is the same");
        }
        let report = self.allowed.min(self.ahead.saturating_sub(1));
        if self.allowed > self.ahead {
            self.allowed -= self.ahead;
            return Ok(std::mem::take(&mut self.ahead));
        }
        self.ahead -= report;
        self.allowed = 0;
        if report == 0 { Err(io::ErrorKind::WouldBlock.into()) } else { Ok(report) }
    }
}

const ALLOWED: InflateLimits = InflateLimits { content: 1 << 30, gathered: None };

/// Frames as they stand in bytes: the first byte and the payload.
fn frames(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut frames = Vec::new();
    while let [first, second, ..] = bytes {
        let (len, at) = match second {
            126 => (u64::from(u16::from_be_bytes([bytes[2], bytes[3]])), 4),
            127 => (u64::from_be_bytes(bytes[2..10].try_into().unwrap()), 10),
            short => (u64::from(*short), 2),
        };
        let end = at + len as usize;
        frames.push((*first, bytes[at..end].to_vec()));
        bytes = &bytes[end..];
    }
    frames
}

fn content(bytes: &[u8], is_masked: bool) -> (Vec<u8>, Vec<u8>, Option<Ending>) {
    let mut receiver = FrameReader::new(is_masked, true);
    let mut pool = Inflaters::default();
    let half = 32 << 20;
    let mut buf = vec![0; half + bytes.len()];
    buf[half..].copy_from_slice(bytes);
    let n = receiver.decode(
        &mut buf,
        BufferSpan { from: half, len: bytes.len(), most: half },
        ALLOWED,
        &mut pool,
    );
    (buf[..n].to_vec(), receiver.take_answers().unwrap_or_default(), receiver.ending().cloned())
}

/// Writes segments as an outbox does, so many bytes at a time.
fn send(sender: &mut FrameWriter, wire: &mut Wire, segments: &[&[u8]], mut allow: impl FnMut() -> usize) {
    let mut deflater = Deflater::default();
    let all = segments.concat();
    let mut at = 0;
    while at < all.len() {
        let mut skip = at;
        let mut slices = Vec::new();
        for segment in segments {
            let skipped = skip.min(segment.len());
            skip -= skipped;
            if skipped < segment.len() {
                slices.push(IoSlice::new(&segment[skipped..]));
            }
        }
        slices.truncate(128);
        wire.allowed += allow();
        match sender.write(&slices, Some(&mut deflater), &mut |bufs| wire.take(bufs)) {
            Ok(n) => {
                assert!(n > 0);
                at += n;
            }
            Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
        }
    }
}

fn send_at_once(extensions: Extensions, segments: &[&[u8]]) -> Wire {
    let mut wire = Wire::new(false);
    send(&mut FrameWriter::new(extensions), &mut wire, segments, || 1 << 30);
    wire
}

const BROWSER: Extensions = Extensions { is_browser: true, takes_whole_messages: false, compresses: false };

#[test]
fn all_that_is_written_together_is_one_frame() {
    let wire = send_at_once(Extensions::default(), &[b"MSG a 1 2\r\n", b"hi\r\n", b"PONG\r\n"]);
    assert_eq!(frames(&wire.seen), [(BINARY | FIN, b"MSG a 1 2\r\nhi\r\nPONG\r\n".to_vec())]);
    assert_eq!(wire.writes, 1);
}

#[test]
fn frames_are_not_longer_than_a_peer_likes() {
    let long = vec![b'x'; 3_000_000];
    let lens = |extensions| -> Vec<usize> {
        frames(&send_at_once(extensions, &[&long]).seen).iter().map(|(_, payload)| payload.len()).collect()
    };
    assert_eq!(lens(Extensions::default()), [1 << 20, 1 << 20, 3_000_000 - (2 << 20)]);
    let lens = lens(BROWSER);
    assert!(lens.iter().all(|len| *len <= 4096) && lens.iter().sum::<usize>() == 3_000_000);
    assert_eq!(lens.len(), 3_000_000usize.div_ceil(4096));
}

#[test]
fn small_things_are_not_compressed() {
    let extensions = Extensions { compresses: true, ..Extensions::default() };
    let first = |len: usize| frames(&send_at_once(extensions, &[&vec![b'x'; len]]).seen)[0].0;
    assert_eq!((first(64), first(65)), (BINARY | FIN, BINARY | FIN | COMPRESSED));
}

#[test]
fn a_compressed_message_is_cut_for_browsers_but_not_for_all() {
    let next = |seed: &u64| Some(seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    let noise: Vec<u8> = std::iter::successors(Some(1), next).take(40_000).map(|n| (n >> 40) as u8).collect();
    let extensions = Extensions { compresses: true, ..BROWSER };
    let cut = frames(&send_at_once(extensions, &[&noise]).seen);
    assert!(cut.len() > 1 && cut.iter().all(|(_, payload)| payload.len() <= 4096));
    assert_eq!(cut[0].0, BINARY | COMPRESSED);
    assert_eq!(cut[1].0, CONTINUATION);
    assert_eq!(cut[cut.len() - 1].0, CONTINUATION | FIN);
    let whole =
        frames(&send_at_once(Extensions { takes_whole_messages: true, ..extensions }, &[&noise]).seen);
    assert_eq!((whole.len(), whole[0].0), (1, BINARY | COMPRESSED | FIN));
}

#[test]
fn what_is_urgent_goes_between_frames() {
    let mut sender = FrameWriter::new(Extensions::default());
    let mut wire = Wire::new(false);
    wire.allowed = 5;
    let bufs = [IoSlice::new(b"0123456789")];
    assert_eq!(sender.write(&bufs, None, &mut |bufs| wire.take(bufs)).unwrap(), 3);
    sender.urge(b"\x8a\x01p");
    wire.allowed = 100;
    sender.flush(&mut |bufs| wire.take(bufs)).unwrap();
    assert_eq!(wire.seen.len(), 5, "not in the middle of a frame");
    let bufs = [IoSlice::new(b"3456789"), IoSlice::new(b"next")];
    assert_eq!(sender.write(&bufs, None, &mut |bufs| wire.take(bufs)).unwrap(), 7);
    assert!(wire.seen.ends_with(b"\x8a\x01p"), "but behind it, without waiting for another");
    assert_eq!(sender.write(&bufs[1..], None, &mut |bufs| wire.take(bufs)).unwrap(), 4);
    sender.close(b"\x03\xe8");
    sender.close(b"\x03\xe9");
    sender.urge(b"\x8a\x01q");
    sender.flush(&mut |bufs| wire.take(bufs)).unwrap();
    assert_eq!(
        frames(&wire.seen),
        [
            (BINARY | FIN, b"0123456789".to_vec()),
            (0x8a, b"p".to_vec()),
            (BINARY | FIN, b"next".to_vec()),
            (CLOSE | FIN, b"\x03\xe8".to_vec())
        ]
    );
    let after = sender.write(&bufs, None, &mut |bufs| wire.take(bufs));
    assert_eq!(after.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
}

proptest! {
    #[test]
    fn a_peer_gets_what_was_written_however_the_transport_takes_it(
        segments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..9000), 1..8),
        allowances in proptest::collection::vec(0..6000usize, 1..20),
        is_browser: bool,
        takes_whole_messages: bool,
        compresses: bool,
        holds_back: bool,
        masks: bool,
        pings in proptest::collection::vec(any::<bool>(), 1..5),
    ) {
        let extensions = Extensions { is_browser, takes_whole_messages, compresses };
        let mut wire = Wire::new(holds_back);
        let mut sender = FrameWriter::new(extensions);
        if masks {
            sender = FrameWriter::masking(extensions, myelin_stdx::rng::Rng::seeded(7));
        }
        let mut turns = allowances.iter().cycle();
        let mut allow = || *turns.next().unwrap() + 1;
        let mut expected = Vec::new();
        for is_pinged in &pings {
            if *is_pinged {
                sender.urge(b"\x89\x01p");
            }
            let segments: Vec<&[u8]> = segments.iter().map(Vec::as_slice).collect();
            send(&mut sender, &mut wire, &segments, &mut allow);
            expected.extend(segments.concat());
        }
        sender.close(b"\x03\xe8");
        wire.allowed = 1 << 30;
        sender.flush(&mut |bufs| wire.take(bufs)).unwrap();
        let (content, answers, ending) = content(&wire.seen, masks);
        prop_assert!(content == expected, "{} of {}", content.len(), expected.len());
        prop_assert_eq!(answers.len(), 3 * pings.iter().filter(|ping| **ping).count());
        prop_assert_eq!(ending, Some(Ending::Closed(b"\x03\xe8".to_vec())));
    }
}
