//! One run: clients, a server that dies and comes back, the disk and the clocks that outlive it,
//! and the model beside them. All of it follows from the seed.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hasher};
use std::sync::{Arc, Weak};

use myelin_disk::faulty::FaultyDisk;
use myelin_stdx::rng::Rng;

use crate::clock::Clock;
use crate::copy_model::CopyModel;
use crate::extras::Extras;
use crate::host::SimHost;
use crate::model::{Fate, Status, StreamModel};
use crate::plan::ServerPlan;
use crate::protocol::{self, Received};
use crate::server::Server;
use crate::taste::Taste;
use crate::trouble::{Trouble, WINDOW};
use crate::watch::{DiskWatch, PLANNED};

/// Connections of clients.
pub(crate) const CLIENTS: usize = 3;
/// Turns of threads that one wait may take: more is a server that never rests.
const TURNS: usize = 2_000_000;
/// Lines of what happened that are kept for whoever looks at a seed that failed.
const STORY: usize = 3000;

/// A request that has not been answered, and what it was.
#[derive(Debug)]
pub(crate) enum Asked {
    Publish {
        stream: String,
        id: u64,
        expected: Expected,
        rolls: Roll,
    },
    Commit {
        stream: String,
        batch: u64,
        ids: Vec<u64>,
    },
    /// A fast batch, some messages of which may be refused.
    Fast {
        stream: String,
        ids: Vec<u64>,
    },
    MakeStream {
        stream: String,
    },
    Update {
        stream: String,
    },
    RemoveStream {
        stream: String,
    },
    MakeConsumer {
        stream: String,
        consumer: String,
    },
    RemoveConsumer {
        stream: String,
        consumer: String,
    },
    UpdateConsumer {
        stream: String,
        consumer: String,
    },
    Purge {
        stream: String,
        gone: Vec<u64>,
        is_counted: bool,
    },
    Delete {
        stream: String,
        id: u64,
    },
    Confirm(Delivery),
    Get {
        stream: String,
        seq: u64,
    },
    Direct {
        stream: String,
        seq: u64,
    },
    /// The last message of a subject; one with this sequence is there.
    Last {
        stream: String,
        subject: String,
        least: Option<u64>,
    },
    Pause {
        stream: String,
        consumer: String,
        until: Option<i64>,
        /// Whether no other one of the consumer was asked for before this one is answered: of two
        /// nobody knows which is the last.
        is_alone: bool,
    },
    /// Whether it was done says nothing.
    Unpin {
        stream: String,
    },
    MakeCopy {
        copy: String,
    },
    RemoveCopy {
        copy: String,
    },
}

/// Condition of a publish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Nothing,
    Last(u64),
    LastOfSubject(u64),
    /// One that never holds.
    Never,
}

/// Messages before it that a publish removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Roll {
    Nothing,
    Subject,
    All,
}

/// A delivery that can be answered.
#[derive(Clone, Debug)]
pub(crate) struct Delivery {
    pub(crate) stream: String,
    pub(crate) consumer: String,
    pub(crate) seq: u64,
    /// Its number among the consumer's deliveries.
    pub(crate) number: u64,
    pub(crate) ack: String,
    /// When it came.
    pub(crate) at: u64,
    /// Whether a loss of power, or a disk that had failed when the server ended, may have taken
    /// from it that it was made: then it is a number of another one, or of none.
    pub(crate) is_unsure: bool,
}

/// Counts of what happened in a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Operations of clients.
    pub operations: u64,
    /// Publishes that were acknowledged.
    pub stored: u64,
    /// Publishes that were answered with an error.
    pub refused: u64,
    /// Deliveries.
    pub delivered: u64,
    /// Kills, losses of power and restarts.
    pub deaths: u64,
    /// Failures of the disk and panics.
    pub faults: u64,
    /// Turns of the server's threads.
    pub turns: u64,
}

impl Counts {
    /// Adds those of another run.
    pub fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.stored += other.stored;
        self.refused += other.refused;
        self.delivered += other.delivered;
        self.deaths += other.deaths;
        self.faults += other.faults;
        self.turns += other.turns;
    }
}

/// Everything that a run has besides the server's own state.
pub(crate) struct World {
    pub(crate) rng: Rng,
    pub(crate) clock: Arc<Clock>,
    pub(crate) plan: ServerPlan,
    pub(crate) taste: Taste,
    pub(crate) extras: Extras,
    pub(crate) disk: FaultyDisk,
    pub(crate) server: Option<Server>,
    /// The host of the last server, which all that is left of one would have.
    host: Weak<SimHost>,
    pub(crate) lives: u64,
    pub(crate) streams: BTreeMap<String, StreamModel>,
    /// Streams that were gone when a server had started.
    pub(crate) gone: BTreeMap<String, StreamModel>,
    /// Mirrors of streams, and streams that have others as sources.
    pub(crate) copies: BTreeMap<String, CopyModel>,
    pub(crate) watch: Arc<DiskWatch>,
    pub(crate) trouble: Trouble,
    /// Whether the next loss of power is one that a batch is to be torn by.
    pub(crate) tears_batch: bool,
    pub(crate) pending: BTreeMap<u64, Asked>,
    pub(crate) in_hand: VecDeque<Delivery>,
    /// Numbers that were given out: to requests, messages, batches, streams and consumers.
    pub(crate) numbers: u64,
    /// Bytes that clients have received in part.
    buffers: [Vec<u8>; CLIENTS],
    /// Whether the time of day has jumped: then nothing is said of ages.
    pub(crate) has_jumped: bool,
    pub(crate) counts: Counts,
    record: Record,
}

/// How much of a run is told.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tells {
    Nothing,
    /// The last of what happened.
    Last,
    Everything,
}

/// Record of a run.
struct Record {
    seed: u64,
    /// The last things that happened, in words, where somebody wants to know.
    story: Option<VecDeque<String>>,
    /// Whether the story is of all that happened, with each turn of the server.
    is_whole: bool,
    /// A hash of what clients were sent.
    trace: DefaultHasher,
}

impl World {
    pub(crate) fn new(seed: u64, tells: Tells) -> Self {
        let mut rng = Rng::seeded(seed);
        let (plan, taste) = (ServerPlan::draw(&mut rng), Taste::draw(&mut rng));
        let clock = Arc::new(Clock::new());
        let watch = Arc::new(DiskWatch::new(Arc::clone(&clock)));
        let disk = watched(FaultyDisk::new(rng.next_u64()), &watch);
        Self {
            disk,
            watch,
            rng,
            clock,
            plan,
            taste,
            extras: Extras::draw(seed),
            copies: BTreeMap::new(),
            trouble: Trouble::default(),
            tears_batch: false,
            server: None,
            host: Weak::new(),
            lives: 0,
            streams: BTreeMap::new(),
            gone: BTreeMap::new(),
            pending: BTreeMap::new(),
            in_hand: VecDeque::new(),
            numbers: 0,
            buffers: Default::default(),
            has_jumped: false,
            counts: Counts::default(),
            record: Record {
                seed,
                story: (tells != Tells::Nothing).then(VecDeque::new),
                is_whole: tells == Tells::Everything,
                trace: DefaultHasher::new(),
            },
        }
    }

    /// Keeps a line for whoever looks at a seed that failed.
    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let at = self.clock.elapsed() / 1_000;
        let Some(story) = &mut self.record.story else { return };
        if story.len() >= STORY && !self.record.is_whole {
            story.pop_front();
        }
        story.push_back(format!("{at:>10} us  {}", line()));
    }

    pub(crate) fn seed(&self) -> u64 {
        self.record.seed
    }

    pub(crate) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// A hash of everything that clients were sent, and of how often the disk was changed.
    pub(crate) fn trace(&self) -> u64 {
        self.record.trace.finish()
    }

    /// Starts the server on what the disk holds, and has the clients connect.
    pub(crate) fn start(&mut self) -> Result<(), String> {
        self.lives += 1;
        let lives = (self.record.seed, self.lives);
        let mut server = Server::start(&self.disk, &self.plan, (&self.clock, &self.watch), lives, CLIENTS)?;
        self.buffers.iter_mut().for_each(Vec::clear);
        for client in 0..CLIENTS {
            server.input(client).extend(protocol::hello(&inbox(client, self.lives)));
        }
        self.host = Arc::downgrade(&server.host);
        self.server = Some(server);
        // Also to what must not come any more.
        let mut streams: Vec<&StreamModel> = self.streams.values().chain(self.gone.values()).collect();
        streams.sort_unstable_by_key(|model| &model.plan.name);
        let consumers = streams.into_iter().flat_map(|model| &model.consumers);
        let alive = consumers.filter(|one| one.plan.is_push && one.status != Status::Gone);
        let subjects: Vec<String> = alive.map(|one| one.plan.deliver_subject.clone()).collect();
        subjects.iter().for_each(|subject| self.listen(subject));
        Ok(())
    }

    /// Has the first client listen to what a push consumer delivers.
    pub(crate) fn listen(&mut self, subject: &str) {
        let number = self.number();
        if let Some(server) = &mut self.server {
            server.input(0).extend(protocol::listen(subject, number));
        }
    }

    /// Sends a request. Its answer comes to [`World::heard`].
    pub(crate) fn ask(
        &mut self,
        client: usize,
        subject: &str,
        headers: &[(&str, String)],
        payload: &[u8],
        asked: Asked,
    ) {
        let number = self.number();
        self.expect(client, number, asked);
        self.say(client, subject, &reply(client, self.lives, number), headers, payload);
    }

    /// Whether a pause of a consumer was asked for, and not answered.
    pub(crate) fn is_pausing(&self, of: &str, name: &str) -> bool {
        let is_it = |asked: &Asked| matches!(asked, Asked::Pause { stream, consumer, .. } if stream == of && consumer == name);
        self.pending.values().any(is_it)
    }

    /// Whether a pause of a consumer was asked for and not answered: it is not alone any more.
    pub(crate) fn crowds_pauses(&mut self, of: &str, name: &str) -> bool {
        let mut crowds = false;
        for asked in self.pending.values_mut() {
            if let Asked::Pause { stream, consumer, is_alone, .. } = asked
                && stream == of
                && consumer == name
            {
                (*is_alone, crowds) = (false, true);
            }
        }
        crowds
    }

    /// Keeps what a number was asked for.
    pub(crate) fn expect(&mut self, client: usize, number: u64, asked: Asked) {
        self.note(|| format!("{client} asks {number}: {asked:?}"));
        self.pending.insert(number, asked);
    }

    /// Publishes.
    pub(crate) fn say(
        &mut self,
        client: usize,
        subject: &str,
        reply: &str,
        headers: &[(&str, String)],
        payload: &[u8],
    ) {
        if let Some(server) = &mut self.server {
            protocol::publish(server.input(client), subject, reply, headers, payload);
        }
    }

    /// Lets the server go on by up to so many turns of its threads, and hears what it says.
    /// `false`: all of them wait.
    pub(crate) fn turns(&mut self, most: u64) -> Result<bool, String> {
        for _ in 0..most {
            let Some(server) = &mut self.server else { return Ok(false) };
            if !server.step(&mut self.rng) {
                return Ok(false);
            }
            self.counts.turns += 1;
            if self.record.is_whole {
                let (part, points) = (server.latest(), self.disk.points());
                self.note(|| format!("{part} goes on, to point {points}"));
            }
            self.hear()?;
        }
        Ok(true)
    }

    /// Takes in what the clients have received after a turn. Where power was lost in it, nothing
    /// has left the machine.
    fn hear(&mut self) -> Result<(), String> {
        let Some(server) = &self.server else { return Ok(()) };
        if self.disk.is_off() {
            return self.power_lost();
        }
        let panics = server.host.take_panics();
        let ended = server.ended.clone();
        self.look_at_trouble();
        if let Some(panic) = panics.iter().find(|panic| !panic.contains(PLANNED)) {
            return Err(format!("a panic: {panic}"));
        }
        if let Some(panic) = panics.first() {
            self.note(|| panic.clone());
            self.counts.faults += 1;
            self.trouble.excused.extend(self.pending.keys());
            self.trouble.has_failed = true;
        }
        if let Some(why) = ended {
            // The process ends where it cannot go on; what is visible stays so.
            return if self.trouble.is_there() || why == PLANNED {
                self.note(|| format!("the server ends: {why}"));
                self.kill()
            } else {
                Err(format!("the server ends: {why}"))
            };
        }
        for client in 0..CLIENTS {
            let Some(server) = &self.server else { return Ok(()) };
            let buffer = &mut self.buffers[client];
            let had = buffer.len();
            server.take_output(client, buffer);
            if buffer.len() == had {
                continue;
            }
            self.record.trace.write(&buffer[had..]);
            let mut buffer = std::mem::take(buffer);
            let mut at = 0;
            loop {
                let (end, received) = protocol::first(&buffer[at..])?;
                at += end;
                let Some(received) = received else { break };
                self.heard(client, &received)?;
            }
            buffer.drain(..at);
            self.buffers[client] = buffer;
        }
        Ok(())
    }

    fn heard(&mut self, client: usize, received: &Received<'_>) -> Result<(), String> {
        if received.reply.starts_with("$JS.ACK.") {
            return self.delivered(client, received);
        }
        if received.headers.starts_with("NATS/1.0 100") {
            self.control(client, received);
            return Ok(());
        }
        let Some(number) = number_of(received.subject, client, self.lives) else { return Ok(()) };
        if matches!(self.pending.get(&number), Some(Asked::Fast { .. }))
            && received.payload.starts_with(b"{\"type\"")
        {
            // The batch goes on.
            return Ok(());
        }
        self.trouble.excused.remove(&number);
        match self.pending.remove(&number) {
            Some(asked) => {
                self.note(|| {
                    let text = String::from_utf8_lossy(received.payload);
                    let text: String = text.chars().take(120).collect();
                    format!("{client} hears of {asked:?}: {:?} {text}", received.headers)
                });
                self.answered(client, asked, received)
            }
            // The end of a pull request.
            None => Ok(()),
        }
    }

    /// Answers what a push consumer wants to know besides acknowledgements.
    fn control(&mut self, client: usize, received: &Received<'_>) {
        let stalled = received.headers.lines().find_map(|line| line.strip_prefix("Nats-Consumer-Stalled: "));
        let reply = stalled.unwrap_or(received.reply).trim().to_owned();
        if !reply.is_empty() {
            self.say(client, &reply, "", &[], b"");
        }
    }

    /// Sees whether a failure of the disk that was planned has happened.
    pub(crate) fn look_at_trouble(&mut self) {
        let now = self.clock.elapsed();
        if self.trouble.struck(self.disk.points(), now) {
            self.counts.faults += 1;
            self.note(|| "the disk has failed as planned".to_owned());
        }
    }

    /// Has the disk do everything that it is asked for, in no time, from now on.
    pub(crate) fn heal(&mut self) {
        self.disk.set_capacity(None);
        self.disk.heal();
        if let Some(path) = self.trouble.unreadable.take() {
            // A file that is gone needs no more.
            let _ = self.disk.fail_reads(&path, 0..0);
            self.trouble.was_unreadable = true;
        }
        self.watch.set_pause(0);
        self.watch.panic_in(0);
    }

    /// Lets everything be done that can be done, and time pass until all requests are answered or
    /// `longest` nanoseconds are over, and then `quiet` more.
    pub(crate) fn settle(&mut self, longest: u64, quiet: u64) -> Result<(), String> {
        let end = self.clock.elapsed() + longest;
        loop {
            self.rest()?;
            let left = end.saturating_sub(self.clock.elapsed());
            if self.pending.is_empty() || left == 0 {
                break;
            }
            self.sleep(left);
        }
        self.go_on_for(quiet)
    }

    /// Lets time pass, in which the server does what is due.
    pub(crate) fn go_on_for(&mut self, nanos: u64) -> Result<(), String> {
        let end = self.clock.elapsed() + nanos;
        loop {
            self.rest()?;
            let left = end.saturating_sub(self.clock.elapsed());
            if left == 0 {
                return Ok(());
            }
            self.sleep(left);
        }
    }

    /// Lets everything be done that can be done now.
    fn rest(&mut self) -> Result<(), String> {
        for _ in 0..TURNS {
            if !self.turns(1)? {
                return Ok(());
            }
        }
        let recent = self.server.as_ref().map(Server::recent).unwrap_or_default();
        Err(format!("the server never rests: {recent}"))
    }

    /// Lets time pass until something is due, `most` nanoseconds at most.
    fn sleep(&mut self, most: u64) {
        let sleep = self.server.as_ref().and_then(Server::sleep).unwrap_or(most);
        if self.record.is_whole {
            let due = self.server.as_ref().map(Server::due).unwrap_or_default();
            self.note(|| format!("sleeps: {due}"));
        }
        self.clock.pass(sleep.clamp(1, most));
    }

    /// The server is gone: nothing that was asked for is answered.
    pub(crate) fn server_died(&mut self, window: Option<u64>) {
        self.record.trace.write_u64(self.disk.points());
        self.note(|| format!("the server dies; what came since {window:?} may be lost"));
        self.note_told_losses();
        let said = self.server.take().map(|server| server.host.lines()).unwrap_or_default();
        assert!(self.host.strong_count() == 0, "nothing is left of a server that is gone");
        said.into_iter().for_each(|line| self.note(|| format!("the server says: {line}")));
        for asked in std::mem::take(&mut self.pending).into_values() {
            if let Asked::Purge { stream, .. } | Asked::Delete { stream, .. } = asked {
                self.streams.get_mut(&stream).into_iter().for_each(|model| model.purges += 1);
            }
        }
        self.trouble.excused.clear();
        self.counts.deaths += 1;
        // With `always` they are in memory until a sync that nobody waits for.
        let is_ill = !self.trouble.is_well();
        let forgets = window.is_some() || self.plan.is_always_synced || is_ill;
        let (now, has_jumped) = (self.clock.elapsed(), self.has_jumped);
        for stream in self.streams.values_mut() {
            if window.is_some() {
                stream.lose_removals(now, has_jumped, self.lives);
            }
            stream.server_died(window, forgets, self.numbers, self.lives);
            if let Some(update) = &stream.update {
                // It may have happened.
                let limits = update.limits;
                stream.narrow(limits);
            }
        }
        self.copies.values_mut().for_each(CopyModel::server_died);
        let (streams, gone) = (&self.streams, &self.gone);
        self.in_hand.retain(|delivery| {
            let stream = streams.get(&delivery.stream).or_else(|| gone.get(&delivery.stream));
            stream.is_some_and(|stream| !stream.plan.is_in_memory)
        });
        // With `always`, too: nobody waits for a sync of what was delivered.
        let recent = now.saturating_sub(WINDOW + self.trouble.slow);
        let recent = self.plan.is_always_synced.then_some(recent);
        for delivery in &mut self.in_hand {
            delivery.is_unsure |= is_ill || window.or(recent).is_some_and(|from| delivery.at >= from);
        }
    }

    /// Tells how the run was, for whoever looks at a seed that failed.
    pub(crate) fn summary(&self) -> Vec<String> {
        let is_stored = |fate: Fate| matches!(fate, Fate::Stored(_));
        let mut lines: Vec<String> = self
            .streams
            .values()
            .chain(self.gone.values())
            .map(|stream| {
                let stored = stream.publications.values().filter(|one| is_stored(one.fate)).count();
                let (plan, status) = (&stream.plan, stream.status);
                format!("{status:?} {plan:?}: {stored} of {} stored", stream.publications.len())
            })
            .collect();
        lines.push(format!("{:?}", self.plan));
        lines.extend(self.copies.values().map(|copy| format!("{copy:?}")));
        lines.extend(self.record.story.iter().flatten().cloned());
        let said = self.server.as_ref().map(|server| server.host.lines()).unwrap_or_default();
        lines.extend(said.into_iter().rev().take(STORY));
        lines
    }
}

/// A disk whose points the watch hears of.
pub(crate) fn watched(disk: FaultyDisk, watch: &Arc<DiskWatch>) -> FaultyDisk {
    let watch = Arc::clone(watch);
    disk.watched(Arc::new(move |_| watch.pass()))
}

/// The inbox of a client of a server's life.
pub(crate) fn inbox(client: usize, life: u64) -> String {
    format!("_INBOX.{life}.{client}")
}

/// The subject of the answer to what a client of a server's life asks with a number.
pub(crate) fn reply(client: usize, life: u64, number: u64) -> String {
    format!("_INBOX.{life}.{client}.{number}")
}

/// The number that is answered with a subject, if it is one of this client of this life.
fn number_of(subject: &str, client: usize, life: u64) -> Option<u64> {
    let mut words = subject.strip_prefix("_INBOX.")?.split('.');
    let is_of_it = words.next()?.parse() == Ok(life) && words.next()?.parse() == Ok(client);
    words.next().filter(|_| is_of_it)?.parse().ok()
}
