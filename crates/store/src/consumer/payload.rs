//! Payloads of entries: a definition, a row of changes, a whole state.
//!
//! Owns the code of the payloads. Each begins with the entry's serial number among those of its
//! consumer, so that a reader sees which consumers lost something with a damaged range, and which
//! did not.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use myelin_stdx::varint;

use super::bytes::{self, ByteReader, MalformedBytes};
use super::pending::{Pending, PendingMessages};
use super::{AckPolicy, AckRules, ConsumerState, DeliverySeq, SequencePair};
use crate::Seq;

/// A consumer as its creator described it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: Box<str>,
    pub(super) rules: AckRules,
    /// For others to understand.
    pub(super) config: Box<[u8]>,
}

pub(super) fn put_definition(out: &mut Vec<u8>, definition: &Definition) {
    out.push(match definition.rules.acks {
        AckPolicy::None => 0,
        AckPolicy::All => 1,
        AckPolicy::Explicit => 2,
    });
    varint::put(definition.rules.max_deliver.map_or(0, NonZeroU64::get), out);
    bytes::put_bytes(out, definition.name.as_bytes());
    bytes::put_bytes(out, &definition.config);
}

pub(super) fn read_definition(reader: &mut ByteReader<'_>) -> Result<Definition, MalformedBytes> {
    let acks = match reader.byte()? {
        0 => AckPolicy::None,
        1 => AckPolicy::All,
        2 => AckPolicy::Explicit,
        _ => return Err(MalformedBytes),
    };
    let max_deliver = NonZeroU64::new(reader.number()?);
    let name = std::str::from_utf8(reader.text()?).map_err(|_| MalformedBytes)?.into();
    let config = reader.text()?.into();
    Ok(Definition { name, rules: AckRules { acks, max_deliver }, config })
}

/// Floors that stand before the operations of a delta.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Floors {
    /// The floor before them: what their numbers are counted from.
    pub(super) before: SequencePair,
    /// The floor after them: what a reader can rely on who did not see all that was before.
    pub(super) after: SequencePair,
}

pub(super) fn put_floors(out: &mut Vec<u8>, floors: Floors) {
    bytes::put_pair_near(out, floors.before, SequencePair::default());
    bytes::put_pair_near(out, floors.after, floors.before);
}

pub(super) fn read_floors(reader: &mut ByteReader<'_>) -> Result<Floors, MalformedBytes> {
    let before = reader.pair_near(SequencePair::default())?;
    Ok(Floors { before, after: reader.pair_near(before)? })
}

/// Bytes of the shortest pending message, and of the shortest count, in a state.
const LEAST_PENDING: usize = 3;
const LEAST_COUNT: usize = 2;

/// About how long a state is, without looking at it.
pub(super) fn estimate_state(state: &ConsumerState) -> u64 {
    20 + state.pending.len() as u64 * 6 + state.redelivered.len() as u64 * 4
}

pub(super) fn put_state(out: &mut Vec<u8>, state: &ConsumerState) {
    out.reserve(usize::try_from(estimate_state(state)).unwrap_or(0));
    bytes::put_pair_near(out, state.ack_floor, SequencePair::default());
    bytes::put_pair_near(out, state.delivered, state.ack_floor);
    varint::put(state.pending.len() as u64, out);
    let mut last = (state.ack_floor.stream, Pending { delivery: state.ack_floor.consumer, timestamp: 0 });
    for (seq, pending) in state.pending.iter() {
        varint::put(seq - last.0, out);
        bytes::put_near(out, pending.delivery.0, last.1.delivery.0.wrapping_add(1));
        bytes::put_near(out, pending.timestamp as u64, last.1.timestamp as u64);
        last = (seq, pending);
    }
    varint::put(state.redelivered.len() as u64, out);
    let mut last = 0;
    for (seq, count) in &state.redelivered {
        varint::put(seq - last, out);
        varint::put(*count, out);
        last = *seq;
    }
}

/// Makes room for so many pending messages, if there are not more.
pub(super) fn read_state(reader: &mut ByteReader<'_>, room: usize) -> Result<ConsumerState, MalformedBytes> {
    let ack_floor = reader.pair_near(SequencePair::default())?;
    let delivered = reader.pair_near(ack_floor)?;
    let pending = read_pending(reader, ack_floor, room)?;
    let redelivered = read_redelivered(reader)?;
    ConsumerState { delivered, ack_floor, pending, redelivered }.checked().map_err(|_| MalformedBytes)
}

/// The highest sequence delivered and how many messages are pending, of a state.
pub(super) fn read_head_of_state(reader: &mut ByteReader<'_>) -> Result<(Seq, usize), MalformedBytes> {
    let ack_floor = reader.pair_near(SequencePair::default())?;
    let delivered = reader.pair_near(ack_floor)?;
    Ok((delivered.stream, read_length(reader, LEAST_PENDING)?))
}

/// Perf: into its place at once, for there may be a million.
fn read_pending(
    reader: &mut ByteReader<'_>,
    floor: SequencePair,
    room: usize,
) -> Result<PendingMessages, MalformedBytes> {
    let count = read_length(reader, LEAST_PENDING)?;
    let mut pending = PendingMessages::with_capacity(count.max(room));
    let mut last = (floor.stream, Pending { delivery: floor.consumer, timestamp: 0 });
    for _ in 0..count {
        let seq = last.0.checked_add(reader.number()?).ok_or(MalformedBytes)?;
        let delivery = DeliverySeq(reader.near(last.1.delivery.0.wrapping_add(1))?);
        let timestamp = reader.near(last.1.timestamp as u64)? as i64;
        last = (seq, Pending { delivery, timestamp });
        if !pending.push(seq, last.1) {
            return Err(MalformedBytes);
        }
    }
    Ok(pending)
}

fn read_redelivered(reader: &mut ByteReader<'_>) -> Result<BTreeMap<u64, u64>, MalformedBytes> {
    let mut redelivered = BTreeMap::new();
    let mut seq: u64 = 0;
    for _ in 0..read_length(reader, LEAST_COUNT)? {
        seq = seq.checked_add(reader.number()?).ok_or(MalformedBytes)?;
        redelivered.insert(seq, reader.number()?);
    }
    Ok(redelivered)
}

/// How many items follow, none shorter than `least`.
fn read_length(reader: &mut ByteReader<'_>, least: usize) -> Result<usize, MalformedBytes> {
    let count = usize::try_from(reader.number()?).map_err(|_| MalformedBytes)?;
    if count > reader.left() / least { Err(MalformedBytes) } else { Ok(count) }
}
