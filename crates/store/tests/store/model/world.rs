//! A stream and its twin, to which the same is done.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use myelin_disk::Disk;
use myelin_disk::memory::MemoryDisk;
use myelin_stdx::rng::Rng;
use myelin_store::cipher::CipherKind;
use myelin_store::entropy::SeededEntropy;
use myelin_store::keys::{Keys, MasterKey};
use myelin_store::verify::{self, Finding, Severity};
use myelin_store::{
    Admission, AppendResult, Compression, Done, Durability, GroupPosition, Job, Limits, Marker, Markers,
    Message, NewMessage, Purge, RemovalProgress, Removed, Reserve, Seq, Storage, Store, StoreOptions, Stream,
    StreamConfig, Ticket, Timestamp,
};

use super::follower::Follower;
use super::operation::{self, Operation, Sent};
use crate::twin::{Kept, Twin};

/// Kinds of streams; a seed belongs to each in turn.
pub(crate) const VARIANTS: u64 = 16;
/// How long a marker stays.
const MARKER_LIFETIME: Timestamp = 40;

/// Where the log of a group begins.
pub(crate) const BEGINNING: GroupPosition =
    GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };

/// Stream and its twin, to both of which each step is done.
pub(crate) struct World {
    pub(crate) twin: Twin,
    pub(crate) stream: Option<Stream>,
    store: Option<Store>,
    disk: Arc<dyn Disk>,
    keys: Option<Keys>,
    config: StreamConfig,
    upkeep: Option<Upkeep>,
    now: Timestamp,
    opened: u64,
    seed: u64,
    /// `released` must not be beyond, in `Synced`.
    pub(crate) synced: Seq,
    /// The twin behind operations whose release is waited for, by the stream's ticket.
    pub(crate) twins: VecDeque<(Ticket, Twin)>,
    pub(crate) follower: Option<Follower>,
    /// Bound for one entry of the group's log.
    entry_bytes: usize,
    /// Notes of a stream in a group, and its configuration.
    notes: BTreeMap<Vec<u8>, Vec<u8>>,
    blob: Option<Vec<u8>>,
}

/// A piece of upkeep on its way.
enum Upkeep {
    Job(Job),
    Done(Done),
}

/// Leaves a marker for every message without headers.
#[derive(Debug)]
struct Mark {
    now: Timestamp,
}

const MARK: &[u8] = b"NATS/1.0\r\nM: 1\r\n\r\n";

impl Markers for Mark {
    fn marker(&self, last: &Message<'_>) -> Option<Marker> {
        let marker = || Marker { headers: MARK.to_vec(), expires: Some(self.now + MARKER_LIFETIME) };
        last.headers.is_empty().then(marker)
    }
}

fn keys(variant: u64) -> Option<Keys> {
    let kind = match variant % 4 {
        1 => CipherKind::ChaCha20Poly1305,
        2 => CipherKind::Aes256Gcm,
        _ => return None,
    };
    Some(Keys { kind, current: MasterKey::derive(b"the operator's key"), previous: None })
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = Rng::seeded(seed ^ 0x5eed);
        let variant = seed % VARIANTS;
        let is_memory = variant == 0;
        let config = StreamConfig {
            storage: if is_memory { Storage::Memory } else { Storage::File },
            limits: if rng.below(3) == 0 { Limits::default() } else { operation::limits(&mut rng) },
            durability: operation::durability(&mut rng),
            compression: if variant & 4 > 0 { Compression::S2 } else { Compression::None },
            first_seq: if rng.below(4) == 0 { rng.below(1000) } else { 0 },
            is_copy: false,
            segment_bytes: (variant & 8 > 0 || rng.below(2) == 0).then(|| 400 + rng.below(3600) as u32),
        };
        let mut world = Self {
            twin: Twin::new(config.storage, config.limits, config.first_seq),
            stream: None,
            store: None,
            disk: Arc::new(MemoryDisk::new()),
            keys: keys(variant),
            config,
            upkeep: None,
            now: 1000,
            opened: 0,
            seed,
            synced: config.first_seq.max(1) - 1,
            twins: VecDeque::new(),
            follower: None,
            notes: BTreeMap::new(),
            blob: None,
            entry_bytes: [1 << 20, 1 << 20, 60, 300][rng.below(4) as usize],
        };
        world.begin();
        if seed / VARIANTS % 4 == 3 {
            let now = world.now;
            let entry_bytes = world.entry_bytes;
            world.stream().join_group(BEGINNING, now).expect("a healthy disk");
            world.stream().bound_entries(entry_bytes);
            world.follower = Some(Follower::of(&config, seed, now));
        }
        world
    }

    pub(crate) fn description(&self) -> String {
        let kind = self.keys.as_ref().map(|keys| keys.kind);
        format!("{:?}, encryption {kind:?}, in a group: {}", self.config, self.follower.is_some())
    }

    pub(crate) fn stream(&mut self) -> &mut Stream {
        self.stream.as_mut().expect("it is open")
    }

    fn is_memory(&self) -> bool {
        self.config.storage == Storage::Memory
    }

    fn begin(&mut self) {
        if self.is_memory() {
            self.stream = Some(Stream::in_memory(self.config, self.seed, self.now));
            return;
        }
        assert_eq!(self.open_store(), Ok(0));
        let store = self.store.as_ref().expect("it was opened");
        self.stream =
            Some(store.create_stream("A", "S", b"blob", self.config, self.now).expect("a healthy disk"));
    }

    /// Opens the store, and says how many streams it found.
    fn open_store(&mut self) -> Result<usize, String> {
        self.opened += 1;
        let entropy = Arc::new(SeededEntropy::new(self.seed.wrapping_mul(1000) + self.opened));
        let options = StoreOptions {
            keys: self.keys.clone(),
            journal_file_bytes: 1 << 20,
            headroom_bytes: 1 << 20,
            reserve: Reserve::Nothing,
            ..StoreOptions::new("/store")
        };
        let opened = Store::open(Arc::clone(&self.disk), options, entropy);
        let (store, report) = opened.map_err(|error| error.to_string())?;
        if !report.notices.is_empty() || !report.unreadable.is_empty() {
            return Err(format!("the store reports {report:?}"));
        }
        self.store = Some(store);
        Ok(report.streams.len())
    }

    fn restart(&mut self, in_order: bool) -> Result<(), String> {
        self.twins.clear();
        if self.is_memory() {
            return Ok(());
        }
        let failed = |error: &dyn std::fmt::Display| error.to_string();
        // Bytes that only the process has are gone with it, and were not released.
        if in_order || self.config.durability == Durability::Synced {
            self.round()?;
        }
        let clock = self.now as u64;
        self.stream().flush().map_err(|error| failed(&error))?;
        if in_order {
            let store = self.store.as_ref().expect("it is open");
            store.journal().close(&|| clock).map_err(|error| failed(&error))?;
        }
        let id = self.stream.as_ref().expect("it is open").id();
        self.upkeep = None;
        self.stream = None;
        self.store = None;
        if self.open_store()? != 1 {
            return Err("the stream was not found".into());
        }
        let store = self.store.as_ref().expect("it was opened");
        let (stream, report) =
            store.open_stream(id, self.config, self.now).map_err(|error| failed(&error))?;
        if !report.notices.is_empty() {
            return Err(format!("the stream reports {:?}", report.notices));
        }
        self.stream = Some(stream);
        let entry_bytes = self.entry_bytes;
        self.stream().bound_entries(entry_bytes);
        self.synced = self.twin.last_seq;
        Ok(())
    }

    /// A stream that was opened anew goes on in the log of its group; so does its follower, at
    /// times.
    fn resume_follower(&mut self, with_follower: bool) -> Result<(), String> {
        let (Some(follower), Some(stream)) = (&mut self.follower, &mut self.stream) else { return Ok(()) };
        let index = follower.stream().group().map_or(0, |group| group.index);
        stream.committed(index);
        if with_follower { follower.restart(self.now) } else { Ok(()) }
    }

    pub(crate) fn round(&mut self) -> Result<(), String> {
        let Some(store) = &self.store else { return Ok(()) };
        let clock = self.now as u64;
        store.journal().round_now(&|| clock).map_err(|error| error.to_string())?;
        self.synced = self.twin.last_seq;
        Ok(())
    }

    /// Remembers what readers are to see once all that was done is released.
    fn note_twin(&mut self) {
        let ticket = self.stream().ticket();
        if !self.is_synced() {
            self.twins.clear();
            return;
        }
        if self.twins.back().is_some_and(|(last, _)| *last == ticket) {
            self.twins.pop_back();
        }
        self.twins.push_back((ticket, self.twin.clone()));
    }

    pub(crate) fn is_synced(&self) -> bool {
        // In a group the commit is what is waited for.
        let is_synced = !self.is_memory() && self.config.durability == Durability::Synced;
        is_synced && self.follower.is_none()
    }

    pub(crate) fn run(&mut self, operation: &Operation) -> Result<(), String> {
        self.now += 1;
        if self.follower.is_some()
            && operation.is_decided_alone()
            && Rng::seeded(self.seed ^ self.now as u64).below(3) == 0
        {
            self.run_in_vain(operation)?;
        }
        if self.follower.is_some()
            && let Operation::Append { .. } = operation
        {
            self.run_unfinished(operation)?;
        }
        self.run_once(operation)?;
        self.note()?;
        self.lead()?;
        if !self.is_synced() {
            self.synced = self.twin.last_seq;
        }
        self.note_twin();
        if std::env::var_os("MYELIN_MODEL_EAGER").is_some() {
            self.compare(self.seed)?;
        }
        self.compare_totals()
    }

    /// Does something that is not committed, and is taken back: all is as before then, on whoever
    /// had it.
    fn run_in_vain(&mut self, operation: &Operation) -> Result<(), String> {
        let (twin, now) = (self.twin.clone(), self.now);
        let before = self.stream().group();
        self.run_once(operation)?;
        if Rng::seeded(self.seed ^ now as u64 ^ 4).below(3) == 0 {
            self.propose(b"in vain", self.now)?;
        }
        let decided = self.stream().take_decided();
        let first = before.map_or(0, |group| group.index) + 1;
        let (Some(follower), Some(stream)) = (&mut self.follower, &mut self.stream) else { return Ok(()) };
        // The follower may have seen some of it.
        let seen = Rng::seeded(self.seed ^ now as u64 ^ 1).below(decided.len() as u64 + 1) as usize;
        for decided in &decided[..seen] {
            follower.append(decided, now)?;
        }
        for stream in [&mut *stream, follower.stream()] {
            let taken = stream.take_back(first, now).map_err(|error| error.to_string())?;
            agree("the last sequence that stays", taken.last_seq, twin.last_seq)?;
            agree("the place in the log", stream.group(), before)?;
        }
        self.twin = twin;
        self.compare_totals()
    }

    /// Appends messages of which only the first parts get to others before their leader is gone:
    /// these are committed, and whoever leads next aborts the decision.
    fn run_unfinished(&mut self, operation: &Operation) -> Result<(), String> {
        let mut rng = Rng::seeded(self.seed ^ self.now as u64 ^ 2);
        if rng.below(4) > 0 {
            return Ok(());
        }
        let (twin, words) = (self.twin.clone(), |error: myelin_store::StoreError| error.to_string());
        let first = self.stream().group().map_or(0, |group| group.index) + 1;
        self.run_once(operation)?;
        let now = self.now;
        let decided = self.stream().take_decided();
        let parts = decided.iter().take_while(|decided| decided.entry.more).count() as u64;
        let seen = if parts == 0 { 0 } else { 1 + rng.below(parts) };
        let (Some(follower), Some(stream)) = (&mut self.follower, &mut self.stream) else { return Ok(()) };
        let released = follower.stream().released();
        for decided in &decided[..seen as usize] {
            follower.append(decided, now)?;
        }
        let taken = stream.take_back(first + seen, now).map_err(words)?;
        for stream in [&mut *stream, follower.stream()] {
            stream.committed(first + seen - 1);
            agree("released without its end", stream.released(), released)?;
            agree("unfinished", stream.is_unfinished(), seen > 0)?;
        }
        agree("places in the log", follower.stream().group(), stream.group())?;
        self.twin = twin;
        self.twin.skip(taken.last_seq);
        if rng.below(3) == 0 {
            self.restart(rng.below(2) == 0)?;
            self.resume_follower(rng.below(2) == 0)?;
            agree("unfinished behind a start", self.stream().is_unfinished(), seen > 0)?;
        }
        self.stream().abort_unfinished(now).map_err(words)?;
        agree("unfinished behind its abort", self.stream().is_unfinished(), false)?;
        self.lead()?;
        self.compare_totals()
    }

    /// Now and then another value of a note, or another configuration.
    fn note(&mut self) -> Result<(), String> {
        let (now, mut rng) = (self.now, Rng::seeded(self.seed ^ self.now as u64 ^ 3));
        if self.follower.is_none() || rng.below(5) > 0 {
            return Ok(());
        }
        let value = self.propose(format!("key {}", rng.below(6)).as_bytes(), now)?;
        match value {
            (None, blob) => self.blob = Some(blob),
            (Some(key), value) if value.is_empty() => drop(self.notes.remove(&key)),
            (Some(key), value) => drop(self.notes.insert(key, value)),
        }
        Ok(())
    }

    /// Proposes a value of a key, or a configuration, which has none. Answers what.
    fn propose(&mut self, key: &[u8], now: Timestamp) -> Result<(Option<Vec<u8>>, Vec<u8>), String> {
        let value = format!("{now}").repeat((now % 4) as usize).into_bytes();
        let stream = self.stream();
        let (proposed, key) = if now % 7 == 0 {
            (stream.propose_config(&value, now), None)
        } else {
            (stream.propose_notes(&[(key, &value)], now), Some(key.to_vec()))
        };
        proposed.map_err(|error| error.to_string())?;
        Ok((key, value))
    }

    /// Notes of the leader and of the follower, once everything is committed.
    pub(super) fn compare_notes(&mut self) -> Result<(), String> {
        let (Some(follower), Some(stream)) = (&mut self.follower, &self.stream) else { return Ok(()) };
        for stream in [stream, &*follower.stream()] {
            let notes: BTreeMap<_, _> =
                stream.notes().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
            agree("notes", &notes, &self.notes)?;
            let blob = stream.decided_config().map(|(_, blob)| blob.to_vec());
            agree("the configuration", &blob, &self.blob)?;
        }
        Ok(())
    }

    fn run_once(&mut self, operation: &Operation) -> Result<(), String> {
        match operation {
            Operation::Append { messages, checked, pause } => {
                self.now += pause;
                self.append(messages, *checked)?;
            }
            Operation::Delete(seqs) => {
                let now = self.now;
                let removed = self.stream().delete_all(seqs, now).map_err(|error| error.to_string())?;
                agree("removed", removed, self.twin.remove(seqs))?;
            }
            Operation::Erase(seq) => {
                let now = self.now;
                let removed = self.stream().erase(*seq, now).map_err(|error| error.to_string())?;
                agree("removed", removed, self.twin.remove(&[*seq]))?;
            }
            Operation::Purge { filter, below, keep, budget } => {
                let filter = filter.map(|at| operation::filters()[at].clone());
                let whole = Purge { filter, below: *below, keep: *keep, ..Purge::default() };
                let mut purge = whole.clone();
                self.slices(|stream, now| stream.purge(&mut purge, *budget, now), |twin| twin.purge(&whole))?;
            }
            Operation::Compact { first, budget } => {
                self.slices(|stream, now| stream.compact(*first, *budget, now), |twin| twin.compact(*first))?;
            }
            Operation::Truncate(last) => {
                if self.follower.is_some() {
                    // A group takes back by index.
                    return Ok(());
                }
                // Nothing may wait, and it is seen at once.
                self.round()?;
                self.twins.clear();
                let now = self.now;
                let removed = self.stream().truncate(*last, now).map_err(|error| error.to_string())?;
                agree("removed", removed, self.twin.truncate(*last))?;
                self.synced = self.synced.min(self.twin.last_seq);
            }
            Operation::Skip(last) => {
                let now = self.now;
                self.stream().skip(*last, now).map_err(|error| error.to_string())?;
                self.twin.skip(*last);
            }
            Operation::Expire { markers, limit, pause } => {
                self.now += pause;
                self.expire(*markers, *limit)?;
            }
            Operation::Configure { limits, durability, budget } => {
                self.configure(*limits, *durability, *budget)?;
            }
            Operation::Close => {
                let now = self.now;
                self.stream().close_segment(0, now).map_err(|error| error.to_string())?;
            }
            Operation::Round => self.round()?,
            Operation::Flush => self.stream().flush().map_err(|error| error.to_string())?,
            Operation::Restart { in_order } => {
                self.restart(*in_order)?;
                self.resume_follower(*in_order)?;
                self.compare(self.seed)?;
            }
            Operation::Upkeep(jobs) => self.upkeep(*jobs)?,
            Operation::BeginJob { at_once } => self.begin_job(*at_once)?,
            Operation::EndJob => self.end_job()?,
            Operation::Compare(seed) => self.compare(*seed)?,
        }
        Ok(())
    }

    /// Gives the follower what was decided, and commits it.
    fn lead(&mut self) -> Result<(), String> {
        let (Some(follower), Some(stream)) = (&mut self.follower, &mut self.stream) else { return Ok(()) };
        for decided in stream.take_decided() {
            if stream.release().is_released(stream.ticket()) {
                return Err("what is not committed is released".into());
            }
            let released = follower.stream().released();
            follower.append(&decided, self.now)?;
            stream.committed(decided.entry.index);
            follower.stream().committed(decided.entry.index);
            if decided.entry.more {
                agree(
                    "released of a part",
                    (stream.released(), follower.stream().released()),
                    (released, released),
                )?;
            }
        }
        agree("places in the log", follower.stream().group(), stream.group())
    }

    fn append(&mut self, messages: &[Sent], checked: bool) -> Result<(), String> {
        let now = self.now;
        let bytes: Vec<_> = messages.iter().map(|sent| Bytes::of(sent, now)).collect();
        let messages: Vec<NewMessage<'_>> =
            messages.iter().zip(&bytes).map(|(sent, bytes)| bytes.message(sent, now)).collect();
        let admission = if checked { Admission::Check } else { Admission::Granted };
        let mut outcomes: Vec<AppendResult> = Vec::new();
        let appended = self.stream().append(&messages, admission, now, &mut outcomes);
        appended.map_err(|error| error.to_string())?;
        let expected: Vec<AppendResult> =
            messages.iter().map(|message| self.twin.append(message, checked)).collect();
        agree("outcomes", outcomes, expected)
    }

    /// Does something in slices, and at once to the twin.
    fn slices(
        &mut self,
        mut slice: impl FnMut(&mut Stream, Timestamp) -> Result<RemovalProgress, myelin_store::StoreError>,
        whole: impl Fn(&mut Twin) -> Removed,
    ) -> Result<(), String> {
        let mut removed = Removed::default();
        let now = self.now;
        for _ in 0..10_000 {
            let progress = slice(self.stream(), now).map_err(|error| error.to_string())?;
            removed.add(progress.removed);
            if !progress.more {
                return agree("removed", removed, whole(&mut self.twin));
            }
        }
        Err("it never ends".into())
    }

    fn expire(&mut self, with_markers: bool, limit: usize) -> Result<(), String> {
        let now = self.now;
        let mark = Mark { now };
        let markers: Option<&dyn Markers> = if with_markers { Some(&mark) } else { None };
        // Where slices end decides where markers go.
        let limit = if with_markers { usize::MAX } else { limit };
        let (mut removed, mut count) = (Removed::default(), 0);
        for slice in 0.. {
            if slice == 10_000 {
                return Err("messages end for ever".into());
            }
            let expired = self.stream().expire(now, limit, markers).map_err(|error| error.to_string())?;
            removed.add(expired.removed);
            count += expired.markers;
            if !expired.more {
                let late = expired.next.is_some_and(|next| next <= now);
                agree("due and not more", late, false)?;
                break;
            }
        }
        let marker = |kept: &Kept| {
            let marker = Marker { headers: MARK.to_vec(), expires: Some(now + MARKER_LIFETIME) };
            (with_markers && kept.headers.is_empty()).then_some(marker)
        };
        agree("ended", (removed, count), self.twin.expire(now, marker))
    }

    fn configure(&mut self, limits: Limits, durability: Durability, budget: usize) -> Result<(), String> {
        // A tail that only memory has is released when it becomes a weaker mode's.
        self.config = StreamConfig { limits, durability, ..self.config };
        let (config, now) = (self.config, self.now);
        self.stream().set_config(config, now).map_err(|error| error.to_string())?;
        self.twin.limits = limits;
        for _ in 0..10_000 {
            if !self.stream().enforce(budget, now).map_err(|error| error.to_string())? {
                self.twin.enforce();
                return Ok(());
            }
        }
        Err("limits are never met".into())
    }

    /// Runs at most `jobs` jobs. Messages that sealing syncs may be released, so all count as
    /// synced.
    fn upkeep(&mut self, jobs: usize) -> Result<(), String> {
        self.end_job()?;
        let now = self.now;
        for _ in 0..jobs {
            let Some(job) = self.stream().next_job(now) else { break };
            let name = job.name();
            let done = job.run();
            self.stream().finish(done, now).map_err(|error| format!("{name}: {error}"))?;
        }
        self.synced = self.twin.last_seq;
        Ok(())
    }

    /// A job that other operations overtake, before it runs or after.
    fn begin_job(&mut self, at_once: bool) -> Result<(), String> {
        self.end_job()?;
        let now = self.now;
        let job = self.stream().next_job(now);
        self.upkeep = job.map(|job| if at_once { Upkeep::Done(job.run()) } else { Upkeep::Job(job) });
        self.synced = self.twin.last_seq;
        Ok(())
    }

    fn end_job(&mut self) -> Result<(), String> {
        let now = self.now;
        let done = match self.upkeep.take() {
            None => return Ok(()),
            Some(Upkeep::Done(done)) => done,
            Some(Upkeep::Job(job)) => job.run(),
        };
        self.synced = self.twin.last_seq;
        self.stream().finish(done, now).map_err(|error| format!("a job: {error}"))
    }

    /// Whether the files say the same as each other: nothing is wrong with a store that nothing
    /// happened to.
    pub(super) fn verify(&self) -> Result<(), String> {
        if self.is_memory() {
            return Ok(());
        }
        let mut faults = Vec::new();
        for keys in [self.keys.as_ref(), None] {
            let told = &mut |finding: &Finding| {
                if finding.severity != Severity::Note {
                    faults.push(finding.to_string());
                }
            };
            let checked = verify::check(&self.disk, std::path::Path::new("/store"), keys, told);
            checked.map_err(|error| error.to_string())?;
        }
        if faults.is_empty() { Ok(()) } else { Err(format!("the check says {faults:#?}")) }
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.now
    }
}

/// The bytes of a message.
struct Bytes {
    subject: Vec<u8>,
    headers: Vec<u8>,
    payload: Vec<u8>,
}

impl Bytes {
    fn of(sent: &Sent, now: Timestamp) -> Self {
        let payload = (0..sent.payload).map(|at| (at as i64 / 7 + now) as u8).collect();
        Self { subject: operation::subject(sent.subject), headers: vec![b'h'; sent.headers], payload }
    }

    fn message(&self, sent: &Sent, now: Timestamp) -> NewMessage<'_> {
        NewMessage {
            seq: sent.seq,
            timestamp: now,
            expires: sent.lifetime.map(|lifetime| lifetime.saturating_add(now)),
            subject: &self.subject,
            headers: &self.headers,
            payload: &self.payload,
            is_rollup: sent.is_rollup,
            ends: sent.ends,
        }
    }
}

/// Says what differs.
pub(crate) fn agree<T: PartialEq + std::fmt::Debug>(what: &str, found: T, expected: T) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:?} instead of {expected:?}")) }
}
