//! Requests to a stream, as values: so that a run can be printed, repeated and cut down.

use std::fmt;
use std::time::Duration;

use myelin_stdx::rng::Rng;
use myelin_store::{Discard, Durability, Filter, Limits, Seq, Timestamp};

use crate::twin::Twin;

/// One request.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Append { messages: Vec<Sent>, checked: bool, pause: Timestamp },
    Delete(Vec<Seq>),
    Erase(Seq),
    Purge { filter: Option<usize>, below: Seq, keep: u64, budget: usize },
    Compact { first: Seq, budget: usize },
    Truncate(Seq),
    Skip(Seq),
    Expire { markers: bool, limit: usize, pause: Timestamp },
    Configure { limits: Limits, durability: Durability, budget: usize },
    Close,
    Round,
    Flush,
    Restart { in_order: bool },
    Upkeep(usize),
    BeginJob { at_once: bool },
    EndJob,
    Compare(u64),
}

impl Operation {
    /// Whether it says what it does in the stream's log alone.
    pub(crate) fn is_decided_alone(&self) -> bool {
        match self {
            Self::Append { .. }
            | Self::Delete(_)
            | Self::Erase(_)
            | Self::Purge { .. }
            | Self::Compact { .. }
            | Self::Skip(_)
            | Self::Expire { .. } => true,
            Self::Truncate(_)
            | Self::Configure { .. }
            | Self::Close
            | Self::Round
            | Self::Flush
            | Self::Restart { .. }
            | Self::Upkeep(_)
            | Self::BeginJob { .. }
            | Self::EndJob
            | Self::Compare(_) => false,
        }
    }
}

/// A message to be appended.
#[derive(Clone, Copy)]
pub(crate) struct Sent {
    pub(crate) subject: u64,
    pub(crate) headers: usize,
    pub(crate) payload: usize,
    /// Relative to the time at which it is appended.
    pub(crate) lifetime: Option<Timestamp>,
    pub(crate) is_rollup: bool,
    pub(crate) seq: Seq,
    pub(crate) ends: Seq,
}

/// Short: a story has hundreds of them.
impl fmt::Debug for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { subject, headers, payload, lifetime, is_rollup, seq, ends } = self;
        write!(f, "#{subject} {headers}+{payload}")?;
        match lifetime {
            Some(Timestamp::MAX) => f.write_str(" never")?,
            Some(lifetime) => write!(f, " for {lifetime}")?,
            None => {}
        }
        if *seq > 0 {
            write!(f, " as {seq}")?;
        }
        if *ends > 0 {
            write!(f, " ends {ends}")?;
        }
        if *is_rollup { f.write_str(" rollup") } else { Ok(()) }
    }
}

const SUBJECTS: u64 = 16;

/// Subjects by number: a few that come often, and some that come once.
pub(crate) fn subject(number: u64) -> Vec<u8> {
    match number {
        0..4 => format!("a.{number}"),
        4..8 => format!("b.x.{number}"),
        8..SUBJECTS => format!("k.{number}.y"),
        _ => format!("once.{number}"),
    }
    .into_bytes()
}

/// Filters by number.
pub(crate) fn filters() -> Vec<Filter> {
    let mut filters = vec![Filter::All];
    for pattern in ["a.1", "k.9.y", "never", "a.*", "b.>", "*.x.*", "k.*.y", "once.*", "*.*"] {
        filters.push(Filter::new(pattern.as_bytes()));
    }
    filters.push(Filter::any(vec![b"a.*".to_vec(), b"k.8.y".to_vec(), b"b.x.5".to_vec()]));
    filters
}

fn maybe<T>(rng: &mut Rng, odds: u64, make: impl FnOnce(&mut Rng) -> T) -> Option<T> {
    if rng.below(odds) == 0 { Some(make(rng)) } else { None }
}

pub(crate) fn limits(rng: &mut Rng) -> Limits {
    Limits {
        messages: maybe(rng, 3, |rng| 1 + rng.below(60)),
        bytes: maybe(rng, 3, |rng| 100 + rng.below(8000)),
        age: maybe(rng, 3, |rng| Duration::from_nanos(1 + rng.below(300))),
        messages_per_subject: maybe(rng, 3, |rng| 1 + rng.below(6)),
        message_size: maybe(rng, 5, |rng| 50 + rng.below(400) as u32),
        discard: if rng.below(2) == 0 { Discard::Old } else { Discard::New },
        discard_new_per_subject: rng.below(3) == 0,
    }
}

pub(crate) fn durability(rng: &mut Rng) -> Durability {
    [Durability::Written, Durability::Synced, Durability::Memory][rng.below(3) as usize]
}

impl Operation {
    /// Something that makes sense for the stream as it is.
    pub(crate) fn any(rng: &mut Rng, twin: &Twin) -> Self {
        match rng.below(100) {
            0..42 => Self::append(rng, twin),
            42..44 => Self::Erase(near(rng, twin)),
            44..52 => Self::Delete(some(rng, twin)),
            52..57 => Self::Purge {
                filter: maybe(rng, 2, |rng| rng.below(filters().len() as u64) as usize)
                    .or(Some(4).filter(|_| rng.below(4) > 0)),
                below: if rng.below(2) == 0 { 0 } else { near(rng, twin) },
                keep: if rng.below(2) == 0 { 0 } else { rng.below(8) },
                budget: budget(rng),
            },
            57..60 => Self::Compact { first: near(rng, twin), budget: budget(rng) },
            60..63 => Self::Truncate(near_end(rng, twin)),
            63..65 => Self::Skip(twin.last_seq + rng.below(5)),
            65..70 => {
                Self::Expire { markers: rng.below(2) == 0, limit: budget(rng), pause: rng.below(150) as i64 }
            }
            70..73 => {
                Self::Configure { limits: limits(rng), durability: durability(rng), budget: budget(rng) }
            }
            73..77 => Self::Close,
            77..80 => Self::Round,
            80..82 => Self::Flush,
            82..87 => Self::Restart { in_order: rng.below(3) > 0 },
            87..90 => Self::Upkeep(1 + rng.below(6) as usize),
            90..92 => Self::BeginJob { at_once: rng.below(2) == 0 },
            92..94 => Self::EndJob,
            _ => Self::Compare(rng.next_u64()),
        }
    }

    fn append(rng: &mut Rng, twin: &Twin) -> Self {
        let messages = (0..1 + rng.below(9)).map(|_| Sent::any(rng, twin)).collect();
        Self::Append { messages, checked: rng.below(8) > 0, pause: rng.below(20) as i64 }
    }
}

impl Sent {
    fn any(rng: &mut Rng, twin: &Twin) -> Self {
        let lifetime = match rng.below(12) {
            0 => Some(Timestamp::MAX),
            1 | 2 => Some(1 + rng.below(200) as i64),
            _ => None,
        };
        let longest = if rng.below(10) == 0 { 600 } else { 60 };
        Self {
            subject: if rng.below(8) == 0 { SUBJECTS + rng.below(1000) } else { rng.below(SUBJECTS) },
            headers: if rng.below(3) == 0 { rng.below(40) as usize } else { 0 },
            payload: rng.below(longest) as usize,
            lifetime,
            is_rollup: rng.below(6) == 0,
            seq: maybe(rng, 15, |rng| twin.last_seq + rng.below(3)).unwrap_or(0),
            ends: maybe(rng, 10, |rng| near(rng, twin)).unwrap_or(0),
        }
    }
}

fn budget(rng: &mut Rng) -> usize {
    if rng.below(2) == 0 { 1 + rng.below(10) as usize } else { 10_000 }
}

/// Some sequences, half of the time with the first ones among them, as consumers acknowledge them.
fn some(rng: &mut Rng, twin: &Twin) -> Vec<Seq> {
    let front = if rng.below(2) == 0 { rng.below(12) } else { 0 };
    let mut seqs: Vec<Seq> = (0..rng.below(6)).map(|_| near(rng, twin)).collect();
    seqs.extend(twin.first_seq()..twin.first_seq() + front);
    seqs
}

/// A sequence in the stream or a little outside.
fn near(rng: &mut Rng, twin: &Twin) -> Seq {
    let first = twin.first_seq().saturating_sub(3);
    first + rng.below(twin.last_seq + 6 - first)
}

fn near_end(rng: &mut Rng, twin: &Twin) -> Seq {
    if rng.below(6) == 0 { near(rng, twin) } else { twin.last_seq.saturating_sub(rng.below(12)) }
}
