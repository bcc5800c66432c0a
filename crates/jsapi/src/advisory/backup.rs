//! Advisories about backups: that one is being made or restored, and what became of it.

use super::{Advisory, AdvisoryHeader, ClientInfo, advisory};
use crate::api::info::StreamState;
use crate::api::moment;
use myelin_stdx::time::Timestamp;
use serde::Serialize;

/// A backup of a stream begins, which will hold this.
pub fn snapshot_create(
    header: AdvisoryHeader<'_>,
    stream: &str,
    state: &StreamState,
    client: Option<&ClientInfo>,
) -> Advisory {
    #[derive(Serialize)]
    struct BegunBody<'a> {
        stream: &'a str,
        state: &'a StreamState,
        client: Option<&'a ClientInfo>,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let begun = BegunBody { stream, state, client, domain: header.domain };
    advisory(format!("STREAM.SNAPSHOT_CREATE.{stream}"), "snapshot_create", header, begun)
}

/// A backup that began at `start` has ended; `error` says why, if too early.
pub fn snapshot_complete(
    header: AdvisoryHeader<'_>,
    stream: &str,
    start: Timestamp,
    client: Option<&ClientInfo>,
    error: &str,
) -> Advisory {
    #[derive(Serialize)]
    struct EndedBody<'a> {
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
    let ended = EndedBody { stream, start, end: header.time, client, domain: header.domain, error };
    advisory(format!("STREAM.SNAPSHOT_COMPLETE.{stream}"), "snapshot_complete", header, ended)
}

/// A stream is being restored.
pub fn restore_create(header: AdvisoryHeader<'_>, stream: &str, client: Option<&ClientInfo>) -> Advisory {
    #[derive(Serialize)]
    struct BegunBody<'a> {
        stream: &'a str,
        client: Option<&'a ClientInfo>,
        #[serde(skip_serializing_if = "str::is_empty")]
        domain: &'a str,
    }
    let begun = BegunBody { stream, client, domain: header.domain };
    advisory(format!("STREAM.RESTORE_CREATE.{stream}"), "restore_create", header, begun)
}

/// A restore that began at `start` has ended, in whichever way.
pub fn restore_complete(
    header: AdvisoryHeader<'_>,
    stream: &str,
    start: Timestamp,
    bytes: u64,
    client: Option<&ClientInfo>,
) -> Advisory {
    #[derive(Serialize)]
    struct EndedBody<'a> {
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
    let ended = EndedBody { stream, start, end: header.time, bytes, client, domain: header.domain };
    advisory(format!("STREAM.RESTORE_COMPLETE.{stream}"), "restore_complete", header, ended)
}
