//! The way of a base out of a file, block by block.
//!
//! Owns one block at a time. What it gives is in order and complete, or it gives an error.
//!
//! Perf: a block is a handful of bulk conversions; measured by `base_speed` in the tests.

use std::sync::Arc;

use myelin_disk::File;

use super::{BLOCK_HEAD_BYTES, BaseHeader, BaseSummary, BlockKind, HEADER_BYTES, TRAILER_BYTES, WHAT};
use crate::cipher::Nonce;
use crate::damage::Damage;
use crate::record::FileContext;
use crate::segment::{SubjectChanges, Texts, decode_expiries};
use crate::{Seq, Timestamp};

/// A base that is being read: first its subjects, then its expiries.
#[derive(Debug)]
pub struct BaseReader {
    file: Arc<dyn File>,
    context: FileContext,
    summary: BaseSummary,
    /// Where the next block stands.
    at: u64,
    left: BaseSummary,
    last_text: Vec<u8>,
    last_expiry: Option<Seq>,
    buffer: Vec<u8>,
}

impl BaseReader {
    /// Looks at the end of the file: a base that was not finished is none. `context` is that of
    /// `header`.
    ///
    /// # Errors
    /// What is wrong with it; `Locked` if it is encrypted and `context` has no key.
    pub fn open(file: Arc<dyn File>, header: &BaseHeader, context: FileContext) -> Result<Self, Damage> {
        if header.encryption.is_some() && context.cipher.is_none() {
            return Err(Damage::Locked(WHAT));
        }
        let summary = BaseSummary::read(&*file, &context)?;
        let (at, left) = (HEADER_BYTES as u64, summary);
        let (last_text, last_expiry, buffer) = (Vec::new(), None, Vec::new());
        Ok(Self { file, context, summary, at, left, last_text, last_expiry, buffer })
    }

    /// Summary of what the file says to hold.
    #[must_use]
    pub fn summary(&self) -> BaseSummary {
        self.summary
    }

    /// The next subjects, some thousands; `None` behind the last.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn next_subjects(&mut self) -> Result<Option<SubjectChanges>, Damage> {
        if self.left.subjects == 0 {
            return Ok(None);
        }
        let body = self.next_block(BlockKind::Subjects)?;
        let mut input = &body[..];
        let texts = Texts::decode(&mut input);
        let subjects = texts.and_then(|texts| SubjectChanges::decode_numbers(texts, &mut input));
        let subjects = subjects.filter(|_| input.is_empty()).ok_or(Damage::Content(WHAT))?;
        self.buffer = body;
        let (first, last) = match (subjects.is_empty(), subjects.texts().last()) {
            (false, Some(last)) => (subjects.texts().get(0), last),
            _ => return Err(Damage::Content(WHAT)),
        };
        let left = self.left.subjects.checked_sub(subjects.len() as u64).ok_or(Damage::Content(WHAT))?;
        if first <= &self.last_text[..] {
            return Err(Damage::Content(WHAT));
        }
        self.left.subjects = left;
        self.last_text.clear();
        self.last_text.extend_from_slice(last);
        Ok(Some(subjects))
    }

    /// The next expiries, some thousands; `None` behind the last. Subjects that were not read yet
    /// are passed over.
    ///
    /// # Errors
    /// What is wrong with the file.
    pub fn next_expiries(&mut self) -> Result<Option<Vec<(Seq, Timestamp)>>, Damage> {
        while self.next_subjects()?.is_some() {}
        if self.left.expiries == 0 {
            return if self.at + TRAILER_BYTES as u64 == self.summary.file_len {
                Ok(None)
            } else {
                Err(Damage::Content(WHAT))
            };
        }
        let body = self.next_block(BlockKind::Expiries)?;
        let mut input = &body[..];
        let expiries =
            decode_expiries(&mut input).filter(|_| input.is_empty()).ok_or(Damage::Content(WHAT))?;
        self.buffer = body;
        let (Some((first, _)), Some((last, _))) = (expiries.first(), expiries.last()) else {
            return Err(Damage::Content(WHAT));
        };
        let left = self.left.expiries.checked_sub(expiries.len() as u64).ok_or(Damage::Content(WHAT))?;
        if self.last_expiry.is_some_and(|before| *first <= before) {
            return Err(Damage::Content(WHAT));
        }
        self.left.expiries = left;
        self.last_expiry = Some(*last);
        Ok(Some(expiries))
    }

    /// The body of the next block, which must be of this kind.
    fn next_block(&mut self, block: BlockKind) -> Result<Vec<u8>, Damage> {
        let end = self.summary.file_len - TRAILER_BYTES as u64;
        let mut head = [0; BLOCK_HEAD_BYTES];
        if self.at + BLOCK_HEAD_BYTES as u64 > end || self.file.read_at(&mut head, self.at)? < head.len() {
            return Err(Damage::Short(WHAT));
        }
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let next = self.at + (BLOCK_HEAD_BYTES + length) as u64;
        if next > end {
            return Err(Damage::Short(WHAT));
        }
        let mut body = std::mem::take(&mut self.buffer);
        body.resize(length, 0);
        if self.file.read_at(&mut body, self.at + BLOCK_HEAD_BYTES as u64)? < length {
            return Err(Damage::Short(WHAT));
        }
        let checksum = crc32c::crc32c_append(crc32c::crc32c_append(self.context.seed, &head[4..]), &body);
        if checksum.to_le_bytes() != head[..4] {
            return Err(Damage::Checksum(WHAT));
        }
        if BlockKind::from_code(head[8]) != Some(block) || head[9..] != [0; 7] {
            return Err(Damage::Content(WHAT));
        }
        if let Some(cipher) = &self.context.cipher {
            let nonce = Nonce::section_at(u32::from(block.code()), self.at);
            let opened = cipher.open(nonce, &head[4..], &mut body);
            body.truncate(opened.map_err(|_| Damage::Unauthentic(WHAT))?);
        }
        self.at = next;
        Ok(body)
    }
}
