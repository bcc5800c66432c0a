//! Services that hear what their account imports: a stream takes in what other accounts offer, as a
//! client's subscription to its subjects would.
//!
//! A service that listens in this way has a *shadow binding* in the index of each account from
//! whose streams its subject takes. It gives messages their names here, and traces them where the
//! import allows that.

use super::link::StreamLink;
use super::naming::ImportedStream;
use crate::account::Account;
use crate::service::{Binding, Service, ServiceShard, ServiceTarget, TraceRole};
use crate::service_batch::{ServiceBatch, Traced};
use myelin_stdx::sync::lock;
use myelin_subject::{Subscribed as _, matches};
use myelin_wire::message_buf::MessageRef;
use std::borrow::Cow;
use std::fmt::{self, Debug};
use std::sync::{Arc, Mutex};

/// Services that listen to imports, and where.
#[derive(Default)]
pub(crate) struct ShadowBindings(Mutex<Listeners>);

#[derive(Default)]
struct Listeners {
    /// Of this account.
    listeners: Vec<Arc<Binding>>,
    bindings: Vec<ShadowBinding>,
}

struct ShadowBinding {
    listener: Arc<Binding>,
    import: Arc<ShadowService>,
    /// In the exporter's index.
    binding: Arc<Binding>,
}

/// A shadow binding that was added or removed, and the account in whose index.
pub(super) type Moved = (Arc<Account>, Arc<Binding>);

/// Receives for a service what one import brings. All shadow bindings of that service in the
/// exporter's index have this one target, so that a message that meets two of them, as while a
/// stream changes its subjects, comes once.
pub struct ShadowService {
    link: Arc<StreamLink>,
    /// The patterns that the service asks for here.
    patterns: Mutex<Vec<Box<[u8]>>>,
    to: Arc<dyn Service>,
}

impl ShadowService {
    /// The imported stream by which messages come.
    pub(crate) fn stream(&self) -> &ImportedStream {
        &self.link.stream
    }

    /// The service that gets the messages.
    pub(crate) fn to(&self) -> &Arc<dyn Service> {
        &self.to
    }

    /// Name of a subject here, if the service asks for it.
    pub(crate) fn name<'a>(&'a self, subject: &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let name = self.link.stream.naming().name(subject);
        let is_wanted = || lock(&self.patterns).iter().any(|pattern| matches(pattern, &name));
        (self.link.stream.is_exact() || is_wanted()).then_some(name)
    }
}

impl Debug for ShadowService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ShadowService").finish_non_exhaustive()
    }
}

impl Service for ShadowService {
    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        let mut named = ServiceBatch::default();
        for (at, msg) in msgs.iter().enumerate() {
            let trace = if msgs.is_traced() { msgs.trace(at) } else { None };
            match self.name(msg.subject) {
                Some(subject) => {
                    named.push_traced(MessageRef { to: &[], subject: &subject, ..msg }, trace);
                }
                // The service does not ask for it any more.
                None => give_up_trace(trace, shard),
            }
        }
        if !named.is_empty() {
            self.to.serve(&mut named, shard);
        }
    }

    fn trace_role(&self) -> TraceRole<'_> {
        TraceRole::Import(self)
    }
}

/// Ends the part in a trace of a service that does not get the message after all.
fn give_up_trace(traced: Option<&Traced>, shard: &mut ServiceShard) {
    if let Some(traced) = traced
        && traced.settled(Err("stream closed".to_owned()))
    {
        shard.wake(&traced.trace());
    }
}

impl ShadowBindings {
    /// `listener` listens by `links` from now on. To be called while nobody changes them.
    #[must_use]
    pub(super) fn listen(&self, listener: &Arc<Binding>, links: &[Arc<StreamLink>]) -> Vec<Moved> {
        let mut inner = lock(&self.0);
        debug_assert!(
            !inner.listeners.iter().any(|other| Arc::ptr_eq(other, listener)),
            "a binding listens once"
        );
        let moved = inner.listen(listener, links);
        inner.listeners.push(Arc::clone(listener));
        moved
    }

    /// Takes a service away that listens no more.
    pub(super) fn unlisten(&self, listener: &Arc<Binding>) {
        let mut inner = lock(&self.0);
        let known = inner.listeners.len();
        inner.listeners.retain(|other| !Arc::ptr_eq(other, listener));
        if inner.listeners.len() == known {
            return;
        }
        let moved = inner.close(|shadow| Arc::ptr_eq(&shadow.listener, listener));
        debug_assert!(
            !inner.bindings.iter().any(|shadow| Arc::ptr_eq(&shadow.listener, listener)),
            "nothing of a service stays that listens no more"
        );
        drop(inner);
        notify_watches(&moved);
    }

    /// The account imports other streams now. To be called while nobody else changes them.
    #[must_use]
    pub(super) fn relink(&self, links: &[Arc<StreamLink>]) -> Vec<Moved> {
        let mut inner = lock(&self.0);
        let is_there = |link: &Arc<StreamLink>| links.iter().any(|other| Arc::ptr_eq(other, link));
        let mut moved = inner.close(|shadow| !is_there(&shadow.import.link));
        for listener in inner.listeners.clone() {
            let is_new = |link: &&Arc<StreamLink>| {
                let has = |shadow: &ShadowBinding| {
                    Arc::ptr_eq(&shadow.listener, &listener) && Arc::ptr_eq(&shadow.import.link, link)
                };
                !inner.bindings.iter().any(has)
            };
            let new: Vec<_> = links.iter().filter(is_new).cloned().collect();
            moved.extend(inner.listen(&listener, &new));
        }
        moved
    }
}

impl Listeners {
    fn listen(&mut self, listener: &Arc<Binding>, links: &[Arc<StreamLink>]) -> Vec<Moved> {
        let ServiceTarget::Service(to) = listener.receiver() else { return Vec::new() };
        let mut moved = Vec::new();
        for link in links {
            let (Some(exporter), Some(subject)) =
                (link.exporter.upgrade(), link.stream.reach(listener.subject()))
            else {
                continue;
            };
            let mut imports = self.bindings.iter().map(|shadow| &shadow.import);
            let same = imports.find(|import| Arc::ptr_eq(&import.link, link) && Arc::ptr_eq(&import.to, to));
            let import = same.cloned().unwrap_or_else(|| {
                let patterns = Mutex::default();
                Arc::new(ShadowService { link: Arc::clone(link), patterns, to: Arc::clone(to) })
            });
            lock(&import.patterns).push(listener.subject().into());
            let receiver = ServiceTarget::Service(Arc::clone(&import) as Arc<dyn Service>);
            let binding = exporter.place(&subject, receiver);
            self.bindings.push(ShadowBinding {
                listener: Arc::clone(listener),
                import,
                binding: Arc::clone(&binding),
            });
            moved.push((exporter, binding));
        }
        moved
    }

    fn close(&mut self, is_over: impl Fn(&ShadowBinding) -> bool) -> Vec<Moved> {
        let over = self.bindings.extract_if(.., |shadow| is_over(shadow));
        over.filter_map(|shadow| {
            let mut patterns = lock(&shadow.import.patterns);
            // Another listener may have asked for the same.
            let asked = patterns.iter().position(|pattern| **pattern == *shadow.listener.subject());
            debug_assert!(asked.is_some(), "a pattern stays for as long as somebody listens by it");
            if let Some(at) = asked {
                patterns.swap_remove(at);
            }
            drop(patterns);
            let exporter = shadow.import.link.exporter.upgrade()?;
            exporter.displace(&shadow.binding);
            Some((exporter, shadow.binding))
        })
        .collect()
    }
}

/// Tells whoever watches. Not under a lock.
pub(super) fn notify_watches(moved: &[Moved]) {
    moved.iter().for_each(|(account, binding)| account.notify_watches(binding.subject(), None));
}
