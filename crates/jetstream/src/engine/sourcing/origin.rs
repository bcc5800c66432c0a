//! Where the origin of a mirror or source is: in the same account, or in another one of this server
//! by what that account lets this one have.
//!
//! `external` names the origin by subjects: a prefix of its API, one of its deliveries. What is
//! behind them is found by the account's imports, as the reference's requests would find it. Where
//! they lead to no stream of this server, another one may answer: behind a leaf node or a hub, or
//! in this server's cluster.

use crate::engine::{JetStream, LiveStream};
use myelin_broker::Account;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Retention, StreamSource};
use std::sync::Arc;

/// Accounts that a request may pass.
const HOPS: usize = 8;

/// Origin as it was found.
pub(super) enum FoundOrigin {
    /// A stream of this server.
    Here(Arc<LiveStream>),
    /// Somebody answers for the place and has no such stream, or may not be asked.
    Refused(ApiError),
    /// Not on this server: a request may find it.
    Elsewhere,
    /// Its messages could not come: the subjects of its deliveries lead nowhere.
    Nowhere,
}

/// Looks for the origin of `source`, for a stream of `account`.
pub(super) fn find(
    jetstream: &JetStream,
    account: &Arc<Account>,
    source: &StreamSource,
    is_mirror: bool,
) -> FoundOrigin {
    let Some(external) = &source.external else {
        return in_account(jetstream, account, &source.name);
    };
    let mut found = request_tails(source, is_mirror).into_iter().filter_map(|tail| {
        let request = collapse(&format!("{}.CONSUMER.CREATE.{}", external.api, source.name)) + &tail;
        resolve(jetstream, account, request, &tail)
    });
    let Some((exporter, name)) = found.next() else { return FoundOrigin::Elsewhere };
    if !Arc::ptr_eq(&exporter, account) {
        let sign = sign(is_mirror);
        let prefix = if external.deliver.is_empty() { "$JS" } else { external.deliver.as_str() };
        if !account.hears_of(&exporter, collapse(&format!("{prefix}.{sign}.x")).as_bytes()) {
            return FoundOrigin::Nowhere;
        }
    }
    in_account(jetstream, &exporter, &name)
}

impl JetStream {
    /// Whether a stream that is here can be copied from its log here: it is the one that the
    /// cluster means, and none that keeps messages for who copies it, which is for its leader.
    fn is_read_here(&self, live: &LiveStream) -> bool {
        let assignment = self.meta().and_then(|meta| meta.view().get(live.account_name(), live.name()));
        let is_meant = assignment.is_none_or(|assignment| assignment.created == live.created());
        is_meant && !is_for_its_leader(live)
    }
}

/// Whether a stream that is here keeps messages for who copies it and is one of a group: that is
/// for its leader, whoever it is. Also of a replica that is no member yet, or none any more.
pub(super) fn is_for_its_leader(origin: &LiveStream) -> bool {
    origin.consumers().is_of_group() && origin.config().retention != Retention::Limits
}

/// Character that subjects of deliveries have in their middle.
pub(super) fn sign(is_mirror: bool) -> char {
    if is_mirror { 'M' } else { 'S' }
}

fn in_account(jetstream: &JetStream, account: &Account, stream: &str) -> FoundOrigin {
    match jetstream.account(account.name()) {
        None => FoundOrigin::Refused(ApiError::NOT_ENABLED_FOR_ACCOUNT),
        Some(streams) if streams.limits().is_none() => {
            FoundOrigin::Refused(ApiError::NOT_ENABLED_FOR_ACCOUNT)
        }
        Some(streams) => {
            let is_clustered = jetstream.meta().is_some();
            let is_read_here = |live: &Arc<LiveStream>| !is_clustered || jetstream.is_read_here(live);
            match streams.stream(stream).filter(is_read_here) {
                Some(live) => FoundOrigin::Here(live),
                None if is_clustered => FoundOrigin::Elsewhere,
                None => FoundOrigin::Refused(ApiError::STREAM_NOT_FOUND),
            }
        }
    }
}

/// Ends of the subjects on which the consumer may be asked for. With one filter the subject names
/// it, so that an export may be of that filter alone.
///
/// Compat: the reference asks with one filter on that subject only, with none or several on the
/// short one only. Who exports the short subject lets others choose any filter: here it serves in
/// each case.
fn request_tails(source: &StreamSource, is_mirror: bool) -> Vec<String> {
    let filter = match &source.subject_transforms[..] {
        [] => Some(source.filter_subject.as_str()),
        [one] if source.filter_subject.is_empty() => Some(one.source.as_str()),
        _ => None,
    };
    let role = if is_mirror { "MIRROR" } else { "SRC" };
    // The name of the consumer is one of many; who exports a part of them exports nothing of use.
    let named = filter.filter(|filter| !filter.is_empty()).map(|filter| format!(".JS_{role}_x.{filter}"));
    named.into_iter().chain([String::new()]).collect()
}

fn collapse(subject: &str) -> String {
    subject.replace("..", ".")
}

/// The account in which a request arrives, and the stream that it is about there. `tail`: what
/// stands behind the stream in the request, and has to there.
fn resolve(
    jetstream: &JetStream,
    account: &Arc<Account>,
    request: String,
    tail: &str,
) -> Option<(Arc<Account>, String)> {
    let (mut account, mut subject) = (Arc::clone(account), request);
    for _ in 0..HOPS {
        match account.asks_elsewhere(subject.as_bytes()) {
            Some((other, there)) => {
                account = other;
                subject = String::from_utf8(there).ok()?;
            }
            None => {
                let subject = subject.strip_suffix(tail)?;
                let stream = stream_of(subject, &jetstream.settings.domain)?.to_owned();
                return Some((account, stream));
            }
        }
    }
    None
}

/// The stream that a request to make a consumer is about, if it is one to the API of this server.
fn stream_of<'a>(subject: &'a str, domain: &str) -> Option<&'a str> {
    let with_domain = format!("$JS.{domain}.API.CONSUMER.CREATE.");
    let name = subject
        .strip_prefix("$JS.API.CONSUMER.CREATE.")
        .or_else(|| if domain.is_empty() { None } else { subject.strip_prefix(with_domain.as_str()) })?;
    (!name.is_empty() && !name.contains('.')).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_jsapi::config::SubjectTransform;

    #[test]
    fn a_request_names_its_only_filter() {
        let of = |filter: &str, sources: &[&str]| StreamSource {
            filter_subject: filter.to_owned(),
            subject_transforms: sources
                .iter()
                .map(|source| SubjectTransform { source: (*source).to_owned(), destination: "t".to_owned() })
                .collect(),
            ..StreamSource::default()
        };
        assert_eq!(request_tails(&of("", &[]), true), [""]);
        assert_eq!(request_tails(&of("o.2", &[]), true), [".JS_MIRROR_x.o.2", ""]);
        assert_eq!(request_tails(&of("", &["o.2"]), false), [".JS_SRC_x.o.2", ""]);
        assert_eq!(request_tails(&of("", &["o.1", "o.2"]), false), [""]);
    }

    #[test]
    fn a_request_is_for_this_server_by_its_prefix() {
        assert_eq!(stream_of("$JS.API.CONSUMER.CREATE.S", ""), Some("S"));
        assert_eq!(stream_of("$JS.hub.API.CONSUMER.CREATE.S", "hub"), Some("S"));
        assert_eq!(stream_of("$JS.leaf.API.CONSUMER.CREATE.S", "hub"), None);
        assert_eq!(stream_of("$JS..API.CONSUMER.CREATE.S", ""), None);
        assert_eq!(stream_of("$JS.API.CONSUMER.INFO.S", ""), None);
    }
}
