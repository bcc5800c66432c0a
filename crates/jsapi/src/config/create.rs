//! A new stream: all checks in the reference's order.

use super::check::{check, mirror_filter, overlap, source_filters};
use super::level::{adopt_required, set_required};
use super::limits::reserved_by_others;
use super::{Limits, OtherStreams, StreamConfig, StreamConfigRequest};
use crate::error::ApiError;

/// Result of a request to create.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Created {
    /// There is no such stream yet; this is its configuration.
    New(Box<StreamConfig>),
    /// There is one with this very configuration. Compat: the answer says `did_create` all the
    /// same.
    Same,
}

/// Decides about a request to create the stream `name`, as the subject calls it.
///
/// Compat: in a cluster a configuration is looked at by itself and beside a stream of its name
/// before limits are.
///
/// # Errors
/// The first of the reference's reasons.
pub fn create(
    request: StreamConfigRequest,
    name: &str,
    all: &dyn OtherStreams,
    limits: &Limits,
) -> Result<Created, ApiError> {
    let mut request = request;
    set_required(&mut request.config);
    check_request(&request.config, name)?;
    if !limits.has_replicas {
        check_early(&request, all, limits)?;
    }
    let mut config = check(&request.config, all, limits, request.pedantic)?;
    if config.num_replicas > 1 && !limits.has_replicas {
        return Err(ApiError::STREAM_REPLICAS_NOT_SUPPORTED);
    }
    if let Some(existing) = all.find(&config.name) {
        adopt_required(&mut config, &existing);
        return if config == *existing { Ok(Created::Same) } else { Err(ApiError::STREAM_NAME_EXIST) };
    }
    if limits.has_replicas {
        overlap(&config, all)?;
        limits.check_count(&config, all)?;
    }
    limits.check_consumers(&config)?;
    limits.check_bytes(&config, config.max_bytes, reserved_by_others(&config, all, limits))?;
    mirror_filter(&config).map_err(ApiError::stream_create)?;
    source_filters(&config).map_err(ApiError::stream_create)?;
    overlap(&config, all)?;
    Ok(Created::New(Box::new(config)))
}

/// Checks the request itself.
fn check_request(config: &StreamConfig, name: &str) -> Result<(), ApiError> {
    if config.name != name {
        return Err(ApiError::STREAM_MISMATCH);
    }
    if name.contains(['\\', '/']) {
        return Err(ApiError::STREAM_NAME_CONTAINS_PATH_SEPARATORS);
    }
    if config.sealed {
        return Err(ApiError::stream_invalid_config("stream configuration for create can not be sealed"));
    }
    if config.mirror_direct && config.mirror.is_none() {
        return Err(ApiError::stream_invalid_config("stream has no mirror but does have mirror direct"));
    }
    Ok(())
}

/// Limits, before anything else of the configuration is looked at: on a server alone.
///
/// Compat: `max_bytes` is held against the limits as it was sent, and only when the storage was
/// sent, too.
fn check_early(
    request: &StreamConfigRequest,
    all: &dyn OtherStreams,
    limits: &Limits,
) -> Result<(), ApiError> {
    let config = &request.config;
    limits.check_count(config, all)?;
    limits.check_consumers(config)?;
    if !request.names_storage {
        return Ok(());
    }
    limits.check_bytes(config, config.max_bytes, reserved_by_others(config, all, limits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AccountLimits, ServerLimits};
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    const LIMITS: ServerLimits = ServerLimits {
        max_memory: 1 << 30,
        max_storage: 1 << 40,
        memory_reserved: 0,
        storage_reserved: 0,
        duplicate_window: 0,
    };

    fn ask(body: &[u8]) -> Result<Created, ApiError> {
        let limits = Limits { account: AccountLimits::default(), server: LIMITS, has_replicas: false };
        let none: BTreeMap<String, Arc<StreamConfig>> = BTreeMap::new();
        create(StreamConfigRequest::read(body, true)?, "S", &none, &limits)
    }

    /// Has a request to a server of a cluster, or to one alone, which has a stream S, be refused.
    fn refused(body: &str, account: &AccountLimits, has_replicas: bool) -> u16 {
        let limits = Limits { account: account.clone(), server: LIMITS, has_replicas };
        let request = |body: &str| StreamConfigRequest::read(body.as_bytes(), true).expect("it is whole");
        let none: BTreeMap<String, Arc<StreamConfig>> = BTreeMap::new();
        let any = Limits { account: AccountLimits::default(), ..limits.clone() };
        let Ok(Created::New(known)) = create(request(r#"{"name":"S"}"#), "S", &none, &any) else {
            panic!("it is a stream")
        };
        let all: BTreeMap<String, Arc<StreamConfig>> = [("S".to_owned(), Arc::from(known))].into();
        let asked = request(body);
        let name = asked.config.name.clone();
        create(asked, &name, &all, &limits).expect_err("it is refused").err_code
    }

    #[test]
    fn in_a_cluster_limits_are_looked_at_last() {
        let limits = AccountLimits {
            max_streams: 1,
            max_storage: 100,
            storage_max_stream_bytes: 50,
            ..AccountLimits::default()
        };
        let large = r#"{"name":"S","storage":"file","max_bytes":101}"#;
        assert_eq!([false, true].map(|is| refused(large, &limits, is)), [10047, 10122]);
        let other = r#"{"name":"S","storage":"file","max_msgs":3}"#;
        let two = AccountLimits { max_streams: 0, ..limits.clone() };
        assert_eq!([false, true].map(|is| refused(other, &two, is)), [10058, 10058]);
        let overlaps = r#"{"name":"T","subjects":["S"]}"#;
        assert_eq!([false, true].map(|is| refused(overlaps, &limits, is)), [10027, 10065]);
        assert_eq!(refused(r#"{"name":"T"}"#, &limits, true), 10027);
    }

    #[test]
    fn a_first_sequence_leaves_room_to_count_on() {
        let ask = |first: u64| ask(format!(r#"{{"name":"S","first_seq":{first}}}"#).as_bytes());
        assert!(ask(1 << 62).is_ok());
        for first in [(1 << 62) + 1, u64::MAX] {
            assert_eq!(ask(first).map_err(|error| error.err_code), Err(10052));
        }
    }

    /// Pieces of requests, whole and broken.
    fn piece() -> impl Strategy<Value = Vec<u8>> {
        let pieces = [
            r#""name":"S","#,
            r#""subjects":["#,
            r#""a.*","#,
            "]",
            "{",
            "}",
            "[",
            ",",
            ":",
            "\"",
            "\\u12",
            "\\",
            "null",
            "-",
            "1e9",
            "0",
            r#""mirror":{"#,
            r#""sources":[{"#,
            r#""subject_transforms":[{"src":"a.*","dest":"{{wildcard("#,
            r#""opt_start_time":"2024-02-31T"#,
            r#""republish":{"src":"","dest":">"}"#,
            r#""max_age":-9223372036854775808"#,
            r#""max_bytes":9223372036854775807,"storage":"file""#,
            "\u{fffd}",
        ];
        prop_oneof![
            prop::sample::select(pieces.to_vec()).prop_map(|piece| piece.as_bytes().to_vec()),
            prop::collection::vec(any::<u8>(), 0..3),
        ]
    }

    proptest! {
        #[test]
        fn nothing_that_is_sent_breaks_anything(pieces in prop::collection::vec(piece(), 0..30)) {
            let body = [b"{", pieces.concat().as_slice()].concat();
            let _ = ask(&body);
        }
    }

    #[test]
    fn what_is_deep_or_long_is_refused_in_time() {
        let deep = [r#"{"x":"#.repeat(200_000), "[".repeat(100_000)];
        assert!(deep.iter().all(|body| ask(body.as_bytes()).is_err()));
        let subjects: Vec<String> = (0..100_000).map(|n| format!("\"s.{n}\"")).collect();
        let body = format!(r#"{{"name":"S","subjects":[{}]}}"#, subjects.join(","));
        assert!(matches!(ask(body.as_bytes()), Ok(Created::New(config)) if config.subjects.len() == 100_000));
    }
}
