//! Clients that wait for messages are told of the next leader where theirs ends without a word, and
//! ask again then. They would wait until they have missed two heartbeats.
//!
//! Compat: in the reference requests are entries of the consumer's group. Here other members hear
//! of them within [`TOLD_WITHIN`], in memory, and word that is lost costs a client that wait.

use super::LiveStream;
use super::asked_consumers::{AskedWord, MOST};
use crate::engine::consumers::left_requests::leadership_change;
use crate::engine::host::Timer;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Nanoseconds from a first request to word of it, with all that have come until then.
const TOLD_WITHIN: Timestamp = 20_000_000;

/// Says what was asked, some time after the first request.
struct AskedWatch(Weak<LiveStream>);

impl Timer for AskedWatch {
    fn fire(&self) {
        if let Some(live) = self.0.upgrade() {
            live.say_asked();
        }
    }
}

impl LiveStream {
    /// A consumer was asked for messages: other members of the group are to know.
    pub(in crate::engine) fn note_asked(&self, consumer: &str) {
        let asked = &self.membership.asked;
        let is_first = {
            let mut unsaid = lock(&asked.unsaid);
            let is_first = unsaid.is_empty();
            // Perf: a consumer that is asked again and again is noted once.
            if !unsaid.contains(consumer) {
                unsaid.insert(consumer.to_owned());
            }
            is_first
        };
        if is_first {
            let watch = asked.watch.get_or_init(|| Arc::new(AskedWatch(Weak::clone(&self.me))));
            let timer = Arc::downgrade(watch) as Weak<dyn Timer>;
            self.scope.host.schedule(self.scope.host.now() + TOLD_WITHIN, timer);
        }
    }

    fn say_asked(&self) {
        let unsaid = std::mem::take(&mut *lock(&self.membership.asked.unsaid));
        if !self.role().leads() {
            return;
        }
        let now = self.scope.host.now();
        let mut waiting = BTreeMap::new();
        for name in unsaid {
            let Some(live) = self.consumers.find(&name) else { continue };
            let requests = live.query_soon(|core, _| core.waiting_requests(MOST)).wait().unwrap_or_default();
            let text =
                |(reply, until): (Vec<u8>, Timestamp)| Some((String::from_utf8(reply).ok()?, until - now));
            waiting.insert(name, requests.into_iter().filter_map(text).collect());
        }
        self.tell_asked(waiting, false);
    }

    /// Has others forget who waits here: this leader tells them of the next one itself.
    pub(super) fn forget_asked(&self) {
        lock(&self.membership.asked.unsaid).clear();
        self.tell_asked(BTreeMap::new(), true);
    }

    fn tell_asked(&self, waiting: BTreeMap<String, Vec<(String, i64)>>, are_told: bool) {
        let membership = lock(&self.membership.member);
        let Some(joined) = &*membership else { return };
        let groups = Arc::clone(&joined.groups);
        let others = joined.member.consensus().members().all_voters();
        drop(membership);
        let (account, stream) = (self.scope.account.name().to_owned(), self.scope.name.to_string());
        let word = AskedWord { account, stream, waiting, are_told };
        let payload = serde_json::to_vec(&word).unwrap_or_default();
        let mut out = MessageBuf::default();
        for peer in others.into_iter().filter(|&peer| peer != groups.me) {
            let subject = AskedWord::subject(peer);
            out.push(MessageRef { subject: subject.as_bytes(), payload: &payload, ..MessageRef::default() });
        }
        groups.publish(out);
    }

    /// The leader has said who waits there.
    pub(in crate::engine) fn hear_asked(&self, word: AskedWord) {
        if self.role().leads() {
            return;
        }
        self.membership.asked.hear(word, self.scope.host.now());
    }

    /// Tells those who waited at the leader before, as far as it has said so.
    pub(super) fn tell_asked_elsewhere(&self) {
        let elsewhere = std::mem::take(&mut *lock(&self.membership.asked.elsewhere));
        let now = self.scope.host.now();
        let waiting = elsewhere.into_values().flatten().filter(|(_, until)| *until > now);
        let told = leadership_change(waiting.map(|(reply, _)| reply));
        if !told.is_empty() {
            self.scope.host.publish(&self.scope.account, told);
        }
    }
}
