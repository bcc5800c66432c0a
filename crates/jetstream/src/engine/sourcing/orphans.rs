//! Consumers that have stood for a mirror or source that is no more: the origin would keep messages
//! for them for ever.
//!
//! One goes when its stream is gone or copies something else. It is found by what is written about
//! it at the origin, so it does not matter what had become of the source reader by then, nor
//! whether there was a crash in between. One that somebody else has made stays: a client, or
//! another server that reads from here. All of this is for the thread that answers the API.

use super::origin::{self, FoundOrigin};
use super::source_consumer::{SourceConsumerName, owner};
use crate::engine::{AccountStreams, CallScope, JetStream, LiveStream};
use myelin_broker::Account;
use myelin_jsapi::config::{Retention, StreamConfig};
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, Weak};

/// A stream of this configuration is gone, or has another one: sees to what it had at its origins.
pub(in crate::engine) fn sweep_origins(jetstream: &JetStream, account: &Arc<Account>, before: &StreamConfig) {
    let mirror = before.mirror.iter().map(|mirror| (mirror, true));
    let all = mirror.chain(before.sources.iter().map(|source| (source, false)));
    for (source, is_mirror) in all.filter(|(source, _)| source.consumer.is_none()) {
        if let FoundOrigin::Here(origin) = origin::find(jetstream, account, source, is_mirror) {
            end_unneeded(jetstream, &origin, Some((&**account, before)));
        }
    }
}

/// Removes, after a start, the orphans at all origins that were found in files. Returns the origins
/// whose owner is not loaded yet.
pub(in crate::engine) fn sweep_found(
    jetstream: &JetStream,
    mut found: Vec<Weak<LiveStream>>,
) -> Vec<Weak<LiveStream>> {
    found.retain(|origin| origin.upgrade().is_some_and(|origin| !sweep(jetstream, &origin)));
    found
}

/// Whether a stream has such consumers, whoever needs them.
pub(in crate::engine) fn has_source_consumers(origin: &LiveStream) -> bool {
    let mut has = false;
    each(origin, |_| has = true);
    has
}

/// Ends those at this origin that are needed no more. Answers whether it is known of all of them.
pub(in crate::engine) fn sweep(jetstream: &JetStream, origin: &Arc<LiveStream>) -> bool {
    end_unneeded(jetstream, origin, None)
}

/// A stream that was seen to go, or to change.
type ChangedStream<'a> = Option<(&'a Account, &'a StreamConfig)>;

fn end_unneeded(jetstream: &JetStream, origin: &Arc<LiveStream>, changed: ChangedStream<'_>) -> bool {
    let (mut unneeded, mut is_known) = (Vec::new(), true);
    each(origin, |consumer| match is_needed(jetstream, origin, consumer, changed) {
        Some(true) => {}
        Some(false) => unneeded.push(consumer.name.clone()),
        None => is_known = false,
    });
    let mut out = MessageBuf::default();
    for name in unneeded {
        if let Some(live) = origin.consumers().find(&name) {
            // What was not written is in the log of the server already, and swept again.
            let _ = origin.consumers().delete_and_wait(&live, &mut out);
        }
    }
    origin.host().publish(origin.account(), out);
    is_known
}

fn each(origin: &LiveStream, mut visit: impl FnMut(&ConsumerConfig)) {
    myelin_jsapi::consumer::config::OtherConsumers::each(&**origin.consumers(), &mut |consumer| {
        if consumer.is_own {
            visit(consumer);
        }
        true
    });
}

/// Whether somebody copies by this consumer; `None`: nobody knows at the moment.
fn is_needed(
    jetstream: &JetStream,
    origin: &Arc<LiveStream>,
    consumer: &ConsumerConfig,
    changed: ChangedStream<'_>,
) -> Option<bool> {
    if origin.config().retention == Retention::Limits {
        return Some(false);
    }
    let (account, stream, is_mirror) = owner(consumer)?;
    let account = jetstream.account(account).filter(|account| account.limits().is_some())?;
    if account.unrestored().iter().any(|unrestored| unrestored == stream) {
        return None;
    }
    let Some(config) = config_of(jetstream, &account, stream, changed)? else { return Some(false) };
    let sources = if is_mirror { config.mirror.as_slice() } else { config.sources.as_slice() };
    let mut is_any_missing = false;
    for source in sources.iter().filter(|source| source.consumer.is_none()) {
        let is_here = match &source.external {
            // Whether it is read here or asked for.
            None => source.name == origin.name() && account.account().name() == origin.account_name(),
            Some(_) => match origin::find(jetstream, account.account(), source, is_mirror) {
                FoundOrigin::Here(found) => Arc::ptr_eq(&found, origin),
                // By another way it may be.
                _ => true,
            },
        };
        if !is_here {
            continue;
        }
        let name =
            SourceConsumerName { account: account.account().name(), config: &config, source, is_mirror };
        let name = name.consumer_name(&jetstream.settings.domain);
        if name == consumer.name {
            return Some(true);
        }
        is_any_missing |= origin.consumers().find(&name).is_none();
    }
    // It goes when those of other names are there that take its place: what it keeps would be lost.
    if is_any_missing { None } else { Some(false) }
}

/// Configuration of the stream that owns such a consumer: the cluster's, where it has one, for the
/// stream may be on other servers. `Some(None)`: it is gone; `None`: nobody knows at the moment.
fn config_of(
    jetstream: &JetStream,
    account: &AccountStreams,
    stream: &str,
    changed: ChangedStream<'_>,
) -> Option<Option<Arc<StreamConfig>>> {
    let name = account.account().name();
    let was_seen = changed.is_some_and(|(of, config)| of.name() == name && config.name == stream);
    let mut may_be_elsewhere = false;
    if let Some(meta) = jetstream.meta() {
        let view = meta.view();
        if let Some(assignment) = view.get(name, stream) {
            return Some(Some(Arc::new(assignment.config.clone())));
        }
        may_be_elsewhere = view.removed(name, stream).is_empty();
    }
    match account.stream(stream) {
        Some(live) => Some(Some(live.config())),
        // The store may have it under a name that cannot be read, and an operator may bring it
        // back; or the cluster has it, and this server has not heard of that.
        None if (jetstream.found.has_unreadable || may_be_elsewhere) && !was_seen => None,
        None => Some(None),
    }
}

/// Links between streams that may be missing, or lead nowhere.
#[derive(Default)]
pub(in crate::engine) struct Unlinked {
    /// Whether some stream may not have found what it copies.
    pub(in crate::engine) is_seeking: AtomicBool,
    /// Streams that were opened and have consumers for others that copy them: it is to be seen
    /// whether these are there.
    linked: Mutex<Vec<Weak<LiveStream>>>,
}

impl JetStream {
    /// A stream was opened that has consumers for others that copy it.
    pub(in crate::engine) fn note_linked(&self, stream: &Arc<LiveStream>) {
        lock(&self.unlinked.linked).push(Arc::downgrade(stream));
    }

    /// Ends those whose streams are not there, as far as their accounts are enabled.
    pub(in crate::engine) fn sweep_linked(self: &Arc<Self>) {
        if lock(&self.unlinked.linked).is_empty() {
            return;
        }
        let me = Arc::downgrade(self);
        let sweep = move || {
            let Some(me) = me.upgrade() else { return };
            let found = std::mem::take(&mut *lock(&me.unlinked.linked));
            let left = sweep_found(&me, found);
            lock(&me.unlinked.linked).extend(left);
        };
        // It looks at the streams that copy these, too.
        self.host.spawn_api(CallScope::Server, Box::new(sweep));
    }
}
