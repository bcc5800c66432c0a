//! Services that hear what their account imports: a stream takes in what other accounts offer, as a client's subscription
//! to its subjects would.
//!
//! A service that listens in this way has an *ear* in the index of each account from whose streams its subject takes. An ear
//! gives messages their names here. Compat: traces do not go through it.

use super::link::StreamLink;
use crate::account::Account;
use crate::conn::lock;
use crate::parcel::{Letter, Parcel};
use crate::service::{Binding, Receiver, Role, Service};
use crate::shard::Shard;
use myelin_subject::{Subscribed as _, matches};
use std::sync::{Arc, Mutex};

/// Who listens, and where.
#[derive(Default)]
pub(crate) struct Ears(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// Of this account.
    listeners: Vec<Arc<Binding>>,
    ears: Vec<Ear>,
}

struct Ear {
    listener: Arc<Binding>,
    import: Arc<Import>,
    /// In the exporter's index.
    binding: Arc<Binding>,
}

/// An ear that came or went, and the account where.
type Moved = (Arc<Account>, Arc<Binding>);

/// What an ear does with what it hears.
struct Import {
    link: Arc<StreamLink>,
    /// The pattern that the service asked for here.
    pattern: Box<[u8]>,
    to: Arc<dyn Service>,
}

impl Service for Import {
    fn serve(&self, parcel: &mut Parcel, shard: &mut Shard) {
        let mut named = Parcel::default();
        for letter in parcel.iter() {
            let subject = self.link.naming().name(letter.subject);
            if self.link.is_exact() || matches(&self.pattern, &subject) {
                named.push(Letter { to: &[], subject: &subject, ..letter });
            }
        }
        if !named.is_empty() {
            self.to.serve(&mut named, shard);
        }
    }

    fn role(&self) -> Role<'_> {
        Role::System
    }
}

impl Ears {
    /// `listener`, of `home`, listens by `links` from now on.
    pub(super) fn listen(&self, listener: &Arc<Binding>, links: &[Arc<StreamLink>]) {
        let mut inner = lock(&self.0);
        let moved = inner.prick(listener, links);
        inner.listeners.push(Arc::clone(listener));
        drop(inner);
        tell(&moved);
    }

    /// It listens no more.
    pub(super) fn hush(&self, listener: &Arc<Binding>) {
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

    /// The account imports other streams now.
    pub(super) fn relink(&self, links: &[Arc<StreamLink>]) {
        let mut inner = lock(&self.0);
        let is_there = |link: &Arc<StreamLink>| links.iter().any(|other| Arc::ptr_eq(other, link));
        let mut moved = inner.close(|ear| !is_there(&ear.import.link));
        for listener in inner.listeners.clone() {
            let is_new = |link: &&Arc<StreamLink>| {
                let has =
                    |ear: &Ear| Arc::ptr_eq(&ear.listener, &listener) && Arc::ptr_eq(&ear.import.link, link);
                !inner.ears.iter().any(has)
            };
            let new: Vec<_> = links.iter().filter(is_new).cloned().collect();
            moved.extend(inner.prick(&listener, &new));
        }
        drop(inner);
        tell(&moved);
    }
}

impl Inner {
    fn prick(&mut self, listener: &Arc<Binding>, links: &[Arc<StreamLink>]) -> Vec<Moved> {
        let Receiver::Service(to) = listener.receiver() else { return Vec::new() };
        let mut moved = Vec::new();
        for link in links {
            let (Some(exporter), Some(subject)) = (link.exporter.upgrade(), link.reach(listener.subject()))
            else {
                continue;
            };
            // One that listens twice, as a stream does while its subjects change, hears once.
            let same = self.ears.iter().map(|ear| &ear.import).find(|import| {
                Arc::ptr_eq(&import.link, link)
                    && Arc::ptr_eq(&import.to, to)
                    && *import.pattern == *listener.subject()
            });
            let import = same.cloned().unwrap_or_else(|| {
                let pattern = listener.subject().into();
                Arc::new(Import { link: Arc::clone(link), pattern, to: Arc::clone(to) })
            });
            let receiver = Receiver::Service(Arc::clone(&import) as Arc<dyn Service>);
            let binding = exporter.place(&subject, receiver);
            self.ears.push(Ear { listener: Arc::clone(listener), import, binding: Arc::clone(&binding) });
            moved.push((exporter, binding));
        }
        moved
    }

    fn close(&mut self, is_over: impl Fn(&Ear) -> bool) -> Vec<Moved> {
        let over = self.ears.extract_if(.., |ear| is_over(ear));
        let gone = over.filter_map(|ear| Some((ear.import.link.exporter.upgrade()?, ear.binding)));
        let gone: Vec<Moved> = gone.collect();
        gone.iter().for_each(|(exporter, binding)| exporter.displace(binding));
        gone
    }
}

fn tell(moved: &[Moved]) {
    moved.iter().for_each(|(account, binding)| account.tell_of(binding.subject(), None));
}
