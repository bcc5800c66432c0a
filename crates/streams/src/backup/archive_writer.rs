//! A stream on its way into an archive: as it was at one moment, whatever is published meanwhile.
//!
//! Compressed bytes come out in slices; nothing is held but the block that is being compressed. A
//! message that is removed before it was read is not in the archive, one that came later is not
//! either.

use super::state::ArchivedConsumer;
use myelin_jsapi::api::info::StreamState;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_natsfiles::archive::{self, put_head};
use myelin_natsfiles::frames::FrameWriter;
use myelin_store::consumer::ConsumerState;
use myelin_store::{Cursor, Filter, Message, ReadError, Seq, StreamReader, Timestamp, Wait};
use myelin_wire::json::compact;

/// Writer of a stream's archive: the stream as it was at one moment.
pub struct ArchiveWriter {
    cursor: Cursor,
    last: Seq,
    frames: FrameWriter,
    /// Scratch for what stands before an entry's data.
    head: Vec<u8>,
    consumers: std::vec::IntoIter<(ConsumerConfig, ConsumerState)>,
    now: Timestamp,
    is_over: bool,
}

impl ArchiveWriter {
    /// Begins an archive of what `reader` shows up to the last sequence of `state`, with these
    /// consumers.
    #[must_use]
    pub fn new(
        reader: &StreamReader,
        state: &StreamState,
        consumers: Vec<(ConsumerConfig, ConsumerState)>,
        now: Timestamp,
    ) -> Self {
        let state = StreamState { consumer_count: consumers.len() as u64, ..state.clone() };
        let mut source = Self {
            cursor: reader.cursor(Filter::All, state.first_seq),
            last: state.last_seq,
            frames: FrameWriter::default(),
            head: Vec::new(),
            consumers: consumers.into_iter(),
            now,
            is_over: false,
        };
        source.frames.write(archive::MAGIC);
        source.entry(archive::STATE, &compact(&state));
        source
    }

    fn entry(&mut self, name: &[u8], data: &[u8]) {
        self.head.clear();
        put_head(&mut self.head, name, self.now, 0, 0, data.len());
        self.frames.write(&self.head);
        self.frames.write(data);
    }

    /// Compressed bytes that are ready. Whoever takes them drains them.
    pub fn ready(&mut self) -> &mut Vec<u8> {
        &mut self.frames.out
    }

    /// Whether all there is to come is ready.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }

    /// Reads on until so many bytes are ready, the archive is whole, or about `budget` bytes were
    /// read. May wait for a disk.
    ///
    /// # Errors
    /// A message cannot be read.
    pub fn fill(&mut self, wanted: usize, budget: usize) -> Result<(), ReadError> {
        let mut read = 0;
        while !self.is_over && self.frames.out.len() < wanted && read < budget {
            read += match self.consumers.next() {
                Some((config, state)) => self.consumer(&config, &state),
                None => self.message()?,
            };
        }
        // Who takes it may be slow.
        self.cursor.pause();
        Ok(())
    }

    fn consumer(&mut self, config: &ConsumerConfig, state: &ConsumerState) -> usize {
        let name = [archive::CONSUMERS, config.name.as_bytes()].concat();
        let data = ArchivedConsumer::write(config, state, self.last);
        self.entry(&name, &data);
        data.len()
    }

    /// Adds the next message, or the end. Answers the bytes of it.
    fn message(&mut self) -> Result<usize, ReadError> {
        let next = if self.cursor.position() > self.last { None } else { self.cursor.next(Wait::Allowed)? };
        let Some(message) = next.filter(|message| message.seq <= self.last) else {
            self.head.clear();
            put_head(&mut self.head, b"", 0, 0, 0, 0);
            self.frames.write(&self.head);
            self.frames.flush();
            self.is_over = true;
            return Ok(0);
        };
        let Message { seq, timestamp, subject, headers, payload, .. } = message;
        self.head.clear();
        put_head(&mut self.head, subject, timestamp, seq, headers.len(), payload.len());
        self.frames.write(&self.head);
        self.frames.write(headers);
        self.frames.write(payload);
        Ok(self.head.len() + headers.len() + payload.len())
    }
}
