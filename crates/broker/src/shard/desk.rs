//! The desk: what this shard has for services, until the next flush.

use crate::conn::Conn;
use crate::message_trace::Traced;
use crate::parcel::{Letter, Parcel};
use crate::service::Service;
use std::collections::VecDeque;
use std::sync::Arc;

/// Emptied parcels kept for their memory.
const SPARES: usize = 8;
/// How far back a parcel of the same service is looked for before a new one begins.
const LOOK_BACK: usize = 16;

/// Parcels in the order in which they were begun.
#[derive(Default)]
pub(super) struct Desk {
    waiting: VecDeque<(Arc<dyn Service>, Parcel)>,
    spares: Vec<Parcel>,
    bytes: usize,
}

impl Desk {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Parcels that wait.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds a message for `service`.
    #[inline]
    pub(super) fn put(&mut self, service: &Arc<dyn Service>, letter: Letter<'_>, origin: &Arc<Conn>) {
        let wants_origin = service.wants_origin();
        let parcel = self.parcel(service);
        let before = parcel.bytes();
        if wants_origin {
            parcel.push_from(letter, origin)
        } else {
            parcel.push(letter)
        }
        let added = parcel.bytes() - before;
        self.bytes += added;
    }

    /// The same for one that is traced.
    pub(super) fn put_traced(&mut self, service: &Arc<dyn Service>, letter: Letter<'_>, trace: &Traced) {
        let parcel = self.parcel(service);
        let before = parcel.bytes();
        parcel.push_traced(letter, Some(trace));
        let added = parcel.bytes() - before;
        self.bytes += added;
    }

    /// Sees to it that the service is called, with messages or without.
    pub(super) fn wake(&mut self, service: &Arc<dyn Service>) {
        self.parcel(service);
    }

    /// The parcel of a service. Services keep the order of their own messages only, so an older one will do.
    #[inline]
    fn parcel(&mut self, service: &Arc<dyn Service>) -> &mut Parcel {
        let first = self.waiting.len().saturating_sub(LOOK_BACK);
        let found = self.waiting.range(first..).rposition(|(known, _)| Arc::ptr_eq(known, service));
        let at = match found {
            Some(at) => first + at,
            None => {
                let parcel = self.spares.pop().unwrap_or_default();
                self.waiting.push_back((Arc::clone(service), parcel));
                self.waiting.len() - 1
            }
        };
        &mut self.waiting[at].1
    }

    /// The next parcel to be handed over.
    pub(super) fn take(&mut self) -> Option<(Arc<dyn Service>, Parcel)> {
        let next = self.waiting.pop_front()?;
        self.bytes -= next.1.bytes();
        Some(next)
    }

    /// The service is called in a later flush.
    pub(super) fn put_off(&mut self, service: Arc<dyn Service>, parcel: Parcel) {
        self.bytes += parcel.bytes();
        self.waiting.push_back((service, parcel));
    }

    /// Gives the memory of a parcel back.
    pub(super) fn give_back(&mut self, mut parcel: Parcel) {
        parcel.clear();
        if self.spares.len() < SPARES {
            self.spares.push(parcel);
        }
    }
}
