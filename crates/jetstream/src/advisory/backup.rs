//! Advisories about backups: that one is being made or restored, and what became of it.

use super::{Advisory, ClientInfo, Stamp, advisory};
use crate::api::info::StreamState;
use crate::api::moment;
use myelin_store::Timestamp;
use serde::Serialize;

/// A backup of a stream begins, which will hold this.
pub fn snapshot_create(
    stamp: Stamp<'_>,
    stream: &str,
    state: &StreamState,
    client: Option<&ClientInfo>,
) -> Advisory {
    #[derive(Serialize)]
    struct Begun<'a> {
        stream: &'a str,
        state: &'a StreamState,
        client: Option<&'a ClientInfo>,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let begun = Begun { stream, state, client, domain: stamp.domain };
    advisory(format!("STREAM.SNAPSHOT_CREATE.{stream}"), "snapshot_create", stamp, begun)
}

/// A backup that began at `start` has ended; `error` says why, if too early.
pub fn snapshot_complete(
    stamp: Stamp<'_>,
    stream: &str,
    start: Timestamp,
    client: Option<&ClientInfo>,
    error: &str,
) -> Advisory {
    #[derive(Serialize)]
    struct Ended<'a> {
        stream: &'a str,
        #[serde(serialize_with = "moment")]
        start: Timestamp,
        #[serde(serialize_with = "moment")]
        end: Timestamp,
        client: Option<&'a ClientInfo>,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
        #[serde(skip_serializing_if = "str::is_empty")]
        error: &'a str,
    }
    let ended = Ended { stream, start, end: stamp.time, client, domain: stamp.domain, error };
    advisory(format!("STREAM.SNAPSHOT_COMPLETE.{stream}"), "snapshot_complete", stamp, ended)
}

/// A stream is being restored.
pub fn restore_create(stamp: Stamp<'_>, stream: &str, client: Option<&ClientInfo>) -> Advisory {
    #[derive(Serialize)]
    struct Begun<'a> {
        stream: &'a str,
        client: Option<&'a ClientInfo>,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let begun = Begun { stream, client, domain: stamp.domain };
    advisory(format!("STREAM.RESTORE_CREATE.{stream}"), "restore_create", stamp, begun)
}

/// A restore that began at `start` has ended, in whichever way.
pub fn restore_complete(
    stamp: Stamp<'_>,
    stream: &str,
    start: Timestamp,
    bytes: u64,
    client: Option<&ClientInfo>,
) -> Advisory {
    #[derive(Serialize)]
    struct Ended<'a> {
        stream: &'a str,
        #[serde(serialize_with = "moment")]
        start: Timestamp,
        #[serde(serialize_with = "moment")]
        end: Timestamp,
        bytes: u64,
        client: Option<&'a ClientInfo>,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let ended = Ended { stream, start, end: stamp.time, bytes, client, domain: stamp.domain };
    advisory(format!("STREAM.RESTORE_COMPLETE.{stream}"), "restore_complete", stamp, ended)
}
