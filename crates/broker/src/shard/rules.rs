//! The rules of a subject: who may publish it, who may receive it, and whether it goes under
//! another one.
//!
//! Asked once for each route and nowhere else (contracts.md C10: deny wins).
//!
//! Questions of auth callout have rights of their own (`Shard::send_auth_request`): `access` lets
//! nobody else use their subject in an account whose service is asked.

use super::route::RouteScope;
use crate::subscription::Subscription;
use myelin_auth::callout;
use myelin_subject::matches;

/// Whether a publisher may use a subject, or what becomes of it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// The publisher may use the subject.
    Allowed,
    /// Only as an answer that `allow_responses` permits.
    Denied,
    /// Nobody may: the reference keeps the subject for itself.
    Reserved,
    /// Nobody may but the server itself, not even a service.
    Servers,
    /// The message goes under [another subject](super::route::Route::mapped), which decides.
    Mapped,
    /// The message goes under another subject, which is drawn for each message and decides.
    Drawn,
}

/// The one place that decides whether a publisher may use a subject.
pub(super) fn access(scope: RouteScope<'_>, subject: &[u8]) -> Access {
    let begins = |prefix: &[u8]| subject.starts_with(prefix) && subject.len() > prefix.len();
    if begins(b"_GR_.") || begins(b"$GR.") {
        return Access::Reserved;
    }
    // Clients of the account are denied it, also as an answer, and the server says who it is.
    // Whoever has no permissions is a stream, a service, or comes by an import: with their help
    // nobody is to ask in the server's stead.
    let is_question = subject == callout::SUBJECT.as_bytes() && scope.account.imports.is_asked();
    let is_denied = scope.permissions.is_some_and(|p| !p.can_publish(subject));
    if is_question && (is_denied || scope.permissions.is_none()) {
        return Access::Servers;
    }
    if is_denied {
        return Access::Denied;
    }
    if subject.starts_with(b"$NRG.") && !scope.account.is_system() {
        return Access::Reserved;
    }
    Access::Allowed
}

/// Whether the account's mappings send messages from `subject` elsewhere: then the subject is in
/// `out`, if it is always the same.
pub(super) fn mapped(scope: RouteScope<'_>, subject: &[u8], out: &mut Vec<u8>) -> Option<Access> {
    let mut is_drawn = false;
    let mut draw = || {
        is_drawn = true;
        0
    };
    if !scope.is_mapped || !scope.account.imports.map(subject, &mut draw, out) {
        out.clear();
        return None;
    }
    if is_drawn {
        out.clear();
        return Some(Access::Drawn);
    }
    Some(Access::Mapped)
}

/// The one place that decides whether a subscription may receive a subject (deny wins). For a
/// shadow, the subject is the one that its client sees.
pub(super) fn may_receive(sub: &Subscription, subject: &[u8], is_imported: bool) -> bool {
    let Some(import) = sub.import() else { return is_permitted(sub, subject) };
    // Compat: what comes by one import does not leave by another.
    !is_imported && {
        let (sub, subject) = (sub.original(), import.naming().name(subject));
        (import.is_exact() || matches(sub.subject(), &subject)) && is_permitted(sub, &subject)
    }
}

/// Whether a subscription may receive each subject that its pattern matches, and sees it as it is.
pub(super) fn may_receive_all(sub: &Subscription) -> bool {
    let rights = || sub.conn().rights();
    sub.import().is_none()
        && rights().is_none_or(|rights| !rights.permissions.needs_delivery_filter(sub.subject()))
}

/// Whether a subscription would receive a subject if no rule denied it.
pub(super) fn is_denied(sub: &Subscription, subject: &[u8], is_imported: bool) -> bool {
    let Some(import) = sub.import() else { return !is_permitted(sub, subject) };
    !is_imported && {
        let (sub, subject) = (sub.original(), import.naming().name(subject));
        (import.is_exact() || matches(sub.subject(), &subject)) && !is_permitted(sub, &subject)
    }
}

fn is_permitted(sub: &Subscription, subject: &[u8]) -> bool {
    sub.conn().rights().is_none_or(|rights| {
        !rights.permissions.needs_delivery_filter(sub.subject())
            || rights.permissions.can_deliver(subject, sub.queue())
    })
}
