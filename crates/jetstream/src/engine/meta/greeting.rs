//! Greetings: a server asks the others of its cluster whether there is a meta group.
//!
//! Owns what is said before a server is a member, and when a new group is formed: when as many
//! servers are linked as are configured, and all of them have said that they have none, and that
//! they are linked with just these. So one that comes later does not found a group of its own, and
//! five servers that start at once, of which each is configured with three, found no two.
//!
//! Servers that a server was linked with only become more. So of two sets of servers in which all
//! name their set, and that share a server, one holds the other; and whoever has founded the
//! smaller one does not say any more that it is a member of none.
//!
//! A question is a message to `_join_` in the account of frames, which all hear; its answer goes to
//! `_joined_.<peer>`. A member that hears of no leader asks, too: it may have been removed, or it
//! comes back.

use super::{JetStream, Meta, peer_of};
use crate::engine::CallScope;
use crate::engine::cluster::MetaSearch;
use crate::engine::groups::Groups;
use crate::engine::host::Timer;
use myelin_broker::{Level, Service, ServiceBatch, ServiceShard};
use myelin_stdx::sync::lock;
use myelin_store::{Seq, Timestamp};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, Weak};

/// Nanoseconds between two questions of a server that is no member yet.
const PAUSE: Timestamp = 200_000_000;
/// Servers that found a group have agreed for so long on who they are.
const AGREED: Timestamp = 2 * PAUSE;
/// Nanoseconds until what a disk has refused is tried again.
const BEGIN_AGAIN: Timestamp = 2_000_000_000;
/// A server that was silent for so long has gone before there was a group.
const GONE: Timestamp = 10_000_000_000;
/// Where all servers hear questions.
const QUESTIONS: &str = "_join_";

/// Question of a server.
#[derive(Serialize, Deserialize)]
struct JoinQuestion {
    name: String,
}

/// Answer of another one.
#[derive(Default, Serialize, Deserialize)]
struct JoinAnswer {
    /// Name of the server that answers.
    name: String,
    /// Servers that founded the group, with commas; none where it is a member of none.
    founders: Option<String>,
    /// Servers that are members; of one that is a member of none, those that it is linked with.
    #[serde(default)]
    servers: Vec<String>,
    /// Whether the one that has asked was removed.
    #[serde(default)]
    removed: bool,
    /// Sequence of the message of the meta stream that says so.
    #[serde(default)]
    removed_at: Seq,
}

/// Search of a server for the meta group; it answers others that look for it, too.
pub(in crate::engine) struct Greeter {
    jetstream: Weak<JetStream>,
    groups: Arc<Groups>,
    name: String,
    seeking: Mutex<Seeking>,
    /// The next attempt to take part in a group, where a disk has refused the last one.
    again: Mutex<Option<Arc<BeginAgain>>>,
    me: Weak<Self>,
}

/// Another attempt to take part in a group.
struct BeginAgain {
    greeter: Weak<Greeter>,
    founders: Vec<String>,
    servers: Vec<String>,
}

impl Timer for BeginAgain {
    fn fire(&self) {
        let Some(greeter) = self.greeter.upgrade() else { return };
        let Some(jetstream) = greeter.jetstream.upgrade() else { return };
        let (founders, servers, host) =
            (self.founders.clone(), self.servers.clone(), Arc::clone(&jetstream.host));
        let task = move || greeter.begin_meta(&jetstream, founders, servers);
        host.spawn_api(CallScope::Nothing, Box::new(task));
    }
}

struct Seeking {
    /// Servers that a new group has, this one among them.
    expected: usize,
    /// This server, and those that are or were linked.
    linked: BTreeSet<String>,
    /// When these were linked, or have said something.
    heard: BTreeMap<String, Timestamp>,
    /// Servers that have said that they are members of no group, and which servers they name.
    without: BTreeMap<String, BTreeSet<String>>,
    /// Since when all of these name the same.
    agreed: Option<Timestamp>,
    /// Whether this server is a member, or about to be one.
    is_over: bool,
}

impl Greeter {
    /// Takes part in greetings. `expected`: how many servers a new group has.
    pub(in crate::engine) fn begin(
        jetstream: &Arc<JetStream>,
        groups: &Arc<Groups>,
        expected: usize,
    ) -> Arc<Self> {
        let is_over = jetstream.meta().is_some();
        let name = jetstream.settings.server_name.clone();
        let linked = BTreeSet::from([name.clone()]);
        let (heard, without) = (BTreeMap::new(), BTreeMap::new());
        let seeking = Seeking { expected, linked, heard, without, agreed: None, is_over };
        let greeter = Arc::new_cyclic(|me| Self {
            jetstream: Arc::downgrade(jetstream),
            groups: Arc::clone(groups),
            name,
            seeking: Mutex::new(seeking),
            again: Mutex::default(),
            me: Weak::clone(me),
        });
        for subject in [QUESTIONS.to_owned(), format!("_joined_.{}", groups.me)] {
            let service: Arc<dyn Service> = Arc::clone(&greeter) as Arc<dyn Service>;
            // As long as the account is there, which is for ever.
            let _ = groups.account.bind(subject.as_bytes(), service);
        }
        if !is_over {
            greeter.arm();
        }
        greeter
    }

    fn arm(&self) {
        if let Some(jetstream) = self.jetstream.upgrade() {
            let timer = Weak::clone(&self.me) as Weak<dyn Timer>;
            jetstream.host.schedule(jetstream.host.now() + PAUSE, timer);
        }
    }

    fn answer(&self, jetstream: &JetStream, asking: &str, reply: &[u8]) {
        let meta = jetstream.meta();
        if meta.as_ref().is_some_and(|meta| meta.is_out()) {
            return;
        }
        let mut answer = JoinAnswer { name: self.name.clone(), ..JoinAnswer::default() };
        if let Some(meta) = meta {
            meta.take_in(jetstream, asking);
            answer.founders = Some(meta.founders.clone());
            answer.servers = (*meta.servers()).clone();
            let roster = lock(&meta.members.roster);
            (answer.removed, answer.removed_at) = (roster.removed(asking).is_some(), roster.last_of(asking));
        } else {
            answer.servers = lock(&self.seeking).linked.iter().cloned().collect();
        }
        let payload = serde_json::to_vec(&answer).unwrap_or_default();
        let mut out = MessageBuf::default();
        out.push(MessageRef { subject: reply, payload: &payload, ..MessageRef::default() });
        self.groups.publish(out);
    }

    fn hear(&self, jetstream: &Arc<JetStream>, answer: JoinAnswer) {
        let JoinAnswer { name, founders, servers, removed, removed_at } = answer;
        if let Some(meta) = jetstream.meta() {
            let removed = removed.then_some(removed_at);
            founders.into_iter().for_each(|founders| meta.is_told(jetstream, &founders, removed));
            return;
        }
        let mut seeking = lock(&self.seeking);
        if seeking.is_over {
            return;
        }
        if let Some(founders) = founders {
            seeking.is_over = true;
            drop(seeking);
            return self.begin_meta(jetstream, founders.split(',').map(str::to_owned).collect(), servers);
        }
        let now = jetstream.host.now();
        seeking.linked.insert(name.clone());
        seeking.heard.insert(name.clone(), now);
        seeking.without.insert(name, servers.into_iter().collect());
        if seeking.may_found(&self.name, now) {
            seeking.is_over = true;
            let servers: Vec<String> = seeking.linked.iter().cloned().collect();
            drop(seeking);
            self.begin_meta(jetstream, servers.clone(), servers);
        }
    }

    /// Takes part in a meta group. What a disk refuses is said in the log, and tried again: the
    /// others count on this server.
    fn begin_meta(&self, jetstream: &Arc<JetStream>, founders: Vec<String>, servers: Vec<String>) {
        let Err(error) = jetstream.begin_meta_with(&founders, &servers) else { return };
        let line = format_args!("JetStream cannot take part in its cluster: {error}");
        jetstream.host.log(Level::Error, line);
        let (timer, me) = (jetstream.host.now() + BEGIN_AGAIN, Weak::clone(&self.me));
        let again = Arc::new(BeginAgain { greeter: me, founders, servers });
        *lock(&self.again) = Some(Arc::clone(&again));
        jetstream.host.schedule(timer, Arc::downgrade(&again) as Weak<dyn Timer>);
    }
}

impl Seeking {
    /// Whether a group is to be founded by all servers that are linked: they agree on who they are,
    /// and have for a while.
    fn may_found(&mut self, me: &str, now: Timestamp) -> bool {
        let is_heard = |name: &String| {
            let gone = self.heard.get(name).is_some_and(|heard| now - heard > GONE);
            name == me || !gone
        };
        let there: BTreeSet<String> = self.linked.iter().filter(|name| is_heard(name)).cloned().collect();
        if there != self.linked {
            (self.linked, self.agreed) = (there, None);
        }
        let names_us = |name: &String| name == me || self.without.get(name) == Some(&self.linked);
        if self.linked.len() < self.expected || !self.linked.iter().all(names_us) {
            self.agreed = None;
            return false;
        }
        now - *self.agreed.get_or_insert(now) >= AGREED
    }
}

impl MetaSearch for Greeter {
    fn is_linked(&self, name: &str) {
        let mut seeking = lock(&self.seeking);
        if let Some(jetstream) = self.jetstream.upgrade() {
            seeking.heard.insert(name.to_owned(), jetstream.host.now());
        }
        seeking.linked.insert(name.to_owned());
        let is_over = seeking.is_over;
        drop(seeking);
        if !is_over {
            self.ask();
        }
    }

    fn ask(&self) {
        let payload = serde_json::to_vec(&JoinQuestion { name: self.name.clone() }).unwrap_or_default();
        let reply = format!("_joined_.{}", self.groups.me);
        let mut out = MessageBuf::default();
        out.push(MessageRef {
            subject: QUESTIONS.as_bytes(),
            reply: reply.as_bytes(),
            payload: &payload,
            ..MessageRef::default()
        });
        self.groups.publish(out);
    }
}

impl Timer for Greeter {
    fn fire(&self) {
        if !lock(&self.seeking).is_over {
            self.ask();
            self.arm();
        }
    }
}

impl Service for Greeter {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        for msg in batch.iter() {
            let (Some(jetstream), Some(me)) = (self.jetstream.upgrade(), self.me.upgrade()) else { continue };
            let host = Arc::clone(&jetstream.host);
            if msg.subject == QUESTIONS.as_bytes() {
                let question: Option<JoinQuestion> = serde_json::from_slice(msg.payload).ok();
                let reply = msg.reply.to_vec();
                let Some(question) = question.filter(|question| question.name != self.name) else { continue };
                let task = move || me.answer(&jetstream, &question.name, &reply);
                host.spawn_api(CallScope::Nothing, Box::new(task));
            } else if let Ok(answer) = serde_json::from_slice(msg.payload) {
                host.spawn_api(CallScope::Nothing, Box::new(move || me.hear(&jetstream, answer)));
            }
        }
        batch.clear();
    }
}

impl Meta {
    /// Another server has said what the group is, as this one hears of no leader, and if this one
    /// was removed, by which message of the meta stream.
    fn is_told(&self, jetstream: &Arc<JetStream>, founders: &str, removed: Option<Seq>) {
        if founders == self.founders {
            let known = lock(&self.members.roster).last_of(&self.name);
            // It may be said late, or by one that is behind: what this server knows itself is
            // newer.
            return if removed.is_some_and(|at| at > known) {
                self.set_out(jetstream, true)
            };
        }
        if !self.members.is_strange.swap(true, Relaxed) {
            let line = format_args!(
                "JetStream: the store of this server is of another cluster ({}) than the one that it is linked \
                 with ({founders}): it takes no part",
                self.founders
            );
            jetstream.host.log(Level::Error, line);
        }
    }
}

impl JetStream {
    /// Asks other servers of the cluster for its meta group, answers those that ask, and founds a
    /// new one with `expected` servers, when so many are linked and none of them is a member of
    /// one: to be called once, behind [`JetStream::begin_groups`], and behind
    /// [`JetStream::begin_meta`] where the store was in a cluster before.
    ///
    /// # Errors
    /// Groups have not begun, or this was called before.
    pub fn seek_meta(self: &Arc<Self>, expected: usize) -> Result<(), String> {
        let groups = self.cluster.groups.get().ok_or("groups have not begun")?;
        let greeter = Greeter::begin(self, groups, expected);
        self.cluster.search.set(greeter).map_err(|_| "it is sought already".to_owned())
    }

    /// Another server of the cluster that takes part in groups is linked: this is its name.
    pub fn server_linked(&self, name: &str) {
        if peer_of(name).is_some() {
            self.cluster.search.get().into_iter().for_each(|search| search.is_linked(name));
        }
    }

    /// Asks for the meta group, of which this server is a member that hears of no leader.
    pub(super) fn ask_for_meta(&self) {
        self.cluster.search.get().into_iter().for_each(|search| search.ask());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    #[test]
    fn a_group_is_founded_by_servers_that_agree_on_who_they_are() {
        let linked = set(&["n1", "n2", "n3"]);
        let (heard, without) = (BTreeMap::new(), BTreeMap::new());
        let mut seeking = Seeking { expected: 3, linked, heard, without, agreed: None, is_over: false };
        let hear = |seeking: &mut Seeking, name: &str, at, servers: &BTreeSet<String>| {
            seeking.heard.insert(name.into(), at);
            seeking.without.insert(name.into(), servers.clone());
        };
        hear(&mut seeking, "n2", 0, &set(&["n1", "n2", "n3"]));
        assert!(!seeking.may_found("n1", AGREED), "one has not answered");
        hear(&mut seeking, "n3", 0, &set(&["n1", "n2", "n3", "n4"]));
        assert!(!seeking.may_found("n1", AGREED), "one knows of more");
        seeking.linked.insert("n4".into());
        let all = seeking.linked.clone();
        ["n2", "n4"].iter().for_each(|name| hear(&mut seeking, name, 1, &all));
        assert!(!seeking.may_found("n1", 5) && !seeking.may_found("n1", 4 + AGREED), "not for long");
        assert!(seeking.may_found("n1", 5 + AGREED));
        // What is linked now counts, and not what has gone.
        for name in ["n2", "n3"] {
            hear(&mut seeking, name, GONE + 5, &set(&["n1", "n2", "n3"]));
        }
        assert!(!seeking.may_found("n1", GONE + 5), "they have to agree anew");
        assert!(seeking.may_found("n1", GONE + 5 + AGREED) && seeking.linked == set(&["n1", "n2", "n3"]));
        // One was linked, and went before it had said anything.
        seeking.linked.insert("n5".into());
        seeking.heard.insert("n5".into(), GONE);
        let heard = 2 * GONE;
        for name in ["n2", "n3"] {
            hear(&mut seeking, name, heard, &set(&["n1", "n2", "n3"]));
        }
        assert!(!seeking.may_found("n1", heard), "it may say something yet");
        assert!(!seeking.may_found("n1", heard + 1) && seeking.may_found("n1", heard + 1 + AGREED));
    }
}
