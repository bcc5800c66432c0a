//! The way of a base into a file: subjects in order, then expiries in order.
//!
//! Owns one block under construction, so that a base of any size is written with little memory.

use std::sync::Arc;

use myelin_disk::File;

use super::{
    BLOCK_HEAD_BYTES, BLOCK_ROWS, BLOCK_TEXT, BaseHeader, BaseSummary, BlockKind, HEADER_BYTES,
    TRAILER_BYTES, WHAT,
};
use crate::cipher::Nonce;
use crate::damage::Damage;
use crate::record::FileContext;
use crate::segment::{SubjectChange, SubjectChanges, encode_expiries};
use crate::{Seq, Timestamp};

/// Writes a base into an empty file. Nothing in the file counts before [`BaseWriter::finish`] has
/// returned.
#[derive(Debug)]
pub struct BaseWriter {
    file: Arc<dyn File>,
    context: FileContext,
    /// Where the next block goes.
    at: u64,
    subjects: SubjectChanges,
    expiries: Vec<(Seq, Timestamp)>,
    /// Text that was last put into a block that is written, to keep the order.
    last_text: Vec<u8>,
    last_expiry: Option<Seq>,
    summary: BaseSummary,
    buffer: Vec<u8>,
}

impl BaseWriter {
    /// A base in `file`, which is empty. `context` is the header's own.
    ///
    /// # Errors
    /// `Io`.
    pub fn begin(file: Arc<dyn File>, header: &BaseHeader, context: FileContext) -> Result<Self, Damage> {
        file.write_at(&header.encode(), 0)?;
        Ok(Self {
            file,
            context,
            at: HEADER_BYTES as u64,
            subjects: SubjectChanges::new(),
            expiries: Vec::new(),
            last_text: Vec::new(),
            last_expiry: None,
            summary: BaseSummary::default(),
            buffer: Vec::new(),
        })
    }

    /// Adds a subject; one without messages is left out.
    ///
    /// # Errors
    /// `Io`; `Content` if it is not behind all others, or expiries were added already.
    pub fn subject(&mut self, subject: SubjectChange<'_>) -> Result<(), Damage> {
        if subject.count == 0 {
            return Ok(());
        }
        let last = self.subjects.texts().last().unwrap_or(&self.last_text);
        if subject.text <= last || self.summary.expiries > 0 {
            return Err(Damage::Content(WHAT));
        }
        self.subjects.push(subject);
        self.summary.subjects += 1;
        if self.subjects.len() == BLOCK_ROWS || self.subjects.texts().total_bytes() >= BLOCK_TEXT {
            self.flush_subjects()?;
        }
        Ok(())
    }

    /// Adds the expiry of a message.
    ///
    /// # Errors
    /// `Io`; `Content` if its sequence is not behind all others.
    pub fn expiry(&mut self, seq: Seq, expires: Timestamp) -> Result<(), Damage> {
        if self.last_expiry.is_some_and(|last| seq <= last) {
            return Err(Damage::Content(WHAT));
        }
        self.flush_subjects()?;
        self.last_expiry = Some(seq);
        self.expiries.push((seq, expires));
        self.summary.expiries += 1;
        if self.expiries.len() == BLOCK_ROWS {
            self.flush_expiries()?;
        }
        Ok(())
    }

    fn flush_subjects(&mut self) -> Result<(), Damage> {
        let Some(last) = self.subjects.texts().last() else { return Ok(()) };
        self.last_text.clear();
        self.last_text.extend_from_slice(last);
        self.begin_block();
        self.subjects.texts().encode(&mut self.buffer);
        self.subjects.encode_numbers(&mut self.buffer);
        self.subjects.clear();
        self.end_block(BlockKind::Subjects)
    }

    fn flush_expiries(&mut self) -> Result<(), Damage> {
        if self.expiries.is_empty() {
            return Ok(());
        }
        self.begin_block();
        encode_expiries(&self.expiries, &mut self.buffer);
        self.expiries.clear();
        self.end_block(BlockKind::Expiries)
    }

    fn begin_block(&mut self) {
        self.buffer.clear();
        self.buffer.resize(BLOCK_HEAD_BYTES, 0);
    }

    fn end_block(&mut self, block: BlockKind) -> Result<(), Damage> {
        let length = self.buffer.len() - BLOCK_HEAD_BYTES + self.context.tag_bytes();
        self.buffer[4..8]
            .copy_from_slice(&u32::try_from(length).expect("a block has a few kilobytes").to_le_bytes());
        self.buffer[8] = block.code();
        if let Some(cipher) = &self.context.cipher {
            let mut aad = [0; BLOCK_HEAD_BYTES - 4];
            aad.copy_from_slice(&self.buffer[4..BLOCK_HEAD_BYTES]);
            let nonce = Nonce::section_at(u32::from(block.code()), self.at);
            cipher.seal(nonce, &aad, &mut self.buffer, BLOCK_HEAD_BYTES);
        }
        let checksum = crc32c::crc32c_append(self.context.seed, &self.buffer[4..]);
        self.buffer[..4].copy_from_slice(&checksum.to_le_bytes());
        self.file.write_at(&self.buffer, self.at)?;
        self.at += self.buffer.len() as u64;
        Ok(())
    }

    /// Writes what is left and syncs the file.
    ///
    /// # Errors
    /// `Io`: the file must not be used then.
    pub fn finish(mut self) -> Result<BaseSummary, Damage> {
        self.flush_subjects()?;
        self.flush_expiries()?;
        self.summary.file_len = self.at + TRAILER_BYTES as u64;
        self.file.write_at(&self.summary.encode(&self.context), self.at)?;
        self.file.sync()?;
        Ok(self.summary)
    }
}
