//! Servers of the meta group: one that comes becomes a member, one that is removed is none any
//! more, and its replicas go to others.
//!
//! Who decides is the group's leader. A server that was removed serves nothing that it does not
//! lead with others, and takes no part, until the group has it again: its files stay as they are.

use super::placement::{PlaceTerms, ServerLoads};
use super::placement_facts::FactsByServer;
use super::roster::ServerRecord;
use super::{
    AnswerKind, Asked, Assignment, JetStream, Meta, PROPOSAL_WAIT, StreamKey, peers_of, write_behind,
    write_on,
};
use crate::engine::account::{resume_replica, suspend_stream};
use crate::engine::live::LiveStream;
use myelin_broker::Level;
use myelin_jsapi::ApiError;
use myelin_jsapi::advisory::leadership;
use myelin_replica::Peer;
use myelin_stdx::sync::lock;
use myelin_store::{Seq, Timestamp};
use myelin_wire::message_buf::MessageBuf;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Compat: a server that was removed may come back after so many nanoseconds.
const STAYS_AWAY: Timestamp = 300_000_000_000;
/// Streams that get other replicas with one look, at most.
const AT_ONCE: usize = 100;

/// A removal that is under way. Compat: no other one is begun meanwhile.
struct RemovalUnderWay<'a>(&'a AtomicBool);

impl Drop for RemovalUnderWay<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// Proposal that a stream leaves a server, as it was made.
struct Begun {
    key: StreamKey,
    nonce: u64,
    /// Message on which it was decided.
    on: Seq,
}

/// An assignment as the cluster proposes it by itself: nobody waits for an answer.
fn by_itself(assignment: Assignment, nonce: u64) -> Assignment {
    Assignment { nonce, asked: Asked::default(), answer: AnswerKind::Update, ..assignment }
}

impl Meta {
    /// Whether this server was removed from the group.
    pub(in crate::engine) fn is_out(&self) -> bool {
        self.members.is_out.load(Acquire)
    }

    /// Names of all servers of the group.
    pub(in crate::engine) fn servers(&self) -> Arc<Vec<String>> {
        lock(&self.members.roster).members()
    }

    /// Something was committed about servers, which is looked at.
    /// `is_now`: while this server runs.
    pub(super) fn see_servers(&self, jetstream: &Arc<JetStream>, is_now: bool) {
        self.groups.know(&peers_of(&self.servers()));
        let is_out = lock(&self.members.roster).removed(&self.name).is_some();
        self.members.was_put_out.store(is_out && is_now, Release);
        self.set_out(jetstream, is_out);
        self.want_servers();
        self.replace_servers(jetstream);
    }

    /// This server was removed, or is a member again.
    pub(super) fn set_out(&self, jetstream: &Arc<JetStream>, is_out: bool) {
        if self.members.is_out.swap(is_out, AcqRel) == is_out {
            return;
        }
        let all = || jetstream.accounts().into_iter().flat_map(|account| account.streams());
        if is_out {
            let line = "JetStream being DISABLED, our server was removed from the cluster";
            jetstream.host.log(Level::Error, format_args!("{line}"));
            jetstream.tell_removed();
            all().for_each(|live| self.rest(&live));
            return;
        }
        let line = "JetStream: this server is a member of its cluster again";
        jetstream.host.log(Level::Info, format_args!("{line}"));
        let last = |live: &LiveStream| {
            let key = StreamKey::new(live.account_name(), live.name());
            self.view().last(&key)
        };
        // First what is not to be here any more goes.
        for live in all() {
            last(&live).into_iter().for_each(|one| self.reconcile(jetstream, &one, false));
        }
        let is_another = |live: &LiveStream| last(live).is_some_and(|one| one.created != live.created());
        all().filter(|live| !is_another(live)).for_each(|live| resume_replica(&live));
        let assigned = self.assigned_here();
        assigned.iter().for_each(|assignment| self.reconcile(jetstream, assignment, false));
    }

    /// A stream of a server that was removed: who leads it with others hands over, and one that is
    /// nowhere else is not served.
    pub(super) fn rest(&self, live: &Arc<LiveStream>) {
        // The others go on, and what is here does not.
        live.withdraw_direct_gets();
        if live.voters().iter().any(|&peer| peer != self.groups.me) {
            live.hand_over();
        } else {
            suspend_stream(live);
        }
    }

    /// Has the servers of the roster be the members of the group, if this one leads it: others join
    /// when they are there.
    pub(super) fn want_servers(&self) {
        if !self.leads() || self.is_behind() {
            return;
        }
        let (live, servers) = (self.live(), self.servers());
        let voters = live.voters();
        let counts = |server: &&String| {
            let votes = || super::peer_of(server).is_some_and(|peer| voters.contains(&peer));
            self.has(server) || votes()
        };
        let wanted: Vec<Peer> =
            servers.iter().filter(counts).filter_map(|server| super::peer_of(server)).collect();
        let is_news = !wanted.is_empty() && {
            let mut before = lock(&self.members.wanted);
            let is_news = *before != wanted;
            before.clone_from(&wanted);
            is_news
        };
        if is_news {
            live.want_members(wanted);
        }
    }

    /// Tells the member of this server which others there may be, these among them: without its log
    /// it would go by those that founded the group, and others may have decided a lot since.
    pub(super) fn tell_servers(&self, more: &[String]) {
        let mut servers = (*self.servers()).clone();
        servers.extend_from_slice(more);
        self.live().tell_members(peers_of(&servers));
    }

    /// This server does not lead the group any more: what it wanted may be old when it does again.
    pub(super) fn want_nothing(&self) {
        lock(&self.members.wanted).clear();
        self.live().want_members(Vec::new());
    }

    /// Another server wants to be in the group.
    pub(super) fn take_in(&self, jetstream: &JetStream, name: &str) {
        let removed = lock(&self.members.roster).removed(name);
        let must_stay = removed.is_some_and(|at| jetstream.host.now().saturating_sub(at) < STAYS_AWAY);
        if !self.leads() || self.is_behind() || must_stay || self.servers().iter().any(|one| one == name) {
            return;
        }
        let line = format_args!("JetStream: server {name:?} becomes a member of the cluster");
        jetstream.host.log(Level::Info, line);
        let record = lock(&self.members.roster).record(name, false, jetstream.seed());
        self.propose_record(&record);
    }

    /// Has a server be in the group no more, and waits until that is committed.
    ///
    /// # Errors
    /// Another one is being removed, or this server leads no more: what becomes of it is not known.
    pub(in crate::engine) async fn remove_server(&self, name: &str) -> Result<(), ApiError> {
        let Some(jetstream) = self.jetstream.upgrade() else { return Err(ApiError::CLUSTER_NOT_AVAIL) };
        if self.members.is_removing.swap(true, AcqRel) {
            return Err(ApiError::CLUSTER_SERVER_MEMBER_CHANGE_INFLIGHT);
        }
        let _under_way = RemovalUnderWay(&self.members.is_removing);
        if *self.servers() == [name] {
            // Nobody would be left who could take it in again.
            return Err(ApiError::CLUSTER_NOT_AVAIL);
        }
        let record = lock(&self.members.roster).record(name, true, jetstream.seed());
        self.propose_record(&record);
        let deadline = jetstream.host.instant() + PROPOSAL_WAIT;
        let outcome = || {
            let is_seen = lock(&self.members.roster).nonce(name) == Some(record.nonce);
            let is_over = !self.leads() || jetstream.host.instant() >= deadline;
            match is_seen {
                true => Some(Ok(())),
                false => is_over.then_some(Err(ApiError::CLUSTER_NOT_AVAIL)),
            }
        };
        let seen = self.waits.until(outcome).await;
        // Who removes itself leads no more when it comes to that.
        seen.or_else(outcome).unwrap_or(Err(ApiError::CLUSTER_NOT_AVAIL))
    }

    /// Has all streams leave a server that stays in the group: now where others are free, and else
    /// as soon as one is. Waits until that is committed of each of them.
    ///
    /// # Errors
    /// This server leads no more, or nothing is committed: what becomes of it is not known.
    pub(in crate::engine) async fn evacuate_server(
        &self,
        jetstream: &JetStream,
        name: &str,
    ) -> Result<(), ApiError> {
        let is_asked = self.view().on_server(name).iter().any(|one| self.asks_for(&one.config));
        let facts = if is_asked { self.facts(jetstream).await } else { BTreeMap::new() };
        let deadline = jetstream.host.instant() + PROPOSAL_WAIT;
        let mut begun = self.begin_evacuation(jetstream, (name, &facts), true);
        while !begun.is_empty() {
            let outcome = || {
                if !self.leads() || jetstream.host.instant() >= deadline {
                    return Some(Err(ApiError::CLUSTER_NOT_AVAIL));
                }
                let view = self.view();
                let is_decided = |one: &Begun| view.outcome_of((&one.key, one.nonce), one.on).is_some();
                begun.iter().all(is_decided).then_some(Ok(()))
            };
            self.waits.until(outcome).await.unwrap_or(Err(ApiError::CLUSTER_NOT_AVAIL))?;
            // Another decision may have been quicker, or have put a stream there meanwhile.
            begun = self.begin_evacuation(jetstream, (name, &facts), false);
        }
        if self.leads() { Ok(()) } else { Err(ApiError::CLUSTER_NOT_AVAIL) }
    }

    /// Proposes that streams leave a server of which that is not committed. Answers what was
    /// proposed. `are_all_moved`: those that are to leave it already are moved, too, if that is
    /// possible now.
    fn begin_evacuation(
        &self,
        jetstream: &JetStream,
        (name, facts): (&str, &FactsByServer),
        are_all_moved: bool,
    ) -> Vec<Begun> {
        // As things are now: others have gone on while servers were asked.
        let assigned = self.view().on_server(name);
        let (mut out, mut more, mut begun) = (MessageBuf::default(), ServerLoads::default(), Vec::new());
        let mut moved = 0;
        for known in assigned.iter().filter(|one| one.peers.iter().any(|peer| peer == name)) {
            let is_noted = known.leaves.iter().any(|server| server == name);
            if is_noted && !are_all_moved {
                continue;
            }
            // A cancellation of an earlier change does not bring it back either.
            let mut leaving = (**known).clone();
            leaving.leaves.extend((!is_noted).then(|| name.to_owned()));
            let cluster = self.cluster_of_stream(known);
            let where_not = (&leaving.leaves[..], &*cluster);
            let terms = PlaceTerms { more: &more, ..PlaceTerms::new(&known.config, facts, where_not) };
            // The others follow now and then, with those for which there is no other place yet.
            let placed = if moved < AT_ONCE { self.place_without(known, name, &terms).ok() } else { None };
            let proposed = match placed {
                Some(peers) => {
                    moved += 1;
                    more.count(known, &peers);
                    leaving.moved(peers, jetstream.host.now())
                }
                None if is_noted => continue,
                None => leaving,
            };
            let on = self.view().last_of(&known.key);
            let proposed = by_itself(proposed, jetstream.seed());
            write_on(&proposed, on, &mut out);
            begun.push(Begun { key: proposed.key, nonce: proposed.nonce, on });
        }
        self.groups.publish(out);
        begun
    }

    /// Gives streams replicas elsewhere that have some on servers that were removed, or that they
    /// are to leave, and those that have too few more of them, if this server leads the group.
    pub(super) fn replace_servers(&self, jetstream: &JetStream) {
        if !self.leads() || self.is_behind() || self.is_out() {
            return;
        }
        let servers = self.servers();
        let all = self.view().incomplete(&servers);
        if all.is_empty() {
            return;
        }
        let facts = self.kept_facts(jetstream);
        let (mut out, mut more, mut moved) = (MessageBuf::default(), ServerLoads::default(), 0);
        let replaced = |known: &Arc<Assignment>, more: &ServerLoads| {
            let facts = match (&facts, self.asks_for(&known.config)) {
                (Some(facts), _) => facts.clone(),
                (None, true) => return None,
                (None, false) => BTreeMap::new(),
            };
            let mut there: Vec<&String> = known.peers.iter().filter(|peer| servers.contains(peer)).collect();
            if there.is_empty() {
                // Those to which it was to go are gone: it is where it was before.
                there = known.before.iter().filter(|peer| servers.contains(peer)).collect();
            }
            // Where none is left nobody else has it.
            let (leaving, rest): (Vec<&String>, Vec<&String>) = (!there.is_empty())
                .then(|| there.into_iter().partition(|peer| known.leaves.contains(peer)))?;
            let rest: Vec<String> = rest.into_iter().cloned().collect();
            let wanted = usize::try_from(known.config.num_replicas).unwrap_or(1).max(1);
            let cluster = self.cluster_of_stream(known);
            let where_not = (&known.leaves[..], &*cluster);
            let terms = PlaceTerms { more, ..PlaceTerms::new(&known.config, &facts, where_not) };
            let mut placed = self.place_again(&rest, wanted, &terms);
            // They stay until there is another place.
            let free = wanted.saturating_sub(placed.len());
            placed.extend(leaving.into_iter().take(free).cloned());
            let (mut before, mut after) = (known.peers.clone(), placed.clone());
            before.sort_unstable();
            after.sort_unstable();
            (before != after && !placed.is_empty()).then_some(placed)
        };
        for known in &all {
            if let Some(placed) = replaced(known, &more) {
                more.count(known, &placed);
                self.write_moved(jetstream, (known, placed), &mut out);
                moved += 1;
            }
            if moved == AT_ONCE {
                break;
            }
        }
        self.groups.publish(out);
    }

    fn write_moved(
        &self,
        jetstream: &JetStream,
        (known, peers): (&Assignment, Vec<String>),
        out: &mut MessageBuf,
    ) {
        let moved = by_itself(known.moved(peers, jetstream.host.now()), jetstream.seed());
        self.write(&moved, out);
    }

    pub(super) fn propose_record(&self, record: &ServerRecord) {
        let Some(subject) = record.subject() else { return };
        let last = lock(&self.members.roster).last_of(&record.name);
        let mut out = MessageBuf::default();
        write_behind(&subject, last, &record.encode(), &mut out);
        self.groups.publish(out);
    }
}

impl JetStream {
    /// Tells the system account that this server was removed from the cluster.
    fn tell_removed(&self) {
        let (server, id) = (&self.settings.server_name, &self.settings.server_id);
        let cluster = self.host.cluster();
        self.tell_system(|header| leadership::server_removed(header, (server, id), &cluster));
    }
}
