//! The way of entries out of bytes.
//!
//! Perf: per entry one checksum over its bytes (none with `decode_trusted`), and no copy: a message
//! borrows the bytes. Only a `Delete` allocates. Measured by `record_speed` in the tests.

use std::borrow::Cow;

use super::head::{CONTINUES, ERASED, EXPIRES};
use super::{
    ConsumerRecord, Control, Entry, EntryHead, EntryKind, FileContext, HEAD_BYTES, Invalid, LogEntry,
    Message, NoteRecord, peek,
};
use crate::cipher::Nonce;
use crate::ranges::Ranges;
use crate::{SegmentNo, Timestamp};

/// One entry and what surrounds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded<'a> {
    /// Bytes it takes, head and tag included.
    pub size: usize,
    /// Whether the batch goes on with the next entry.
    pub continues: bool,
    /// When it was written, by the clock of whoever wrote it.
    pub timestamp: Timestamp,
    /// Content of the entry.
    pub entry: Entry<'a>,
}

/// Checks size and checksum of the entry at the front of `bytes`, which works without keys, too.
///
/// # Errors
/// `Cut`, `EntryHead` or `Checksum`.
pub fn verify(bytes: &[u8], context: &FileContext) -> Result<EntryHead, Invalid> {
    if bytes.len() < HEAD_BYTES {
        return Err(Invalid::Cut);
    }
    let head = peek(bytes).ok_or(Invalid::EntryHead)?;
    verify_behind(&head, bytes, context)?;
    Ok(head)
}

/// As [`verify`], for whoever has looked at the head already.
#[inline]
pub(crate) fn verify_behind(head: &EntryHead, bytes: &[u8], context: &FileContext) -> Result<(), Invalid> {
    let entry = bytes.get(..head.size()).ok_or(Invalid::Cut)?;
    if crc32c::crc32c_append(context.seed, &entry[4..]) == head.checksum {
        Ok(())
    } else {
        Err(Invalid::Checksum)
    }
}

/// Reads the entry at the front of `bytes`, which stands at `at` in its file. An encrypted one is
/// decrypted in place: the bytes cannot be decoded a second time.
///
/// # Errors
/// What makes the bytes no entry. They are unchanged then, unless it is `Unauthentic` or `Body`.
pub fn decode<'a>(bytes: &'a mut [u8], at: u64, context: &FileContext) -> Result<Decoded<'a>, Invalid> {
    let head = verify(bytes, context)?;
    open(bytes, at, &head, context)?;
    assemble(bytes, head, context)
}

/// As [`decode`], of bytes that begin with `head`.
pub(crate) fn decode_peeked<'a>(
    bytes: &'a mut [u8],
    head: EntryHead,
    at: u64,
    context: &FileContext,
) -> Result<Decoded<'a>, Invalid> {
    verify_behind(&head, bytes, context)?;
    open(bytes, at, &head, context)?;
    assemble(bytes, head, context)
}

/// Reads an entry that is not encrypted and that nobody else can have changed: one in memory.
///
/// # Errors
/// As [`decode`], without `Checksum` and `Unauthentic`.
pub fn decode_trusted(bytes: &[u8]) -> Result<Decoded<'_>, Invalid> {
    let head = peek(bytes).ok_or(Invalid::EntryHead)?;
    decode_trusted_peeked(bytes, head)
}

/// As [`decode_trusted`], of bytes that begin with `head`.
pub(crate) fn decode_trusted_peeked(bytes: &[u8], head: EntryHead) -> Result<Decoded<'_>, Invalid> {
    const PLAIN: &FileContext = &FileContext { seed: 0, cipher: None };
    assemble(bytes, head, PLAIN)
}

/// Decrypts the body of a verified entry in place.
#[inline]
pub(crate) fn open(
    bytes: &mut [u8],
    at: u64,
    head: &EntryHead,
    context: &FileContext,
) -> Result<(), Invalid> {
    let Some(cipher) = &context.cipher else { return Ok(()) };
    if head.has(ERASED) {
        return Ok(());
    }
    let (aad, body) = bytes[..head.size()].split_at_mut(HEAD_BYTES);
    match cipher.open(Nonce::entry(at), &aad[8..], body) {
        Ok(_) => Ok(()),
        Err(_) => Err(Invalid::Unauthentic),
    }
}

/// Reads an entry whose body is in the clear; a tag behind it is left out.
#[inline]
pub(crate) fn assemble<'a>(
    bytes: &'a [u8],
    head: EntryHead,
    context: &FileContext,
) -> Result<Decoded<'a>, Invalid> {
    let entry = bytes.get(..head.size()).ok_or(Invalid::Cut)?;
    let end = entry.len().checked_sub(context.tag_bytes()).ok_or(Invalid::EntryHead)?;
    let entry = if head.has(ERASED) {
        Entry::Erased { seq: head.seq }
    } else {
        let body = entry.get(HEAD_BYTES..end).ok_or(Invalid::EntryHead)?;
        match head.kind {
            EntryKind::Message => Entry::Message(message(&head, body).ok_or(Invalid::EntryHead)?),
            _ => Entry::Control(control(&head, body).ok_or(Invalid::Body)?),
        }
    };
    Ok(Decoded { size: head.size(), continues: head.continues(), timestamp: head.timestamp, entry })
}

pub(super) fn message<'a>(head: &EntryHead, body: &'a [u8]) -> Option<Message<'a>> {
    let (expires, body) = if head.has(EXPIRES) {
        let (expires, body) = body.split_first_chunk()?;
        (Some(Timestamp::from_le_bytes(*expires)), body)
    } else {
        (None, body)
    };
    let (subject, body) = body.split_at_checked(usize::from(head.subject))?;
    let (headers, payload) = body.split_at_checked(head.headers as usize)?;
    Some(Message { seq: head.seq, timestamp: head.timestamp, expires, subject, headers, payload })
}

pub(super) fn control(head: &EntryHead, mut body: &[u8]) -> Option<Control<'static>> {
    let control = match head.kind {
        EntryKind::Message => return None,
        EntryKind::Delete => Control::Delete(Cow::Owned(Ranges::decode(&mut body)?)),
        EntryKind::Trim => Control::Trim { first: head.seq },
        EntryKind::Truncate => Control::Truncate { last: head.seq },
        EntryKind::Skip => Control::Skip { last: head.seq },
        EntryKind::Durable => {
            Control::Durable { segment: SegmentNo(take(&mut body)?), offset: take(&mut body)? }
        }
        EntryKind::Term => Control::Term { epoch: take(&mut body)?, term: take(&mut body)? },
        EntryKind::LogEntry => return LogEntry::from_body(head.seq, body).map(Control::LogEntry),
        EntryKind::Consumer => return ConsumerRecord::from_body(body).map(Control::Consumer),
        EntryKind::Config => return Some(Control::Config(Cow::Owned(body.to_vec()))),
        EntryKind::Note => return NoteRecord::from_body(body).map(Control::Note),
        EntryKind::TakenBack => Control::TakenBack { first: head.seq, chain: take(&mut body)? },
    };
    body.is_empty().then_some(control)
}

fn take(body: &mut &[u8]) -> Option<u64> {
    let (value, rest) = body.split_first_chunk()?;
    *body = rest;
    Some(u64::from_le_bytes(*value))
}

/// Turns the message at the front of `bytes` into [`Entry::Erased`] of the same size. The caller
/// writes the bytes over the old ones; a torn write of them is damage, so they go through the
/// journal first.
///
/// An erased body is zeros, not encrypted: at this place of the file the key was used already.
///
/// # Errors
/// The entry is invalid, or `Body`: it is no message.
pub fn erase(bytes: &mut [u8], context: &FileContext) -> Result<(), Invalid> {
    let head = verify(bytes, context)?;
    if head.kind != EntryKind::Message {
        return Err(Invalid::Body);
    }
    let erased = EntryHead { flags: head.flags & CONTINUES | ERASED, subject: 0, headers: 0, ..head };
    let entry = &mut bytes[..head.size()];
    entry.fill(0);
    entry[..HEAD_BYTES].copy_from_slice(&erased.to_bytes());
    let checksum = crc32c::crc32c_append(context.seed, &entry[4..]);
    entry[..4].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}
