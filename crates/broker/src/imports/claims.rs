//! Exports, imports and mappings of an account's token, in the broker's terms.

use super::{
    Access, AccountConfig, AccountLimits, DEFAULT_RESPONSE_THRESHOLD, Export, Import, LatencyConfig,
    ResponseType, ServiceExport, ServiceImport, StreamExport, StreamImport, TraceDestination,
};
use myelin_auth::jwt::{self, ExportType};
use myelin_auth::operator::TrustedAccount;
use myelin_subject::{Mappings, WeightedDestination, is_literal, is_subset, prefixed};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

impl AccountConfig {
    /// An account as its token has it. `is_activated` says of an import whether the activation that
    /// comes with it is worth something.
    pub(crate) fn of_claims(trusted: &TrustedAccount, is_activated: &dyn Fn(&jwt::Import) -> bool) -> Self {
        let claims = &trusted.claims().nats;
        let limits = trusted.limits();
        let number = |limit: Option<u32>| limit.map(|limit| limit as usize);
        Self {
            name: trusted.key().to_owned(),
            limits: AccountLimits {
                max_connections: number(limits.connections),
                max_subscriptions: number(limits.subscriptions),
                max_leaf_nodes: number(limits.leaf_nodes),
                max_payload: limits.payload,
            },
            exports: claims.exports.iter().filter_map(export).collect(),
            imports: claims.imports.iter().filter_map(|one| import(one, is_activated(one))).collect(),
            mappings: mappings(&claims.mappings),
            trace: claims.trace.as_ref().and_then(trace_destination),
            is_asked: !claims.authorization.auth_users.is_empty(),
        }
    }
}

/// Compat: what is no subject is nothing, and what is no percentage means all.
fn trace_destination(from: &jwt::MessageTrace) -> Option<TraceDestination> {
    let sampling = u8::try_from(from.sampling).ok().filter(|share| (1..=100).contains(share)).unwrap_or(100);
    is_literal(from.dest.as_bytes()).then(|| TraceDestination { subject: from.dest.clone(), sampling })
}

fn export(from: &jwt::Export) -> Option<Export> {
    let position = from.account_token_position as usize;
    let access = Access {
        accounts: Vec::new(),
        token_required: from.token_req,
        account_token_position: (position > 0).then_some(position),
    };
    let subject = from.subject.clone();
    Some(match from.kind {
        ExportType::Stream => Export::Stream(StreamExport { subject, access }),
        ExportType::Service => Export::Service(Arc::new(ServiceExport {
            subject,
            access,
            response: match from.response_type() {
                jwt::ClaimedResponseType::Stream => ResponseType::Streamed,
                jwt::ClaimedResponseType::Chunked => ResponseType::Chunked,
                jwt::ClaimedResponseType::Singleton | jwt::ClaimedResponseType::Unknown(_) => {
                    ResponseType::Singleton
                }
            },
            threshold: match u64::try_from(from.response_threshold) {
                Ok(nanoseconds @ 1..) => Duration::from_nanos(nanoseconds),
                _ => DEFAULT_RESPONSE_THRESHOLD,
            },
            latency: from.service_latency.as_ref().map(|latency| LatencyConfig {
                subject: latency.results.clone(),
                sampling: latency.sampling.and_then(|percent| percent.try_into().ok()).unwrap_or(0),
            }),
            allow_trace: from.allow_trace,
        })),
        ExportType::Unknown => return None,
    })
}

fn import(from: &jwt::Import, is_activated: bool) -> Option<Import> {
    let account = from.account.clone();
    Some(match from.kind {
        ExportType::Stream => Import::Stream(StreamImport {
            account,
            subject: from.subject.clone(),
            to: stream_name(from),
            is_activated,
            allow_trace: from.allow_trace,
        }),
        ExportType::Service => {
            let (subject, to) = service_names(from);
            Import::Service(Arc::new(ServiceImport { account, subject, to, share: from.share, is_activated }))
        }
        ExportType::Unknown => return None,
    })
}

/// Name of an imported stream in the importing account: in its old form, a prefix of its name.
fn stream_name(from: &jwt::Import) -> String {
    match (from.local_subject.as_str(), from.to.as_str()) {
        ("", "") => from.subject.clone(),
        ("", prefix) => prefixed(prefix, &from.subject),
        (local, _) => local.to_owned(),
    }
}

/// Names of an imported service in the exporting and the importing account: the old form is the
/// other way round.
fn service_names(from: &jwt::Import) -> (String, String) {
    match (from.local_subject.as_str(), from.to.as_str()) {
        ("", "") => (from.subject.clone(), from.subject.clone()),
        ("", there) => (there.to_owned(), from.subject.clone()),
        (here, _) => (from.subject.clone(), here.to_owned()),
    }
}

/// Compat: what is wrong is passed over, and the rest holds.
fn mappings(from: &HashMap<String, Vec<jwt::WeightedMapping>>) -> Mappings {
    #[expect(clippy::disallowed_methods, reason = "they are sorted")]
    let mut sources: Vec<_> = from.iter().collect();
    sources.sort_unstable_by_key(|(source, _)| *source);
    let mut mappings = Mappings::default();
    for (source, destinations) in sources {
        let destinations: Vec<_> = destinations
            .iter()
            .map(|destination| WeightedDestination {
                subject: destination.subject.clone(),
                weight: destination.weight(),
                cluster: destination.cluster.clone(),
            })
            .collect();
        let _ = mappings.insert(source, &destinations);
    }
    mappings
}

/// When an activation of one of the account's imports begins or ends next.
pub(crate) fn next_turn(importer: &TrustedAccount, now: SystemTime) -> Option<SystemTime> {
    let imports = importer.claims().nats.imports.iter().filter(|import| !import.token.is_empty());
    let activations = imports.filter_map(|import| jwt::activation(&import.token).ok());
    let seconds = activations.flat_map(|activation| [activation.not_before, activation.expires]);
    let moments = seconds.filter_map(|second| u64::try_from(second).ok().filter(|&second| second > 0));
    let moments = moments.filter_map(|second| UNIX_EPOCH.checked_add(Duration::from_secs(second)));
    moments.filter(|&moment| moment > now).min()
}

/// Whether the activation that comes with an import is worth something to `importer` now: it is
/// `exporter`'s, of this subject, and has neither ended nor been taken back.
pub(crate) fn is_activated(
    import: &jwt::Import,
    importer: &str,
    exporter: &TrustedAccount,
    now: SystemTime,
) -> bool {
    let Ok(activation) = jwt::activation(&import.token) else { return false };
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let has_ended = activation.expires != 0 && activation.expires <= seconds;
    let has_begun = activation.not_before <= seconds;
    let is_own = activation.issuer == exporter.key()
        || (activation.nats.issuer_account == exporter.key()
            && exporter.signer(&activation.issuer).is_some());
    let subject = match import.kind {
        ExportType::Service => service_names(import).0,
        ExportType::Stream | ExportType::Unknown => import.subject.clone(),
    };
    let is_revoked = exporter.claims().nats.exports.iter().any(|export| {
        export.kind == import.kind
            && is_subset(subject.as_bytes(), export.subject.as_bytes())
            && export.has_revoked(importer, activation.issued_at)
    });
    activation.subject == importer && is_own && has_begun && !has_ended && !is_revoked
}
