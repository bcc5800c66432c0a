//! Rules of a stream's configuration for messages that are published: the checks that look at one
//! message alone.

use myelin_store::record::stored_size;
use myelin_subject::Transform;
use myelin_wire::message_buf::MessageRef;

use super::append_run::MsgExpiry;
use super::msg_headers::{Key, MsgHeaders};
use super::ttl::{self, Ttl};
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Retention, StreamConfig};

/// The largest record of the reference's file store.
const RECORD_MAX: u64 = 32 << 20;
/// The most bytes of a header block.
const HEADERS_MAX: usize = u16::MAX as usize;

/// Headers with which an increment cannot be combined.
const CONDITIONS: [Key; 6] = [
    Key::Rollup,
    Key::ExpectedStream,
    Key::ExpectedLastMsgId,
    Key::ExpectedLastSubjectSequenceSubject,
    Key::ExpectedLastSequence,
    Key::ExpectedLastSubjectSequence,
];

/// Rules for messages that are published, one by one. Made anew with every change of the
/// configuration.
pub(super) struct PublishRules {
    pub(super) transform: Option<Transform>,
    pub(super) storage: myelin_store::Storage,
    pub(super) has_acks: bool,
    /// Whether messages that no consumer wants are passed over.
    pub(super) is_interest: bool,
    pub(super) is_mirror: bool,
    pub(super) is_sealed: bool,
    pub(super) limits: myelin_store::Limits,
    allows_rollups: bool,
    name: String,
    max_message: Option<usize>,
    pub(super) allows_ttl: bool,
    pub(super) allows_counters: bool,
    pub(super) allows_schedules: bool,
    /// Subjects that the stream listens to.
    pub(super) subjects: Vec<String>,
    /// The least time to live, so that delete markers are not missed; in seconds.
    least_ttl: i64,
}

impl PublishRules {
    pub(super) fn new(config: &StreamConfig) -> Self {
        let transform = config.subject_transform.as_ref();
        let transform = transform.and_then(|pair| {
            let source = if pair.source.is_empty() { ">" } else { &pair.source };
            // Compat: a transform that makes nothing is none. The API admits no invalid one.
            Transform::new(source, &pair.destination).ok()
        });
        let marker_ttl = config.subject_delete_marker_ttl / ttl::SECOND;
        let storage_config = super::storage_config(config, false);
        Self {
            transform,
            storage: storage_config.storage,
            has_acks: !config.no_ack,
            is_interest: config.retention == Retention::Interest,
            is_mirror: config.mirror.is_some(),
            is_sealed: config.sealed,
            limits: storage_config.limits,
            allows_rollups: config.allow_rollup_hdrs && !config.deny_purge,
            name: config.name.clone(),
            max_message: usize::try_from(config.max_msg_size).ok(),
            allows_ttl: config.allow_msg_ttl,
            allows_counters: config.allow_msg_counter,
            allows_schedules: config.allow_msg_schedules,
            subjects: if config.allow_msg_schedules { config.subjects.clone() } else { Vec::new() },
            least_ttl: if config.max_msgs_per_subject == 1 { 0 } else { marker_ttl },
        }
    }

    /// Bytes that a message counts against limits.
    pub(super) fn size(&self, message: &MessageRef<'_>) -> u64 {
        stored_size(self.storage, message.subject.len(), message.headers.len(), message.payload.len())
    }

    /// Checks of the form, in the reference's order. The subject is the one under which the message
    /// is to be stored.
    pub(super) fn check_form(&self, message: &MessageRef<'_>) -> Result<(), ApiError> {
        self.check_record(message)?;
        self.check_sealed()?;
        self.check_size(message)?;
        self.check_headers(message)
    }

    /// Whether the reference's store could take it.
    pub(super) fn check_record(&self, message: &MessageRef<'_>) -> Result<(), ApiError> {
        if self.storage == myelin_store::Storage::File && self.size(message) > RECORD_MAX {
            return Err(ApiError::stream_store_failed("message too large"));
        }
        Ok(())
    }

    pub(super) fn check_sealed(&self) -> Result<(), ApiError> {
        if self.is_sealed { Err(ApiError::STREAM_SEALED) } else { Ok(()) }
    }

    pub(super) fn check_size(&self, message: &MessageRef<'_>) -> Result<(), ApiError> {
        if self.max_message.is_some_and(|max| message.headers.len() + message.payload.len() > max) {
            return Err(ApiError::STREAM_MESSAGE_EXCEEDS_MAXIMUM);
        }
        Ok(())
    }

    pub(super) fn check_headers(&self, message: &MessageRef<'_>) -> Result<(), ApiError> {
        if message.headers.len() > HEADERS_MAX {
            return Err(ApiError::STREAM_HEADER_EXCEEDS_MAXIMUM);
        }
        Ok(())
    }

    /// Checks of headers that come before those of the stream's state.
    ///
    /// Compat: a message of its own does not say which level of the API it needs: only those of
    /// batches are asked.
    pub(super) fn check_before_state(
        &self,
        msg_headers: &MsgHeaders<'_>,
        has_payload: bool,
    ) -> Result<(), ApiError> {
        if msg_headers.has(Key::Increment) {
            self.check_increment(msg_headers, has_payload)?;
        }
        let expected = msg_headers.get(Key::ExpectedStream);
        if !expected.is_empty() && expected != self.name.as_bytes() {
            return Err(ApiError::STREAM_NOT_MATCH);
        }
        Ok(())
    }

    fn check_increment(&self, msg_headers: &MsgHeaders<'_>, has_payload: bool) -> Result<(), ApiError> {
        if !is_integer(msg_headers.get(Key::Increment)) {
            return Err(ApiError::MESSAGE_INCR_INVALID);
        }
        if !self.allows_counters {
            return Err(ApiError::MESSAGE_INCR_DISABLED);
        }
        if has_payload {
            return Err(ApiError::MESSAGE_INCR_PAYLOAD);
        }
        // Compat: what is added up cannot be made to depend on anything.
        if msg_headers.has_any(&CONDITIONS) { Err(ApiError::MESSAGE_INCR_INVALID) } else { Ok(()) }
    }

    /// Whether a time to live may be there. One that cannot be read is refused elsewhere, and
    /// later.
    pub(super) fn check_ttl_allowed(&self, msg_headers: &MsgHeaders<'_>) -> Result<(), ApiError> {
        let has_ttl = matches!(ttl::parse(msg_headers.get(Key::Ttl)), Ok(Ttl::Never | Ttl::Seconds(1..)));
        if has_ttl && !self.allows_ttl { Err(ApiError::MESSAGE_TTL_DISABLED) } else { Ok(()) }
    }

    /// Checks whether a message of a batch may have the time to live that it asks for.
    ///
    /// Compat: there a time that cannot be read is refused as one that may not be there.
    pub(super) fn check_batch_ttl(&self, msg_headers: &MsgHeaders<'_>) -> Result<(), ApiError> {
        match ttl::parse(msg_headers.get(Key::Ttl)) {
            Ok(Ttl::None | Ttl::Seconds(0)) => Ok(()),
            _ if !self.allows_ttl => Err(ApiError::MESSAGE_TTL_DISABLED),
            read => read.map(|_| ()),
        }
    }

    /// Only streams say where a message comes from.
    pub(super) fn check_source(&self, msg_headers: &MsgHeaders<'_>) -> Result<(), ApiError> {
        if msg_headers.has(Key::StreamSource) {
            Err(ApiError::MESSAGE_SOURCE_HDR_NOT_ALLOWED)
        } else {
            Ok(())
        }
    }

    /// Checks what may be said of the schedule that a message comes from, which is that it ends.
    pub(super) fn check_scheduler(
        &self,
        msg_headers: &MsgHeaders<'_>,
        subject: &[u8],
    ) -> Result<(), ApiError> {
        let scheduler = msg_headers.get(Key::Scheduler);
        match msg_headers.get(Key::ScheduleNext) {
            b"" if scheduler.is_empty() => Ok(()),
            b"purge" if is_other_literal(scheduler, subject) => {
                if self.allows_schedules {
                    Ok(())
                } else {
                    Err(ApiError::MESSAGE_SCHEDULES_DISABLED)
                }
            }
            _ => Err(ApiError::MESSAGE_SCHEDULES_SCHEDULER_INVALID),
        }
    }

    /// Whether the rollup that is asked for may be.
    pub(super) fn check_rollup(&self, msg_headers: &MsgHeaders<'_>) -> Result<Option<Rollup>, ApiError> {
        if msg_headers.has(Key::Rollup) && !self.allows_rollups {
            return Err(ApiError::stream_rollup_failed("rollup not permitted"));
        }
        Rollup::of(msg_headers)
    }

    /// Rollup that a message of another stream asks for, if this one lets messages do so. What
    /// makes no sense does nothing.
    pub(super) fn rollup_of_copy(&self, msg_headers: &MsgHeaders<'_>) -> Option<Rollup> {
        if self.allows_rollups { Rollup::of(msg_headers).ok().flatten() } else { None }
    }

    /// When a message of another stream ends by its header, if such times count here. Compat: one
    /// that never does is spared by the limit of age, whether they do or not.
    pub(super) fn expiry_of_copy(&self, msg_headers: &MsgHeaders<'_>) -> Option<MsgExpiry> {
        let (expiry, _) = self.expiry(msg_headers).ok()?;
        expiry.filter(|expiry| self.allows_ttl || matches!(expiry, MsgExpiry::Never))
    }

    /// A stream of counters takes nothing else.
    pub(super) fn check_counts(&self, msg_headers: &MsgHeaders<'_>) -> Result<(), ApiError> {
        let is_missing = self.allows_counters && !msg_headers.has(Key::Increment);
        if is_missing { Err(ApiError::MESSAGE_INCR_MISSING) } else { Ok(()) }
    }

    /// When a message ends by its header, and what the header has to say instead, if it asks for
    /// less than is allowed.
    pub(super) fn expiry(
        &self,
        msg_headers: &MsgHeaders<'_>,
    ) -> Result<(Option<MsgExpiry>, Option<i64>), ApiError> {
        let after = |seconds: i64| Some(MsgExpiry::After(seconds.saturating_mul(ttl::SECOND)));
        match ttl::parse(msg_headers.get(Key::Ttl))? {
            Ttl::None | Ttl::Seconds(0) => Ok((None, None)),
            Ttl::Never => Ok((Some(MsgExpiry::Never), None)),
            Ttl::Seconds(seconds) if seconds < self.least_ttl => {
                Ok((after(self.least_ttl), Some(self.least_ttl)))
            }
            Ttl::Seconds(seconds) => Ok((after(seconds), None)),
        }
    }
}

/// Rollup: what goes when a message is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rollup {
    /// Older messages of its subject.
    Subject,
    /// All older messages.
    All,
}

impl Rollup {
    /// Rollup that the header asks for.
    pub(super) fn of(msg_headers: &MsgHeaders<'_>) -> Result<Option<Self>, ApiError> {
        if !msg_headers.has(Key::Rollup) {
            return Ok(None);
        }
        let value = String::from_utf8_lossy(msg_headers.get(Key::Rollup)).to_lowercase();
        match value.as_str() {
            "sub" => Ok(Some(Self::Subject)),
            "all" => Ok(Some(Self::All)),
            _ => Err(ApiError::stream_rollup_failed(format!("rollup value invalid: {value:?}"))),
        }
    }
}

/// Whether a subject can be published to, and is not `subject`.
pub(super) fn is_other_literal(other: &[u8], subject: &[u8]) -> bool {
    other != subject && myelin_subject::is_literal(other)
}

fn is_integer(text: &[u8]) -> bool {
    let digits = text.strip_prefix(b"+").or_else(|| text.strip_prefix(b"-")).unwrap_or(text);
    !digits.is_empty() && digits.iter().all(u8::is_ascii_digit)
}
