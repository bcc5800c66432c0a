//! From frames to the bytes that they carry.
//!
//! Budget: no allocation for a data frame, whatever its size; one pass over its bytes. What is kept
//! of an incomplete frame is its header, or the payload of a close frame, ping or pong; of a
//! compressed message, the decompressor, and what has found no room. A peer's frames and messages
//! may be as long as it likes: nothing waits for their end.

use super::close;
use super::deflate::{Inflater, Inflaters};
use super::frame::{
    BINARY, CLOSE, COMPRESSED, CONTINUATION, FIN, FrameFault, FrameHeader, LONGEST_HEADER, MASK, MAX_CONTROL,
    OPCODE, PING, PONG, RESERVED, TEXT,
};
use super::mask::unmask;

/// Answers to pings that wait to be taken; a peer that sends more at once gets no more.
const MOST_ANSWERS: usize = 4 * 1024;

/// Why nothing more comes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// The peer has closed. The payload of the close frame that answers it.
    Closed(Vec<u8>),
    /// The peer has made a mistake.
    FrameFault(FrameFault),
}

/// Where in a buffer bytes stand, and where their content goes.
#[derive(Debug, Clone, Copy)]
pub struct BufferSpan {
    /// The first of them. What is compressed is decompressed into what is in front of it: there
    /// must be something.
    pub from: usize,
    /// How many there are.
    pub len: usize,
    /// Bytes of content at most, which go to the front of the buffer. Not less than `len`, unless
    /// compression was agreed on.
    pub most: usize,
}

/// Limits of what a peer may make the receiver hold and do.
#[derive(Debug, Clone, Copy)]
pub struct InflateLimits {
    /// Bytes that a compressed message may become.
    pub content: u64,
    /// A compressed message is gathered, up to so many bytes, and decompressed when it is whole;
    /// `None`: as it comes, which takes a decompressor of some 50 KB in the meantime.
    pub gathered: Option<usize>,
}

/// Reader of WebSocket frames: turns them into the bytes that they carry.
#[derive(Debug)]
pub struct FrameReader {
    /// Frames without a mask are refused.
    is_masked: bool,
    header: [u8; LONGEST_HEADER],
    have: usize,
    stage: ReadStage,
    /// Bytes of the payload at hand that have not come yet, and the mask of the next one.
    left: u64,
    key: [u8; 4],
    is_final: bool,
    /// The message that is not over yet, and whether it is compressed.
    message: Option<bool>,
    control: Vec<u8>,
    answers: Vec<u8>,
    ending: Option<Ending>,
    inflation: Option<Inflation>,
}

/// Stage of reading: what comes next.
#[derive(Debug, Clone, Copy)]
enum ReadStage {
    FrameHeader,
    Payload,
    Control(u8),
}

/// The compressed message at hand.
#[derive(Debug, Default)]
struct Inflation {
    inflater: Option<Box<Inflater>>,
    /// The beginning of a message that is to be whole first.
    gathered: Vec<u8>,
    /// Bytes that have come and found no room for their content.
    rest: Vec<u8>,
    /// Bytes at the front that are compressed data without a mask.
    ready: usize,
    /// Whether those bytes are the last of their message.
    is_ending: bool,
    /// Content may be left in the decompressor: there was no more room.
    is_held: bool,
    /// Bytes of content so far.
    produced: u64,
}

impl Inflation {
    fn is_under_way(&self) -> bool {
        self.ready > 0 || self.is_ending || self.is_held
    }

    /// Whether a piece is put behind the others, and not decompressed at once.
    fn gathers(&self, limit: Option<usize>) -> bool {
        !self.gathered.is_empty() || (limit.is_some() && self.inflater.is_none())
    }

    /// Puts a piece behind the others; says whether more is needed. What is whole, or has waited
    /// long enough, comes back as what has found no room.
    fn gather(&mut self, piece: &[u8], ends_message: bool, limit: Option<usize>) -> Result<bool, FrameFault> {
        self.gathered.extend_from_slice(piece);
        if limit.is_some_and(|limit| self.gathered.len() > limit) {
            return Err(FrameFault::TooBig);
        }
        if !ends_message && limit.is_some() {
            return Ok(true);
        }
        self.rest = std::mem::take(&mut self.gathered);
        (self.ready, self.is_ending) = (self.rest.len(), ends_message);
        Ok(false)
    }
}

enum FrameEvent {
    /// All bytes are used up.
    More,
    /// Nothing more can be taken.
    Full,
    /// Nothing more will come.
    End,
    Data(MessageChunk),
}

/// A piece of a message.
struct MessageChunk {
    from: usize,
    len: usize,
    key: [u8; 4],
    is_compressed: bool,
    ends_message: bool,
}

impl FrameReader {
    /// Whether the peer has to mask its frames, and may compress its messages.
    pub fn new(is_masked: bool, may_compress: bool) -> Self {
        Self {
            is_masked,
            header: [0; LONGEST_HEADER],
            have: 0,
            stage: ReadStage::FrameHeader,
            left: 0,
            key: [0; 4],
            is_final: true,
            message: None,
            control: Vec::new(),
            answers: Vec::new(),
            ending: None,
            inflation: may_compress.then(Inflation::default),
        }
    }

    /// Whether compression was agreed on.
    pub fn may_compress(&self) -> bool {
        self.inflation.is_some()
    }

    /// Whether [`resume`](Self::resume) is to be called before more bytes are fetched.
    pub fn has_rest(&self) -> bool {
        self.ending.is_none()
            && self.inflation.as_ref().is_some_and(|it| it.is_under_way() || !it.rest.is_empty())
    }

    /// Why nothing more comes, once that is so. What was decoded before counts.
    pub fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// Frames that answer pings, to be sent as they are.
    pub fn take_answers(&mut self) -> Option<Vec<u8>> {
        if self.answers.is_empty() { None } else { Some(std::mem::take(&mut self.answers)) }
    }

    /// Takes in bytes of frames; says how many bytes of content stand at the front of `buf` now.
    pub fn decode(
        &mut self,
        buf: &mut [u8],
        place: BufferSpan,
        allowed: InflateLimits,
        pool: &mut Inflaters,
    ) -> usize {
        let BufferSpan { from: mut at, len, most } = place;
        let (end, mut out) = (at + len, 0);
        while self.ending.is_none() {
            let step = match &mut self.inflation {
                Some(inflation) if inflation.is_under_way() => {
                    inflation.inflate_ready(buf, &mut at, &mut out, most, allowed.content, pool)
                }
                _ => self.advance(buf, &mut at, end, &mut out, most, allowed.gathered),
            };
            match step {
                Ok(true) => {}
                Ok(false) => {
                    if let Some(inflation) = &mut self.inflation {
                        inflation.rest.extend_from_slice(&buf[at..end]);
                    }
                    break;
                }
                Err(fault) => self.ending = Some(Ending::FrameFault(fault)),
            }
        }
        out
    }

    /// Takes the next piece of a message; says whether there may be more.
    fn advance(
        &mut self,
        buf: &mut [u8],
        at: &mut usize,
        end: usize,
        out: &mut usize,
        most: usize,
        gathered: Option<usize>,
    ) -> Result<bool, FrameFault> {
        let chunk = match self.next(buf, at, end, most - *out)? {
            FrameEvent::Data(chunk) => chunk,
            FrameEvent::Full => return Ok(false),
            FrameEvent::More => {
                *at = end;
                return Ok(false);
            }
            FrameEvent::End => return Ok(true),
        };
        match &mut self.inflation {
            Some(inflation) if chunk.is_compressed => {
                unmask(buf, chunk.from, chunk.from, chunk.len, chunk.key);
                if !inflation.gathers(gathered) {
                    *at = chunk.from;
                    (inflation.ready, inflation.is_ending) = (chunk.len, chunk.ends_message);
                    return Ok(true);
                }
                inflation.gather(&buf[chunk.from..][..chunk.len], chunk.ends_message, gathered)
            }
            _ => {
                unmask(buf, chunk.from, *out, chunk.len, chunk.key);
                *out += chunk.len;
                Ok(true)
            }
        }
    }

    /// Goes on with what has found no room, which is put at `at`, or before that if it is too long.
    pub fn resume(
        &mut self,
        buf: &mut [u8],
        at: usize,
        most: usize,
        allowed: InflateLimits,
        pool: &mut Inflaters,
    ) -> usize {
        let Some(inflation) = &mut self.inflation else { return 0 };
        let rest = std::mem::take(&mut inflation.rest);
        let at = at.min(buf.len().saturating_sub(rest.len()));
        buf[at..at + rest.len()].copy_from_slice(&rest);
        self.decode(buf, BufferSpan { from: at, len: rest.len(), most }, allowed, pool)
    }

    /// The next piece of a message, of `room` bytes at most unless it is compressed.
    fn next(
        &mut self,
        buf: &[u8],
        at: &mut usize,
        end: usize,
        room: usize,
    ) -> Result<FrameEvent, FrameFault> {
        loop {
            match self.stage {
                ReadStage::FrameHeader => {
                    if !self.take_header(buf, at, end)? {
                        return Ok(FrameEvent::More);
                    }
                }
                ReadStage::Control(opcode) => {
                    let len = self.available(*at, end);
                    let fresh = self.control.len();
                    self.control.extend_from_slice(&buf[*at..*at + len]);
                    self.key = unmask(&mut self.control, fresh, fresh, len, self.key);
                    *at += len;
                    self.left -= len as u64;
                    if self.left > 0 {
                        return Ok(FrameEvent::More);
                    }
                    self.stage = ReadStage::FrameHeader;
                    self.on_control(opcode)?;
                    if self.ending.is_some() {
                        return Ok(FrameEvent::End);
                    }
                }
                ReadStage::Payload => return Ok(self.take_payload(at, end, room)),
            }
        }
    }

    fn available(&self, at: usize, end: usize) -> usize {
        usize::try_from(self.left).unwrap_or(usize::MAX).min(end - at)
    }

    fn take_payload(&mut self, at: &mut usize, end: usize, room: usize) -> FrameEvent {
        let is_compressed = self.message == Some(true);
        let available = self.available(*at, end);
        if self.left > 0 && available == 0 {
            return FrameEvent::More;
        }
        let len = if is_compressed { available } else { available.min(room) };
        if self.left > 0 && len == 0 {
            return FrameEvent::Full;
        }
        let key = self.key;
        let chunk = MessageChunk {
            from: *at,
            len,
            key,
            is_compressed,
            ends_message: self.is_final && self.left == len as u64,
        };
        *at += len;
        self.left -= len as u64;
        self.key.rotate_left(len % 4);
        if self.left == 0 {
            self.stage = ReadStage::FrameHeader;
            if self.is_final {
                self.message = None;
            }
        }
        FrameEvent::Data(chunk)
    }

    /// Gathers the header; says whether it is whole.
    fn take_header(&mut self, buf: &[u8], at: &mut usize, end: usize) -> Result<bool, FrameFault> {
        while self.have < self.header_len() {
            if *at == end {
                return Ok(false);
            }
            self.header[self.have] = buf[*at];
            self.have += 1;
            *at += 1;
            if self.have == 2 {
                self.check()?;
            }
        }
        self.begin()?;
        Ok(true)
    }

    /// Of the header at hand, as far as it is known.
    fn header_len(&self) -> usize {
        if self.have < 2 {
            return 2;
        }
        let length = match self.header[1] & !MASK {
            126 => 2,
            127 => 8,
            _ => 0,
        };
        2 + length + if self.header[1] & MASK != 0 { 4 } else { 0 }
    }

    /// Compat: in the reference's order, since the first mistake is the one that is named.
    fn check(&self) -> Result<(), FrameFault> {
        let [first, second, ..] = self.header;
        let is_compressed = first & COMPRESSED != 0;
        if first & RESERVED != 0 {
            return Err(FrameFault::Reserved);
        }
        if is_compressed && self.inflation.is_none() {
            return Err(FrameFault::NotCompressing);
        }
        if self.is_masked && second & MASK == 0 {
            return Err(FrameFault::NoMask);
        }
        match first & OPCODE {
            CLOSE | PING | PONG if usize::from(second & !MASK) > MAX_CONTROL => Err(FrameFault::LongControl),
            CLOSE | PING | PONG if first & FIN == 0 => Err(FrameFault::SplitControl),
            CLOSE | PING | PONG if is_compressed => Err(FrameFault::CompressedControl),
            TEXT | BINARY if self.message.is_some() => Err(FrameFault::Nested),
            CONTINUATION if self.message.is_none() || is_compressed => Err(FrameFault::Continuation),
            CLOSE | PING | PONG | TEXT | BINARY | CONTINUATION => Ok(()),
            unknown => Err(FrameFault::Opcode(unknown)),
        }
    }

    /// The header is whole: a frame begins.
    fn begin(&mut self) -> Result<(), FrameFault> {
        let length = self.header[1] & !MASK;
        let (left, at) = match length {
            126 => (u64::from(u16::from_be_bytes([self.header[2], self.header[3]])), 4),
            127 => {
                let mut bytes = [0; 8];
                bytes.copy_from_slice(&self.header[2..10]);
                (u64::from_be_bytes(bytes), 10)
            }
            short => (u64::from(short), 2),
        };
        if left >> 63 != 0 {
            return Err(FrameFault::Length);
        }
        self.left = left;
        self.key = [0; 4];
        if self.header[1] & MASK != 0 {
            self.key.copy_from_slice(&self.header[at..at + 4]);
        }
        self.have = 0;
        let opcode = self.header[0] & OPCODE;
        if opcode >= CLOSE {
            self.control.clear();
            self.stage = ReadStage::Control(opcode);
            return Ok(());
        }
        self.is_final = self.header[0] & FIN != 0;
        if opcode != CONTINUATION {
            self.message = Some(self.header[0] & COMPRESSED != 0);
        }
        self.stage = ReadStage::Payload;
        Ok(())
    }

    /// A close frame, ping or pong is whole.
    fn on_control(&mut self, opcode: u8) -> Result<(), FrameFault> {
        let payload = std::mem::take(&mut self.control);
        match opcode {
            PING if self.answers.len() < MOST_ANSWERS => {
                self.answers.extend_from_slice(FrameHeader::new(PONG | FIN, payload.len()).bytes());
                self.answers.extend_from_slice(&payload);
            }
            CLOSE => {
                let answer = close::answer(&payload)
                    .map_err(|status| status.map_or(FrameFault::ShortClose, FrameFault::CloseStatus))?;
                self.ending = Some(Ending::Closed(answer));
            }
            _ => {}
        }
        Ok(())
    }
}

impl Inflation {
    /// Decompresses what is ready; says whether it is done, or out of room.
    fn inflate_ready(
        &mut self,
        buf: &mut [u8],
        at: &mut usize,
        out: &mut usize,
        most: usize,
        budget: u64,
        pool: &mut Inflaters,
    ) -> Result<bool, FrameFault> {
        let inflater = self.inflater.get_or_insert_with(|| pool.take());
        let start = *at;
        let (front, back) = buf.split_at_mut(start);
        let room = &mut front[..most.min(start)];
        while self.ready > 0 || self.is_held {
            if *out == room.len() {
                return Ok(false);
            }
            let input = &back[*at - start..][..self.ready];
            let step = inflater.inflate(input, &mut room[*out..])?;
            *at += step.consumed;
            self.ready -= step.consumed;
            spend(&mut self.produced, step.produced, out, budget)?;
            if step.consumed == 0 && step.produced == 0 && self.ready > 0 {
                return Err(FrameFault::Compression);
            }
            self.is_held = *out == room.len();
        }
        if !self.is_ending {
            return Ok(true);
        }
        let (produced, is_all) = inflater.finish(&mut room[*out..])?;
        spend(&mut self.produced, produced, out, budget)?;
        if is_all {
            (self.is_ending, self.produced) = (false, 0);
            self.inflater.take().into_iter().for_each(|inflater| pool.give_back(inflater));
        }
        Ok(is_all)
    }
}

/// Counts content; what is beyond the budget is not handed out.
fn spend(spent: &mut u64, produced: usize, out: &mut usize, budget: u64) -> Result<(), FrameFault> {
    let left = budget.saturating_sub(*spent);
    *spent += produced as u64;
    if produced as u64 > left {
        *out += usize::try_from(left).expect("less than was produced");
        return Err(FrameFault::TooBig);
    }
    *out += produced;
    Ok(())
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
