//! Lists over all servers: who is asked for one asks the servers that have what is not here.
//!
//! A question is a message to `_ask_.<peer>` in the account of frames, its answer goes to a subject
//! of its own. Servers that do not answer in time are left out.

use super::account_use::AccountUse;
use super::kept_facts::KnownFacts;
use super::placement_facts::FactsByServer;
use super::{AnswerKind, Asked, Assignment, LiveStream, Meta, StreamKey, peer_of, peers_of};
use crate::engine::account::AccountStreams;
use crate::engine::api_future::run_on_api;
use crate::engine::host::{PlacementFacts, Timer};
use crate::engine::live::{AskedLeader, AskedWord, PublishKey};
use crate::engine::waits::{Promise, promise};
use crate::engine::{CallScope, JetStream};
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_jsapi::api::info::StreamInfo;
use myelin_jsapi::config::ConsumerLimits;
use myelin_replica::Peer;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, Weak};

/// Other servers have so many nanoseconds to answer. Compat: twice that the reference waits, and
/// who asks for a list asks others for what the first have not told.
const PATIENCE: Timestamp = 2_000_000_000;

/// Question to another server: streams of an account of which it is to say how they stand.
#[derive(Clone, Default, Serialize, Deserialize)]
struct StreamsQuestion {
    account: String,
    streams: Vec<String>,
    /// Whether it is to say that only of those that it leads.
    #[serde(default)]
    led: bool,
    /// Whether it is to say what it is, and nothing else.
    #[serde(default)]
    facts: bool,
    /// Whether it is to say what the account uses there, and nothing else.
    #[serde(default)]
    usage: bool,
    /// Limits that consumers of a stream are to be held against, and nothing else, if the server
    /// leads it: it names those that have more.
    #[serde(default)]
    limits: Option<AskedLimits>,
    /// Publishes to a stream that the server before holds, and nothing else, if this one leads it:
    /// it says which have come to it, too, and takes the others no more.
    #[serde(default)]
    held: Option<HeldPublishes>,
    /// Request about a stream that has found nothing to change, and nothing else: the server
    /// answers it, if it leads the stream, and names the stream then.
    #[serde(default)]
    unchanged: Option<UnchangedStream>,
}

/// Request about a stream that has found nothing to change.
#[derive(Clone, Serialize, Deserialize)]
struct UnchangedStream {
    stream: String,
    /// Of the assignment that was looked at.
    nonce: u64,
    asked: Asked,
    answer: AnswerKind,
}

/// Publishes that the leader of a stream before this one holds, and is about to refuse.
#[derive(Clone, Serialize, Deserialize)]
struct HeldPublishes {
    stream: String,
    publishes: Vec<PublishKey>,
}

/// Limits of a stream for its consumers, which it may be given.
#[derive(Clone, Serialize, Deserialize)]
struct AskedLimits {
    stream: String,
    inactive_threshold: i64,
    max_ack_pending: i64,
}

impl AskedLimits {
    fn read(&self) -> ConsumerLimits {
        let Self { inactive_threshold, max_ack_pending, .. } = *self;
        ConsumerLimits { inactive_threshold, max_ack_pending }
    }
}

/// How streams of other servers stand, as JSON, by name.
pub(in crate::engine) type StreamsElsewhere = BTreeMap<String, Box<RawValue>>;

/// Answers that are waited for.
struct Gathering(Mutex<GatherState>);

struct GatherState {
    left: usize,
    found: StreamsElsewhere,
    promise: Option<Promise<()>>,
}

impl Gathering {
    fn end(state: &mut GatherState) {
        state.promise.take().into_iter().for_each(|promise| promise.keep(()));
    }
}

impl Service for Gathering {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let mut state = lock(&self.0);
        for msg in batch.iter() {
            // What another version says in another way is as if it had not answered.
            let found: StreamsElsewhere = serde_json::from_slice(msg.payload).unwrap_or_default();
            state.found.extend(found);
            state.left = state.left.saturating_sub(1);
        }
        if !batch.is_empty() && state.left == 0 {
            Self::end(&mut state);
        }
        batch.clear();
    }
}

impl Timer for Gathering {
    fn fire(&self) {
        Self::end(&mut lock(&self.0));
    }
}

/// Takes the questions of other servers.
pub(super) struct AskService(pub(super) Weak<Meta>);

impl Service for AskService {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let meta = self.0.upgrade();
        for msg in batch.iter() {
            let question: Option<StreamsQuestion> = serde_json::from_slice(msg.payload).ok();
            let jetstream = meta.as_ref().and_then(|meta| meta.jetstream.upgrade());
            let (Some(meta), Some(question), Some(jetstream)) = (&meta, question, jetstream) else {
                continue;
            };
            let (meta, reply) = (Arc::clone(meta), msg.reply.to_vec());
            let host = Arc::clone(&jetstream.host);
            let task = move || meta.answer_question(&jetstream, &question, &reply);
            host.spawn_api(CallScope::Nothing, Box::new(task));
        }
        batch.clear();
    }
}

/// Takes what leaders of streams say of who waits there.
pub(super) struct AskedService(pub(super) Weak<Meta>);

impl Service for AskedService {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let words: Vec<AskedWord> =
            batch.iter().filter_map(|msg| serde_json::from_slice(msg.payload).ok()).collect();
        batch.clear();
        let Some(meta) = self.0.upgrade().filter(|_| !words.is_empty()) else { return };
        meta.on_api(move |_, jetstream| {
            for word in words {
                let account = jetstream.account(&word.account);
                let live = account.and_then(|account| account.stream(&word.stream));
                if let Some(live) = live {
                    live.hear_asked(word);
                }
            }
        });
    }
}

/// Takes what other servers say of themselves because streams are to be placed.
pub(super) struct FactsService(pub(super) Weak<Meta>);

impl Service for FactsService {
    fn serve(&self, batch: &mut ServiceBatch, _: &mut ServiceShard) {
        let Some(meta) = self.0.upgrade() else { return batch.clear() };
        let mut is_complete = false;
        for msg in batch.iter() {
            let answer: StreamsElsewhere = serde_json::from_slice(msg.payload).unwrap_or_default();
            is_complete |= lock(&meta.members.facts).hear(read_facts(answer));
        }
        batch.clear();
        if is_complete {
            meta.on_api(|meta, jetstream| meta.replace_servers(jetstream));
        }
    }
}

/// Facts as servers tell them, but for those that tell something else.
fn read_facts(answer: StreamsElsewhere) -> FactsByServer {
    let read = |(name, facts): (String, Box<RawValue>)| Some((name, serde_json::from_str(facts.get()).ok()?));
    answer.into_iter().filter_map(read).collect()
}

impl Meta {
    /// Facts about all servers, if those that are there have been asked lately and have answered,
    /// or have had their time to; else they are asked, and streams are looked at again when they
    /// have answered.
    pub(super) fn kept_facts(&self, jetstream: &JetStream) -> Option<FactsByServer> {
        let now = jetstream.host.instant();
        let known = lock(&self.members.facts).known(now);
        let mut facts = match known {
            KnownFacts::Here(facts) => facts,
            KnownFacts::Awaited => return None,
            KnownFacts::Unknown => {
                // Answers come on other threads, and wait for this.
                let mut kept = lock(&self.members.facts);
                let asked = self.ask_for_facts();
                kept.begin(now, asked);
                if asked > 0 {
                    return None;
                }
                FactsByServer::new()
            }
        };
        facts.insert(self.name.clone(), jetstream.facts());
        Some(facts)
    }

    /// Asks servers how streams of an account stand: those of each server by its name. `led`: each
    /// says it of those only that it leads. Waits until all have answered, or for two seconds.
    pub(super) async fn gather(
        &self,
        jetstream: &JetStream,
        (account, led): (&str, bool),
        by_server: BTreeMap<String, Vec<String>>,
    ) -> StreamsElsewhere {
        let ask = |(server, streams): (String, Vec<String>)| {
            let facts = streams.is_empty();
            let account = account.to_owned();
            let question = StreamsQuestion { account, streams, led, facts, ..StreamsQuestion::default() };
            Some((peer_of(&server)?, question))
        };
        self.ask(jetstream, by_server.into_iter().filter_map(ask).collect()).await
    }

    /// Asks all other servers that are there what an account uses: the answers, by server.
    pub(in crate::engine) async fn uses_elsewhere(
        &self,
        jetstream: &JetStream,
        account: &str,
    ) -> StreamsElsewhere {
        self.ask(jetstream, self.questions_of_use(account)).await
    }

    /// Asks all other servers that are there what an account uses, and has them answer to `reply`.
    pub(super) fn ask_for_use(&self, account: &str, reply: &str) {
        self.send_questions(self.questions_of_use(account), reply);
    }

    fn questions_of_use(&self, account: &str) -> Vec<(Peer, StreamsQuestion)> {
        let question =
            || StreamsQuestion { account: account.to_owned(), usage: true, ..StreamsQuestion::default() };
        let is_asked = |&peer: &Peer| peer != self.groups.me && self.groups.is_there(peer);
        let others = peers_of(&self.servers()).into_iter().filter(is_asked);
        others.map(|peer| (peer, question())).collect()
    }

    fn send_questions(&self, by_peer: Vec<(Peer, StreamsQuestion)>, reply: &str) {
        let mut out = MessageBuf::default();
        for (peer, question) in by_peer {
            let payload = serde_json::to_vec(&question).unwrap_or_default();
            let subject = format!("_ask_.{peer}");
            out.push(MessageRef {
                subject: subject.as_bytes(),
                reply: reply.as_bytes(),
                payload: &payload,
                ..MessageRef::default()
            });
        }
        self.groups.publish(out);
    }

    /// Asks servers, and waits until all have answered, or for two seconds.
    async fn ask(&self, jetstream: &JetStream, by_peer: Vec<(Peer, StreamsQuestion)>) -> StreamsElsewhere {
        if by_peer.is_empty() {
            return StreamsElsewhere::new();
        }
        let (promise, promised) = promise();
        let state = GatherState { left: by_peer.len(), found: BTreeMap::new(), promise: Some(promise) };
        let gathering = Arc::new(Gathering(Mutex::new(state)));
        let reply = format!("_answer_.{}.{}", self.groups.me, jetstream.host.unique_id());
        let service: Arc<dyn Service> = Arc::clone(&gathering) as Arc<dyn Service>;
        let binding = self.groups.account.bind(reply.as_bytes(), service);
        self.send_questions(by_peer, &reply);
        let timer = Arc::downgrade(&gathering) as Weak<dyn Timer>;
        jetstream.host.schedule(jetstream.host.now() + PATIENCE, timer);
        promised.await;
        self.groups.account.unbind(&binding);
        std::mem::take(&mut lock(&gathering.0).found)
    }

    /// Asks how streams of one account stand that are not led here: their leaders. What they do not
    /// tell, and of what there is no replica here either, another server that is there says that
    /// has one.
    pub(in crate::engine) async fn gather_assigned(
        &self,
        jetstream: &JetStream,
        home: &AccountStreams,
        streams: &[Arc<Assignment>],
    ) -> StreamsElsewhere {
        let account = home.account().name();
        let mut by_leader = BTreeMap::<String, Vec<String>>::new();
        for one in streams {
            let name = &one.key.stream;
            let asked = self.may_lead(home.stream(name).as_deref(), one);
            asked.into_iter().for_each(|server| by_leader.entry(server).or_default().push(name.clone()));
        }
        let mut found = self.gather(jetstream, (account, true), by_leader).await;
        let mut by_server = BTreeMap::<String, Vec<String>>::new();
        for one in streams {
            let name = &one.key.stream;
            if !found.contains_key(name) && home.stream(name).is_none() {
                let asked = self.others_with(one);
                asked.for_each(|server| by_server.entry(server).or_default().push(name.clone()));
            }
        }
        found.append(&mut self.gather(jetstream, (account, false), by_server).await);
        found
    }

    /// Other servers that are there and have a replica of a stream.
    fn others_with<'a>(&'a self, one: &'a Assignment) -> impl Iterator<Item = String> + 'a {
        one.peers.iter().filter(|server| **server != self.name && self.has(server)).cloned()
    }

    /// Other servers of which one leads a stream, by what is known here: who has no replica does
    /// not know which.
    fn may_lead(&self, live: Option<&LiveStream>, one: &Assignment) -> Vec<String> {
        let leader = live.and_then(|live| self.leader_elsewhere(live));
        leader.map_or_else(|| self.others_with(one).collect(), |leader| vec![leader])
    }

    /// Name of the other server that leads a stream of which a replica is here, if one does and is
    /// there.
    fn leader_elsewhere(&self, live: &LiveStream) -> Option<String> {
        let leader = live.group_leadership()?.leader.map(|leader| self.name_of(leader))?;
        (leader != self.name && self.has(&leader)).then_some(leader)
    }

    /// Names of a stream's consumers that have more than these limits allow, as the server says
    /// that leads it. Nothing is known where none does.
    pub(in crate::engine) async fn consumers_exceeding(
        &self,
        jetstream: &JetStream,
        assignment: &Assignment,
        limits: &ConsumerLimits,
    ) -> Vec<String> {
        let (account, stream) = (&assignment.key.account, &assignment.key.stream);
        if let Some(live) = jetstream.account(account).and_then(|account| account.stream(stream))
            && live.role().leads()
        {
            return live.consumers().exceeding(limits);
        }
        let asked = AskedLimits {
            stream: stream.clone(),
            inactive_threshold: limits.inactive_threshold,
            max_ack_pending: limits.max_ack_pending,
        };
        let question =
            StreamsQuestion { account: account.clone(), limits: Some(asked), ..StreamsQuestion::default() };
        let is_asked = |server: &&String| **server != self.name && self.has(server);
        let servers = assignment.peers.iter().chain(&assignment.before).filter(is_asked);
        let peers: BTreeSet<Peer> = servers.filter_map(|server| peer_of(server)).collect();
        let questions = peers.into_iter().map(|peer| (peer, question.clone())).collect();
        let found = self.ask(jetstream, questions).await;
        found.get(stream).and_then(|names| serde_json::from_str(names.get()).ok()).unwrap_or_default()
    }

    /// Has the leader of a stream answer a request that has found nothing to change in what is
    /// `known` of it. Says whether it has: a leader that has not seen that yet, or is not there,
    /// does not.
    pub(in crate::engine) async fn is_answered_by_leader(
        &self,
        jetstream: &JetStream,
        known: &Assignment,
        (asked, answer): (Asked, AnswerKind),
    ) -> bool {
        let StreamKey { account, stream } = &known.key;
        let live = jetstream.account(account).and_then(|account| account.stream(stream));
        if let Some(live) = live.as_ref().filter(|live| live.role().leads()) {
            return self.answer_unchanged(jetstream, live, (known.nonce, asked, answer));
        }
        let servers = self.may_lead(live.as_deref(), known);
        let unchanged = UnchangedStream { stream: stream.clone(), nonce: known.nonce, asked, answer };
        let question = StreamsQuestion {
            account: account.clone(),
            unchanged: Some(unchanged),
            ..StreamsQuestion::default()
        };
        let peers = servers.iter().filter_map(|server| peer_of(server));
        let found = self.ask(jetstream, peers.map(|peer| (peer, question.clone())).collect()).await;
        found.contains_key(stream)
    }

    /// Asks the next leader of a stream which publishes it has taken of those that are held here.
    pub(super) fn ask_next_leader(
        &self,
        (account, stream): (&str, &str),
        leader: Peer,
        (asked, publishes): (Arc<AskedLeader>, Vec<PublishKey>),
    ) {
        let (account, stream) = (account.to_owned(), stream.to_owned());
        self.on_api(move |meta, jetstream| {
            let Some(meta) = meta.me.upgrade() else { return };
            let (jetstream, host) = (Arc::clone(jetstream), Arc::clone(&jetstream.host));
            let held = Some(HeldPublishes { stream: stream.clone(), publishes });
            let question = StreamsQuestion { account, held, ..StreamsQuestion::default() };
            run_on_api(&host, async move {
                let found = meta.ask(&jetstream, vec![(leader, question)]).await;
                let taken = found.get(&stream).and_then(|taken| serde_json::from_str(taken.get()).ok());
                asked.answer(taken.unwrap_or_default());
            });
        });
    }

    /// Asks servers that are there what they are. This one is among them.
    pub(in crate::engine) async fn facts(&self, jetstream: &JetStream) -> FactsByServer {
        let is_there = |server: &&String| peer_of(server).is_some_and(|peer| self.groups.is_there(peer));
        let servers = self.servers();
        let others = servers.iter().filter(is_there).map(|server| (server.clone(), Vec::new()));
        let found = self.gather(jetstream, ("", false), others.collect()).await;
        let mut facts = read_facts(found);
        facts.insert(self.name.clone(), jetstream.facts());
        facts
    }

    /// Asks other servers that are there what they are; answers go to
    /// [`facts_subject`](Self::facts_subject). Answers how many were asked.
    pub(super) fn ask_for_facts(&self) -> usize {
        let others: Vec<Peer> = peers_of(&self.servers());
        let is_asked = |&&peer: &&Peer| peer != self.groups.me && self.groups.is_there(peer);
        let question = StreamsQuestion { facts: true, ..StreamsQuestion::default() };
        let payload = serde_json::to_vec(&question).unwrap_or_default();
        let (reply, mut out, mut count) = (self.facts_subject(), MessageBuf::default(), 0);
        for peer in others.iter().filter(is_asked) {
            let subject = format!("_ask_.{peer}");
            let (subject, reply) = (subject.as_bytes(), reply.as_bytes());
            out.push(MessageRef { subject, reply, payload: &payload, ..MessageRef::default() });
            count += 1;
        }
        self.groups.publish(out);
        count
    }

    /// Subject to which facts go that this server keeps.
    pub(super) fn facts_subject(&self) -> String {
        format!("_answer_.{}.facts", self.groups.me)
    }

    fn answer_question(&self, jetstream: &JetStream, question: &StreamsQuestion, reply: &[u8]) {
        if question.facts {
            return self.say(reply, &BTreeMap::from([(self.name.clone(), jetstream.facts())]));
        }
        let Some(account) = jetstream.account(&question.account) else {
            // Nothing of it is here: whoever asks need not wait for that.
            return self.say::<StreamInfo>(reply, &BTreeMap::new());
        };
        if question.usage {
            let used = AccountUse::of(&account);
            return self.say(reply, &BTreeMap::from([(self.name.clone(), used)]));
        }
        if let Some(limits) = &question.limits {
            let live = account.stream(&limits.stream).filter(|live| live.role().leads());
            let names = live.map(|live| (limits.stream.clone(), live.consumers().exceeding(&limits.read())));
            return self.say(reply, &names.into_iter().collect());
        }
        if let Some(HeldPublishes { stream, publishes }) = &question.held {
            let live = account.stream(stream).filter(|live| live.role().leads());
            let taken = live.map(|live| (stream.clone(), live.settle_held(publishes.clone())));
            return self.say(reply, &taken.into_iter().collect());
        }
        if let Some(UnchangedStream { stream, nonce, asked, answer }) = &question.unchanged {
            let live = account.stream(stream);
            let is_answered = |live: &Arc<LiveStream>| {
                self.answer_unchanged(jetstream, live, (*nonce, asked.clone(), *answer))
            };
            let answered = live.filter(is_answered).map(|_| (stream.clone(), true));
            return self.say(reply, &answered.into_iter().collect());
        }
        let is_asked = |live: &Arc<LiveStream>| !question.led || live.role().leads();
        let streams = question.streams.iter().filter_map(|name| account.stream(name)).filter(is_asked);
        let found: BTreeMap<String, StreamInfo> = streams
            .map(|live| (live.name().to_owned(), live.as_listed(jetstream.clustered_info(&live, false))))
            .collect();
        self.say(reply, &found);
    }

    /// Answers another server's question.
    fn say<T: Serialize>(&self, reply: &[u8], answer: &BTreeMap<String, T>) {
        let payload = serde_json::to_vec(answer).unwrap_or_default();
        let mut out = MessageBuf::default();
        out.push(MessageRef { subject: reply, payload: &payload, ..MessageRef::default() });
        self.groups.publish(out);
    }
}

impl JetStream {
    /// Facts by which this server gets streams or not.
    pub(super) fn facts(&self) -> PlacementFacts {
        let (limits, reserved) = (self.limits(), self.reserved());
        let free =
            |most: u64, reserved: i64| i64::try_from(most).unwrap_or(i64::MAX).saturating_sub(reserved);
        PlacementFacts {
            free_memory: free(limits.max_memory, reserved[0]),
            free_storage: free(limits.max_store, reserved[1]),
            ..self.host.placement_facts()
        }
    }
}
