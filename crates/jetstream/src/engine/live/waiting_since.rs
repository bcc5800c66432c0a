//! How long messages wait for consumers: since when the oldest one was stored that is yet to be
//! delivered, and the oldest one that is yet to be acknowledged.

use super::LiveStream;
use myelin_jsapi::api::consumer::ConsumerInfo;
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_store::{Filter, Seq, StreamReader, Timestamp};
use myelin_streams::consumer::filter_of;
use std::sync::Arc;

/// Messages that are looked at for all consumers of a stream together: where there are few of them
/// that a filter wants, the next one is a long way off, and publishers wait meanwhile.
const MOST_LOOKED_AT: u64 = 1_000_000;
/// How far the next message of one consumer is looked for, of few and of many consumers.
const FARTHEST: u64 = 100_000;
const NEAREST: u64 = 100;

/// Moments since when messages wait for a consumer; `None`: none does, or it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitingSince {
    /// When the oldest message that is to be delivered was stored.
    pub delivery: Option<Timestamp>,
    /// When the oldest message was stored that is delivered and not acknowledged.
    pub acknowledgement: Option<Timestamp>,
}

/// Look for one message of one consumer.
struct OldestLook<'a> {
    filter: &'a Filter,
    /// The message is not before the first of these, and not behind the last.
    range: (Seq, Seq),
    /// Number of the consumer.
    of: usize,
    is_delivered: bool,
}

impl LiveStream {
    /// Since when messages of the stream wait for these consumers of it, in their order. Reads the
    /// beginnings of messages: only for threads that may wait.
    ///
    /// Perf: consumers that wait for nothing cost nothing, and most stand at the same message. In
    /// the order of the stream, so that a table of it which is not in memory is read once.
    pub fn waiting_since(&self, consumers: &[(Arc<ConsumerConfig>, ConsumerInfo)]) -> Vec<WaitingSince> {
        let filters: Vec<_> = consumers.iter().map(filter_for).collect();
        let mut wanted = Vec::new();
        for (of, ((_, info), filter)) in consumers.iter().zip(&filters).enumerate() {
            let Some(filter) = filter else { continue };
            let delivered = info.delivered.stream_seq;
            if info.num_pending > 0 {
                let range = (delivered.saturating_add(1), Seq::MAX);
                wanted.push(OldestLook { filter, range, of, is_delivered: false });
            }
            if info.num_ack_pending > 0 {
                let range = (info.ack_floor.stream_seq.saturating_add(1), delivered);
                wanted.push(OldestLook { filter, range, of, is_delivered: true });
            }
        }
        wanted.sort_by_key(|one| one.range.0);
        let far = (MOST_LOOKED_AT / (wanted.len() as u64).max(1)).clamp(NEAREST, FARTHEST);
        let mut found = vec![WaitingSince::default(); consumers.len()];
        let (reader, mut last) = (self.reader(), None);
        for one in &wanted {
            let time = stored_at(&reader, one, far, &mut last);
            match one.is_delivered {
                true => found[one.of].acknowledgement = time,
                false => found[one.of].delivery = time,
            }
        }
        found
    }
}

/// Filter of a consumer for which something waits.
fn filter_for((config, info): &(Arc<ConsumerConfig>, ConsumerInfo)) -> Option<Filter> {
    let waits = info.num_pending > 0 || info.num_ack_pending > 0;
    waits.then(|| filter_of(config))
}

/// When the message was stored, if it is no farther away. `last`: the message that was read last,
/// and when that was stored.
fn stored_at(
    reader: &StreamReader,
    wanted: &OldestLook<'_>,
    far: u64,
    last: &mut Option<(Seq, Option<Timestamp>)>,
) -> Option<Timestamp> {
    let (from, to) = wanted.range;
    // Without a filter it is found at once.
    let to = if *wanted.filter == Filter::All { to } else { to.min(from.saturating_add(far)) };
    let seq = reader.next_seq_until(wanted.filter, from, to).ok().flatten()?;
    if let Some((before, time)) = *last
        && before == seq
    {
        return time;
    }
    let time = reader.time_of(seq).ok().flatten();
    *last = Some((seq, time));
    time
}
