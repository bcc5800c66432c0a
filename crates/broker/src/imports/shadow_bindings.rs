//! Services that hear what their account imports: a stream takes in what other accounts offer, as a client's subscription
//! to its subjects would.
//!
//! A service that listens in this way has an *ear* in the index of each account from whose streams its subject takes. An ear
//! gives messages their names here. Compat: traces tell nothing of them.

use super::link::StreamLink;
use crate::account::Account;
use crate::conn::lock;
use crate::message_buf::{MessageBuf, MessageRef};
use crate::service::{Binding, Receiver, Role, Service};
use crate::shard::Shard;
use myelin_subject::{Subscribed as _, matches};
use std::sync::{Arc, Mutex};

/// Who listens, and where.
#[derive(Default)]
pub(crate) struct ShadowBindings(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Of this account.
    listeners: Vec<Arc<Binding>>,
    ears: Vec<ShadowBinding>,
}

struct ShadowBinding {
    listener: Arc<Binding>,
    import: Arc<Import>,
    /// In the exporter's index.
    binding: Arc<Binding>,
}

/// An ear that came or went, and the account where.
pub(super) type Moved = (Arc<Account>, Arc<Binding>);

/// What a service hears by one import. All its ears in the exporter's index are this one receiver, so that a message that
/// meets two of them, as while a stream changes its subjects, comes once.
struct Import {
    link: Arc<StreamLink>,
    /// The patterns that the service asks for here.
    patterns: Mutex<Vec<Box<[u8]>>>,
    to: Arc<dyn Service>,
}

impl Service for Import {
    fn serve(&self, msgs: &mut MessageBuf, shard: &mut Shard) {
        let mut named = MessageBuf::default();
        for msg in msgs.iter() {
            let subject = self.link.naming().name(msg.subject);
            let is_wanted = || lock(&self.patterns).iter().any(|pattern| matches(pattern, &subject));
            if self.link.is_exact() || is_wanted() {
                named.push(MessageRef { to: &[], subject: &subject, ..msg });
            }
        }
        if !named.is_empty() {
            self.to.serve(&mut named, shard);
        }
    }

    fn role(&self) -> Role<'_> {
        Role::Abroad
    }
}

impl ShadowBindings {
    /// `listener` listens by `links` from now on. To be called while nobody changes them.
    #[must_use]
    pub(super) fn listen(&self, listener: &Arc<Binding>, links: &[Arc<StreamLink>]) -> Vec<Moved> {
        let mut inner = lock(&self.0);
        let moved = inner.listen(listener, links);
        inner.listeners.push(Arc::clone(listener));
        moved
    }

    /// It listens no more.
    pub(super) fn unlisten(&self, listener: &Arc<Binding>) {
        let mut inner = lock(&self.0);
        let known = inner.listeners.len();
        inner.listeners.retain(|other| !Arc::ptr_eq(other, listener));
        if inner.listeners.len() == known {
            return;
        }
        let moved = inner.close(|ear| Arc::ptr_eq(&ear.listener, listener));
        drop(inner);
        tell(&moved);
    }

    /// The account imports other streams now. To be called while nobody else changes them.
    #[must_use]
    pub(super) fn relink(&self, links: &[Arc<StreamLink>]) -> Vec<Moved> {
        let mut inner = lock(&self.0);
        let is_there = |link: &Arc<StreamLink>| links.iter().any(|other| Arc::ptr_eq(other, link));
        let mut moved = inner.close(|ear| !is_there(&ear.import.link));
        for listener in inner.listeners.clone() {
            let is_new = |link: &&Arc<StreamLink>| {
                let has = |ear: &ShadowBinding| {
                    Arc::ptr_eq(&ear.listener, &listener) && Arc::ptr_eq(&ear.import.link, link)
                };
                !inner.ears.iter().any(has)
            };
            let new: Vec<_> = links.iter().filter(is_new).cloned().collect();
            moved.extend(inner.listen(&listener, &new));
        }
        moved
    }
}

impl Inner {
    fn listen(&mut self, listener: &Arc<Binding>, links: &[Arc<StreamLink>]) -> Vec<Moved> {
        let Receiver::Service(to) = listener.receiver() else { return Vec::new() };
        let mut moved = Vec::new();
        for link in links {
            let (Some(exporter), Some(subject)) = (link.exporter.upgrade(), link.reach(listener.subject()))
            else {
                continue;
            };
            let mut imports = self.ears.iter().map(|ear| &ear.import);
            let same = imports.find(|import| Arc::ptr_eq(&import.link, link) && Arc::ptr_eq(&import.to, to));
            let import = same.cloned().unwrap_or_else(|| {
                let patterns = Mutex::default();
                Arc::new(Import { link: Arc::clone(link), patterns, to: Arc::clone(to) })
            });
            lock(&import.patterns).push(listener.subject().into());
            let receiver = Receiver::Service(Arc::clone(&import) as Arc<dyn Service>);
            let binding = exporter.place(&subject, receiver);
            self.ears.push(ShadowBinding {
                listener: Arc::clone(listener),
                import,
                binding: Arc::clone(&binding),
            });
            moved.push((exporter, binding));
        }
        moved
    }

    fn close(&mut self, is_over: impl Fn(&ShadowBinding) -> bool) -> Vec<Moved> {
        let over = self.ears.extract_if(.., |ear| is_over(ear));
        over.filter_map(|ear| {
            let mut patterns = lock(&ear.import.patterns);
            // Another listener may have asked for the same.
            if let Some(at) = patterns.iter().position(|pattern| **pattern == *ear.listener.subject()) {
                patterns.swap_remove(at);
            }
            drop(patterns);
            let exporter = ear.import.link.exporter.upgrade()?;
            exporter.displace(&ear.binding);
            Some((exporter, ear.binding))
        })
        .collect()
    }
}

/// Tells whoever watches. Not under a lock.
pub(super) fn tell(moved: &[Moved]) {
    moved.iter().for_each(|(account, binding)| account.tell_of(binding.subject(), None));
}
