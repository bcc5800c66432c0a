//! Bytes that a link has read and has not dealt with.
//!
//! A hub has thousands of links that say nothing for most of the time. So the buffer that a link
//! reads into belongs to the shard whenever nothing is left in it; a link whose operation has come
//! in part keeps it, and the shard gets a new one.

use bytes::BytesMut;
use std::cell::Cell;
use std::mem;
use std::ops::{Deref, DerefMut};

/// The buffer with which the links of a shard read, one after the other.
#[derive(Default)]
pub(super) struct SharedBuffer(Cell<BytesMut>);

/// Bytes that have come over a link and are not dealt with.
pub(super) struct LinkBuffer {
    bytes: BytesMut,
    /// The room for more is the shard's; `bytes` is empty.
    is_given_back: bool,
}

impl LinkBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: BytesMut::new(), is_given_back: true }
    }

    /// Room for `more` bytes behind what is there.
    pub(super) fn make_room(&mut self, shared: &SharedBuffer, more: usize) {
        if mem::take(&mut self.is_given_back) {
            self.bytes = shared.0.take();
        }
        self.bytes.reserve(more);
    }

    /// Gives the room back if nothing is left, because another link reads next.
    pub(super) fn give_back(&mut self, shared: &SharedBuffer) {
        if self.bytes.is_empty() {
            shared.0.set(mem::take(&mut self.bytes));
            self.is_given_back = true;
        }
    }
}

impl Deref for LinkBuffer {
    type Target = BytesMut;

    fn deref(&self) -> &BytesMut {
        &self.bytes
    }
}

impl DerefMut for LinkBuffer {
    fn deref_mut(&mut self) -> &mut BytesMut {
        &mut self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Buf;

    const ROOM: usize = 4096;

    /// Reads `bytes` and deals with `taken` of them.
    fn read(link: &mut LinkBuffer, shared: &SharedBuffer, bytes: &[u8], taken: usize) -> *const u8 {
        link.make_room(shared, ROOM);
        link.extend_from_slice(bytes);
        let at = link.as_ptr();
        link.advance(taken);
        link.give_back(shared);
        at
    }

    #[test]
    fn links_with_nothing_left_hold_nothing_and_read_into_one_buffer() {
        let shared = SharedBuffer::default();
        let (mut one, mut other) = (LinkBuffer::new(), LinkBuffer::new());
        let first = read(&mut one, &shared, b"PING\r\n", 6);
        assert_eq!(read(&mut other, &shared, b"PONG\r\n", 6), first);
        assert_eq!(read(&mut one, &shared, b"PING\r\n", 6), first);
        assert_eq!((one.capacity(), other.capacity()), (0, 0));
    }

    #[test]
    fn what_is_left_stays_with_its_link() {
        let shared = SharedBuffer::default();
        let (mut one, mut other) = (LinkBuffer::new(), LinkBuffer::new());
        let first = read(&mut one, &shared, b"PING\r\nPI", 6);
        assert_ne!(read(&mut other, &shared, b"LS+ a\r\n", 7), first);
        assert_eq!(&one[..], b"PI");
        read(&mut one, &shared, b"NG\r\n", 4);
        assert_eq!(&one[..], b"\r\n");
        read(&mut one, &shared, b"", 2);
        assert_eq!(one.capacity(), 0);
    }
}
