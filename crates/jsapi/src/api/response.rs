//! Answers: a type, then an error or what was asked for.
//!
//! Some fields are there even beside an error, with nothing in them: an [`ApiResponse`]'s default
//! is what stands there then.

use super::info::{AccountInfo as Account, StreamInfo as Info, StreamState};
use super::moment;
use crate::config::StreamConfig;
use crate::error::ApiError;
use myelin_stdx::base64;
use myelin_stdx::time::Timestamp;
use myelin_wire::json::{compact, is_false, text};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;

/// Body of the response to one kind of request.
pub trait ApiResponse: Serialize + Default {
    /// `io.nats.jetstream.api.v1.…_response`.
    const TYPE: &'static str;
}

/// The bytes of a good answer.
pub fn granted<A: ApiResponse>(answer: &A) -> Vec<u8> {
    compact(&ResponseBody { kind: A::TYPE, error: None, answer })
}

/// The bytes of an answer that says no.
pub fn refused<A: ApiResponse>(error: &ApiError) -> Vec<u8> {
    compact(&ResponseBody { kind: A::TYPE, error: Some(error), answer: &A::default() })
}

/// The bytes of an answer that says no, and something beside that.
pub fn refused_with<A: ApiResponse>(answer: &A, error: &ApiError) -> Vec<u8> {
    compact(&ResponseBody { kind: A::TYPE, error: Some(error), answer })
}

#[derive(Serialize)]
struct ResponseBody<'a, A> {
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'a ApiError>,
    #[serde(flatten)]
    answer: &'a A,
}

/// Which part of a long list this is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Paging {
    /// Entries there are.
    pub total: usize,
    /// Entries before this part.
    pub offset: usize,
    /// Entries that a part can have.
    pub limit: usize,
}

/// To `STREAM.CREATE`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamCreate {
    /// The stream.
    #[serde(flatten)]
    pub info: Option<Info>,
    /// Compat: true in every good answer, even when the stream was there before.
    #[serde(skip_serializing_if = "is_false")]
    pub did_create: bool,
}

/// To `STREAM.UPDATE`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamUpdate {
    /// The stream.
    #[serde(flatten)]
    pub info: Option<Info>,
}

/// To `STREAM.CANCEL_MOVE`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamCancelMove {
    /// The stream, on its way back.
    #[serde(flatten)]
    pub info: Option<Info>,
}

/// To `STREAM.INFO`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamInfo {
    /// Of the subjects, where asked for.
    #[serde(flatten)]
    pub paging: Paging,
    /// The stream.
    #[serde(flatten)]
    pub info: Option<Info>,
}

/// To `STREAM.NAMES`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamNames {
    /// Of the streams.
    #[serde(flatten)]
    pub paging: Paging,
    /// Sorted. Compat: `None`, shown as `null`, when there are none.
    pub streams: Option<Vec<String>>,
}

/// A stream in a list.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum ListedStream {
    /// One of this server.
    Here(Box<Info>),
    /// One of another server, in its words.
    Elsewhere(Box<serde_json::value::RawValue>),
}

/// To `STREAM.LIST`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamList {
    /// Of the streams.
    #[serde(flatten)]
    pub paging: Paging,
    /// Sorted by name. Compat: their configurations are shown without versions, and without
    /// `cluster`.
    pub streams: Vec<ListedStream>,
    /// Streams that did not answer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
    /// Streams that this server can not run, and why.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub offline: BTreeMap<String, String>,
}

/// To `STREAM.SNAPSHOT`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamSnapshot {
    /// How the stream is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<StreamConfig>,
    /// State that the backup will hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<StreamState>,
}

/// To `STREAM.RESTORE`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StreamRestore {
    /// Where the pieces of the backup are to be sent. There even beside an error.
    pub deliver_subject: String,
}

/// To `STREAM.DELETE`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StreamDelete {
    /// Whether it is gone.
    #[serde(skip_serializing_if = "is_false")]
    pub success: bool,
}

/// To `STREAM.PURGE`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StreamPurge {
    /// Whether it was done.
    #[serde(skip_serializing_if = "is_false")]
    pub success: bool,
    /// Messages that went.
    pub purged: u64,
}

/// To `STREAM.MSG.DELETE`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct MessageDelete {
    /// Whether it is gone.
    #[serde(skip_serializing_if = "is_false")]
    pub success: bool,
}

/// To `STREAM.MSG.GET`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct MessageGet<'a> {
    /// The message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<StoredMessage<'a>>,
}

/// A message with all that a stream knows of it.
#[derive(Clone, Debug, Serialize)]
pub struct StoredMessage<'a> {
    /// Its subject.
    #[serde(serialize_with = "text")]
    pub subject: &'a [u8],
    /// Its sequence.
    pub seq: u64,
    /// The whole block of headers.
    #[serde(skip_serializing_if = "<[u8]>::is_empty", serialize_with = "in_base64")]
    pub hdrs: &'a [u8],
    /// The payload.
    #[serde(skip_serializing_if = "<[u8]>::is_empty", serialize_with = "in_base64")]
    pub data: &'a [u8],
    /// When it was stored.
    #[serde(serialize_with = "moment")]
    pub time: Timestamp,
}

/// To `INFO`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AccountInfo {
    /// The account.
    #[serde(flatten)]
    pub info: Option<Account>,
}

macro_rules! types {
    ($($answer:ty: $name:literal,)*) => {
        $(impl ApiResponse for $answer {
            const TYPE: &'static str = concat!("io.nats.jetstream.api.v1.", $name, "_response");
        })*
    };
}

types! {
    StreamCreate: "stream_create",
    StreamUpdate: "stream_update",
    StreamCancelMove: "stream_cancel_move",
    StreamInfo: "stream_info",
    StreamNames: "stream_names",
    StreamList: "stream_list",
    StreamDelete: "stream_delete",
    StreamPurge: "stream_purge",
    StreamSnapshot: "stream_snapshot",
    StreamRestore: "stream_restore",
    MessageDelete: "stream_msg_delete",
    MessageGet<'_>: "stream_msg_get",
    AccountInfo: "account_info",
}

/// For `serialize_with`: bytes in JSON as Go writes them.
fn in_base64<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&base64::encode(bytes))
}

#[cfg(test)]
mod tests {
    //! The expected bytes are recorded from nats-server 2.15.2.

    use super::super::info::TierUsage;
    use super::*;
    use crate::api::info::{ClusterInfo, StreamState};
    use crate::config::{StreamConfig, with_versions};

    fn shown(bytes: Vec<u8>) -> String {
        String::from_utf8(bytes).unwrap()
    }

    fn stream() -> Info {
        let mut config =
            StreamConfig { name: "A".into(), subjects: vec!["a.>".into()], ..Default::default() };
        for limit in [&mut config.max_consumers, &mut config.max_msgs, &mut config.max_bytes] {
            *limit = -1;
        }
        config.max_msgs_per_subject = -1;
        config.max_msg_size = -1;
        config.num_replicas = 1;
        config.duplicate_window = 120_000_000_000;
        config.metadata.insert("_nats.req.level".into(), "0".into());
        Info {
            config: with_versions(&config),
            created: 1_795_298_061_237_534_674,
            state: StreamState {
                messages: 3,
                bytes: 104,
                first_seq: 1,
                first_ts: 1_795_298_061_239_251_167,
                last_seq: 4,
                last_ts: 1_795_298_061_239_288_933,
                num_subjects: 3,
                subjects: [(b"a.\xff".to_vec(), 1), (b"a.z<&".to_vec(), 1), (b"a.b".to_vec(), 1)].into(),
                num_deleted: 1,
                deleted: vec![2],
                ..Default::default()
            },
            domain: String::new(),
            cluster: Some(ClusterInfo { leader: "N".into(), ..ClusterInfo::default() }),
            mirror: None,
            sources: Vec::new(),
            alternates: Vec::new(),
            ts: 1_795_298_061_289_188_684,
        }
    }

    const CONFIG: &str = r#""config":{"name":"A","subjects":["a.\u003e"],"retention":"limits","max_consumers":-1,"max_msgs":-1,"max_bytes":-1,"max_age":0,"max_msgs_per_subject":-1,"max_msg_size":-1,"discard":"old","storage":"file","num_replicas":1,"duplicate_window":120000000000,"compression":"none","allow_direct":false,"mirror_direct":false,"sealed":false,"deny_delete":false,"deny_purge":false,"allow_rollup_hdrs":false,"consumer_limits":{},"allow_msg_ttl":false,"metadata":{"_nats.level":"5","_nats.req.level":"0","_nats.ver":"2.15.2"}}"#;
    const STATE: &str = r#""created":"2026-11-21T21:54:21.237534674Z","state":{"messages":3,"bytes":104,"first_seq":1,"first_ts":"2026-11-21T21:54:21.239251167Z","last_seq":4,"last_ts":"2026-11-21T21:54:21.239288933Z","num_subjects":3,"subjects":{"a.b":1,"a.z\u003c\u0026":1,"a.\ufffd":1},"num_deleted":1,"deleted":[2],"consumer_count":0},"cluster":{"leader":"N"},"ts":"2026-11-21T21:54:21.289188684Z"}"#;

    #[test]
    fn a_stream_is_shown_whole() {
        let paging = Paging { total: 3, offset: 0, limit: crate::api::SUBJECTS_LIMIT };
        let answer = shown(granted(&StreamInfo { paging, info: Some(stream()) }));
        let head =
            r#"{"type":"io.nats.jetstream.api.v1.stream_info_response","total":3,"offset":0,"limit":100000,"#;
        assert_eq!(answer, format!("{head}{CONFIG},{STATE}"));
    }

    #[test]
    fn an_empty_stream_has_gos_zero_times() {
        let info = Info { state: StreamState::default(), cluster: None, ..stream() };
        let answer = shown(granted(&StreamCreate { info: Some(info), did_create: true }));
        let tail = r#""created":"2026-11-21T21:54:21.237534674Z","state":{"messages":0,"bytes":0,"first_seq":0,"first_ts":"0001-01-01T00:00:00Z","last_seq":0,"last_ts":"0001-01-01T00:00:00Z","consumer_count":0},"ts":"2026-11-21T21:54:21.289188684Z","did_create":true}"#;
        let head = r#"{"type":"io.nats.jetstream.api.v1.stream_create_response","#;
        assert_eq!(answer, format!("{head}{CONFIG},{tail}"));
    }

    #[test]
    fn errors_leave_what_is_never_omitted() {
        let error = ApiError::STREAM_NOT_FOUND;
        let json = r#""error":{"code":404,"err_code":10059,"description":"stream not found"}"#;
        for (answer, kind, rest) in [
            (refused::<StreamCreate>(&error), "stream_create", ""),
            (refused::<StreamUpdate>(&error), "stream_update", ""),
            (refused::<StreamInfo>(&error), "stream_info", r#","total":0,"offset":0,"limit":0"#),
            (
                refused::<StreamNames>(&error),
                "stream_names",
                r#","total":0,"offset":0,"limit":0,"streams":null"#,
            ),
            (refused::<StreamList>(&error), "stream_list", r#","total":0,"offset":0,"limit":0,"streams":[]"#),
            (refused::<StreamDelete>(&error), "stream_delete", ""),
            (refused::<StreamPurge>(&error), "stream_purge", r#","purged":0"#),
            (refused::<MessageDelete>(&error), "stream_msg_delete", ""),
            (refused::<MessageGet<'_>>(&error), "stream_msg_get", ""),
            (refused::<AccountInfo>(&error), "account_info", ""),
        ] {
            let expected = format!(r#"{{"type":"io.nats.jetstream.api.v1.{kind}_response",{json}{rest}}}"#);
            assert_eq!(shown(answer), expected);
        }
    }

    #[test]
    fn short_answers() {
        let paging = Paging { total: 1, offset: 0, limit: 1024 };
        let streams = Some(vec!["A".to_owned()]);
        for (answer, rest) in [
            (granted(&StreamDelete { success: true }), r#"delete_response","success":true}"#),
            (
                granted(&StreamPurge { success: true, purged: 1 }),
                r#"purge_response","success":true,"purged":1}"#,
            ),
            (granted(&MessageDelete { success: true }), r#"msg_delete_response","success":true}"#),
            (
                granted(&StreamNames { paging, streams }),
                r#"names_response","total":1,"offset":0,"limit":1024,"streams":["A"]}"#,
            ),
        ] {
            assert_eq!(shown(answer), format!(r#"{{"type":"io.nats.jetstream.api.v1.stream_{rest}"#));
        }
    }

    #[test]
    fn messages_are_base64_and_omit_what_they_lack() {
        let time = 1_795_298_061_239_278_928;
        let full = StoredMessage {
            subject: b"a.c",
            seq: 2,
            hdrs: b"NATS/1.0\r\nX: y<&>\r\n\r\n",
            data: b"abc",
            time,
        };
        let answer = shown(granted(&MessageGet { message: Some(full) }));
        let expected = r#"{"type":"io.nats.jetstream.api.v1.stream_msg_get_response","message":{"subject":"a.c","seq":2,"hdrs":"TkFUUy8xLjANClg6IHk8Jj4NCg0K","data":"YWJj","time":"2026-11-21T21:54:21.239278928Z"}}"#;
        assert_eq!(answer, expected);
        let bare = StoredMessage { subject: b"a.\xff", seq: 3, hdrs: b"", data: b"", time };
        let answer = shown(granted(&MessageGet { message: Some(bare) }));
        assert!(
            answer.ends_with(r#"{"subject":"a.\ufffd","seq":3,"time":"2026-11-21T21:54:21.239278928Z"}}"#)
        );
    }

    #[test]
    fn an_account_is_shown_with_its_limits() {
        let whole = TierUsage { streams: 1, ..TierUsage::default() };
        let mut info = Account { whole, ..Account::default() };
        info.api.total = 88;
        info.api.errors = 76;
        let expected = r#"{"type":"io.nats.jetstream.api.v1.account_info_response","memory":0,"storage":0,"reserved_memory":0,"reserved_storage":0,"streams":1,"consumers":0,"limits":{"max_memory":-1,"max_storage":-1,"max_streams":-1,"max_consumers":-1,"max_ack_pending":-1,"memory_max_stream_bytes":-1,"storage_max_stream_bytes":-1,"max_bytes_required":false},"api":{"level":5,"total":88,"errors":76}}"#;
        assert_eq!(shown(granted(&AccountInfo { info: Some(info) })), expected);
    }
}
