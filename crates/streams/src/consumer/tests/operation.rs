//! Operations that a story is made of. Numbers choose among what there is when their turn comes, so
//! that a story stays one when parts of it are left out.

use myelin_stdx::rng::Rng;

use super::twin::{Ask, Word};
use myelin_jsapi::config::Retention;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig, DeliverPolicy, StreamPlaces};

/// Everything happens at multiples of this, in nanoseconds.
pub(super) const TICK: i64 = 10_000_000;
pub(super) const SUBJECTS: [&str; 6] = ["a", "a.x", "a.y", "b", "b.x.y", "c"];
const FILTERS: [&[&str]; 9] =
    [&[], &[], &[], &["a"], &["a.*"], &["b.>"], &["a", "b.>"], &["a.x", "c", "b"], &[">"]];
/// Clients, by the second token of their inboxes.
pub(super) const CLIENTS: u64 = 3;

#[derive(Clone, Debug)]
pub(super) enum Operation {
    /// Subject, bytes.
    Publish(Vec<(usize, usize)>),
    /// Removes one of the messages; whether the consumer is told.
    Delete(u64, bool),
    /// Removes messages of a filter but for so many.
    Purge(usize, u64, bool),
    /// Removes the oldest messages.
    Trim(u64, bool),
    Ask(u64, Ask),
    /// To one of the deliveries, from the newest or from any.
    Answer(u64, Word, bool),
    /// To a delivery that there never was.
    Stray(u64, Word),
    Absent(u64, bool),
    Behind(u64, bool),
    /// Ticks.
    Pass(u64),
    Flush,
    /// Whether what was not flushed is lost.
    Restart(bool),
    Update(Change),
    Reset(u64),
    Info,
    /// Everything that is there is delivered and acknowledged.
    Drain,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    AckWait(i64),
    Backoff(Vec<i64>),
    MaxDeliver(i64),
    MaxAckPending(i64),
    Filters(usize),
    Pause(u64),
    HeadersOnly(bool),
}

fn pick<T: Clone>(rng: &mut Rng, of: &[T]) -> T {
    of[rng.below(of.len() as u64) as usize].clone()
}

impl Operation {
    pub(super) fn any(rng: &mut Rng) -> Self {
        match rng.below(100) {
            0..20 => Self::Publish(messages(rng)),
            20..23 => Self::Delete(rng.next_u64(), rng.below(4) > 0),
            23 => Self::Purge(rng.below(FILTERS.len() as u64) as usize, rng.below(4), rng.below(4) > 0),
            24 => Self::Trim(rng.below(8), rng.below(4) > 0),
            25..45 => Self::Ask(rng.below(CLIENTS), ask(rng)),
            45..70 => Self::Answer(rng.next_u64(), word(rng), rng.below(3) > 0),
            70..72 => Self::Stray(rng.below(3), word(rng)),
            72..74 => Self::Absent(rng.below(CLIENTS), rng.below(3) == 0),
            74..76 => Self::Behind(rng.below(CLIENTS), rng.below(3) == 0),
            76..86 => Self::Pass(1 + rng.below(30)),
            86..89 => Self::Flush,
            89..91 => Self::Restart(rng.below(2) == 0),
            91..95 => Self::Update(change(rng)),
            95 => Self::Reset(rng.next_u64()),
            96 => Self::Drain,
            _ => Self::Info,
        }
    }
}

pub(super) fn messages(rng: &mut Rng) -> Vec<(usize, usize)> {
    let most = if rng.below(8) == 0 { 40 } else { 5 };
    let count = 1 + rng.below(most);
    let size = |rng: &mut Rng| match rng.below(40) {
        0 => 40_000 + rng.below(40_000),
        _ => rng.below(200),
    };
    (0..count).map(|_| (rng.below(SUBJECTS.len() as u64) as usize, size(rng) as usize)).collect()
}

fn ask(rng: &mut Rng) -> Ask {
    let expires = match rng.below(6) {
        0 => 0,
        1 => -TICK,
        _ => (1 + rng.below(40) as i64) * TICK,
    };
    let heartbeat = match rng.below(4) {
        0 => (1 + rng.below(8) as i64) * TICK,
        _ => 0,
    };
    Ask {
        batch: pick(rng, &[0, 1, 1, 1, 2, 5, 10, 100, -1]),
        max_bytes: pick(rng, &[0, 0, 0, 100, 250, 500, 2000]),
        expires,
        no_wait: rng.below(3) == 0,
        heartbeat,
    }
}

fn word(rng: &mut Rng) -> Word {
    match rng.below(20) {
        0..10 => Word::Ack(pick(rng, &["", "+ACK", "+OK"])),
        10..12 => Word::Next(ask(rng)),
        12..14 => Word::Nak(None),
        14..16 => Word::Nak(Some((rng.below(30) as i64 - 2) * TICK)),
        16..18 => Word::Progress,
        18 => Word::Term,
        _ => Word::Nonsense,
    }
}

fn change(rng: &mut Rng) -> Change {
    match rng.below(8) {
        0 => Change::AckWait(pick(rng, &[3, 5, 10, 30]) * TICK),
        1 => Change::Backoff(backoff(rng)),
        2 => Change::MaxDeliver(max_deliver(rng)),
        3 => Change::MaxAckPending(max_ack_pending(rng)),
        4 | 5 => Change::Filters(rng.below(FILTERS.len() as u64) as usize),
        6 => Change::Pause(rng.below(20)),
        _ => Change::HeadersOnly(rng.below(2) == 0),
    }
}

fn backoff(rng: &mut Rng) -> Vec<i64> {
    if rng.below(3) == 0 {
        return Vec::new();
    }
    (0..1 + rng.below(3)).map(|_| (1 + rng.below(20) as i64) * TICK).collect()
}

fn max_deliver(rng: &mut Rng) -> i64 {
    pick(rng, &[-1, -1, -1, 1, 2, 3, 5])
}

fn max_ack_pending(rng: &mut Rng) -> i64 {
    pick(rng, &[-1, 1, 3, 10, 1000])
}

pub(super) fn filters(config: &mut ConsumerConfig, at: usize) {
    config.filter_subject.clear();
    config.filter_subjects.clear();
    match FILTERS[at] {
        [] => {}
        [one] => config.filter_subject = (*one).into(),
        many => config.filter_subjects = many.iter().map(|filter| (*filter).into()).collect(),
    }
}

pub(super) fn pattern(at: usize) -> Vec<String> {
    FILTERS[at].iter().map(|filter| (*filter).into()).collect()
}

/// A configuration as the API leaves it.
pub(super) fn config(rng: &mut Rng, last: u64, now: i64) -> ConsumerConfig {
    let deliver_policy = pick(
        rng,
        &[
            DeliverPolicy::All,
            DeliverPolicy::All,
            DeliverPolicy::Last,
            DeliverPolicy::New,
            DeliverPolicy::ByStartSequence,
            DeliverPolicy::ByStartTime,
            DeliverPolicy::LastPerSubject,
        ],
    );
    let ack_policy = pick(
        rng,
        &[AckPolicy::Explicit, AckPolicy::Explicit, AckPolicy::Explicit, AckPolicy::All, AckPolicy::None],
    );
    let is_lasts = deliver_policy == DeliverPolicy::LastPerSubject;
    let lasts_through = if is_lasts { last } else { 0 };
    let mut config = ConsumerConfig {
        places: StreamPlaces { lasts_through, ..StreamPlaces::default() },
        name: "C".into(),
        durable_name: "C".into(),
        deliver_policy,
        ack_policy,
        ack_wait: pick(rng, &[3, 5, 10, 30]) * TICK,
        max_deliver: max_deliver(rng),
        max_ack_pending: max_ack_pending(rng),
        max_waiting: pick(rng, &[512, 512, 2, 4]),
        max_batch: pick(rng, &[0, 0, 0, 50]),
        headers_only: rng.below(6) == 0,
        ..ConsumerConfig::default()
    };
    if deliver_policy == DeliverPolicy::ByStartSequence {
        config.opt_start_seq = 1 + rng.below(last + 4);
    }
    if deliver_policy == DeliverPolicy::ByStartTime {
        config.opt_start_time = Some((now - rng.below(20) as i64 * TICK).into());
    }
    if rng.below(4) == 0 {
        set_backoff(&mut config, backoff(rng));
    }
    filters(&mut config, rng.below(FILTERS.len() as u64) as usize);
    config
}

pub(super) fn set_backoff(config: &mut ConsumerConfig, backoff: Vec<i64>) {
    if let Some(&first) = backoff.first() {
        config.ack_wait = first;
    }
    config.backoff = backoff;
}

pub(super) fn retention(rng: &mut Rng) -> Retention {
    pick(rng, &[Retention::Limits, Retention::Limits, Retention::Interest, Retention::WorkQueue])
}
