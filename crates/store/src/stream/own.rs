//! Reading for the writer of a stream: released or not, since what it decides next follows what it
//! appended last.
//!
//! Reads wait for the device where a message is not at hand: what is read here was mostly written a
//! moment ago.

use std::io;

use crate::Seq;
use crate::record::Message;

use super::Stream;
use super::errors::ReadError;
use super::reader::fetch;
use super::wait::Wait;

impl Stream {
    /// Whether there is a message with this sequence.
    #[must_use]
    pub fn has(&self, seq: Seq) -> bool {
        self.shared.catalog().decided().contains(seq)
    }

    /// The message with this sequence, if it is there.
    ///
    /// # Errors
    /// The message is in the stream and cannot be read, or the stream has failed: what it appended
    /// last may be nowhere.
    pub fn read<'b>(&self, seq: Seq, buffer: &'b mut Vec<u8>) -> Result<Option<Message<'b>>, ReadError> {
        if let Some(why) = self.failure() {
            return Err(ReadError::Io(io::Error::other(why.to_owned())));
        }
        let Some(located) = self.shared.catalog().decided().locate(seq)? else { return Ok(None) };
        let read = fetch(&self.shared, &located, seq, Wait::Allowed, buffer);
        self.shared.watched(seq, read).map(Some)
    }

    /// The last message of a literal subject.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn read_last<'b>(
        &self,
        subject: &[u8],
        buffer: &'b mut Vec<u8>,
    ) -> Result<Option<Message<'b>>, ReadError> {
        let last = self.shared.catalog().decided().last_of(subject)?;
        match last {
            Some(seq) => self.read(seq, buffer),
            None => Ok(None),
        }
    }
}
