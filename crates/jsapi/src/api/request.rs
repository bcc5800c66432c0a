//! Requests about streams. Each says how its body is read; errors are those that need no look at
//! the stream.
//!
//! Compat: where a body may be absent, anything that does not begin like an object or a list counts
//! as absent.

use crate::config::{Placement, StreamConfig};
use crate::error::ApiError;
use crate::json::{self, Abort, Decode, JsonReader, Moment, object};
use myelin_wire::json::{Value, ValueKind};

/// `STREAM.INFO.<stream>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamInfoRequest {
    /// Subjects to skip.
    pub page: Paged,
    /// Whether to list deleted sequences.
    pub deleted_details: bool,
    /// Count messages for each subject that this matches; empty: do not.
    pub subjects_filter: String,
}

/// `STREAM.NAMES` and `STREAM.LIST`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamsRequest {
    /// Streams to skip.
    pub page: Paged,
    /// Only streams with a subject that overlaps this; empty: all.
    pub subject: String,
}

/// `STREAM.PURGE.<stream>`. Empty: everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Up to this sequence, which stays; 0: not said.
    pub seq: u64,
    /// Only these subjects; empty: all.
    pub filter: String,
    /// How many messages stay; 0: not said.
    pub keep: u64,
}

/// `STREAM.LEADER.STEPDOWN.<stream>` and those of consumers and of the meta group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepDownRequest {
    /// Which server is to lead; `None`: any other one.
    pub placement: Option<Placement>,
}

/// `STREAM.PEER.REMOVE.<stream>` and the like, `SERVER.REMOVE` and `SERVER.EVACUATE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerRequest {
    /// Name of the server; of streams and consumers also its peer id.
    pub peer: String,
    /// Its peer id.
    pub peer_id: String,
}

/// `ACCOUNT.STREAM.MOVE.<account>.<stream>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoveRequest {
    /// Name of the server that the stream is to leave; empty for any.
    pub server: String,
    /// Cluster of the server; empty for any.
    pub cluster: String,
    /// Domain of the server; empty for any.
    pub domain: String,
    /// Tags that the other server is to have beside those of the stream's placement.
    pub tags: Vec<String>,
}

/// `META.RESCUE`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RescueRequest {
    /// Servers that are to be enough for a decision.
    pub quorum_needed: i64,
}

/// `STREAM.MSG.DELETE.<stream>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageDeleteRequest {
    /// The message.
    pub seq: u64,
    /// Whether its bytes may stay on disk.
    pub no_erase: bool,
}

/// `STREAM.MSG.GET.<stream>` and `DIRECT.GET.<stream>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageGetRequest {
    /// This message, or where to begin; 0: not said.
    pub seq: u64,
    /// The last one of this subject.
    pub last_by_subj: String,
    /// The next one of these subjects.
    pub next_by_subj: String,
    /// How many; 0: one.
    pub batch: i64,
    /// Bytes of all; 0: not said.
    pub max_bytes: i64,
    /// Not before this.
    pub start_time: Option<Moment>,
    /// The last one of each subject that one of these matches.
    pub multi_last: Vec<String>,
    /// Not beyond this sequence; 0: not said.
    pub up_to_seq: u64,
    /// Not after this.
    pub up_to_time: Option<Moment>,
    /// Without headers.
    pub no_hdr: bool,
}

/// `STREAM.SNAPSHOT.<stream>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotRequest {
    /// Where the pieces go.
    pub deliver_subject: String,
    /// Without consumers.
    pub no_consumers: bool,
    /// Bytes of a piece; 0: not said.
    pub chunk_size: i64,
    /// Bytes that may be on their way; 0: not said.
    pub window_size: i64,
    /// Check all messages first. Compat: reading checks them in any case, and nothing is done
    /// before.
    pub jsck: bool,
}

/// `STREAM.RESTORE.<stream>`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreRequest {
    /// Configuration of the stream; not yet checked, without defaults.
    pub config: StreamConfig,
    /// State that the stream had. Compat: the backup itself says it, too, and is believed.
    pub state: RestoreState,
}

/// See [`RestoreRequest`]: read for its faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RestoreState {
    messages: u64,
    bytes: u64,
    first_seq: u64,
    first_ts: Option<Moment>,
    last_seq: u64,
    last_ts: Option<Moment>,
    num_subjects: i64,
    subjects: Anything,
    num_deleted: i64,
    deleted: Vec<u64>,
    lost: Anything,
    consumer_count: i64,
}

/// Value that is not looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Anything;

impl Decode for Anything {
    fn decode(&mut self, _: Value<'_>, _: &str, _: &mut JsonReader) -> Result<(), Abort> {
        Ok(())
    }
}

object! { SnapshotRequest, "JSApiStreamSnapshotRequest":
    "deliver_subject" deliver_subject "string",
    "no_consumers" no_consumers "bool",
    "chunk_size" chunk_size "int",
    "window_size" window_size "int",
    "jsck" jsck "bool",
}

object! { RestoreRequest, "JSApiStreamRestoreRequest":
    "config" config "server.StreamConfig",
    "state" state "server.StreamState",
}

object! { RestoreState, "StreamState":
    "messages" messages "uint64",
    "bytes" bytes "uint64",
    "first_seq" first_seq "uint64",
    "first_ts" first_ts "time.Time",
    "last_seq" last_seq "uint64",
    "last_ts" last_ts "time.Time",
    "num_subjects" num_subjects "int",
    "subjects" subjects "map[string]uint64",
    "num_deleted" num_deleted "int",
    "deleted" deleted "[]uint64",
    "lost" lost "server.LostStreamData",
    "consumer_count" consumer_count "int",
}

/// Offset that Go embeds in requests which are answered in pages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paged {
    offset: i64,
}

impl Paged {
    /// How many to skip. Compat: less than none is none.
    #[must_use]
    pub fn offset(self) -> usize {
        usize::try_from(self.offset).unwrap_or(0)
    }
}

object! { Paged, "ApiPagedRequest":
    "offset" offset "int",
}

object! { PurgeRequest, "JSApiStreamPurgeRequest":
    "seq" seq "uint64",
    "filter" filter "string",
    "keep" keep "uint64",
}

object! { StepDownRequest, "JSApiLeaderStepdownRequest":
    "placement" placement "*server.Placement",
}

object! { PeerRequest, "JSApiStreamRemovePeerRequest":
    "peer" peer "string",
    "peer_id" peer_id "string",
}

object! { MoveRequest, "JSApiMetaServerStreamMoveRequest":
    "server" server "string",
    "cluster" cluster "string",
    "domain" domain "string",
    "tags" tags "[]string",
}

object! { RescueRequest, "JSApiMetaRescueRequest":
    "quorum_needed" quorum_needed "int",
}

object! { MessageDeleteRequest, "JSApiMsgDeleteRequest":
    "seq" seq "uint64",
    "no_erase" no_erase "bool",
}

object! { MessageGetRequest, "JSApiMsgGetRequest":
    "seq" seq "uint64",
    "last_by_subj" last_by_subj "string",
    "next_by_subj" next_by_subj "string",
    "batch" batch "int",
    "max_bytes" max_bytes "int",
    "start_time" start_time "*time.Time",
    "multi_last" multi_last "[]string",
    "up_to_seq" up_to_seq "uint64",
    "up_to_time" up_to_time "*time.Time",
    "no_hdr" no_hdr "bool",
}

object! { StreamInfoRequest, "JSApiStreamInfoRequest":
    "deleted_details" deleted_details "bool",
    "subjects_filter" subjects_filter "string",
    embeds page
}

// Compat: names and lists are two types there, of which the names' stands for both: their faults
// differ in that name.
object! { StreamsRequest, "JSApiStreamNamesRequest":
    "subject" subject "string",
    embeds page
}

impl StreamInfoRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        optional(body, "server.JSApiStreamInfoRequest", strict)
    }
}

impl StreamsRequest {
    /// Reads the body of a request for names.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn names(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        optional(body, "server.JSApiStreamNamesRequest", strict)
    }

    /// Reads the body of a request for a list.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn list(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        let named = |text: String| text.replace("JSApiStreamNamesRequest", "JSApiStreamListRequest");
        Self::names(body, strict).map_err(|mut error| {
            error.description = named(error.description.into_owned()).into();
            error
        })
    }
}

impl PurgeRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`], or [`ApiError::BAD_REQUEST`] when it says both where to end and
    /// how many to keep.
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        let read: Self = optional(body, "server.JSApiStreamPurgeRequest", strict)?;
        if read.seq > 0 && read.keep > 0 { Err(ApiError::BAD_REQUEST) } else { Ok(read) }
    }
}

impl StepDownRequest {
    /// Reads the body, which may be absent, or say nothing that is an object.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        let read: Self = optional(body, "server.JSApiLeaderStepdownRequest", strict)?;
        let placement = read.placement.filter(|placement| *placement != Placement::default());
        Ok(Self { placement })
    }
}

impl PeerRequest {
    /// Reads the body, which may not be empty.
    ///
    /// # Errors
    /// [`ApiError::BAD_REQUEST`] and [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        if is_empty(body) {
            return Err(ApiError::BAD_REQUEST);
        }
        json::request(body, "server.JSApiStreamRemovePeerRequest", strict).map_err(ApiError::invalid_json)
    }
}

impl MoveRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        json::request(body, "server.JSApiMetaServerStreamMoveRequest", strict).map_err(ApiError::invalid_json)
    }
}

impl RescueRequest {
    /// Reads the body, which may not be empty.
    ///
    /// # Errors
    /// [`ApiError::BAD_REQUEST`] and [`ApiError::invalid_json`].
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        if is_empty(body) {
            return Err(ApiError::BAD_REQUEST);
        }
        json::request(body, "server.JSApiMetaRescueRequest", strict).map_err(ApiError::invalid_json)
    }
}

impl SnapshotRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`], or that its subject is none.
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        let read: Self = json::request(body, "server.JSApiStreamSnapshotRequest", strict)
            .map_err(ApiError::invalid_json)?;
        let subject = read.deliver_subject.as_bytes();
        if myelin_subject::is_literal(subject) {
            Ok(read)
        } else {
            Err(ApiError::SNAPSHOT_DELIVER_SUBJECT_INVALID)
        }
    }
}

impl RestoreRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`], or [`ApiError::BAD_REQUEST`] when there is none.
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        required(body, "server.JSApiStreamRestoreRequest", strict)
    }
}

impl MessageDeleteRequest {
    /// Reads the body.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`], or [`ApiError::BAD_REQUEST`] when there is none.
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        required(body, "server.JSApiMsgDeleteRequest", strict)
    }
}

impl MessageGetRequest {
    /// Reads the body of `STREAM.MSG.GET`, which gives one message.
    ///
    /// # Errors
    /// [`ApiError::invalid_json`], or [`ApiError::BAD_REQUEST`] when there is none, when it asks
    /// for several messages, or when it does not say in one way which.
    pub fn read(body: &[u8], strict: bool) -> Result<Self, ApiError> {
        let read: Self = required(body, "server.JSApiMsgGetRequest", strict)?;
        if read.batch > 0 || read.max_bytes > 0 || !read.is_definite() {
            return Err(ApiError::BAD_REQUEST);
        }
        Ok(read)
    }

    /// Reads the body of `DIRECT.GET`; what it may say is for direct gets to decide.
    ///
    /// # Errors
    /// In Go's words; direct gets have statuses instead of errors.
    pub fn direct(body: &[u8]) -> Result<Self, String> {
        let mut read = Self::default();
        json::lenient(body, "server.JSApiMsgGetRequest", &mut read).map(|()| read)
    }

    /// Whether it says in one way which message is meant.
    fn is_definite(&self) -> bool {
        let (last, next) = (!self.last_by_subj.is_empty(), !self.next_by_subj.is_empty());
        let ways = [self.seq > 0, last, self.start_time.is_some()].into_iter().filter(|way| *way).count();
        ways <= 1 && !(last && next) && (ways == 1 || next)
    }
}

pub(super) fn optional<T: Decode + Default>(body: &[u8], go_type: &str, strict: bool) -> Result<T, ApiError> {
    if !matches!(body.trim_ascii_start().first(), Some(b'{' | b'[')) {
        return Ok(T::default());
    }
    json::request(body, go_type, strict).map_err(ApiError::invalid_json)
}

fn required<T: Decode + Default>(body: &[u8], go_type: &str, strict: bool) -> Result<T, ApiError> {
    if is_empty(body) {
        return Err(ApiError::BAD_REQUEST);
    }
    json::request(body, go_type, strict).map_err(ApiError::invalid_json)
}

/// Whether a body says nothing: no bytes, or an object without members.
#[must_use]
pub fn is_empty(body: &[u8]) -> bool {
    let nothing = |value: Value<'_>| value.kind() == ValueKind::Object && value.members().next().is_none();
    body.is_empty() || Value::parse(body).is_ok_and(nothing)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T>(read: Result<T, ApiError>) -> String {
        read.err().map(|error| error.description.into_owned()).unwrap_or_default()
    }

    #[test]
    fn pages_begin_at_zero_and_bodies_may_be_absent() {
        let read = StreamInfoRequest::read(br#"{"offset":-3,"subjects_filter":">"}"#, true).unwrap();
        assert_eq!((read.page.offset(), read.subjects_filter.as_str()), (0, ">"));
        for nothing in [&b""[..], b"null", b"nonsense"] {
            assert_eq!(StreamsRequest::names(nothing, true).unwrap(), StreamsRequest::default());
        }
        for nothing in [&b""[..], b"x", b"5", b"\"a\""] {
            assert_eq!(StepDownRequest::read(nothing, true).unwrap(), StepDownRequest::default());
        }
        assert!(StepDownRequest::read(b"[]", true).is_err() && StepDownRequest::read(b"{", true).is_err());
    }

    #[test]
    fn faults_name_the_types_of_the_reference() {
        let wrong = "invalid JSON: json: cannot unmarshal string into Go struct field";
        assert_eq!(
            refused(StreamInfoRequest::read(br#"{"offset":"x"}"#, true)),
            format!("{wrong} JSApiStreamInfoRequest.ApiPagedRequest.offset of type int")
        );
        assert_eq!(
            refused(StreamsRequest::list(br#"{"offset":"x"}"#, true)),
            format!("{wrong} JSApiStreamListRequest.ApiPagedRequest.offset of type int")
        );
        assert_eq!(
            refused(StreamsRequest::list(b"[]", true)),
            "invalid JSON: json: cannot unmarshal array into Go value of type server.JSApiStreamListRequest"
        );
    }

    #[test]
    fn one_message_is_asked_for_in_one_way() {
        for definite in [r#"{"seq":1}"#, r#"{"seq":1,"next_by_subj":"a"}"#, r#"{"last_by_subj":"a"}"#] {
            assert!(MessageGetRequest::read(definite.as_bytes(), true).is_ok(), "{definite}");
        }
        for bad in [
            "",
            " { } ",
            r#"{"seq":0}"#,
            r#"{"seq":1,"last_by_subj":"a"}"#,
            r#"{"last_by_subj":"a","next_by_subj":"a"}"#,
            r#"{"seq":1,"batch":2}"#,
            r#"{"seq":1,"start_time":"2024-01-01T00:00:00Z"}"#,
        ] {
            assert_eq!(MessageGetRequest::read(bad.as_bytes(), true), Err(ApiError::BAD_REQUEST), "{bad}");
        }
    }

    #[test]
    fn a_purge_ends_somewhere_or_keeps_some() {
        assert_eq!(PurgeRequest::read(br#"{"seq":1,"keep":1}"#, true), Err(ApiError::BAD_REQUEST));
        assert_eq!(PurgeRequest::read(b"", true), Ok(PurgeRequest::default()));
    }
}
