//! The JSON inside of a backup: the state of the stream, and each consumer with its configuration
//! and state.

use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_jsapi::json;
use myelin_store::Seq;
use myelin_store::consumer::{ConsumerState, DeliverySeq, Pending, SequencePair};
use myelin_wire::json::compact;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// Fields of `state.json` that matter of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct StreamSummary {
    /// Messages.
    #[serde(rename = "messages")]
    pub msgs: u64,
    /// Their bytes, as the reference counts them.
    pub bytes: u64,
    /// The first message, or the next one.
    pub first_seq: Seq,
    /// The last sequence that was given out.
    pub last_seq: Seq,
    /// Consumers that follow.
    #[serde(rename = "consumer_count")]
    pub consumers: i64,
}

impl StreamSummary {
    /// Reads it, and whether its numbers can be.
    ///
    /// # Errors
    /// In the reference's words.
    pub fn read(bytes: &[u8]) -> Result<Self, String> {
        let state: Self =
            serde_json::from_slice(bytes).map_err(|error| format!("error in state.json: {error}"))?;
        state.check()?;
        Ok(state)
    }

    fn check(&self) -> Result<(), String> {
        let inconsistent = || Err("inconsistent message count or sequence range".to_owned());
        let checked = if self.consumers < 0 {
            Err("negative consumer count".to_owned())
        } else if self.first_seq == 0 {
            if self.last_seq != 0 || self.msgs != 0 { inconsistent() } else { Ok(()) }
        } else if self.first_seq > self.last_seq {
            if self.first_seq - 1 != self.last_seq || self.msgs != 0 { inconsistent() } else { Ok(()) }
        } else if self.msgs - 1.min(self.msgs) > self.last_seq - self.first_seq {
            Err("message count exceeds sequence range".to_owned())
        } else {
            Ok(())
        };
        checked.map_err(|why| format!("invalid stream state: {why}"))
    }
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Pair {
    consumer_seq: u64,
    stream_seq: u64,
}

#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct UnackedDelivery {
    sequence: u64,
    timestamp: i64,
}

/// Progress of a consumer, as the reference writes it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct State {
    delivered: Pair,
    ack_floor: Pair,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pending: BTreeMap<u64, UnackedDelivery>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    redelivered: BTreeMap<u64, u64>,
}

/// A consumer in a backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedConsumer {
    /// Its configuration, as it was when the backup was made.
    pub config: ConsumerConfig,
    /// Deliveries and acknowledgements of the consumer.
    pub state: ConsumerState,
}

impl ArchivedConsumer {
    /// Writes a consumer's entry. What it did behind `last`, the end of the backup, is left out.
    ///
    /// Compat: `passed`, the end of what a work queue's consumer was reset past, is a name of ours.
    /// The reference reads over it: restored there, such messages go.
    #[must_use]
    pub fn write(config: &ConsumerConfig, state: &ConsumerState, last: Seq) -> Vec<u8> {
        #[derive(Serialize)]
        struct Entry<'a> {
            config: &'a ConsumerConfig,
            state: State,
            #[serde(skip_serializing_if = "is_zero")]
            passed: Seq,
        }
        let pair =
            |pair: SequencePair| Pair { consumer_seq: pair.consumer.0, stream_seq: pair.stream.min(last) };
        let waiting = |(seq, pending): (Seq, Pending)| {
            (seq, UnackedDelivery { sequence: pending.delivery.0, timestamp: pending.timestamp })
        };
        let state = State {
            delivered: pair(state.delivered()),
            ack_floor: pair(state.ack_floor()),
            pending: state.pending().iter().take_while(|(seq, _)| *seq <= last).map(waiting).collect(),
            redelivered: state.redelivered().range(..=last).map(|(seq, count)| (*seq, *count)).collect(),
        };
        compact(&Entry { config, state, passed: config.places.passed.min(last) })
    }

    /// Reads a consumer's entry. `name` is what the entry is called.
    ///
    /// # Errors
    /// In the reference's words.
    pub fn read(name: &str, bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Entry<'a> {
            #[serde(borrow, default)]
            config: Option<&'a RawValue>,
            #[serde(default)]
            state: Option<State>,
            #[serde(default)]
            passed: Seq,
        }
        let failed = |why: String| format!("failed to decode consumer \"{name}\" state: {why}");
        let entry: Entry<'_> = serde_json::from_slice(bytes).map_err(|error| failed(error.to_string()))?;
        let config = entry.config.filter(|config| config.get() != "null");
        let config = config.ok_or_else(|| format!("consumer \"{name}\" is missing config"))?;
        let state = entry.state.ok_or_else(|| format!("consumer \"{name}\" is missing state"))?;
        let mut config = read_config(config.get().as_bytes()).map_err(failed)?;
        let state =
            state.decode().map_err(|why| format!("failed to set consumer \"{name}\" state: {why}"))?;
        // Nothing behind the floor was passed over, whatever a stranger says.
        config.places.passed = entry.passed.min(state.ack_floor().stream);
        Ok(Self { config, state })
    }
}

/// Reads the configuration of a consumer, whatever else is written beside it.
///
/// # Errors
/// When it is none.
pub fn read_config(bytes: &[u8]) -> Result<ConsumerConfig, String> {
    let mut config = ConsumerConfig::default();
    json::lenient(bytes, "ConsumerConfig", &mut config)?;
    Ok(config)
}

fn is_zero(seq: &Seq) -> bool {
    *seq == 0
}

impl State {
    fn decode(self) -> Result<ConsumerState, String> {
        let pair =
            |pair: Pair| SequencePair { consumer: DeliverySeq(pair.consumer_seq), stream: pair.stream_seq };
        let pending = self.pending.into_iter().map(|(seq, waiting)| {
            (seq, Pending { delivery: DeliverySeq(waiting.sequence), timestamp: waiting.timestamp })
        });
        consumer_state(pair(self.delivered), pair(self.ack_floor), pending, self.redelivered)
    }
}

/// A state of its parts. What is said to be pending and is not between the floor and what was
/// delivered is left out: it is done, or will be delivered. A number that no delivery can have had
/// is none that matters: the message awaits its acknowledgement nevertheless.
///
/// # Errors
/// The floor is above what was delivered.
pub fn consumer_state(
    mut delivered: SequencePair,
    ack_floor: SequencePair,
    pending: impl Iterator<Item = (Seq, Pending)>,
    redelivered: BTreeMap<Seq, u64>,
) -> Result<ConsumerState, String> {
    if ack_floor.consumer > delivered.consumer {
        return Err("bad ack floor for consumer".to_owned());
    }
    if ack_floor.stream > delivered.stream || delivered.stream > myelin_store::MAX_SEQ {
        return Err("bad ack floor for stream".to_owned());
    }
    let (first, last) = (DeliverySeq(1), delivered.consumer.max(DeliverySeq(1)));
    let between = ack_floor.stream + 1..=delivered.stream;
    let mut pending = pending
        .filter(move |(seq, _)| between.contains(seq))
        .map(|(seq, pending)| (seq, Pending { delivery: pending.delivery.clamp(first, last), ..pending }))
        .peekable();
    if pending.peek().is_some() {
        delivered.consumer = last;
    }
    ConsumerState::from_parts(delivered, ack_floor, pending, redelivered).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_comes_back_without_what_lies_behind_the_backup() {
        let config = ConsumerConfig { name: "C".into(), durable_name: "C".into(), ..Default::default() };
        let pair = |consumer, stream| SequencePair { consumer: DeliverySeq(consumer), stream };
        let pending = |seq: u64| (seq, Pending { delivery: DeliverySeq(seq - 2), timestamp: 7 });
        let counts = BTreeMap::from([(5, 2), (9, 1)]);
        let state =
            ConsumerState::from_parts(pair(8, 10), pair(2, 4), [5, 8, 9].map(pending), counts).unwrap();
        let read = |last| {
            let bytes = ArchivedConsumer::write(&config, &state, last);
            ArchivedConsumer::read("C", &bytes).unwrap()
        };
        assert_eq!(read(100), ArchivedConsumer { config: config.clone(), state: state.clone() });
        let cut = read(8).state;
        assert_eq!((cut.delivered(), cut.pending().len(), cut.redelivered().len()), (pair(8, 8), 2, 1));
    }

    #[test]
    fn what_a_consumer_was_reset_past_comes_back_as_far_as_it_can_be_true() {
        let pair = |consumer, stream| SequencePair { consumer: DeliverySeq(consumer), stream };
        let state =
            ConsumerState::from_parts(pair(3, 6), pair(3, 6), std::iter::empty(), BTreeMap::new()).unwrap();
        let read = |passed, last| {
            let mut config = ConsumerConfig { name: "C".into(), ..Default::default() };
            config.places.passed = passed;
            let bytes = ArchivedConsumer::write(&config, &state, last);
            assert_eq!(
                passed == 0,
                !bytes.ends_with(format!(r#","passed":{}}}"#, passed.min(last)).as_bytes())
            );
            ArchivedConsumer::read("C", &bytes).unwrap().config.places.passed
        };
        assert_eq!([read(0, 9), read(4, 9), read(4, 3), read(99, 100)], [0, 4, 3, 6]);
    }

    /// As in states of the first version; what is left out would be taken for acknowledged.
    #[test]
    fn what_is_pending_stays_so_whatever_its_number() {
        let pair = |consumer, stream| SequencePair { consumer: DeliverySeq(consumer), stream };
        let pending = |delivery, seq| (seq, Pending { delivery: DeliverySeq(delivery), timestamp: 7 });
        let read = |consumer, all: &[(Seq, Pending)]| {
            let state = consumer_state(pair(consumer, 9), pair(0, 4), all.iter().copied(), BTreeMap::new());
            let state = state.unwrap();
            (state.delivered(), state.pending().iter().map(|(seq, one)| (seq, one.delivery.0)).collect())
        };
        let all = [pending(1, 4), pending(0, 5), pending(8, 6), pending(2, 9), pending(1, 10)];
        let none: Vec<(Seq, u64)> = Vec::new();
        assert_eq!(read(2, &all), (pair(2, 9), vec![(5, 1), (6, 2), (9, 2)]));
        assert_eq!(read(0, &all), (pair(1, 9), vec![(5, 1), (6, 1), (9, 1)]));
        assert_eq!(read(0, &all[..1]), (pair(0, 9), none));
    }

    #[test]
    fn it_is_written_as_the_reference_writes_it() {
        let pair = |consumer, stream| SequencePair { consumer: DeliverySeq(consumer), stream };
        let pending = [(2, Pending { delivery: DeliverySeq(1), timestamp: 5 })];
        let state = ConsumerState::from_parts(pair(1, 2), pair(0, 1), pending, BTreeMap::new()).unwrap();
        let bytes = ArchivedConsumer::write(&ConsumerConfig::default(), &state, 9);
        let text = String::from_utf8(bytes).unwrap();
        let expected = r#""state":{"delivered":{"consumer_seq":1,"stream_seq":2},"ack_floor":{"consumer_seq":0,"stream_seq":1},"pending":{"2":{"Sequence":1,"Timestamp":5}}}}"#;
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn impossible_numbers_are_refused_in_the_references_words() {
        let read = |text: &str| StreamSummary::read(text.as_bytes()).err().unwrap_or_default();
        let range = "invalid stream state: inconsistent message count or sequence range";
        assert_eq!(read(r#"{"first_seq":0,"last_seq":5}"#), range);
        assert_eq!(read(r#"{"first_seq":9,"last_seq":5}"#), range);
        assert_eq!(read(r#"{"first_seq":6,"last_seq":5}"#), "");
        assert_eq!(read(r#"{"messages":1,"first_seq":5,"last_seq":5}"#), "");
        let full = r#"{"messages":18446744073709551615,"first_seq":1,"last_seq":18446744073709551615}"#;
        assert_eq!(read(full), "");
        assert_eq!(
            read(r#"{"messages":2,"first_seq":5,"last_seq":5}"#),
            "invalid stream state: message count exceeds sequence range"
        );
        assert_eq!(read(r#"{"consumer_count":-1}"#), "invalid stream state: negative consumer count");
        assert!(read("[").starts_with("error in state.json: "));
    }
}
