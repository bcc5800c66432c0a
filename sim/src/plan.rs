//! Configurations that a seed draws: of the server, its streams and consumers.

use myelin_stdx::rng::Rng;
use myelin_store::{StoreOptions, Unsealed};
use serde_json::{Value, json};

const SECOND: i64 = 1_000_000_000;

/// Configuration of the server, the same for all its lives in a run.
#[derive(Debug)]
pub(crate) struct ServerPlan {
    /// `sync_interval: always`.
    pub(crate) is_always_synced: bool,
    journal_file_bytes: u64,
    unsealed: Unsealed,
    table_bytes: usize,
    block_bytes: usize,
    open_files: usize,
    segment_bytes: Option<u32>,
}

impl ServerPlan {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let is_small = rng.below(3) > 0;
        Self {
            is_always_synced: rng.below(3) == 0,
            journal_file_bytes: if rng.below(2) == 0 { 1 << 20 } else { 64 << 20 },
            unsealed: Unsealed {
                messages: if is_small { 64 } else { 1 << 20 },
                bytes: if is_small { 256 << 10 } else { 1 << 30 },
            },
            table_bytes: if is_small { 0 } else { 64 << 20 },
            block_bytes: if rng.below(2) == 0 { 0 } else { 1 << 20 },
            open_files: if is_small { 4 } else { 512 },
            segment_bytes: (rng.below(3) > 0).then(|| 1 << (11 + rng.below(6))),
        }
    }

    pub(crate) fn store_options(&self) -> StoreOptions {
        StoreOptions {
            journal_file_bytes: self.journal_file_bytes,
            unsealed: self.unsealed,
            table_bytes: self.table_bytes,
            block_bytes: self.block_bytes,
            open_files: self.open_files,
            segment_bytes: self.segment_bytes,
            ..StoreOptions::new("/store")
        }
    }
}

/// When a message goes that nobody has removed by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kept {
    /// At limits.
    Limits,
    /// When it is acknowledged.
    WorkQueue,
    /// When all consumers have acknowledged it.
    Interest,
}

/// Limits of a stream; what has none says so with 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamLimits {
    pub(crate) messages: u64,
    pub(crate) per_subject: u64,
    pub(crate) bytes: u64,
    /// In nanoseconds.
    pub(crate) age: i64,
}

/// Configuration of a stream, as far as the model looks at it.
#[derive(Clone, Debug)]
pub(crate) struct StreamPlan {
    pub(crate) name: String,
    pub(crate) kept: Kept,
    pub(crate) is_in_memory: bool,
    pub(crate) refuses_new: bool,
    /// Whether the limit of a subject refuses, too: else it removes.
    pub(crate) refuses_per_subject: bool,
    pub(crate) limits: StreamLimits,
    pub(crate) kind: Kind,
    is_compressed: bool,
}

/// Messages that a stream takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Messages as every stream takes them, some in fast batches.
    Plain,
    /// Rollups in addition, and messages that end by themselves.
    Values,
    /// Schedules in addition.
    Schedules,
    /// Increments of counters alone.
    Counters,
}

impl Kind {
    fn draw(rng: &mut Rng, kept: Kept) -> Self {
        match (rng.below(8), kept) {
            (0..2, _) => Self::Values,
            (2, Kept::Limits) => Self::Schedules,
            (3, Kept::Limits) => Self::Counters,
            _ => Self::Plain,
        }
    }
}

fn some_of(rng: &mut Rng, one_in: u64, most: u64) -> u64 {
    if rng.below(one_in) == 0 { 1 + rng.below(most) } else { 0 }
}

impl StreamLimits {
    const NONE: Self = Self { messages: 0, per_subject: 0, bytes: 0, age: 0 };

    fn draw(rng: &mut Rng) -> Self {
        Self {
            messages: some_of(rng, 3, 60),
            per_subject: some_of(rng, 3, 6),
            bytes: match rng.below(3) {
                0 => 200_000 + rng.below(1 << 20),
                _ => 0,
            },
            age: if rng.below(5) == 0 { SECOND + rng.below(20) as i64 * SECOND } else { 0 },
        }
    }
}

impl StreamPlan {
    pub(crate) fn draw(rng: &mut Rng, name: String) -> Self {
        let kept = match rng.below(4) {
            0 => Kept::WorkQueue,
            1 => Kept::Interest,
            _ => Kept::Limits,
        };
        let kind = Kind::draw(rng, kept);
        let limits = StreamLimits::draw(rng);
        Self {
            name,
            kept,
            is_in_memory: rng.below(5) == 0,
            refuses_new: !matches!(kind, Kind::Counters | Kind::Schedules) && rng.below(4) == 0,
            refuses_per_subject: false,
            limits: if kind == Kind::Counters { StreamLimits::NONE } else { limits },
            kind,
            is_compressed: rng.below(3) == 0,
        }
    }

    /// With other limits.
    pub(crate) fn changed(&self, rng: &mut Rng) -> Self {
        let mut limits = StreamLimits::draw(rng);
        limits.per_subject = limits.per_subject.max(u64::from(self.refuses_per_subject));
        Self { limits, ..self.clone() }
    }

    pub(crate) fn body(&self) -> Value {
        let retention = match self.kept {
            Kept::Limits => "limits",
            Kept::WorkQueue => "workqueue",
            Kept::Interest => "interest",
        };
        let or_none = |limit: u64| if limit == 0 { json!(-1) } else { json!(limit) };
        let has_values = matches!(self.kind, Kind::Values | Kind::Schedules);
        json!({
            "name": self.name,
            "subjects": [format!("{}.>", self.name)],
            "retention": retention,
            "max_consumers": -1,
            "max_msgs": or_none(self.limits.messages),
            "max_bytes": or_none(self.limits.bytes),
            "max_age": self.limits.age,
            "max_msgs_per_subject": or_none(self.limits.per_subject),
            "max_msg_size": -1,
            "discard": if self.refuses_new { "new" } else { "old" },
            "discard_new_per_subject": self.refuses_per_subject,
            "storage": if self.is_in_memory { "memory" } else { "file" },
            "compression": if self.is_compressed { "s2" } else { "none" },
            "num_replicas": 1,
            "allow_direct": true,
            "allow_atomic": true,
            "allow_batched": self.kind != Kind::Counters,
            "allow_rollup_hdrs": has_values,
            "allow_msg_ttl": has_values,
            "allow_msg_schedules": self.kind == Kind::Schedules,
            "allow_msg_counter": self.kind == Kind::Counters,
            // Of a day, so that it always looks back far enough.
            "duplicate_window": if self.limits.age > 0 { self.limits.age } else { 120 * SECOND },
        })
    }
}

/// How messages are acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Acks {
    Explicit,
    All,
    None,
}

/// How clients of a group share a pull consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shared {
    /// One gets all until it is not heard of.
    Pinned,
    /// Some ask for what is left over, and get that.
    Overflow,
}

/// Configuration of a consumer.
#[derive(Clone, Debug)]
pub(crate) struct ConsumerPlan {
    pub(crate) name: String,
    /// How often a message is delivered at most; 0: as often as it takes.
    pub(crate) max_deliver: u64,
    /// Whether messages come without being asked for, and where.
    pub(crate) is_push: bool,
    pub(crate) deliver_subject: String,
    pub(crate) acks: Acks,
    pub(crate) has_flow_control: bool,
    /// How several clients share it, if they do.
    pub(crate) shared: Option<Shared>,
    /// Patterns of subjects that it gets; none: all.
    pub(crate) filters: Vec<String>,
    pub(crate) max_ack_pending: u64,
    ack_wait: i64,
    backs_off: bool,
}

impl ConsumerPlan {
    pub(crate) fn draw(rng: &mut Rng, name: String, kept: Kept) -> Self {
        let is_push = rng.below(4) == 0;
        Self {
            deliver_subject: format!("_PUSH.{name}"),
            filters: Vec::new(),
            name,
            is_push,
            acks: match rng.below(3) {
                0 if is_push && kept == Kept::Limits => Acks::None,
                1 if is_push && kept == Kept::Limits => Acks::All,
                _ => Acks::Explicit,
            },
            has_flow_control: rng.below(2) == 0,
            shared: match rng.below(8) {
                0 if !is_push => Some(Shared::Pinned),
                1 if !is_push => Some(Shared::Overflow),
                _ => None,
            },
            max_deliver: if kept == Kept::Limits { some_of(rng, 4, 4) } else { 0 },
            max_ack_pending: if rng.below(2) == 0 { 1 + rng.below(8) } else { 1000 },
            ack_wait: SECOND / 2 + rng.below(4) as i64 * SECOND,
            backs_off: rng.below(4) == 0,
        }
    }

    pub(crate) fn with_max_ack_pending(&self, max_ack_pending: u64) -> Self {
        Self { max_ack_pending, ..self.clone() }
    }

    /// Whether it gets messages of a subject.
    pub(crate) fn wants(&self, subject: &str) -> bool {
        let matches = |filter: &String| match filter.strip_suffix('*') {
            Some(above) => subject.strip_prefix(above).is_some_and(|rest| !rest.contains('.')),
            None => filter == subject,
        };
        self.filters.is_empty() || self.filters.iter().any(matches)
    }

    pub(crate) fn body(&self, stream: &str) -> Value {
        let acks = match self.acks {
            Acks::Explicit => "explicit",
            Acks::All => "all",
            Acks::None => "none",
        };
        let mut config = json!({
            "name": self.name,
            "durable_name": self.name,
            "ack_policy": acks,
            "deliver_policy": "all",
            "ack_wait": self.ack_wait,
            "max_deliver": if self.max_deliver == 0 { -1 } else { self.max_deliver as i64 },
            "max_ack_pending": self.max_ack_pending,
            "num_replicas": 0,
        });
        match self.filters.as_slice() {
            [] => {}
            [one] => config["filter_subject"] = json!(one),
            many => config["filter_subjects"] = json!(many),
        }
        if self.is_push {
            config["deliver_subject"] = json!(self.deliver_subject);
            if self.has_flow_control {
                config["flow_control"] = json!(true);
                config["idle_heartbeat"] = json!(SECOND / 2);
            }
        }
        if let Some(shared) = self.shared {
            config["priority_groups"] = json!(["A"]);
            config["priority_policy"] = json!(match shared {
                Shared::Pinned => "pinned_client",
                Shared::Overflow => "overflow",
            });
            if shared == Shared::Pinned {
                config["priority_timeout"] = json!(SECOND);
            }
        }
        if self.acks == Acks::None {
            for key in ["ack_wait", "max_ack_pending", "max_deliver"] {
                config.as_object_mut().into_iter().for_each(|config| drop(config.remove(key)));
            }
            return json!({ "stream_name": stream, "config": config });
        }
        if self.backs_off && self.max_deliver == 0 {
            config["backoff"] = json!([SECOND / 4, SECOND]);
        }
        json!({ "stream_name": stream, "config": config })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_consumer_wants_what_one_of_its_filters_matches() {
        let mut plan = ConsumerPlan::draw(&mut Rng::seeded(1), "C1".to_owned(), Kept::Limits);
        let mut wants = |filters: &[&str]| {
            plan.filters = filters.iter().map(|filter| (*filter).to_owned()).collect();
            ["S1.1", "S1.2", "S1.at.1"].map(|subject| plan.wants(subject))
        };
        assert_eq!(wants(&[]), [true, true, true]);
        assert_eq!(wants(&["S1.2"]), [false, true, false]);
        assert_eq!(wants(&["S1.2", "S1.1"]), [true, true, false]);
        assert_eq!(wants(&["S1.*"]), [true, true, false]);
    }
}
