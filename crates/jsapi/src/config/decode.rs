//! How configurations are read: Go's name for each field's type, for the faults.

use super::{
    Compression, ConsumerLimits, Discard, ExternalStream, PersistMode, Placement, Republish, Retention,
    SourceConsumerConfig, Storage, StreamConfig, StreamSource, SubjectTransform,
};
use crate::json::{Abort, Decode, JsonReader, object, word};
use myelin_wire::json::{Value, ValueKind};

object! { ConsumerLimits, "StreamConsumerLimits":
    "inactive_threshold" inactive_threshold "time.Duration",
    "max_ack_pending" max_ack_pending "int",
}

object! { SubjectTransform, "SubjectTransformConfig":
    "src" source "string",
    "dest" destination "string",
}

object! { Republish, "RePublish":
    "src" source "string",
    "dest" destination "string",
    "headers_only" headers_only "bool",
}

object! { Placement, "Placement":
    "cluster" cluster "string",
    "tags" tags "[]string",
    "preferred" preferred "string",
}

object! { ExternalStream, "ExternalStream":
    "api" api "string",
    "deliver" deliver "string",
}

object! { SourceConsumerConfig, "StreamConsumerSource":
    "name" name "string",
    "deliver_subject" deliver_subject "string",
}

object! { StreamSource, "StreamSource":
    "name" name "string",
    "opt_start_seq" opt_start_seq "uint64",
    "opt_start_time" opt_start_time "*time.Time",
    "filter_subject" filter_subject "string",
    "subject_transforms" subject_transforms "[]server.SubjectTransformConfig",
    "external" external "*server.ExternalStream",
    "consumer" consumer "*server.StreamConsumerSource",
}

object! { StreamConfig, "StreamConfig":
    "name" name "string",
    "description" description "string",
    "subjects" subjects "[]string",
    "retention" retention "server.RetentionPolicy",
    "max_consumers" max_consumers "int",
    "max_msgs" max_msgs "int64",
    "max_bytes" max_bytes "int64",
    "max_age" max_age "time.Duration",
    "max_msgs_per_subject" max_msgs_per_subject "int64",
    "max_msg_size" max_msg_size "int32",
    "discard" discard "server.DiscardPolicy",
    "storage" storage "server.StorageType",
    "num_replicas" num_replicas "int",
    "no_ack" no_ack "bool",
    "duplicate_window" duplicate_window "time.Duration",
    "placement" placement "*server.Placement",
    "mirror" mirror "*server.StreamSource",
    "sources" sources "[]*server.StreamSource",
    "compression" compression "server.StoreCompression",
    "first_seq" first_seq "uint64",
    "subject_transform" subject_transform "*server.SubjectTransformConfig",
    "republish" republish "*server.RePublish",
    "allow_direct" allow_direct "bool",
    "mirror_direct" mirror_direct "bool",
    "discard_new_per_subject" discard_new_per_subject "bool",
    "sealed" sealed "bool",
    "deny_delete" deny_delete "bool",
    "deny_purge" deny_purge "bool",
    "allow_rollup_hdrs" allow_rollup_hdrs "bool",
    "consumer_limits" consumer_limits "server.StreamConsumerLimits",
    "allow_msg_ttl" allow_msg_ttl "bool",
    "subject_delete_marker_ttl" subject_delete_marker_ttl "time.Duration",
    "allow_msg_counter" allow_msg_counter "bool",
    "allow_atomic" allow_atomic "bool",
    "allow_msg_schedules" allow_msg_schedules "bool",
    "persist_mode" persist_mode "server.PersistModeType",
    "allow_batched" allow_batched "bool",
    "metadata" metadata "map[string]string",
}

impl Decode for Retention {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        let words = [
            (r#""limits""#, Self::Limits),
            (r#""interest""#, Self::Interest),
            (r#""workqueue""#, Self::WorkQueue),
        ];
        *self = word(value, &words)?;
        Ok(())
    }
}

impl Decode for Discard {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        // Compat: this one enum is read in any case.
        let matches = |word: &[u8]| value.text().eq_ignore_ascii_case(word);
        *self = match () {
            () if matches(br#""old""#) => Self::Old,
            () if matches(br#""new""#) => Self::New,
            () => word(value, &[])?,
        };
        Ok(())
    }
}

impl Decode for Storage {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        *self = word(value, &[(r#""memory""#, Self::Memory), (r#""file""#, Self::File)])?;
        Ok(())
    }
}

impl Decode for PersistMode {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, _reader: &mut JsonReader) -> Result<(), Abort> {
        let words = [(r#""default""#, Self::Default), (r#""""#, Self::Default), (r#""async""#, Self::Async)];
        *self = word(value, &words)?;
        Ok(())
    }
}

impl Decode for Compression {
    fn decode(&mut self, value: Value<'_>, _go_type: &str, reader: &mut JsonReader) -> Result<(), Abort> {
        // Compat: read as a string first, so that a wrong type has another text than a wrong word.
        if !matches!(value.kind(), ValueKind::String | ValueKind::Null) {
            return Err(Abort(reader.mismatched(value.kind().name(), "string")));
        }
        *self = match &*value.string() {
            "s2" => Self::S2,
            "none" => Self::None,
            _ => return Err(Abort("unknown compression algorithm".to_owned())),
        };
        Ok(())
    }
}
