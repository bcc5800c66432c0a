//! Compression of messages without context takeover: each stands for itself, so a thread needs one
//! compressor for all of its connections, and a connection needs a decompressor only while it is in
//! the middle of a message.

use super::frame::FrameFault;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};
use std::fmt;

/// How a flush ends. It is cut off by who sends and put back by who receives.
const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

/// How far a step has come within a buffer, as the library counts it.
fn within(buffer: u64) -> usize {
    usize::try_from(buffer).expect("a step stays within buffers in memory")
}

/// Compresses one message after the other.
pub struct Deflater {
    inner: Compress,
    /// Buffers that nobody uses at the moment: for what comes out, and for the same with headers.
    content: Vec<u8>,
    spare: Vec<u8>,
}

impl fmt::Debug for Deflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Deflater")
    }
}

impl Default for Deflater {
    /// Compat: the fastest level, as in the reference.
    fn default() -> Self {
        let inner = Compress::new(Compression::fast(), false);
        Self { inner, content: Vec::new(), spare: Vec::new() }
    }
}

impl Deflater {
    /// A buffer to send from, to be given back.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.spare)
    }

    pub(super) fn give_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.spare = buffer;
    }

    /// Compresses `parts` as one message and looks at it. `None` if that fails, which is a bug.
    pub(super) fn with_message<'a, R>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]>,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        let mut content = std::mem::take(&mut self.content);
        content.clear();
        let seen = self.deflate(parts, &mut content).map(|()| look(&content));
        self.content = content;
        seen
    }

    /// Appends what `parts` are together when they are compressed. `None` if that fails, which is a
    /// bug.
    pub(super) fn deflate<'a>(
        &mut self,
        parts: impl Iterator<Item = &'a [u8]>,
        out: &mut Vec<u8>,
    ) -> Option<()> {
        self.inner.reset();
        for mut part in parts {
            while !part.is_empty() {
                out.reserve(part.len() / 2 + TAIL.len());
                let before = self.inner.total_in();
                self.inner.compress_vec(part, out, FlushCompress::None).ok()?;
                part = part.get(within(self.inner.total_in() - before)..)?;
            }
        }
        loop {
            out.reserve(64);
            self.inner.compress_vec(&[], out, FlushCompress::Sync).ok()?;
            if out.len() < out.capacity() {
                break;
            }
        }
        out.ends_with(&TAIL).then(|| out.truncate(out.len() - TAIL.len()))
    }
}

/// Decompresses a message as it comes.
pub(super) struct Inflater {
    inner: Decompress,
    /// How much of the tail was put back.
    tail: usize,
    /// The peer has ended the compressed data for good; what follows does not count.
    is_over: bool,
}

impl fmt::Debug for Inflater {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Inflater")
    }
}

/// Result of inflating a piece.
pub(super) struct Inflated {
    pub(super) consumed: usize,
    pub(super) produced: usize,
}

impl Inflater {
    fn new() -> Self {
        Self { inner: Decompress::new(false), tail: 0, is_over: false }
    }

    fn reset(&mut self) {
        self.inner.reset(false);
        (self.tail, self.is_over) = (0, false);
    }

    /// Decompresses `input` until it is used up or `out` is full. What comes out together with
    /// something wrong is lost.
    pub(super) fn inflate(&mut self, input: &[u8], out: &mut [u8]) -> Result<Inflated, FrameFault> {
        if self.is_over {
            return Ok(Inflated { consumed: input.len(), produced: 0 });
        }
        let (taken, given) = (self.inner.total_in(), self.inner.total_out());
        let status = self.inner.decompress(input, out, FlushDecompress::None);
        let produced = within(self.inner.total_out() - given);
        let consumed = match status {
            Ok(Status::StreamEnd) => {
                self.is_over = true;
                input.len()
            }
            Ok(Status::Ok | Status::BufError) => within(self.inner.total_in() - taken),
            Err(_) => return Err(FrameFault::Compression),
        };
        Ok(Inflated { consumed, produced })
    }

    /// Brings out what is left of the message when all of it has come. Says how much that was, and
    /// whether it was all.
    pub(super) fn finish(&mut self, out: &mut [u8]) -> Result<(usize, bool), FrameFault> {
        let mut produced = 0;
        loop {
            let room = out.len() - produced;
            if self.is_over || room == 0 {
                return Ok((produced, self.is_over));
            }
            let step = self.inflate(&TAIL[self.tail..], &mut out[produced..])?;
            self.tail = (self.tail + step.consumed).min(TAIL.len());
            produced += step.produced;
            if self.tail == TAIL.len() && step.produced < room {
                return Ok((produced, true));
            }
            if step.consumed == 0 && step.produced == 0 {
                return Err(FrameFault::Compression);
            }
        }
    }
}

/// Decompressors that nobody uses at the moment. One set for each thread.
#[derive(Debug, Default)]
#[allow(clippy::vec_box)] // They go from here to a connection and back.
pub struct Inflaters(Vec<Box<Inflater>>);

impl Inflaters {
    /// As many as are kept: more are in use at once only when many peers stop in the middle of a
    /// message.
    const KEPT: usize = 4;

    pub(super) fn take(&mut self) -> Box<Inflater> {
        self.0.pop().unwrap_or_else(|| Box::new(Inflater::new()))
    }

    pub(super) fn give_back(&mut self, mut inflater: Box<Inflater>) {
        if self.0.len() < Self::KEPT {
            inflater.reset();
            self.0.push(inflater);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(parts: &[&[u8]], room: usize) {
        let mut packed = Vec::new();
        let mut deflater = Deflater::default();
        // What stands there already, and what was compressed before, does not matter.
        deflater.deflate([&b"something else"[..]].into_iter(), &mut Vec::new()).unwrap();
        packed.extend(b"head");
        deflater.deflate(parts.iter().copied(), &mut packed).unwrap();
        let mut inflaters = Inflaters::default();
        let mut used = inflaters.take();
        used.inflate(&packed[4..], &mut [0; 100]).ok();
        inflaters.give_back(used);
        let mut inflater = inflaters.take();
        let (mut input, mut plain, mut out) = (&packed[4..], Vec::new(), vec![0; room]);
        while !input.is_empty() {
            let step = inflater.inflate(input, &mut out).unwrap();
            plain.extend_from_slice(&out[..step.produced]);
            input = &input[step.consumed..];
        }
        loop {
            let (produced, is_all) = inflater.finish(&mut out).unwrap();
            plain.extend_from_slice(&out[..produced]);
            if is_all {
                break;
            }
        }
        assert!(plain == parts.concat(), "{} bytes through {room}", plain.len());
    }

    #[test]
    fn messages_survive_in_any_room() {
        let noise: Vec<u8> = (0..100_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for room in [1, 7, 100, 4096, 1_000_000] {
            round_trip(&[], room);
            round_trip(&[b"a"], room);
            round_trip(&[b"hello ", b"", b"hello hello hello"], room);
            round_trip(&[&noise[..2000], &[b'x'; 5000]], room);
        }
        round_trip(&[&noise, &noise, &[0; 1_000_000]], 65536);
    }

    #[test]
    fn what_is_not_compressed_is_refused() {
        let mut inflater = Inflater::new();
        assert!(matches!(inflater.inflate(&[0xff; 10], &mut [0; 100]), Err(FrameFault::Compression)));
    }

    #[test]
    fn a_peer_may_end_the_data_for_good() {
        let mut packed = Vec::new();
        Compress::new(Compression::fast(), false)
            .compress_vec(b"", &mut packed, FlushCompress::Finish)
            .unwrap();
        let mut compressed = Vec::with_capacity(100);
        Compress::new(Compression::fast(), false)
            .compress_vec(b"hello", &mut compressed, FlushCompress::Finish)
            .unwrap();
        compressed.extend(b"\0and what else");
        let mut inflater = Inflater::new();
        let mut out = [0; 100];
        let step = inflater.inflate(&compressed, &mut out).unwrap();
        assert_eq!((step.consumed, &out[..step.produced]), (compressed.len(), &b"hello"[..]));
        assert_eq!(inflater.finish(&mut out).unwrap(), (0, true));
    }
}
