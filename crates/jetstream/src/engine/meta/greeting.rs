//! Greetings: a server asks the others of its cluster whether there is a meta group.
//!
//! Owns what is said before a server is a member, and when a new group is formed: when as many
//! servers are linked as are configured, and all of them have said that they have none, and that
//! they are linked with just these. So one that comes later does not found a group of its own, and
//! five servers that start at once, of which each is configured with three, found no two. Where
//! gateways join clusters, each that is configured has to be heard of, too: `founding.rs`.
//!
//! Servers that a server was linked with only become more. So of two sets of servers in which all
//! name their set, and that share a server, one holds the other; and whoever has founded the
//! smaller one does not say any more that it is a member of none.
//!
//! A founder is *new* to its group: it has not been a member of it in an earlier life, of which it
//! would know nothing without its disk. For all of them have said in these lives of theirs that
//! they are members of none, and the last word of each is younger than their agreement. So it votes
//! at once. Whoever is told of a group is new to it, too, if it was founded by a word of its
//! present life; otherwise it may have voted in it.
//!
//! A question is a message to `_join_` in the account of frames, which all hear; its answer goes to
//! `_joined_.<peer>`. A member that hears of no leader asks, too: it may have been removed, or it
//! comes back.

use super::founding::{FoundingTerms, SaidNone, Seeking};
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
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Mutex, Weak};

/// Nanoseconds between two questions of a server that is no member yet.
const PAUSE: Timestamp = 100_000_000;
/// Questions of a member about a server that is newly linked: the first ones may come before what
/// the other server wants to hear is known.
const QUESTIONS_OF_MEMBER: u32 = 10;
/// Nanoseconds until what a disk has refused is tried again.
const BEGIN_AGAIN: Timestamp = 2_000_000_000;
/// Where all servers hear questions.
const QUESTIONS: &str = "_join_";

/// Question of a server.
#[derive(Serialize, Deserialize)]
struct JoinQuestion {
    name: String,
    /// Life of its store.
    #[serde(default)]
    life: u64,
    /// Servers that founded the group that it is a member of, with commas, if it is of one.
    founders: Option<String>,
    /// When it was asked, by the clock of who asks.
    #[serde(default)]
    at: Timestamp,
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
    /// Lives of the stores of who answers, and of who has asked; 0: the version before says none.
    #[serde(default)]
    life: u64,
    #[serde(default)]
    asked: u64,
    /// When that was; 0: the version before does not say.
    #[serde(default)]
    asked_at: Timestamp,
    /// Lives of the founders, where who answers has founded the group in this life.
    #[serde(default)]
    lives: BTreeMap<String, u64>,
}

/// Search of a server for the meta group; it answers others that look for it, too.
pub(in crate::engine) struct Greeter {
    jetstream: Weak<JetStream>,
    groups: Arc<Groups>,
    name: String,
    seeking: Mutex<Seeking>,
    /// Questions that it still has as a member.
    left: AtomicU32,
    /// The next attempt to take part in a group, where a disk has refused the last one.
    again: Mutex<Option<Arc<BeginAgain>>>,
    me: Weak<Self>,
}

/// Another attempt to take part in a group.
struct BeginAgain {
    greeter: Weak<Greeter>,
    servers: FoundServers,
}

/// Servers of a group as one hears of them that is to take part in it.
#[derive(Clone)]
struct FoundServers {
    founders: Vec<String>,
    members: Vec<String>,
    /// Whether this server is new to it.
    is_new: bool,
}

impl Timer for BeginAgain {
    fn fire(&self) {
        let Some(greeter) = self.greeter.upgrade() else { return };
        let Some(jetstream) = greeter.jetstream.upgrade() else { return };
        let (servers, host) = (self.servers.clone(), Arc::clone(&jetstream.host));
        let task = move || greeter.begin_meta(&jetstream, servers);
        host.spawn_api(CallScope::Nothing, Box::new(task));
    }
}

impl Greeter {
    /// Takes part in greetings. `terms`: when a new group is founded.
    pub(in crate::engine) fn begin(
        jetstream: &Arc<JetStream>,
        groups: &Arc<Groups>,
        terms: FoundingTerms,
    ) -> Arc<Self> {
        let is_over = jetstream.meta().is_some();
        let name = jetstream.settings.server_name.clone();
        let seeking = Seeking::new(&name, terms, jetstream.host.now(), is_over);
        let greeter = Arc::new_cyclic(|me| Self {
            jetstream: Arc::downgrade(jetstream),
            groups: Arc::clone(groups),
            name,
            seeking: Mutex::new(seeking),
            left: AtomicU32::new(0),
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

    fn answer(&self, jetstream: &JetStream, question: &JoinQuestion, reply: &[u8]) {
        let meta = jetstream.meta();
        if meta.as_ref().is_some_and(|meta| meta.is_out()) {
            return;
        }
        let (asking, asked, life) = (&question.name, question.life, self.groups.incarnation());
        let (name, asked_at) = (self.name.clone(), question.at);
        let mut answer = JoinAnswer { name, life, asked, asked_at, ..JoinAnswer::default() };
        if let Some(meta) = meta {
            match &question.founders {
                Some(founders) if *founders != meta.founders => meta.note_strange(jetstream, founders),
                _ => meta.take_in(jetstream, asking),
            }
            answer.founders = Some(meta.founders.clone());
            answer.servers = (*meta.servers()).clone();
            answer.lives = lock(&self.seeking).lives.clone();
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
        let JoinAnswer { name, founders, servers, removed, removed_at, life, asked, asked_at, lives } =
            answer;
        let own_life = self.groups.incarnation();
        let is_of_before = asked == 0 && founders.is_some();
        if asked != own_life && !is_of_before {
            // It was for an earlier life.
            return;
        }
        if let Some(meta) = jetstream.meta() {
            let removed = removed.then_some(removed_at);
            founders.into_iter().for_each(|founders| meta.is_told(jetstream, (&founders, &servers), removed));
            return;
        }
        let mut seeking = lock(&self.seeking);
        if seeking.is_over {
            return;
        }
        if let Some(founders) = founders {
            seeking.is_over = true;
            drop(seeking);
            let is_new = lives.get(&self.name) == Some(&own_life);
            let founders = founders.split(',').map(str::to_owned).collect();
            return self.begin_meta(jetstream, FoundServers { founders, members: servers, is_new });
        }
        let now = jetstream.host.now();
        seeking.linked.insert(name.clone());
        seeking.heard.insert(name.clone(), now);
        // What was under way for long is older than its arrival.
        let at = if asked_at == 0 { now } else { asked_at.min(now) };
        seeking.hear(name, SaidNone { servers: servers.into_iter().collect(), life, at });
        if seeking.may_found(&self.name, now) {
            seeking.is_over = true;
            let founders: Vec<String> = seeking.linked.iter().cloned().collect();
            seeking.note_lives(&self.name, own_life);
            drop(seeking);
            let members = founders.clone();
            self.begin_meta(jetstream, FoundServers { founders, members, is_new: true });
        }
    }

    /// Takes part in a meta group. What a disk refuses is said in the log, and tried again: the
    /// others count on this server.
    fn begin_meta(&self, jetstream: &Arc<JetStream>, servers: FoundServers) {
        let FoundServers { founders, members, is_new } = &servers;
        let Err(error) = jetstream.begin_meta_with((founders, members), *is_new) else { return };
        let line = format_args!("JetStream cannot take part in its cluster: {error}");
        jetstream.host.log(Level::Error, line);
        let (timer, me) = (jetstream.host.now() + BEGIN_AGAIN, Weak::clone(&self.me));
        let again = Arc::new(BeginAgain { greeter: me, servers });
        *lock(&self.again) = Some(Arc::clone(&again));
        jetstream.host.schedule(timer, Arc::downgrade(&again) as Weak<dyn Timer>);
    }
}

impl MetaSearch for Greeter {
    fn expected(&self) -> usize {
        lock(&self.seeking).terms.expected
    }

    fn expect(&self, servers: usize) {
        lock(&self.seeking).terms.expected = servers;
    }

    fn is_linked(&self, name: &str, cluster: &str) {
        let mut seeking = lock(&self.seeking);
        if let Some(jetstream) = self.jetstream.upgrade() {
            seeking.heard.insert(name.to_owned(), jetstream.host.now());
            seeking.note_cluster(name, cluster, &jetstream.host.cluster());
        }
        seeking.linked.insert(name.to_owned());
        let is_over = seeking.is_over;
        drop(seeking);
        if !is_over {
            self.ask();
        } else if self.left.swap(QUESTIONS_OF_MEMBER, Relaxed) == 0 {
            self.ask_as_member();
        }
    }

    fn cluster_heard(&self, cluster: &str, has_any: bool) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        lock(&self.seeking).hear_of_cluster(cluster, has_any, jetstream.host.now());
    }

    fn ask(&self) {
        let Some(jetstream) = self.jetstream.upgrade() else { return };
        let founders = jetstream.meta().map(|meta| meta.founders.clone());
        let (name, life) = (self.name.clone(), self.groups.incarnation());
        let question = JoinQuestion { name, life, founders, at: jetstream.host.now() };
        let payload = serde_json::to_vec(&question).unwrap_or_default();
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

impl Greeter {
    /// A member asks, too: another server may be of another group.
    fn ask_as_member(&self) {
        if self.left.load(Relaxed) == 0 {
            return;
        }
        self.left.fetch_sub(1, Relaxed);
        let meta = self.jetstream.upgrade().and_then(|jetstream| jetstream.meta());
        if meta.is_some_and(|meta| !meta.is_out()) {
            self.ask();
        }
        self.arm();
    }
}

impl Timer for Greeter {
    fn fire(&self) {
        let waits = {
            let mut seeking = lock(&self.seeking);
            if seeking.is_over {
                drop(seeking);
                return self.ask_as_member();
            }
            self.jetstream.upgrade().and_then(|jetstream| {
                Some((seeking.waits_for(&self.name, jetstream.host.now())?, Arc::clone(&jetstream.host)))
            })
        };
        if let Some((what, host)) = waits {
            host.log(Level::Warn, format_args!("JetStream is in no cluster yet, and waits for {what}"));
        }
        self.ask();
        self.arm();
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
                let asking = move || me.answer(&jetstream, &question, &reply);
                host.spawn_api(CallScope::Nothing, Box::new(asking));
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
    fn is_told(
        &self,
        jetstream: &Arc<JetStream>,
        (founders, servers): (&str, &[String]),
        removed: Option<Seq>,
    ) {
        if founders == self.founders {
            self.tell_servers(servers);
            let known = lock(&self.members.roster).last_of(&self.name);
            // It may be said late, or by one that is behind: what this server knows itself is
            // newer.
            return if removed.is_some_and(|at| at > known) {
                self.set_out(jetstream, true)
            };
        }
        self.note_strange(jetstream, founders);
    }

    /// Another server is of a meta group that others have founded: neither takes anything of the
    /// other.
    fn note_strange(&self, jetstream: &JetStream, founders: &str) {
        if !self.members.is_strange.swap(true, Relaxed) {
            let line = format_args!(
                "JetStream: the store of this server is of another cluster ({}) than that of one that it is \
                 linked with ({founders}): neither takes part in the other's",
                self.founders
            );
            jetstream.host.log(Level::Error, line);
        }
    }
}

impl JetStream {
    /// Asks other servers for the meta group, answers those that ask, and founds a new one on these
    /// terms, when none of those that are linked is a member of one: to be called once, behind
    /// [`JetStream::begin_groups`], and behind [`JetStream::begin_meta`] where the store was in a
    /// cluster before.
    ///
    /// # Errors
    /// Groups have not begun, or this was called before.
    pub fn seek_meta(self: &Arc<Self>, terms: FoundingTerms) -> Result<(), String> {
        let groups = self.cluster.groups.get().ok_or("groups have not begun")?;
        let greeter = Greeter::begin(self, groups, terms);
        self.cluster.search.set(greeter).map_err(|_| "it is sought already".to_owned())
    }

    /// Another server that takes part in groups is linked: these are its name and its cluster's.
    pub fn server_linked(&self, name: &str, cluster: &str) {
        if peer_of(name).is_some() {
            self.cluster.search.get().into_iter().for_each(|search| search.is_linked(name, cluster));
        }
    }

    /// As many servers of this cluster found a new group, this one among them: less than at first,
    /// where a route turns out to lead to it.
    pub fn expect_servers(&self, servers: usize) {
        self.cluster.search.get().into_iter().for_each(|search| search.expect(servers));
    }

    /// Another cluster has said over a gateway whether some of its servers take part.
    pub fn cluster_heard(&self, cluster: &str, has_any: bool) {
        self.cluster.search.get().into_iter().for_each(|search| search.cluster_heard(cluster, has_any));
    }

    /// Asks for the meta group, of which this server is a member that hears of no leader.
    pub(super) fn ask_for_meta(&self) {
        self.cluster.search.get().into_iter().for_each(|search| search.ask());
    }
}
