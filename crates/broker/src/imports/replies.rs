//! Answers that an account's services still owe to others: `_R_.<account>.<request>` stands in for
//! the subject at which a requester of another account waits.
//!
//! An entry goes with the one answer, with the last of several (an empty one), when nobody receives
//! what comes, or when its time is over. The number of a request is a keyed hash of a counter: who
//! has seen some cannot guess others.
//!
//! Budget: a request and its answer take a lock each, one of [`PARTS`], for a look into a table.

use super::latency_parts::is_measured;
use super::measuring::Outcome;
use crate::unguessable::Unguessable;
use foldhash::fast::FixedState;
use hashbrown::HashMap;
use myelin_stdx::entropy::Entropy;
use myelin_stdx::id::BASE62;
use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Locks over which requests are spread; a power of two.
const PARTS: usize = 16;

/// Characters of an account's own token, and of a request's.
const TOKEN: usize = 6;
const PREFIX: usize = b"_R_.".len() + TOKEN + 1;

/// 62 to the power of [`TOKEN`].
const NUMBERS: u64 = 62 * 62 * 62 * 62 * 62 * 62;

/// Entries that one part of a sweep looks at.
const LOOKS: usize = 1024;
/// Requests of one part at once. One more takes the place of another, which is not answered then.
const MOST: usize = 64 * 1024;
/// After so many entries a sweep leaves the other parts to the next one.
const SWEPT: usize = 16 * 1024;

/// Whoever waits for an answer, as far as the table has to know.
pub(crate) trait AwaitsAnswer: Clone {
    /// Whether the time for an answer is over.
    fn is_over(&self, now: Instant) -> bool;

    /// Whether it has waited for so long that somebody should look whether it still does.
    fn has_patience(&self, now: Instant) -> bool;

    /// Whether it still waits: whether anybody would receive an answer.
    fn is_there(&self) -> bool;

    /// Whether it is told how the request ended also if no answer came.
    fn is_measured(&self) -> bool;

    /// Answers that it takes.
    fn answers(&self) -> AwaitedAnswers;

    /// Notes that an answer has come, and not the last one.
    fn answered(&mut self, now: Instant);
}

/// Answers to one request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AwaitedAnswers {
    /// The first is the only one.
    One,
    /// Many, until one is the last.
    Many,
    /// Many, whatever they are, for as long as there is time.
    All,
}

/// A request that ended without an answer, and why.
pub(crate) struct UnansweredRequest<T> {
    pub(crate) awaited: T,
    pub(crate) outcome: Outcome,
}

/// Responses that an account's services still owe to other accounts. Costs nothing before the first
/// request.
pub(crate) struct AwaitedReplies<T>(OnceLock<Box<Space<T>>>);

impl<T> Default for AwaitedReplies<T> {
    fn default() -> Self {
        Self(OnceLock::new())
    }
}

/// Requests by their numbers, which nobody but this server chooses: a hash without a seed of its
/// own gives equal histories equal orders.
type ByNumber<T> = HashMap<u64, T, FixedState>;

struct Space<T> {
    prefix: [u8; PREFIX],
    ids: Unguessable,
    drawn: AtomicU64,
    parts: [Mutex<ByNumber<T>>; PARTS],
    /// The part that the next sweep looks at.
    hand: AtomicUsize,
}

impl<T> Space<T> {
    fn new(entropy: &dyn Entropy) -> Box<Self> {
        let ids = Unguessable::new(entropy);
        let mut prefix = [0; PREFIX];
        prefix[..4].copy_from_slice(b"_R_.");
        write_number(ids.number(u64::MAX, 0), &mut prefix[4..4 + TOKEN]);
        prefix[PREFIX - 1] = b'.';
        Box::new(Self {
            prefix,
            ids,
            drawn: AtomicU64::new(0),
            parts: Default::default(),
            hand: AtomicUsize::new(0),
        })
    }

    fn part(&self, number: u64) -> &Mutex<ByNumber<T>> {
        &self.parts[number as usize % PARTS]
    }

    /// Behind the number of a request that is measured over servers more may stand.
    fn number(&self, subject: &[u8]) -> Option<u64> {
        let text = subject.strip_prefix(&self.prefix)?;
        let (number, rest) = text.split_at_checked(TOKEN)?;
        let is_suffixed = rest.starts_with(b".") && is_measured(subject);
        if !rest.is_empty() && !is_suffixed {
            return None;
        }
        read_number(number)
    }
}

fn write_number(mut number: u64, out: &mut [u8]) {
    for byte in out {
        *byte = BASE62[(number % 62) as usize];
        number /= 62;
    }
}

fn read_number(text: &[u8]) -> Option<u64> {
    if text.len() != TOKEN {
        return None;
    }
    text.iter().rev().try_fold(0, |number, byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'A'..=b'Z' => byte - b'A' + 10,
            b'a'..=b'z' => byte - b'a' + 36,
            _ => return None,
        };
        Some(number * 62 + u64::from(digit))
    })
}

/// The number of an open request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket(u64);

impl<T: AwaitsAnswer> AwaitedReplies<T> {
    /// Limits how many requests of one account may wait at once, about.
    #[cfg(test)]
    pub(crate) const MOST: usize = MOST * PARTS;

    /// Notes a request and writes where its answer is to go. Before the first one, `listen` gets
    /// the pattern of all such subjects.
    pub(crate) fn open(
        &self,
        awaited: T,
        reply: &mut Vec<u8>,
        entropy: &dyn Entropy,
        listen: impl FnOnce(&[u8]),
    ) -> Ticket {
        let space = self.0.get_or_init(|| {
            let space = Space::new(entropy);
            listen(&[&space.prefix[..], b">"].concat());
            space
        });
        let (number, mut part) = loop {
            let number = space.ids.number(space.drawn.fetch_add(1, Relaxed), 0) % NUMBERS;
            let part = lock(space.part(number));
            // One in 56 milliards is drawn twice at a time.
            if !part.contains_key(&number) {
                break (number, part);
            }
        };
        if part.len() >= MOST {
            remove_any(&mut part);
        }
        part.insert(number, awaited);
        debug_assert!(part.len() <= MOST, "one request too many takes the place of another");
        drop(part);
        reply.clear();
        reply.extend_from_slice(&space.prefix);
        let mut token = [0; TOKEN];
        write_number(number, &mut token);
        debug_assert!(read_number(&token) == Some(number), "a subject names its request");
        reply.extend_from_slice(&token);
        Ticket(number)
    }

    /// Whether `subject` is one at which answers of this account's services come.
    pub(crate) fn owns(&self, subject: &[u8]) -> bool {
        subject.starts_with(b"_R_.") && self.0.get().is_some_and(|space| subject.starts_with(&space.prefix))
    }

    /// Finds the requester that waits for a response at `subject`: the entry goes if it is the only
    /// response or `is_last`.
    pub(crate) fn route_response(&self, subject: &[u8], is_last: bool, now: Instant) -> Option<(Ticket, T)> {
        let space = self.0.get()?;
        let number = space.number(subject)?;
        let mut part = lock(space.part(number));
        let found = part.get_mut(&number)?;
        if found.is_over(now) {
            part.remove(&number);
            return None;
        }
        match found.answers() {
            AwaitedAnswers::All => {}
            AwaitedAnswers::Many if !is_last => found.answered(now),
            AwaitedAnswers::One | AwaitedAnswers::Many => {
                return Some((Ticket(number), part.remove(&number)?));
            }
        }
        Some((Ticket(number), found.clone()))
    }

    /// Looks at whoever waits at `subject`. `look` runs under a lock and must be short.
    pub(crate) fn with_waiting<R>(&self, subject: &[u8], look: impl FnOnce(&T) -> R) -> Option<R> {
        let space = self.0.get()?;
        let number = space.number(subject)?;
        let part = lock(space.part(number));
        part.get(&number).map(look)
    }

    /// Nobody waits for this answer any more.
    pub(crate) fn close(&self, Ticket(number): Ticket) -> Option<T> {
        let space = self.0.get()?;
        lock(space.part(number)).remove(&number)
    }

    /// Closes the request whose response is awaited at `subject`.
    pub(crate) fn close_at(&self, subject: &[u8]) -> Option<T> {
        let number = self.0.get()?.number(subject)?;
        self.close(Ticket(number))
    }

    /// Nobody waits for any answer any more.
    pub(crate) fn forget_all(&self) {
        let parts = self.0.get().into_iter().flat_map(|space| &space.parts);
        parts.for_each(|part| drop(std::mem::take(&mut *lock(part))));
    }

    /// Requests that wait for an answer.
    pub(crate) fn len(&self) -> usize {
        self.0.get().map_or(0, |space| space.parts.iter().map(|part| lock(part).len()).sum())
    }

    /// Up to `most` of them, with the subjects at which their answers are expected.
    #[expect(clippy::disallowed_methods, reason = "the hash has no seed: see `ByNumber`")]
    pub(crate) fn list(&self, most: usize) -> Vec<(Vec<u8>, T)> {
        let Some(space) = self.0.get() else { return Vec::new() };
        let mut all = Vec::new();
        for part in &space.parts {
            let part = lock(part);
            all.extend(part.iter().take(most - all.len()).map(|(number, awaited)| {
                let mut token = [0; TOKEN];
                write_number(*number, &mut token);
                ([&space.prefix[..], &token].concat(), awaited.clone())
            }));
        }
        all
    }

    /// Forgets, in some parts of the table, whose time is over and those for whom nobody waits any
    /// more. Answers which of them were measured.
    pub(crate) fn sweep(&self, now: Instant) -> Vec<UnansweredRequest<T>> {
        let Some(space) = self.0.get() else { return Vec::new() };
        let mut ended = Vec::new();
        let mut seen = 0;
        for _ in 0..PARTS {
            let at = space.hand.fetch_add(1, Relaxed) % PARTS;
            seen += space.sweep_part(at, now, &mut ended);
            if seen >= SWEPT {
                break;
            }
        }
        ended
    }
}

/// Makes room for another one.
#[expect(clippy::disallowed_methods, reason = "the hash has no seed: see `ByNumber`")]
fn remove_any<T>(part: &mut ByNumber<T>) {
    if let Some(other) = part.keys().next().copied() {
        part.remove(&other);
    }
}

impl<T: AwaitsAnswer> Space<T> {
    /// See [`AwaitedReplies::sweep`]; answers how many it has looked at.
    #[expect(clippy::disallowed_methods, reason = "the hash has no seed: see `ByNumber`")]
    fn sweep_part(&self, at: usize, now: Instant, ended: &mut Vec<UnansweredRequest<T>>) -> usize {
        let mut note = |awaited: T, outcome| {
            if awaited.is_measured() {
                ended.push(UnansweredRequest { awaited, outcome });
            }
        };
        let mut patient = Vec::new();
        let seen = {
            let mut part = lock(&self.parts[at]);
            let seen = part.len();
            let over = part.extract_if(|_, awaited| awaited.is_over(now));
            over.for_each(|(_, awaited)| note(awaited, Outcome::TimedOut));
            let spare = 2 * part.len();
            part.shrink_to(spare);
            let old = part.iter().filter(|(_, awaited)| awaited.has_patience(now)).take(LOOKS);
            patient.extend(old.map(|(number, awaited)| (*number, awaited.clone())));
            seen
        };
        // Looked at without the lock: the requester may itself wait for an answer in this table.
        patient.retain(|(_, awaited)| !awaited.is_there());
        let mut part = lock(&self.parts[at]);
        let gone = patient.iter().filter_map(|(number, _)| part.remove(number));
        gone.for_each(|awaited| note(awaited, Outcome::Lost));
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_are_written() {
        for number in [0, 1, 61, 62, 12_345_678, NUMBERS - 1] {
            let mut text = [0; TOKEN];
            write_number(number, &mut text);
            assert_eq!(read_number(&text), Some(number));
        }
        for text in ["", "12345", "1234567", "12345.", "12345*"] {
            assert_eq!(read_number(text.as_bytes()), None, "{text}");
        }
    }
}
