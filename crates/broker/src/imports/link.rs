//! Imports that hold: what one account takes from another that offers it, and who waits for answers
//! to the requests that go by them.
//!
//! Whether an import is allowed is decided here, from both accounts' configurations, whenever one
//! of them changes. One that is not allowed is no link, whoever wrote it down.

use super::config::{
    Access, AccountConfig, Export, LatencyConfig, ResponseType, ServiceExport, ServiceImport, StreamImport,
};
use super::measuring::Cause;
use super::naming::{ImportNames, ImportedStream, Naming};
use super::replies::{AwaitedAnswers, AwaitedReplies, AwaitsAnswer};
use crate::account::Account;
use crate::conn::Conn;
use myelin_subject::{has_wildcard, is_subset, is_valid_pattern};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// A requester has to have waited for so long before anybody looks whether it still does.
const PATIENCE: Duration = Duration::from_secs(10);
/// A requester whose request is measured has to have waited for so long before anybody looks
/// whether it still does: the service is told when it does not.
const MEASURED_PATIENCE: Duration = Duration::from_secs(1);
/// Time for other servers to tell what became of a traced request.
const TRACE_PATIENCE: Duration = Duration::from_secs(10);

/// All requests to JetStream.
const JETSTREAM_API: &str = "$JS.API.>";
/// Requests that streams and consumers answer with messages.
const FOR_MESSAGES: [&[u8]; 2] = [b"$JS.API.DIRECT.GET", b"$JS.API.CONSUMER.MSG.NEXT."];

/// A stream that an account imports.
pub(crate) struct StreamLink {
    /// Weak: its shadows stand in the exporter's index.
    pub(crate) exporter: Weak<Account>,
    pub(crate) stream: Arc<ImportedStream>,
}

impl StreamLink {
    pub(super) fn new(import: &StreamImport, importer: &str, exporter: &Arc<Account>) -> Option<Self> {
        let config = exporter.imports.config();
        let offers = config.exports.iter().filter_map(|export| match export {
            Export::Stream(stream) => Some((stream.subject.as_str(), &stream.access)),
            Export::Service(_) => None,
        });
        if !is_valid_pattern(import.subject.as_bytes())
            || !is_valid_pattern(import.to.as_bytes())
            || !is_approved(offers, importer, &import.subject, import.is_activated)
        {
            return None;
        }
        let stream = Arc::new(ImportedStream::new(import, importer)?);
        Some(Self { exporter: Arc::downgrade(exporter), stream })
    }

    /// Whether it comes of this import.
    pub(super) fn is_of(&self, import: &StreamImport) -> bool {
        self.stream.import == *import
    }

    /// Whether nothing about it has changed.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.stream.import == other.stream.import && self.exporter.ptr_eq(&other.exporter)
    }
}

/// A service that an account imports.
pub(crate) struct ServiceLink {
    import: Arc<ServiceImport>,
    pub(crate) exporter: Arc<Account>,
    export: Arc<ServiceExport>,
    /// The pattern here.
    here: Box<[u8]>,
    /// The name there.
    outward: Naming,
    /// How long an answer may take.
    pub(crate) threshold: Duration,
}

impl ServiceLink {
    pub(crate) fn new(import: &Arc<ServiceImport>, importer: &str, exporter: &Arc<Account>) -> Option<Self> {
        let config = exporter.imports.config();
        let offers = services(&config).map(|service| (service.subject.as_str(), &service.access));
        if !is_valid_pattern(import.subject.as_bytes())
            || !is_valid_pattern(import.to.as_bytes())
            || !is_approved(offers, importer, &import.subject, import.is_activated)
        {
            return None;
        }
        let export = find(services(&config).map(|s| (s.subject.as_str(), s)), &import.subject)?.clone();
        let (here, outward) = if import.subject == import.to && has_wildcard(import.to.as_bytes()) {
            (import.to.as_bytes().into(), Naming::Same)
        } else {
            let names = ImportNames::of_service(&import.subject, &import.to).ok()?;
            (names.here, names.outward?)
        };
        let (import, exporter, threshold) = (Arc::clone(import), Arc::clone(exporter), export.threshold);
        Some(Self { import, exporter, export, here, outward, threshold })
    }

    /// The pattern here.
    pub(crate) fn here(&self) -> &[u8] {
        &self.here
    }

    /// Naming that translates a subject of this side into that of the other.
    #[inline]
    pub(crate) fn naming(&self) -> &Naming {
        &self.outward
    }

    /// Whether a request of this subject goes by the import. Compat: of the API of JetStream in the
    /// system account, those for messages do not: streams and consumers hear of them in the account
    /// itself.
    pub(crate) fn carries(&self, subject: &[u8]) -> bool {
        let is_for_messages = || FOR_MESSAGES.iter().any(|prefix| subject.starts_with(prefix));
        self.import.subject != JETSTREAM_API || !self.exporter.is_system() || !is_for_messages()
    }

    /// Whether one answer is all.
    #[inline]
    pub(crate) fn is_singleton(&self) -> bool {
        self.export.response == ResponseType::Singleton
    }

    /// How its requests are measured.
    pub(crate) fn latency(&self) -> Option<&LatencyConfig> {
        self.export.latency.as_ref()
    }

    /// Whether the exporting account learns who asks.
    pub(crate) fn shares(&self) -> bool {
        self.import.share
    }

    /// Whether traces may follow requests.
    pub(crate) fn allows_trace(&self) -> bool {
        self.export.allow_trace
    }

    /// Whether both lead to one export: a message that has come by one of them does not go by the
    /// other.
    pub(crate) fn shares_export_with(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
            || (self.exporter.id == other.exporter.id && self.export.subject == other.export.subject)
    }

    /// Whether it comes of this import.
    pub(super) fn is_of(&self, import: &ServiceImport) -> bool {
        *self.import == *import
    }

    /// Whether nothing about it has changed.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.import == other.import && self.export == other.export && self.exporter.id == other.exporter.id
    }
}

/// Response that a service owes, with the requester that waits for it.
#[derive(Clone)]
pub(crate) struct Awaited {
    /// By which the request came.
    pub(crate) link: Arc<ServiceLink>,
    /// The account in which somebody waits, and where.
    pub(crate) requester: Arc<Account>,
    pub(crate) reply: Box<[u8]>,
    /// When the last message came, the request being the first.
    pub(crate) since: Instant,
    /// Facts for a report on the latency, if there is to be one.
    pub(crate) tracked: Option<Arc<Tracked>>,
    /// Other servers send there what became of the traced request, each of them once.
    pub(crate) is_trace: bool,
}

/// A request that is measured.
pub(crate) struct Tracked {
    /// Connection that asks.
    pub(crate) conn: Arc<Conn>,
    /// Because of which headers.
    pub(crate) cause: Cause,
}

/// A measured request that was answered: the requester's part of a report.
pub(crate) struct AnsweredRequest {
    pub(crate) link: Arc<ServiceLink>,
    pub(crate) requester: Arc<Account>,
    pub(crate) tracked: Arc<Tracked>,
    pub(crate) asked: Instant,
    pub(crate) answered: Instant,
}

impl AwaitsAnswer for Awaited {
    fn is_over(&self, now: Instant) -> bool {
        let most = if self.is_trace { TRACE_PATIENCE } else { self.link.threshold };
        now.saturating_duration_since(self.since) >= most
    }

    fn has_patience(&self, now: Instant) -> bool {
        let patience = if self.tracked.is_some() { MEASURED_PATIENCE } else { PATIENCE };
        now.saturating_duration_since(self.since) >= patience
    }

    fn is_there(&self) -> bool {
        self.requester.has_interest(&self.reply)
    }

    fn is_measured(&self) -> bool {
        self.tracked.is_some()
    }

    fn answers(&self) -> AwaitedAnswers {
        match self.is_trace {
            true => AwaitedAnswers::All,
            false if self.link.is_singleton() => AwaitedAnswers::One,
            false => AwaitedAnswers::Many,
        }
    }

    fn answered(&mut self, now: Instant) {
        self.since = now;
    }
}

impl AwaitedReplies<Awaited> {
    /// Account that waits at `subject`, and its own reply subject.
    pub(crate) fn waiting(&self, subject: &[u8]) -> Option<(Arc<Account>, Box<[u8]>)> {
        self.with_waiting(subject, |awaited| (Arc::clone(&awaited.requester), awaited.reply.clone()))
    }
}

fn services(config: &AccountConfig) -> impl Iterator<Item = &Arc<ServiceExport>> {
    config.exports.iter().filter_map(|export| match export {
        Export::Service(service) => Some(service),
        Export::Stream(_) => None,
    })
}

/// The offer that decides about `subject`: that of exactly this subject, else the first that covers
/// it.
fn find<'a, T>(offers: impl Iterator<Item = (&'a str, T)>, subject: &str) -> Option<T> {
    let mut covering = None;
    for (offered, offer) in offers {
        if offered == subject {
            return Some(offer);
        }
        if covering.is_none() && is_subset(subject.as_bytes(), offered.as_bytes()) {
            covering = Some(offer);
        }
    }
    covering
}

/// Whether `importer` may take `subject` from what is offered.
fn is_approved<'a>(
    offers: impl Iterator<Item = (&'a str, &'a Access)>,
    importer: &str,
    subject: &str,
    is_activated: bool,
) -> bool {
    let offers = offers.map(|(offered, access)| (offered, (offered == subject, access)));
    let Some((is_exact, access)) = find(offers, subject) else { return false };
    match access.account_token_position {
        // Compat: who imports the export's very subject names no account in it, not even its own.
        Some(_) if is_exact => false,
        Some(position) => subject.split('.').nth(position.saturating_sub(1)) == Some(importer),
        None if access.token_required => is_activated,
        None => access.accounts.is_empty() || access.accounts.iter().any(|name| name == importer),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn approves(access: &Access, offered: &str, importer: &str, subject: &str) -> bool {
        is_approved([(offered, access)].into_iter(), importer, subject, false)
    }

    #[test]
    fn who_may_import() {
        let public = Access::default();
        assert!(approves(&public, "a.>", "B", "a.b") && approves(&public, "a.>", "B", "a.>"));
        assert!(!approves(&public, "a.*", "B", "a.>") && !approves(&public, "a.*", "B", "b"));
        let listed = Access { accounts: vec!["B".to_owned()], ..Access::default() };
        assert!(approves(&listed, "a", "B", "a") && !approves(&listed, "a", "C", "a"));
        let positioned = Access { account_token_position: Some(2), ..Access::default() };
        assert!(approves(&positioned, "a.*", "B", "a.B") && !approves(&positioned, "a.*", "B", "a.C"));
        assert!(!approves(&positioned, "a.*", "*", "a.*"), "the wildcard is nobody's name");
        let by_token = Access { token_required: true, ..Access::default() };
        assert!(!approves(&by_token, "a", "B", "a"));
        assert!(is_approved([("a", &by_token)].into_iter(), "B", "a", true));
    }

    #[test]
    fn the_very_subject_counts_before_what_covers_it() {
        let (public, listed) =
            (Access::default(), Access { accounts: vec!["C".to_owned()], ..Access::default() });
        let offers = || [("a.>", &public), ("a.b", &listed)].into_iter();
        assert!(!is_approved(offers(), "B", "a.b", false) && is_approved(offers(), "B", "a.c", false));
    }
}
