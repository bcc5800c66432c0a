//! How configurations of consumers are read: Go's name for each field's type, for the faults.

use super::{AckPolicy, Action, ConsumerConfig, DeliverPolicy, PriorityPolicy, ReplayPolicy};
use crate::json::{Abort, Decode, JsonReader, object, word};
use myelin_wire::json::Value;

object! { ConsumerConfig, "ConsumerConfig":
    "durable_name" durable_name "string",
    "name" name "string",
    "description" description "string",
    "deliver_policy" deliver_policy "server.DeliverPolicy",
    "opt_start_seq" opt_start_seq "uint64",
    "opt_start_time" opt_start_time "*time.Time",
    "ack_policy" ack_policy "server.AckPolicy",
    "ack_wait" ack_wait "time.Duration",
    "max_deliver" max_deliver "int",
    "backoff" backoff "[]time.Duration",
    "filter_subject" filter_subject "string",
    "filter_subjects" filter_subjects "[]string",
    "replay_policy" replay_policy "server.ReplayPolicy",
    "rate_limit_bps" rate_limit_bps "uint64",
    "sample_freq" sample_freq "string",
    "max_waiting" max_waiting "int",
    "max_ack_pending" max_ack_pending "int",
    "flow_control" flow_control "bool",
    "headers_only" headers_only "bool",
    "max_batch" max_batch "int",
    "max_expires" max_expires "time.Duration",
    "max_bytes" max_bytes "int",
    "deliver_subject" deliver_subject "string",
    "deliver_group" deliver_group "string",
    "idle_heartbeat" idle_heartbeat "time.Duration",
    "inactive_threshold" inactive_threshold "time.Duration",
    "num_replicas" num_replicas "int",
    "mem_storage" mem_storage "bool",
    "direct" direct "bool",
    "sourcing" sourcing "bool",
    "metadata" metadata "map[string]string",
    "pause_until" pause_until "*time.Time",
    "priority_groups" priority_groups "[]string",
    "priority_policy" priority_policy "server.PriorityPolicy",
    "priority_timeout" priority_timeout "time.Duration",
}

impl Decode for DeliverPolicy {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        let words = [
            (r#""all""#, Self::All),
            (r#""undefined""#, Self::All),
            (r#""last""#, Self::Last),
            (r#""last_per_subject""#, Self::LastPerSubject),
            (r#""new""#, Self::New),
            (r#""by_start_sequence""#, Self::ByStartSequence),
            (r#""by_start_time""#, Self::ByStartTime),
        ];
        *self = word(value, &words)?;
        Ok(())
    }
}

impl Decode for AckPolicy {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        let words = [
            (r#""none""#, Self::None),
            (r#""all""#, Self::All),
            (r#""explicit""#, Self::Explicit),
            (r#""flow_control""#, Self::FlowControl),
        ];
        *self = word(value, &words)?;
        Ok(())
    }
}

impl Decode for ReplayPolicy {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        *self = word(value, &[(r#""instant""#, Self::Instant), (r#""original""#, Self::Original)])?;
        Ok(())
    }
}

impl Decode for PriorityPolicy {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        let words = [
            (r#""overflow""#, Self::Overflow),
            (r#""pinned_client""#, Self::PinnedClient),
            (r#""prioritized""#, Self::Prioritized),
            (r#""none""#, Self::None),
        ];
        *self = unquoted(value, &words, "unknown priority policy")?;
        Ok(())
    }
}

impl Decode for Action {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        let words =
            [(r#""create""#, Self::Create), (r#""update""#, Self::Update), (r#""""#, Self::CreateOrUpdate)];
        *self = unquoted(value, &words, "unknown consumer action")?;
        Ok(())
    }
}

/// As [`word`], with another fault.
fn unquoted<T: Copy>(value: Value<'_>, words: &[(&str, T)], fault: &str) -> Result<T, Abort> {
    word(value, words).map_err(|_| Abort(format!("{fault}: {}", String::from_utf8_lossy(value.text()))))
}
