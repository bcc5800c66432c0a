//! The reading side: chunks that come in pieces of any size, one block at a time.
//!
//! A chunk that is whole in the input is decompressed from there, and one that is not compressed
//! is not even copied. What is held is at most one chunk that has come in part, which is never
//! more than twice what was sent of it, and one block of the size that the caller allows.

use super::{BEGINNING, CHECKSUM, COMPRESSED, HEAD, PLAIN, SKIPPABLE};
use super::{MAX_BLOCK, MAX_SNAPPY_BLOCK, S2Error, masked};
use minlz::s2;
use std::mem;
use std::ops::Range;

/// Decompresses a stream.
#[derive(Debug)]
pub struct S2Reader {
    /// A chunk that has come in part, with its head.
    partial: Vec<u8>,
    /// Whether `partial` was read, and goes with the next call.
    is_read: bool,
    /// The last decompressed block, and room for the next.
    block: Vec<u8>,
    /// Bytes of a block that the caller allows.
    allowed: usize,
    /// Bytes of a block that the stream may have; 0 before it has begun.
    largest: usize,
    /// Bytes that are to be passed over.
    skipping: usize,
}

impl Default for S2Reader {
    fn default() -> Self {
        Self::new(MAX_BLOCK)
    }
}

/// Where the bytes of a block are.
enum Found {
    /// There is none yet.
    Nothing,
    /// At the beginning of the room for blocks.
    Block(usize),
    /// In the input, as they came.
    Input(Range<usize>),
    /// In the chunk that came in pieces.
    Partial(Range<usize>),
}

/// A chunk's head.
struct Head {
    kind: u8,
    length: usize,
}

impl S2Reader {
    /// Reader of blocks of up to `allowed` bytes: [`WRITTEN_BLOCK`](super::WRITTEN_BLOCK) is what
    /// servers send each other, [`MAX_BLOCK`] what the format allows.
    #[must_use]
    pub fn new(allowed: usize) -> Self {
        Self {
            partial: Vec::new(),
            is_read: false,
            block: Vec::new(),
            allowed: allowed.min(MAX_BLOCK),
            largest: 0,
            skipping: 0,
        }
    }

    /// Reads one block: how many bytes of `input` were used, and what they decompress to. The rest
    /// of `input` has to be given again. Without data all of it was used, and more has to come.
    ///
    /// # Errors
    /// The stream cannot be gone on with.
    pub fn read<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, &'a [u8]), S2Error> {
        let mut block = mem::take(&mut self.block);
        let advanced = self.advance(input, &mut block);
        self.block = block;
        let (used, found) = advanced?;
        let data = match found {
            Found::Nothing => &[],
            Found::Block(length) => &self.block[..length],
            Found::Input(range) => &input[range],
            Found::Partial(range) => &self.partial[range],
        };
        Ok((used, data))
    }

    /// Reads one block as [`read`](Self::read) does, into room of the caller's, which then holds
    /// nothing else.
    ///
    /// # Errors
    /// The stream cannot be gone on with; `block` is unspecified.
    pub fn read_into(&mut self, input: &[u8], block: &mut Vec<u8>) -> Result<usize, S2Error> {
        let (used, found) = self.advance(input, block)?;
        match found {
            Found::Nothing => block.clear(),
            Found::Block(length) => block.truncate(length),
            Found::Input(range) => copy(&input[range], block),
            Found::Partial(range) => copy(&self.partial[range], block),
        }
        Ok(used)
    }

    /// Whether the stream may end here.
    #[must_use]
    pub fn is_between_chunks(&self) -> bool {
        (self.partial.is_empty() || self.is_read) && self.skipping == 0
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.partial.capacity() + self.block.capacity()
    }

    /// Gives back the memory of what was read: an idle link needs none.
    pub fn release(&mut self) {
        self.block = Vec::new();
        if mem::take(&mut self.is_read) || self.partial.is_empty() {
            self.partial = Vec::new();
        }
    }

    /// Goes on to the next block with data, or to the end of the input.
    fn advance(&mut self, input: &[u8], block: &mut Vec<u8>) -> Result<(usize, Found), S2Error> {
        if mem::take(&mut self.is_read) {
            self.partial.clear();
        }
        let mut used = 0;
        while used < input.len() {
            let rest = &input[used..];
            if self.skipping > 0 {
                let now = self.skipping.min(rest.len());
                self.skipping -= now;
                used += now;
                continue;
            }
            let (count, found) =
                if self.partial.is_empty() { self.whole(rest, block)? } else { self.gather(rest, block)? };
            let at = used;
            used += count;
            match found {
                Found::Nothing => {}
                Found::Input(range) => {
                    return Ok((used, Found::Input(at + range.start..at + range.end)));
                }
                found => return Ok((used, found)),
            }
        }
        Ok((used, Found::Nothing))
    }

    /// Reads a chunk that begins the input, or puts its part aside.
    fn whole(&mut self, input: &[u8], block: &mut Vec<u8>) -> Result<(usize, Found), S2Error> {
        let Some(head) = self.head(input)? else {
            self.partial.extend_from_slice(input);
            return Ok((input.len(), Found::Nothing));
        };
        if head.is_skipped() {
            self.skipping = head.length;
            return Ok((HEAD, Found::Nothing));
        }
        let end = HEAD + head.length;
        let Some(chunk) = input.get(..end) else {
            self.partial.extend_from_slice(input);
            return Ok((input.len(), Found::Nothing));
        };
        Ok((end, self.chunk(&head, chunk, block)?))
    }

    /// Completes the chunk that came in part, first its head.
    fn gather(&mut self, input: &[u8], block: &mut Vec<u8>) -> Result<(usize, Found), S2Error> {
        let wanted = self.head(&self.partial)?.map_or(HEAD, |head| HEAD + head.length);
        let count = (wanted - self.partial.len()).min(input.len());
        self.partial.extend_from_slice(&input[..count]);
        let Some(head) = self.head(&self.partial)? else { return Ok((count, Found::Nothing)) };
        if head.is_skipped() {
            self.skipping = head.length;
            self.partial.clear();
            return Ok((count, Found::Nothing));
        }
        if self.partial.len() < HEAD + head.length {
            return Ok((count, Found::Nothing));
        }
        let partial = mem::take(&mut self.partial);
        let found = self.chunk(&head, &partial, block);
        self.partial = partial;
        let found = match found? {
            // Its data stays where it is until the caller has looked at it.
            Found::Input(range) => {
                self.is_read = true;
                return Ok((count, Found::Partial(range)));
            }
            found => found,
        };
        self.partial.clear();
        Ok((count, found))
    }

    /// A chunk's head, if it is there.
    fn head(&self, input: &[u8]) -> Result<Option<Head>, S2Error> {
        let Some(&[kind, first, second, third]) = input.first_chunk::<HEAD>() else { return Ok(None) };
        let head = Head { kind, length: u32::from_le_bytes([first, second, third, 0]) as usize };
        if self.largest == 0 && kind != BEGINNING {
            return Err(S2Error::NotS2);
        }
        // Room for a block that compression has made longer.
        if !head.is_skipped() && head.length > self.allowed + self.allowed / 6 + 64 {
            return Err(S2Error::TooLong);
        }
        Ok(Some(head))
    }

    /// Reads a chunk that is whole, and says where its data is; one that is not compressed has it
    /// within `chunk`.
    fn chunk(&mut self, head: &Head, chunk: &[u8], block: &mut Vec<u8>) -> Result<Found, S2Error> {
        let body = &chunk[HEAD..];
        let length = match head.kind {
            BEGINNING => {
                self.largest = largest(body)?;
                return Ok(Found::Nothing);
            }
            COMPRESSED => unpack(body, self.largest.min(self.allowed), block)?,
            PLAIN => {
                let (checksum, plain) = body.split_first_chunk::<CHECKSUM>().ok_or(S2Error::Corrupt)?;
                if plain.len() > self.largest.min(self.allowed) {
                    return Err(S2Error::TooLong);
                }
                check(*checksum, plain)?;
                return Ok(match plain.len() {
                    0 => Found::Nothing,
                    _ => Found::Input(HEAD + CHECKSUM..chunk.len()),
                });
            }
            _ => return Err(S2Error::Unsupported),
        };
        Ok(if length == 0 { Found::Nothing } else { Found::Block(length) })
    }
}

impl Head {
    fn is_skipped(&self) -> bool {
        (SKIPPABLE..BEGINNING).contains(&self.kind)
    }
}

fn copy(data: &[u8], block: &mut Vec<u8>) {
    block.clear();
    block.extend_from_slice(data);
}

/// Bytes that blocks may have behind this identifier.
fn largest(body: &[u8]) -> Result<usize, S2Error> {
    match body {
        b"S2sTwO" => Ok(MAX_BLOCK),
        b"sNaPpY" => Ok(MAX_SNAPPY_BLOCK),
        _ => Err(S2Error::NotS2),
    }
}

/// Decompresses to the beginning of `block`, which is not made smaller: filling it with zeros each
/// time would cost as much as a checksum.
fn unpack(body: &[u8], largest: usize, block: &mut Vec<u8>) -> Result<usize, S2Error> {
    let (checksum, packed) = body.split_first_chunk::<CHECKSUM>().ok_or(S2Error::Corrupt)?;
    let (length, _) = s2::decode_len(packed).map_err(|_| S2Error::Corrupt)?;
    if length > largest {
        return Err(S2Error::TooLong);
    }
    if block.len() < length {
        block.resize(length, 0);
    }
    let decoded = s2::decode_into(&mut block[..length], packed);
    if !matches!(decoded, Ok(count) if count == length) {
        return Err(S2Error::Corrupt);
    }
    check(*checksum, &block[..length])?;
    Ok(length)
}

fn check(checksum: [u8; CHECKSUM], data: &[u8]) -> Result<(), S2Error> {
    if u32::from_le_bytes(checksum) == masked(data) { Ok(()) } else { Err(S2Error::Checksum) }
}
