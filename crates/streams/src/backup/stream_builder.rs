//! A stream that is being filled with messages that were stored elsewhere, under the sequences and
//! times they had.
//!
//! Messages are gathered and stored in large batches: one write for a thousand. Until its owner
//! says that it is whole, the store knows it as unfinished, and a start that finds it so removes
//! it.

use crate::consumer::rules;
use crate::stream::{SECOND, Ttl, parse_ttl, storage_config};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::config::stored::Stored;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_jsapi::consumer::config::stored::Stored as StoredConsumer;
use myelin_store::consumer::{ConsumerState, Consumers};
use myelin_store::{
    Admission, AppendResult, GAP_MAX, MAX_SEQ, NewMessage, Seq, Store, StoreError, Stream, Timestamp,
};
use myelin_wire::header;
use std::ops::Range;

/// Messages that are stored together.
const BATCH: usize = 2048;
/// Their bytes.
const BATCH_BYTES: usize = 1 << 20;

/// Messages that are looked at in one step when the first of them go.
const TRIM: usize = 1 << 16;
/// Messages that are deleted in one step.
const DELETIONS: usize = 4096;

/// Jumps that a stream may have that are wider than one write takes. See [`StreamBuilder::jump`].
const MOST_JUMPS: u32 = 1 << 16;
/// Sequences from which on a jump may cost a segment of its own, and how many of these it may have.
const WIDE: u64 = 1 << 30;
const MOST_WIDE: u32 = 256;

/// A message with the sequence and time that it had.
#[derive(Clone, Copy, Debug, Default)]
pub struct RestoredMessage<'a> {
    /// Its place.
    pub seq: Seq,
    /// When it was accepted.
    pub timestamp: Timestamp,
    /// Its subject.
    pub subject: &'a [u8],
    /// Its header block, or nothing.
    pub headers: &'a [u8],
    /// The rest.
    pub payload: &'a [u8],
}

/// A message that waits in `bytes`.
struct BufferedMessage {
    seq: Seq,
    timestamp: Timestamp,
    expires: Option<Timestamp>,
    subject: Range<usize>,
    headers: Range<usize>,
    payload: Range<usize>,
}

/// Builder of a stream from messages that were stored elsewhere.
pub struct StreamBuilder {
    config: StreamConfig,
    stream: Stream,
    consumers: Consumers,
    created: Timestamp,
    bytes: Vec<u8>,
    buffered: Vec<BufferedMessage>,
    outcomes: Vec<AppendResult>,
    /// The last sequence that was used.
    last: Seq,
    /// The last one that the stream will have when what waits is stored. Behind it are sequences
    /// that hold nothing.
    kept: Seq,
    /// Jumps so far, and how many of them were wide.
    jumps: u32,
    wide: u32,
    /// Messages that were taken.
    taken: u64,
}

/// A stream that was filled.
pub struct BuiltStream {
    /// Its configuration.
    pub config: StreamConfig,
    /// Its messages.
    pub stream: Stream,
    /// Its consumers.
    pub consumers: Consumers,
    /// When it was made.
    pub created: Timestamp,
    /// Messages that were taken.
    pub taken: u64,
    /// Parts that were not as they were when they were written, or not there: for an operator.
    pub left: Vec<String>,
}

impl BuiltStream {
    /// Back to what can be removed.
    #[must_use]
    pub fn undo(self) -> Box<StreamBuilder> {
        Box::new(StreamBuilder::new(self.config, self.created, self.stream, self.consumers))
    }
}

impl StreamBuilder {
    /// Fills `stream`, which is empty and begins where its first message shall be.
    #[must_use]
    pub fn new(config: StreamConfig, created: Timestamp, stream: Stream, consumers: Consumers) -> Self {
        let last = stream.state().totals.last_seq;
        Self {
            config,
            stream,
            consumers,
            created,
            bytes: Vec::new(),
            buffered: Vec::new(),
            outcomes: Vec::new(),
            last,
            kept: last,
            jumps: 0,
            wide: 0,
            taken: 0,
        }
    }

    /// Makes the stream in a store, as one that is not whole, beginning at `first`.
    ///
    /// # Errors
    /// Nothing was made.
    pub fn begin(
        store: &Store,
        account: &str,
        config: StreamConfig,
        created: Timestamp,
        first: Seq,
        always_syncs: bool,
        now: Timestamp,
    ) -> Result<Self, String> {
        let settings = storage_config(&config, always_syncs);
        let settings =
            myelin_store::StreamConfig { first_seq: settings.first_seq.min(first.max(1)), ..settings };
        let blob = Stored { created, config: config.clone(), unfinished: true, ..Stored::default() }.encode();
        let mut stream = store
            .create_stream(account, &config.name, &blob, settings, now)
            .map_err(|error| error.to_string())?;
        let opened = store.open_consumers(stream.id(), settings.durability, None);
        match opened {
            Ok((consumers, _)) => {
                let mut builder = Self::new(config, created, stream, consumers);
                match builder.start_at(first, now) {
                    Ok(()) => Ok(builder),
                    Err(why) => {
                        let _ = builder.abandon(store);
                        Err(why)
                    }
                }
            }
            Err(error) => {
                // It is removed at the next start otherwise.
                let _ = store.delete_stream(&mut stream);
                Err(error.to_string())
            }
        }
    }

    /// Has the empty stream begin at `first`: an entry in its log says so to the next start.
    ///
    /// # Errors
    /// The store takes no more.
    pub fn start_at(&mut self, first: Seq, now: Timestamp) -> Result<(), String> {
        match first.checked_sub(1) {
            Some(before) if before > self.last => self.skip(before, now),
            _ => Ok(()),
        }
    }

    /// Its configuration.
    #[must_use]
    pub fn config(&self) -> &StreamConfig {
        &self.config
    }

    /// When it was made, where another server has.
    pub fn set_created(&mut self, created: Timestamp) {
        self.created = created;
    }

    /// The last sequence that was used.
    #[must_use]
    pub fn last(&self) -> Seq {
        self.last
    }

    /// Bytes that it has, as the reference counts them.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.stream.state().totals.bytes
    }

    /// Adds a consumer.
    ///
    /// # Errors
    /// There is one of this name.
    pub fn add_consumer(
        &mut self,
        config: &ConsumerConfig,
        created: Timestamp,
        state: ConsumerState,
    ) -> Result<(), String> {
        let blob = StoredConsumer::new(created, config).encode();
        let made = self.consumers.create(&config.name, rules(config), &blob);
        let id = made.map_err(|error| error.to_string())?;
        self.consumers.replace(id, state).map_err(|error| error.to_string())
    }

    /// Adds a message. Sequences before it that were not used hold nothing.
    ///
    /// # Errors
    /// It cannot follow what is there, or the store takes no more.
    pub fn push(&mut self, message: RestoredMessage<'_>, now: Timestamp) -> Result<(), String> {
        let RestoredMessage { seq, timestamp, subject, headers, payload } = message;
        if seq <= self.last {
            return Err(format!("message sequence {seq} out of order"));
        }
        if seq > MAX_SEQ {
            return Err(format!("message sequence {seq} is too high"));
        }
        // Without lifetimes the header means nothing: copies of other streams' messages have it.
        let ttl = header::get(headers, b"Nats-TTL").filter(|_| self.config.allow_msg_ttl).unwrap_or_default();
        let ttl = parse_ttl(ttl).map_err(|error| format!("failed to parse message TTL: {error}"))?;
        let expires = match ttl {
            Ttl::Seconds(seconds) if seconds > 0 => {
                Some(timestamp.saturating_add(seconds.saturating_mul(SECOND)))
            }
            Ttl::Never => Some(Timestamp::MAX),
            _ => None,
        };
        self.taken += 1;
        if expires.is_some_and(|expires| expires < now) {
            // Compat: it has ended meanwhile, and only its sequence stays.
            self.last = seq;
            return Ok(());
        }
        if seq - self.kept > GAP_MAX {
            self.jump(seq - 1, now)?;
        }
        let [subject, headers, payload] = [subject, headers, payload].map(|part| {
            let start = self.bytes.len();
            self.bytes.extend_from_slice(part);
            start..self.bytes.len()
        });
        self.buffered.push(BufferedMessage { seq, timestamp, expires, subject, headers, payload });
        (self.last, self.kept) = (seq, seq);
        if self.buffered.len() >= BATCH || self.bytes.len() >= BATCH_BYTES {
            self.flush(now)?;
        }
        Ok(())
    }

    /// Uses the sequences up to `last`, which hold nothing.
    ///
    /// # Errors
    /// The store takes no more.
    pub fn skip(&mut self, last: Seq, now: Timestamp) -> Result<(), String> {
        self.last = self.last.max(last);
        self.jump(self.last, now)
    }

    /// Has the stream itself come as far as `last`.
    ///
    /// Each is a write of its own, and a segment spans so many sequences and no more: a stranger
    /// who names messages far apart would have us make a file for each, out of a few bytes. Streams
    /// that were published to have come by few such gaps.
    fn jump(&mut self, last: Seq, now: Timestamp) -> Result<(), String> {
        self.flush(now)?;
        if last <= self.kept {
            return Ok(());
        }
        self.jumps += 1;
        self.wide += u32::from(last - self.kept >= WIDE);
        if self.jumps > MOST_JUMPS || self.wide > MOST_WIDE {
            return Err("too many of its messages are far apart".to_owned());
        }
        self.stream.skip(last, now).map_err(words)?;
        self.kept = last;
        self.run_jobs(now);
        Ok(())
    }

    /// Deletes messages that it has.
    ///
    /// # Errors
    /// The store takes no more.
    pub fn delete(&mut self, seqs: &[Seq], now: Timestamp) -> Result<(), String> {
        if seqs.is_empty() {
            return Ok(());
        }
        self.flush(now)?;
        self.stream.delete_all(seqs, now).map(drop).map_err(words)
    }

    /// Deletes those of its messages that `is_gone` names.
    ///
    /// # Errors
    /// The store takes no more.
    pub fn delete_where(&mut self, is_gone: &dyn Fn(Seq) -> bool, now: Timestamp) -> Result<(), String> {
        self.flush(now)?;
        let totals = self.stream.state().totals;
        if totals.messages == 0 {
            return Ok(());
        }
        let (mut seq, mut doomed) = (totals.first_seq, Vec::new());
        let mut left = usize::try_from(totals.messages).unwrap_or(usize::MAX);
        let gaps = self.stream.reader().deleted();
        let end = totals.last_seq.saturating_add(1);
        for gap in gaps.into_iter().chain([end..=end]) {
            for seq in (seq..*gap.start()).take(left) {
                left -= 1;
                if is_gone(seq) {
                    doomed.push(seq);
                }
                if doomed.len() >= DELETIONS {
                    self.delete(&doomed, now)?;
                    doomed.clear();
                }
            }
            seq = gap.end().saturating_add(1);
        }
        self.delete(&doomed, now)
    }

    /// Removes all before `first`.
    ///
    /// # Errors
    /// The store takes no more.
    pub fn trim(&mut self, first: Seq, now: Timestamp) -> Result<(), String> {
        self.flush(now)?;
        while first > 0 && self.stream.compact(first, TRIM, now).map_err(words)?.more {}
        self.kept = self.kept.max(self.stream.state().totals.last_seq);
        self.last = self.last.max(self.kept);
        Ok(())
    }

    /// Stores what was gathered, and has segments that are full closed.
    ///
    /// # Errors
    /// The store takes no more.
    pub fn flush(&mut self, now: Timestamp) -> Result<(), String> {
        if self.buffered.is_empty() {
            return Ok(());
        }
        let part = |range: &Range<usize>| &self.bytes[range.clone()];
        let messages: Vec<NewMessage<'_>> = self
            .buffered
            .iter()
            .map(|place| NewMessage {
                seq: place.seq,
                timestamp: place.timestamp,
                expires: place.expires,
                subject: part(&place.subject),
                headers: part(&place.headers),
                payload: part(&place.payload),
                is_rollup: false,
                ends: 0,
            })
            .collect();
        self.stream.append(&messages, Admission::Granted, now, &mut self.outcomes).map_err(words)?;
        if let Some((place, Err(why))) =
            self.buffered.iter().zip(&self.outcomes).find(|(_, outcome)| outcome.is_err())
        {
            return Err(format!("failed to store message sequence {}: {why}", place.seq));
        }
        self.buffered.clear();
        self.bytes.clear();
        self.run_jobs(now);
        Ok(())
    }

    /// Tables of segments stay in memory until these are sealed.
    fn run_jobs(&mut self, now: Timestamp) {
        while let Some(job) = self.stream.next_job(now) {
            if self.stream.finish(job.run(), now).is_err() {
                break;
            }
        }
    }

    /// Stores the rest, and uses the sequences up to `last`.
    ///
    /// # Errors
    /// The store takes no more.
    pub fn finish(mut self, last: Seq, now: Timestamp) -> Result<BuiltStream, (Box<Self>, String)> {
        let done = self.skip(last, now);
        let flushed = done.and_then(|()| match self.consumers.flush(now) {
            Ok(_) => self.stream.flush().map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        });
        match flushed {
            Ok(()) => {
                let Self { config, stream, consumers, created, taken, .. } = self;
                Ok(BuiltStream { config, stream, consumers, created, taken, left: Vec::new() })
            }
            Err(why) => Err((Box::new(self), why)),
        }
    }

    /// Removes it with all that was stored.
    ///
    /// # Errors
    /// The next start removes it.
    pub fn abandon(mut self, store: &Store) -> Result<(), String> {
        drop(self.consumers);
        if self.config.storage == myelin_jsapi::config::Storage::Memory {
            return Ok(());
        }
        store.delete_stream(&mut self.stream).map_err(|error| error.to_string())
    }
}

/// Makes a stream that was filled one like any other, for the next start too.
///
/// # Errors
/// It is still unfinished.
pub fn declare_whole(store: &Store, built: &BuiltStream) -> Result<(), String> {
    if built.config.storage == myelin_jsapi::config::Storage::Memory {
        return Ok(());
    }
    let blob = Stored { created: built.created, config: built.config.clone(), ..Stored::default() }.encode();
    store.write_blob(built.stream.id(), &blob).map_err(|error| error.to_string())
}

fn words(error: StoreError) -> String {
    match error {
        StoreError::Full => ApiError::STORAGE_RESOURCES_EXCEEDED.description.into_owned(),
        other => other.to_string(),
    }
}
