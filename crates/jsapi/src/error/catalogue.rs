//! The table of API errors: number, class, name and text of each, as the reference numbers them.
//!
//! Names are the reference's without its `JS` and `Err`. Those whose text has a place for something
//! are functions, the others constants. Errors that only a cluster can give are here too: the table
//! is the reference's, whole.

use super::ApiError;
use std::borrow::Cow;
use std::fmt::Display;

macro_rules! plain {
    ($($number:literal $code:literal $name:ident $text:literal;)*) => {
        impl ApiError {
            $(
                #[doc = concat!($number, ": ", $text)]
                pub const $name: Self =
                    Self { code: $code, err_code: $number, description: Cow::Borrowed($text) };
            )*
        }

        #[cfg(test)]
        pub(super) const PLAIN: &[(u16, u16, &str, &str)] =
            &[$(($number, $code, stringify!($name), $text)),*];
    };
}

macro_rules! with_places {
    ($($number:literal $code:literal $name:ident($($place:ident),+) $text:literal;)*) => {
        impl ApiError {
            $(
                #[doc = concat!($number, ": ", $text)]
                #[must_use]
                pub fn $name($($place: impl Display),+) -> Self {
                    Self { code: $code, err_code: $number, description: Cow::Owned(format!($text)) }
                }
            )*
        }

        #[cfg(test)]
        pub(super) const WITH_PLACES: &[(u16, u16, &str, &str)] =
            &[$(($number, $code, stringify!($name), $text)),*];
    };
}

plain! {
    10002 400 ACCOUNT_RESOURCES_EXCEEDED "resource limits exceeded for account";
    10003 400 BAD_REQUEST "bad request";
    10004 503 CLUSTER_INCOMPLETE "incomplete results";
    10006 500 CLUSTER_NOT_ACTIVE "JetStream not in clustered mode";
    10007 500 CLUSTER_NOT_ASSIGNED "JetStream cluster not assigned to this server";
    10008 503 CLUSTER_NOT_AVAIL "JetStream system temporarily unavailable";
    10009 500 CLUSTER_NOT_LEADER "JetStream cluster can not handle request";
    10010 503 CLUSTER_REQUIRED "JetStream clustering support required";
    10011 400 CLUSTER_TAGS "tags placement not supported for operation";
    10013 400 CONSUMER_NAME_EXIST "consumer name already in use";
    10014 404 CONSUMER_NOT_FOUND "consumer not found";
    10015 400 SNAPSHOT_DELIVER_SUBJECT_INVALID "deliver subject not valid";
    10016 400 CONSUMER_DURABLE_NAME_NOT_IN_SUBJECT "consumer expected to be durable but no durable name set in subject";
    10017 400 CONSUMER_DURABLE_NAME_NOT_MATCH_SUBJECT "consumer name in subject does not match durable name in request";
    10018 400 CONSUMER_DURABLE_NAME_NOT_SET "consumer expected to be durable but a durable name was not set";
    10019 400 CONSUMER_EPHEMERAL_WITH_DURABLE_IN_SUBJECT "consumer expected to be ephemeral but detected a durable name set in subject";
    10020 400 CONSUMER_EPHEMERAL_WITH_DURABLE_NAME "consumer expected to be ephemeral but a durable name was set in request";
    10023 503 INSUFFICIENT_RESOURCES "insufficient resources";
    10026 400 MAXIMUM_CONSUMERS_LIMIT "maximum consumers limit reached";
    10027 400 MAXIMUM_STREAMS_LIMIT "maximum number of streams reached";
    10028 500 MEMORY_RESOURCES_EXCEEDED "insufficient memory resources available";
    10030 400 MIRROR_MAX_MESSAGE_SIZE_TOO_BIG "stream mirror must have max message size >= source";
    10031 400 MIRROR_WITH_SOURCES "stream mirrors can not also contain other sources";
    10032 400 MIRROR_WITH_START_SEQ_AND_TIME "stream mirrors can not have both start seq and start time configured";
    10033 400 MIRROR_WITH_SUBJECT_FILTERS "stream mirrors can not contain filtered subjects";
    10034 400 MIRROR_WITH_SUBJECTS "stream mirrors can not contain subjects";
    10035 503 NO_ACCOUNT "account not found";
    10036 503 CLUSTER_UN_SUPPORT_FEATURE "not currently supported in clustered mode";
    10037 404 NO_MESSAGE_FOUND "no message found";
    10038 400 NOT_EMPTY_REQUEST "expected an empty request payload";
    10039 503 NOT_ENABLED_FOR_ACCOUNT "JetStream not enabled for account";
    10040 400 CLUSTER_PEER_NOT_MEMBER "peer not a member";
    10044 400 CLUSTER_SERVER_NOT_MEMBER "server is not a member of the cluster";
    10046 400 SOURCE_MAX_MESSAGE_SIZE_TOO_BIG "stream source must have max message size >= target";
    10047 500 STORAGE_RESOURCES_EXCEEDED "insufficient storage resources available";
    10054 400 STREAM_MESSAGE_EXCEEDS_MAXIMUM "message size exceeds maximum allowed";
    10055 400 STREAM_MIRROR_NOT_UPDATABLE "stream mirror configuration can not be updated";
    10056 400 STREAM_MISMATCH "stream name in subject does not match request";
    10058 400 STREAM_NAME_EXIST "stream name already in use with a different configuration";
    10059 404 STREAM_NOT_FOUND "stream not found";
    10060 400 STREAM_NOT_MATCH "expected stream does not match";
    10061 400 STREAM_REPLICAS_NOT_UPDATABLE "Replicas configuration can not be updated";
    10063 503 STREAM_SEQUENCE_NOT_MATCH "expected stream sequence does not match";
    10065 400 STREAM_SUBJECT_OVERLAP "subjects overlap with an existing stream";
    10068 404 STREAM_TEMPLATE_NOT_FOUND "template not found";
    10072 500 TEMP_STORAGE_FAILED "JetStream unable to open temp storage for restore";
    10073 400 TEMPLATE_NAME_NOT_MATCH_SUBJECT "template name in subject does not match request";
    10074 500 STREAM_REPLICAS_NOT_SUPPORTED "replicas > 1 not supported in non-clustered mode";
    10075 503 PEER_REMAP "peer remap failed";
    10076 503 NOT_ENABLED "JetStream not enabled";
    10078 400 CONSUMER_CONFIG_REQUIRED "consumer config required";
    10079 400 CONSUMER_DELIVER_TO_WILDCARDS "consumer deliver subject has wildcards";
    10080 400 CONSUMER_PUSH_MAX_WAITING "consumer in push mode can not set max waiting";
    10081 400 CONSUMER_DELIVER_CYCLE "consumer deliver subject forms a cycle";
    10082 400 CONSUMER_MAX_PENDING_ACK_POLICY_REQUIRED "consumer requires ack policy for max ack pending";
    10083 400 CONSUMER_SMALL_HEARTBEAT "consumer idle heartbeat needs to be >= 100ms";
    10084 400 CONSUMER_PULL_REQUIRES_ACK "consumer in pull mode requires explicit ack policy on workqueue stream";
    10085 400 CONSUMER_PULL_NOT_DURABLE "consumer in pull mode requires a durable name";
    10086 400 CONSUMER_PULL_WITH_RATE_LIMIT "consumer in pull mode can not have rate limit set";
    10087 400 CONSUMER_MAX_WAITING_NEGATIVE "consumer max waiting needs to be positive";
    10088 400 CONSUMER_HB_REQUIRES_PUSH "consumer idle heartbeat requires a push based consumer";
    10089 400 CONSUMER_FC_REQUIRES_PUSH "consumer flow control requires a push based consumer";
    10090 400 CONSUMER_DIRECT_REQUIRES_PUSH "consumer direct requires a push based consumer";
    10091 400 CONSUMER_DIRECT_REQUIRES_EPHEMERAL "consumer direct requires an ephemeral consumer";
    10092 400 CONSUMER_ON_MAPPED "consumer direct on a mapped consumer";
    10093 400 CONSUMER_FILTER_NOT_SUBSET "consumer filter subject is not a valid subset of the interest subjects";
    10096 500 STREAM_INVALID "stream not valid";
    10097 400 STREAM_HEADER_EXCEEDS_MAXIMUM "header size exceeds maximum allowed of 64k";
    10098 400 CONSUMER_WQ_REQUIRES_EXPLICIT_ACK "workqueue stream requires explicit ack";
    10099 400 CONSUMER_WQ_MULTIPLE_UNFILTERED "multiple non-filtered consumers not allowed on workqueue stream";
    10100 400 CONSUMER_WQ_CONSUMER_NOT_UNIQUE "filtered consumer not unique on workqueue stream";
    10101 400 CONSUMER_WQ_CONSUMER_NOT_DELIVER_ALL "consumer must be deliver all on workqueue stream";
    10103 400 CONSUMER_BAD_DURABLE_NAME "durable name can not contain '.', '*', '>'";
    10105 400 CONSUMER_EXISTING_ACTIVE "consumer already exists and is still active";
    10106 400 CONSUMER_REPLACEMENT_WITH_DIFFERENT_NAME "consumer replacement durable config not the same";
    10108 400 CONSUMER_WITH_FLOW_CONTROL_NEEDS_HEARTBEATS "consumer with flow control also needs heartbeats";
    10109 400 STREAM_SEALED "invalid operation on sealed stream";
    10112 400 CONSUMER_INVALID_DELIVER_SUBJECT "invalid push consumer deliver subject";
    10113 400 STREAM_MAX_BYTES_REQUIRED "account requires a stream config to have max bytes set";
    10114 400 CONSUMER_MAX_REQUEST_BATCH_NEGATIVE "consumer max request batch needs to be > 0";
    10115 400 CONSUMER_MAX_REQUEST_EXPIRES_TOO_SMALL "consumer max request expires needs to be >= 1ms";
    10116 400 CONSUMER_MAX_DELIVER_BACKOFF "max deliver is required to be > length of backoff values";
    10117 500 STREAM_INFO_MAX_SUBJECTS "subject details would exceed maximum allowed";
    10118 500 STREAM_OFFLINE "stream is offline";
    10119 500 CONSUMER_OFFLINE "consumer is offline";
    10120 400 NO_LIMITS "no JetStream default or applicable tiered limit present";
    10122 400 STREAM_MAX_STREAM_BYTES_EXCEEDED "stream max bytes exceeds account limit max stream bytes";
    10123 400 STREAM_MOVE_AND_SCALE "can not move and scale a stream in a single update";
    10124 400 STREAM_MOVE_IN_PROGRESS "stream move already in progress";
    10126 400 CONSUMER_REPLICAS_EXCEEDS_STREAM "consumer config replica count exceeds parent stream";
    10127 400 CONSUMER_NAME_CONTAINS_PATH_SEPARATORS "Consumer name can not contain path separators";
    10128 400 STREAM_NAME_CONTAINS_PATH_SEPARATORS "Stream name can not contain path separators";
    10129 400 STREAM_RECONFIGURE_NOT_IN_PROGRESS "stream reconfiguration not in progress";
    10130 400 STREAM_NAME_EXIST_RESTORE_FAILED "stream name already in use, cannot restore";
    10131 400 CONSUMER_CREATE_FILTER_SUBJECT_MISMATCH "Consumer create request did not match filtered subject from create subject";
    10132 400 CONSUMER_CREATE_DURABLE_AND_NAME_MISMATCH "Consumer Durable and Name have to be equal if both are provided";
    10133 400 REPLICAS_COUNT_CANNOT_BE_NEGATIVE "replicas count cannot be negative";
    10134 400 CONSUMER_REPLICAS_SHOULD_MATCH_STREAM "consumer config replicas must match interest retention stream's replicas";
    10136 400 CONSUMER_DUPLICATE_FILTER_SUBJECTS "consumer cannot have both FilterSubject and FilterSubjects specified";
    10137 400 CONSUMER_MULTIPLE_FILTERS_NOT_ALLOWED "consumer with multiple subject filters cannot use subject based API";
    10138 400 CONSUMER_OVERLAPPING_SUBJECT_FILTERS "consumer subject filters cannot overlap";
    10139 400 CONSUMER_EMPTY_FILTER "consumer filter in FilterSubjects cannot be empty";
    10140 400 SOURCE_DUPLICATE_DETECTED "duplicate source configuration detected";
    10141 400 SOURCE_INVALID_STREAM_NAME "sourced stream name is invalid";
    10142 400 MIRROR_INVALID_STREAM_NAME "mirrored stream name is invalid";
    10143 400 MIRROR_WITH_FIRST_SEQ "stream mirrors can not have first sequence configured";
    10144 400 SOURCE_MULTIPLE_FILTERS_NOT_ALLOWED "source with multiple subject transforms cannot also have a single subject filter";
    10147 400 SOURCE_OVERLAPPING_SUBJECT_FILTERS "source filters can not overlap";
    10148 400 CONSUMER_ALREADY_EXISTS "consumer already exists";
    10149 400 CONSUMER_DOES_NOT_EXIST "consumer does not exist";
    10150 400 MIRROR_MULTIPLE_FILTERS_NOT_ALLOWED "mirror with multiple subject transforms cannot also have a single subject filter";
    10152 400 MIRROR_OVERLAPPING_SUBJECT_FILTERS "mirror subject filters can not overlap";
    10158 409 STREAM_DUPLICATE_MESSAGE_CONFLICT "duplicate message id is in process";
    10159 400 CONSUMER_PRIORITY_POLICY_WITHOUT_GROUP "Setting PriorityPolicy requires at least one PriorityGroup to be set";
    10160 400 CONSUMER_INVALID_PRIORITY_GROUP "Provided priority group does not exist for this consumer";
    10161 400 CONSUMER_EMPTY_GROUP_NAME "Group name cannot be an empty string";
    10162 400 CONSUMER_INVALID_GROUP_NAME "Valid priority group name must match A-Z, a-z, 0-9, -_/=)+ and may not exceed 16 characters";
    10163 503 STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_NOT_READY "expected last sequence per subject temporarily unavailable";
    10164 400 STREAM_WRONG_LAST_SEQUENCE_CONSTANT "wrong last sequence";
    10165 400 MESSAGE_TTL_INVALID "invalid per-message TTL";
    10166 400 MESSAGE_TTL_DISABLED "per-message TTL is disabled";
    10167 429 STREAM_TOO_MANY_REQUESTS "too many requests";
    10168 400 MESSAGE_INCR_DISABLED "message counters is disabled";
    10169 400 MESSAGE_INCR_MISSING "message counter increment is missing";
    10170 400 MESSAGE_INCR_PAYLOAD "message counter has payload";
    10171 400 MESSAGE_INCR_INVALID "message counter increment is invalid";
    10172 400 MESSAGE_COUNTER_BROKEN "message counter is broken";
    10173 400 MIRROR_WITH_COUNTERS "stream mirrors can not also calculate counters";
    10174 400 ATOMIC_PUBLISH_DISABLED "atomic publish is disabled";
    10175 400 ATOMIC_PUBLISH_MISSING_SEQ "atomic publish sequence is missing";
    10176 400 ATOMIC_PUBLISH_INCOMPLETE_BATCH "atomic publish batch is incomplete";
    10178 400 CONSUMER_PUSH_WITH_PRIORITY_GROUP "priority groups can not be used with push consumers";
    10179 400 ATOMIC_PUBLISH_INVALID_BATCH_ID "atomic publish batch ID is invalid";
    10180 412 STREAM_MIN_LAST_SEQ "min last sequence";
    10181 400 CONSUMER_ACK_POLICY_INVALID "consumer ack policy invalid";
    10182 400 CONSUMER_REPLAY_POLICY_INVALID "consumer replay policy invalid";
    10183 400 CONSUMER_ACK_WAIT_NEGATIVE "consumer ack wait needs to be positive";
    10184 400 CONSUMER_BACK_OFF_NEGATIVE "consumer backoff needs to be positive";
    10185 412 REQUIRED_API_LEVEL "JetStream minimum api level required";
    10186 400 MIRROR_WITH_MSG_SCHEDULES "stream mirrors can not also schedule messages";
    10187 400 SOURCE_WITH_MSG_SCHEDULES "stream source can not also schedule messages";
    10188 400 MESSAGE_SCHEDULES_DISABLED "message schedules is disabled";
    10189 400 MESSAGE_SCHEDULES_PATTERN_INVALID "message schedules pattern is invalid";
    10190 400 MESSAGE_SCHEDULES_TARGET_INVALID "message schedules target is invalid";
    10191 400 MESSAGE_SCHEDULES_TTL_INVALID "message schedules invalid per-message TTL";
    10192 400 MESSAGE_SCHEDULES_ROLLUP_INVALID "message schedules invalid rollup";
    10193 400 STREAM_EXPECTED_LAST_SEQ_PER_SUBJECT_INVALID "missing sequence for expected last sequence per subject";
    10196 400 CONSUMER_PRIORITY_GROUP_WITH_POLICY_NONE "consumer can not have priority groups when policy is none";
    10197 400 CONSUMER_PINNED_TTL_WITHOUT_PRIORITY_POLICY_NONE "PinnedTTL cannot be set when PriorityPolicy is none";
    10198 400 MIRROR_WITH_ATOMIC_PUBLISH "stream mirrors can not also use atomic publishing";
    10200 400 ATOMIC_PUBLISH_INVALID_BATCH_COMMIT "atomic publish batch commit is invalid";
    10201 400 ATOMIC_PUBLISH_CONTAINS_DUPLICATE_MESSAGE "atomic publish batch contains duplicate message id";
    10202 400 CLUSTER_SERVER_MEMBER_CHANGE_INFLIGHT "cluster member change is in progress";
    10203 400 MESSAGE_SCHEDULES_SOURCE_INVALID "message schedules source is invalid";
    10205 400 BATCH_PUBLISH_DISABLED "batch publish is disabled";
    10206 400 BATCH_PUBLISH_INVALID_PATTERN "batch publish pattern is invalid";
    10207 400 BATCH_PUBLISH_INVALID_BATCH_ID "batch publish ID is invalid";
    10208 400 BATCH_PUBLISH_UNKNOWN_BATCH_ID "batch publish ID unknown";
    10209 400 MIRROR_WITH_BATCH_PUBLISH "stream mirrors can not also use batch publishing";
    10210 429 ATOMIC_PUBLISH_TOO_MANY_INFLIGHT "atomic publish too many inflight";
    10211 429 BATCH_PUBLISH_TOO_MANY_INFLIGHT "batch publish too many inflight";
    10212 400 MESSAGE_SCHEDULES_SCHEDULER_INVALID "message schedules invalid scheduler";
    10213 400 MIRROR_DURABLE_CONSUMER_CFG_INVALID "stream mirror consumer config is invalid";
    10214 400 MIRROR_CONSUMER_REQUIRES_ACK_FC "stream mirror consumer requires flow control ack policy";
    10215 400 SOURCE_DURABLE_CONSUMER_CFG_INVALID "stream source consumer config is invalid";
    10216 400 SOURCE_DURABLE_CONSUMER_DUPLICATE_DETECTED "duplicate stream source consumer detected";
    10217 400 SOURCE_CONSUMER_REQUIRES_ACK_FC "stream source consumer requires flow control ack policy";
    10218 400 CONSUMER_ACK_FC_REQUIRES_PUSH "flow control ack policy requires a push based consumer";
    10219 400 CONSUMER_ACK_FC_REQUIRES_FC "flow control ack policy requires flow control";
    10220 400 CONSUMER_ACK_FC_REQUIRES_MAX_ACK_PENDING "flow control ack policy requires max ack pending";
    10221 400 CONSUMER_ACK_FC_REQUIRES_NO_ACK_WAIT "flow control ack policy requires unset ack wait";
    10222 400 CONSUMER_ACK_FC_REQUIRES_NO_MAX_DELIVER "flow control ack policy requires unset max deliver";
    10223 400 MESSAGE_SCHEDULES_TIME_ZONE_INVALID "message schedules time zone is invalid";
    10226 400 STREAM_RECONFIGURE_IN_PROGRESS "stream reconfiguration already in progress";
    10227 400 MESSAGE_SOURCE_HDR_NOT_ALLOWED "message stream source header is not allowed";
    10228 500 SOURCE_CONSUMER_FLOW_CONTROL_STALLED "stream source consumer stalled on flow control";
}

with_places! {
    10005 400 cluster_no_peers(err) "{err}";
    10012 500 consumer_create(err) "{err}";
    10021 400 stream_external_api_overlap(prefix, subject) "stream external api prefix {prefix} must not overlap with {subject}";
    10022 400 stream_external_del_prefix_overlaps(prefix, subject) "stream external delivery prefix {prefix} overlaps with stream subject {subject}";
    10024 400 stream_invalid_external_delivery_subj(prefix) "stream external delivery prefix {prefix} must not contain wildcards";
    10025 400 invalid_json(err) "invalid JSON: {err}";
    10029 500 mirror_consumer_setup_failed(err) "{err}";
    10041 500 raft_general(err) "{err}";
    10042 500 restore_subscribe_failed(subject, err) "JetStream unable to subscribe to restore snapshot {subject}: {err}";
    10043 400 sequence_not_found(seq) "sequence {seq} not found";
    10045 500 source_consumer_setup_failed(err) "{err}";
    10048 500 stream_assignment(err) "{err}";
    10049 500 stream_create(err) "{err}";
    10050 500 stream_delete(err) "{err}";
    10051 500 stream_general(err) "{err}";
    10052 500 stream_invalid_config(err) "{err}";
    10053 500 stream_limits(err) "{err}";
    10057 500 stream_msg_delete_failed(err) "{err}";
    10062 500 stream_restore(err) "restore failed: {err}";
    10064 500 stream_snapshot(err) "snapshot failed: {err}";
    10066 500 stream_template_create(err) "{err}";
    10067 500 stream_template_delete(err) "{err}";
    10069 500 stream_update(err) "{err}";
    10070 400 stream_wrong_last_msg_id(id) "wrong last msg ID: {id}";
    10071 400 stream_wrong_last_sequence(seq) "wrong last sequence: {seq}";
    10077 503 stream_store_failed(err) "{err}";
    10094 400 consumer_invalid_policy(err) "{err}";
    10095 400 consumer_invalid_sampling(err) "failed to parse consumer sampling configuration: {err}";
    10102 400 consumer_name_too_long(max) "consumer name is too long, maximum allowed is {max}";
    10104 500 consumer_store_failed(err) "error creating store for consumer: {err}";
    10107 400 consumer_description_too_long(max) "consumer description is too long, maximum allowed is {max}";
    10110 500 stream_purge_failed(err) "{err}";
    10111 500 stream_rollup_failed(err) "{err}";
    10121 400 consumer_max_pending_ack_excess(limit) "consumer max ack pending exceeds system limit of {limit}";
    10125 400 consumer_max_request_batch_exceeded(limit) "consumer max request batch exceeds server limit of {limit}";
    10135 400 consumer_metadata_length(limit) "consumer metadata exceeds maximum size of {limit}";
    10145 400 source_invalid_subject_filter(err) "source transform source: {err}";
    10146 400 source_invalid_transform_destination(err) "source transform: {err}";
    10151 400 mirror_invalid_subject_filter(err) "mirror transform source: {err}";
    10153 400 consumer_inactive_threshold_excess(limit) "consumer inactive threshold exceeds system limit of {limit}";
    10154 400 mirror_invalid_transform_destination(err) "mirror transform: {err}";
    10155 400 stream_transform_invalid_source(err) "stream transform source: {err}";
    10156 400 stream_transform_invalid_destination(err) "stream transform: {err}";
    10157 400 pedantic(err) "pedantic mode: {err}";
    10177 400 atomic_publish_unsupported_header_batch(header) "atomic publish unsupported header used: {header}";
    10194 500 stream_offline_reason(err) "stream is offline: {err}";
    10195 500 consumer_offline_reason(err) "consumer is offline: {err}";
    10199 400 atomic_publish_too_large_batch(size) "atomic publish batch is too large: {size}";
    10204 400 consumer_invalid_reset(err) "invalid reset: {err}";
    10224 400 cluster_rescue(err) "JetStream system rescue not applied: {err}";
    10225 400 consumer_stream_identity_mismatch(msg) "consumer's stream identity does not match: {msg}";
}
