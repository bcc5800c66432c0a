//! Frames around what waits for a peer.
//!
//! Budget: one header for all that is written together, nothing copied, nothing allocated; a
//! compressed message is made in a buffer that is used again, and so is one with a mask. What a
//! transport has not taken is asked for again: the caller brings the same bytes, and the same
//! frame goes on. So a transport that holds bytes back (TLS) sees the same bytes twice, never
//! others.

use super::deflate::Deflater;
use super::frame::{BINARY, CLOSE, COMPRESSED, CONTINUATION, FIN, FrameHeader, MASK};
use super::mask::mask_into;
use myelin_stdx::rng::Rng;
use std::io::{self, IoSlice};

/// The longest frame for browsers. Compat: the reference found that they do better with such.
const FOR_BROWSERS: usize = 4096;
/// The longest for everybody else. Compat: the reference knows no limit, and its peers take a frame
/// as a whole, which some refuse above 4 MiB.
const LONGEST: usize = 1024 * 1024;
/// No more than this is worth a compression.
const SMALL: usize = 64;
/// Bytes that become one compressed message: its receiver has to have all of it before it can
/// begin.
const MOST_COMPRESSED: usize = 256 * 1024;

/// Bytes that go into one frame with a mask.
const MOST_MASKED: usize = 64 * 1024;

/// Frames and slices in one write.
const FRAMES: usize = 32;
const SLICES: usize = 192;

/// Extensions that a peer has told of itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Whether the peer is a browser: its frames are short.
    pub is_browser: bool,
    /// Whether compressed messages to it are not cut into frames.
    pub takes_whole_messages: bool,
    /// Compression was agreed on.
    pub compresses: bool,
}

/// Writer of WebSocket frames around the bytes that wait for a peer.
#[derive(Debug)]
pub struct FrameWriter {
    extensions: Extensions,
    /// Whole frames that go before all others, as far as they are not written.
    urgent: Vec<u8>,
    /// The header of the frame at hand, and how much of it is written.
    header: FrameHeader,
    header_at: usize,
    /// Bytes that belong into the frame at hand, and those that belong into frames behind it.
    left: usize,
    promised: usize,
    /// A compressed message with its headers, how much of it is written, and for how many bytes it
    /// stands.
    packed: Vec<u8>,
    packed_at: usize,
    stands_for: usize,
    /// Masks for frames, where this side has dialled.
    masks: Option<Rng>,
    is_closed: bool,
}

/// Transport that takes bytes, or some of them.
pub type Transport<'t> = dyn FnMut(&[IoSlice<'_>]) -> io::Result<usize> + 't;

impl FrameWriter {
    /// For a peer of this kind.
    pub fn new(extensions: Extensions) -> Self {
        Self {
            extensions,
            urgent: Vec::new(),
            header: FrameHeader::default(),
            header_at: 0,
            left: 0,
            promised: 0,
            packed: Vec::new(),
            packed_at: 0,
            stands_for: 0,
            masks: None,
            is_closed: false,
        }
    }

    /// For a server that was dialled and wants masks: one of these for each frame.
    pub fn masking(extensions: Extensions, masks: Rng) -> Self {
        Self { masks: Some(masks), ..Self::new(extensions) }
    }

    /// Whether a compressor is of use.
    pub fn compresses(&self) -> bool {
        self.extensions.compresses
    }

    /// Puts these whole frames in front of what comes next; [`flush`](Self::flush) writes them.
    pub fn urge(&mut self, frames: &[u8]) {
        if self.is_closed {
            return;
        }
        if self.masks.is_none() {
            return self.urgent.extend_from_slice(frames);
        }
        let mut frames = frames;
        // Only short frames are urgent: two bytes are their whole header.
        while let [first, length, rest @ ..] = frames {
            let (payload, behind) = rest.split_at(usize::from(*length & !MASK).min(rest.len()));
            append_masked(&mut self.urgent, &mut self.masks, *first, &[payload]);
            frames = behind;
        }
    }

    /// Puts a close frame in front of what comes next. Nothing else is sent after it.
    pub fn close(&mut self, payload: &[u8]) {
        let header = FrameHeader::new(CLOSE | FIN, payload.len());
        self.urge(&[header.bytes(), payload].concat());
        self.is_closed = true;
    }

    /// Writes what is urgent, unless it has to wait for the end of a frame. Says whether all of it
    /// is out.
    ///
    /// # Errors
    /// Those of the transport.
    pub fn flush(&mut self, out: &mut Transport<'_>) -> io::Result<bool> {
        if !self.is_between_frames() {
            return Ok(self.urgent.is_empty());
        }
        while !self.urgent.is_empty() {
            match out(&[IoSlice::new(&self.urgent)])? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => drop(self.urgent.drain(..n)),
            }
        }
        self.urgent = Vec::new();
        Ok(true)
    }

    /// Writes from the front of `bufs` what the transport takes, in frames; says how many of these
    /// bytes are done with. The others must be at the front of the next call.
    ///
    /// # Errors
    /// Those of the transport; `WouldBlock` also if all that it has taken is a header; `BrokenPipe`
    /// after a close frame.
    pub fn write(
        &mut self,
        bufs: &[IoSlice<'_>],
        mut deflater: Option<&mut Deflater>,
        out: &mut Transport<'_>,
    ) -> io::Result<usize> {
        if self.is_between_frames() {
            self.flush(out)?;
            if self.is_closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let all = bufs.iter().map(|buf| buf.len()).sum();
            match &mut deflater {
                Some(deflater) if self.extensions.compresses && all > SMALL => self.pack(bufs, deflater)?,
                _ if self.masks.is_some() => self.mask(bufs),
                _ => {
                    self.promised = all;
                    self.begin_frame();
                }
            }
        }
        let written = match self.stands_for {
            0 => self.write_frames(bufs, out),
            _ => self.write_packed(deflater, out),
        };
        if written.is_ok() {
            // What has waited for the end of the frame. Whoever asked for it tries again.
            let _ = self.flush(out);
        }
        written
    }

    fn is_between_frames(&self) -> bool {
        self.left == 0 && self.promised == 0 && self.stands_for == 0
    }

    fn longest(&self) -> usize {
        if self.extensions.is_browser { FOR_BROWSERS } else { LONGEST }
    }

    fn begin_frame(&mut self) {
        self.left = self.promised.min(self.longest());
        self.promised -= self.left;
        self.header = FrameHeader::new(BINARY | FIN, self.left);
        self.header_at = 0;
    }

    fn write_frames(&mut self, bufs: &[IoSlice<'_>], out: &mut Transport<'_>) -> io::Result<usize> {
        let (headers, lens, count) = self.plan();
        let mut slices = [IoSlice::new(&[]); SLICES];
        let mut used = 0;
        let mut bufs = bufs.iter().map(|buf| &**buf).filter(|buf| !buf.is_empty());
        let mut buf: &[u8] = &[];
        'frames: for (i, (header, len)) in headers.iter().zip(lens).take(count).enumerate() {
            let header = &header.bytes()[if i == 0 { self.header_at } else { 0 }..];
            let mut wanted = len;
            if !header.is_empty() {
                if used == SLICES {
                    break;
                }
                slices[used] = IoSlice::new(header);
                used += 1;
            }
            while wanted > 0 {
                if buf.is_empty() {
                    let Some(next) = bufs.next() else { break 'frames };
                    buf = next;
                }
                if used == SLICES {
                    break 'frames;
                }
                let (piece, rest) = buf.split_at(wanted.min(buf.len()));
                slices[used] = IoSlice::new(piece);
                (used, buf, wanted) = (used + 1, rest, wanted - piece.len());
            }
        }
        let written = out(&slices[..used])?;
        match self.advance(written) {
            0 if written > 0 => Err(io::ErrorKind::WouldBlock.into()),
            done => Ok(done),
        }
    }

    /// The headers and lengths of the frames that come next, that at hand first.
    fn plan(&self) -> ([FrameHeader; FRAMES], [usize; FRAMES], usize) {
        let mut headers = [FrameHeader::default(); FRAMES];
        let mut lens = [0; FRAMES];
        (headers[0], lens[0]) = (self.header, self.left);
        let (mut count, mut promised) = (1, self.promised);
        while promised > 0 && count < FRAMES {
            let len = promised.min(self.longest());
            (headers[count], lens[count]) = (FrameHeader::new(BINARY | FIN, len), len);
            promised -= len;
            count += 1;
        }
        (headers, lens, count)
    }

    /// Notes what is written; says how much of it was not headers.
    fn advance(&mut self, mut written: usize) -> usize {
        let mut done = 0;
        loop {
            let of_header = written.min(self.header.bytes().len() - self.header_at);
            self.header_at += of_header;
            written -= of_header;
            let of_payload = written.min(self.left);
            self.left -= of_payload;
            written -= of_payload;
            done += of_payload;
            if self.left > 0 || self.promised == 0 {
                return done;
            }
            self.begin_frame();
        }
    }

    /// Makes a compressed message of the front of `bufs`.
    fn pack(&mut self, bufs: &[IoSlice<'_>], deflater: &mut Deflater) -> io::Result<()> {
        let mut room = MOST_COMPRESSED;
        let parts = bufs.iter().map(|buf| {
            let len = buf.len().min(room);
            room -= len;
            &buf[..len]
        });
        let mut packed = deflater.buffer();
        let made = deflater.with_message(parts, |content| self.frame_message(content, &mut packed));
        made.ok_or_else(|| io::Error::other("compression failed"))?;
        (self.packed, self.packed_at) = (packed, 0);
        self.stands_for = MOST_COMPRESSED - room;
        Ok(())
    }

    /// Makes a frame with a mask of the front of `bufs`.
    fn mask(&mut self, bufs: &[IoSlice<'_>]) {
        let mut room = MOST_MASKED;
        let parts = bufs.iter().map(|buf| {
            let len = buf.len().min(room);
            room -= len;
            &buf[..len]
        });
        let parts: Vec<_> = parts.filter(|part| !part.is_empty()).collect();
        self.packed.clear();
        self.packed_at = 0;
        append_masked(&mut self.packed, &mut self.masks, BINARY | FIN, &parts);
        self.stands_for = MOST_MASKED - room;
    }

    /// Appends the frames of a compressed message.
    fn frame_message(&mut self, content: &[u8], to: &mut Vec<u8>) {
        let longest = match self.extensions {
            Extensions { is_browser: true, takes_whole_messages: false, .. } => FOR_BROWSERS,
            _ => content.len().max(1),
        };
        let frames = content.len().div_ceil(longest);
        for (i, piece) in content.chunks(longest).enumerate() {
            let first = if i == 0 { BINARY | COMPRESSED } else { CONTINUATION };
            let fin = if i + 1 == frames { FIN } else { 0 };
            append_masked(to, &mut self.masks, first | fin, &[piece]);
        }
    }

    /// Some of a compressed message that is out counts as progress, but never as all.
    fn write_packed(
        &mut self,
        deflater: Option<&mut Deflater>,
        out: &mut Transport<'_>,
    ) -> io::Result<usize> {
        let written = out(&[IoSlice::new(&self.packed[self.packed_at..])])?;
        self.packed_at += written;
        if self.packed_at < self.packed.len() {
            let report = written.min(self.stands_for - 1);
            self.stands_for -= report;
            return if report > 0 { Ok(report) } else { Err(io::ErrorKind::WouldBlock.into()) };
        }
        if let Some(deflater) = deflater {
            deflater.give_back(std::mem::take(&mut self.packed));
        }
        Ok(std::mem::take(&mut self.stands_for))
    }
}

/// Appends a frame, with a mask if there are any.
fn append_masked(to: &mut Vec<u8>, masks: &mut Option<Rng>, first: u8, parts: &[&[u8]]) {
    let len = parts.iter().map(|part| part.len()).sum();
    let Some(masks) = masks else {
        to.extend_from_slice(FrameHeader::new(first, len).bytes());
        return parts.iter().for_each(|part| to.extend_from_slice(part));
    };
    let mut key = [0; 4];
    key.copy_from_slice(&masks.next_u64().to_be_bytes()[..4]);
    to.extend_from_slice(FrameHeader::masked(first, len, key).bytes());
    parts.iter().for_each(|part| key = mask_into(to, part, key));
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
