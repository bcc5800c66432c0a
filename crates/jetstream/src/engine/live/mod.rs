//! A stream that is open: its core inside a turn, and how work gets there.
//!
//! Publishing shards bring buffers and work them off themselves if the turn is free (contracts.md
//! C2). What a thread that may wait wants of the core (delete, update, purge: anything that touches
//! files for long), it does with the core in its own hands: [`LiveStream::lock_core`]. Meanwhile
//! publishes gather in the inbox. What a turn wants from others are effects, which happen after it
//! (C3).
//!
//! A stream's core is in its turn or lent to one thread that may wait (`core_cell`). Its messages
//! to others leave through the ordered outbox, which one shard at a time holds until its flush.
//!
//! The other parts of an open stream know nothing of each other: `scope` is its name and
//! context, `view` what may be looked at without the turn, `ingress` what waits for the turn,
//! `health` its failures and repairs, `reports` what is told once in a while. `turn` puts them
//! together.

mod advisories;
mod agreement;
mod amnesia;
mod asked_consumers;
mod candidacy;
mod catch_up;
mod comparison;
mod core_cell;
mod core_guard;
mod damage;
mod direct_offer;
mod downstreams;
mod founding;
mod full_disk;
mod hand_over;
mod health;
mod held_publishes;
mod ingress;
mod install;
mod known_consumers;
mod late_proposals;
mod lease;
mod log_origin;
mod lost;
mod member;
mod membership;
mod own_stream;
mod recent_publishes;
mod release_waits;
mod repair;
mod reports;
mod resting;
mod scope;
mod scrub;
mod sourcing;
mod traces;
mod turn;
mod view;
mod waiting_clients;
mod waiting_since;

use super::CallScope;
use super::consumers::{Leadership, StreamConsumers};
use super::direct::DirectGets;
use super::host::Host;
use super::ordered_outbox::OrderedOutbox;
use super::settings::Backlog;
use super::wakeup::Wakeup;
use core_cell::CoreCell;
use direct_offer::DirectOffer;
use downstreams::Downstreams;
use health::StreamHealth;
use ingress::Ingress;
use membership::Membership;
use myelin_broker::{Account, Binding, Service, ServiceBatch, ServiceShard, TraceRole, Traced};
use myelin_jsapi::ApiError;
use myelin_jsapi::api::DELETED_LIMIT;
use myelin_jsapi::api::info::{SourceInfo, StreamState};
use myelin_jsapi::config::{Retention, Storage, StreamConfig};
use myelin_stdx::sync::lock;
use myelin_store::consumer::GroupConsumers;
use myelin_store::{GroupPosition, Lost, OnRelease, Seq, StreamId, StreamReader, Ticket, Timestamp};
use myelin_streams::ReplicaRole;
use myelin_streams::read::{Readable, contents};
use myelin_streams::stream::{StreamCore, refuse_overload};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use release_waits::ReleaseWaits;
use reports::RateLimitedReports;
use scope::{StreamScope, identity};
use sourcing::SourcingMarks;
use std::io;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use turn::{StreamWork, TurnResult};
use view::StreamView;

pub(super) use asked_consumers::AskedWord;
pub use core_guard::CoreGuard;
pub(super) use held_publishes::AskedLeader;
pub(super) use install::LeftGroup;
pub(super) use membership::{JoinTerms, MemberWatcher, ReplacedBy, ReplicaPlace};
pub(super) use recent_publishes::PublishKey;
pub(super) use sourcing::{Downstream, FoundEnd, NextAction, SourceRun, Sourcing};
pub use waiting_since::WaitingSince;

/// Identity of the server, which all its streams share.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerIdentity<'a> {
    pub(super) name: &'a str,
    pub(super) id: &'a str,
    pub(super) domain: &'a str,
    pub(super) backlog: Backlog,
    pub(super) max_pending: i64,
}

/// Stream that is open: its core inside a turn, and what leads to and from it.
pub struct LiveStream {
    scope: StreamScope,
    core: CoreCell,
    view: StreamView,
    ingress: Ingress,
    /// Wakeup by [`StreamWork::Released`] and by what is due.
    wakeup: Wakeup,
    health: StreamHealth,
    release_waits: ReleaseWaits,
    reports: RateLimitedReports,
    outbox: OrderedOutbox,
    direct: DirectOffer,
    consumers: Arc<StreamConsumers>,
    /// Mirror or sources by which it copies others, and those of others that copy it.
    sourcing: Box<dyn Sourcing>,
    sourcing_marks: SourcingMarks,
    downstreams: Downstreams,
    membership: Membership,
    me: Weak<Self>,
}

impl LiveStream {
    /// Takes a stream's core into service. Nothing reaches it before [`LiveStream::bind`].
    pub(super) fn new(
        name: &str,
        created: Timestamp,
        core: StreamCore,
        account: &Arc<Account>,
        host: &Arc<dyn Host>,
        (consumers, sourcing): (&Arc<StreamConsumers>, Box<dyn Sourcing>),
        server: ServerIdentity<'_>,
    ) -> Arc<Self> {
        let ServerIdentity { backlog, domain, max_pending, .. } = server;
        let readable = Readable { name: name.into(), reader: core.reader(), max_bytes: max_pending };
        let scope = StreamScope {
            name: name.into(),
            domain: domain.into(),
            server_name: server.name.into(),
            server_id: server.id.into(),
            created,
            opened: host.instant(),
            account: Arc::clone(account),
            host: Arc::clone(host),
        };
        Arc::new_cyclic(|me| Self {
            scope,
            view: StreamView::of(&core),
            core: CoreCell::new(core),
            ingress: Ingress::new(backlog),
            wakeup: Wakeup::default(),
            health: StreamHealth::default(),
            release_waits: ReleaseWaits::default(),
            reports: RateLimitedReports::default(),
            outbox: OrderedOutbox::default(),
            direct: DirectOffer::of(DirectGets::new(account, host, readable)),
            consumers: Arc::clone(consumers),
            sourcing,
            sourcing_marks: SourcingMarks::default(),
            downstreams: Downstreams::default(),
            membership: Membership::default(),
            me: Weak::clone(me),
        })
    }

    /// The stream's name.
    pub fn name(&self) -> &str {
        &self.scope.name
    }

    /// Name of its account.
    pub(super) fn account_name(&self) -> &str {
        self.scope.account.name()
    }

    /// When it was created.
    pub fn created(&self) -> Timestamp {
        self.scope.created
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<StreamConfig> {
        self.view.config()
    }

    /// Consumers of the stream.
    pub fn consumers(&self) -> &Arc<StreamConsumers> {
        &self.consumers
    }

    /// Account of the stream.
    pub(super) fn account(&self) -> &Arc<Account> {
        &self.scope.account
    }

    pub(super) fn host(&self) -> &Arc<dyn Host> {
        &self.scope.host
    }

    /// Mirror or sources that it copies.
    pub(super) fn sourcing(&self) -> &dyn Sourcing {
        &*self.sourcing
    }

    /// Marks of what its mirror or sources wait for.
    pub(super) fn sourcing_marks(&self) -> &SourcingMarks {
        &self.sourcing_marks
    }

    /// Source readers that copy it.
    pub(in crate::engine) fn downstreams(&self) -> &Downstreams {
        &self.downstreams
    }

    /// Hash that tells it from another stream of its name.
    pub(super) fn identity(&self) -> String {
        identity(self.scope.created)
    }

    /// How far its mirror is, and its sources.
    pub fn sourcing_info(&self) -> (Option<SourceInfo>, Vec<SourceInfo>) {
        self.sourcing.info(&self.config())
    }

    /// Whether it was opened within so long.
    pub(super) fn began_within(&self, time: Duration) -> bool {
        self.scope.host.instant().saturating_duration_since(self.scope.opened) < time
    }

    /// Whether this replica decides.
    pub(super) fn role(&self) -> ReplicaRole {
        if self.view.leads() { ReplicaRole::Leader } else { ReplicaRole::Follower }
    }

    /// Whether it was deleted.
    pub(super) fn is_gone(&self) -> bool {
        self.core.is_gone()
    }

    /// The last message that can be read.
    pub(super) fn released(&self) -> Seq {
        self.view.released()
    }

    /// Tells consumers what can be read now.
    fn notify_consumers(&self, mut shard: Option<&mut ServiceShard>) {
        let reader = self.reader();
        self.consumers.notify(reader.release().seq(), &reader, shard.as_deref_mut());
        // Behind the fence of what came before.
        self.downstreams.notify(shard);
    }

    /// A reader of what is released.
    pub fn reader(&self) -> StreamReader {
        self.view.reader()
    }

    /// State of the stream, as the API shows it, with the sequences of removed messages if asked
    /// for.
    pub fn state(&self, with_deleted: bool) -> StreamState {
        let contents = contents(&self.reader(), with_deleted);
        let width = |gap: &RangeInclusive<Seq>| gap.end().saturating_sub(*gap.start()).saturating_add(1);
        let removed = contents.deleted.iter().map(width).fold(0, u64::saturating_add);
        let deleted: Vec<Seq> = contents.deleted.into_iter().flatten().take(DELETED_LIMIT).collect();
        // Compat: a stream that never had a message nor another first sequence begins at 0.
        let is_fresh = contents.last_seq == 0;
        StreamState {
            messages: contents.messages,
            bytes: contents.bytes,
            first_seq: if is_fresh { 0 } else { contents.first_seq },
            first_ts: contents.first_time.unwrap_or(0),
            last_seq: contents.last_seq,
            last_ts: contents.last_time.unwrap_or(0),
            num_subjects: contents.subjects,
            num_deleted: contents.num_deleted,
            consumer_count: self.consumer_count() as u64,
            deleted_unlisted: removed.saturating_sub(deleted.len() as u64),
            deleted,
            lost: self.lost(),
            ..StreamState::default()
        }
    }

    /// Whether it has files.
    pub fn is_stored(&self) -> bool {
        self.config().storage == Storage::File
    }

    /// Waits until what was done to it up to `ticket` counts as stored, as `reader` tells, which is
    /// of the log that gave the ticket.
    pub(in crate::engine) async fn released_through(
        &self,
        reader: &StreamReader,
        ticket: Ticket,
        leadership: Leadership,
    ) -> Result<(), ApiError> {
        let leads = || self.consumers.leads_since(leadership);
        self.release_waits.released_through(reader, ticket, leads).await
    }

    /// Why it takes no messages any more, if it does not.
    pub fn failure(&self) -> Option<String> {
        self.health.failure()
    }

    /// Messages and bytes that wait for the holder of the turn, where they are many.
    pub(super) fn crowd(&self) -> Option<(u64, u64)> {
        self.ingress.crowd()
    }

    /// Messages that wait for the holder of the turn, for monitoring.
    pub fn waiting(&self) -> usize {
        self.ingress.messages()
    }

    /// Receives what its subjects match from now on, and nothing else; who follows, direct gets.
    pub(super) fn bind(&self) {
        self.direct.offer(&self.scope, self.view.leads(), self.config().allow_direct);
        if !self.view.leads() {
            return;
        }
        let config = self.config();
        let Some(me) = self.me.upgrade() else { return };
        let service: Arc<dyn Service> = me;
        // What the account imports comes in, too.
        let listen = |subject: &String| self.scope.account.listen(subject.as_bytes(), Arc::clone(&service));
        let new: Vec<_> = config.subjects.iter().map(listen).collect();
        // A message that meets an old one and a new one is for one service, which is called once.
        self.ingress.rebind(&self.scope.account, &new);
    }

    /// Makes the stream's log the log of a group from here on, and consumers those of the group, of
    /// which there are none here yet. Only for threads that may wait.
    ///
    /// # Errors
    /// Nothing has changed, unless the stream has failed.
    pub fn join_group(&self, position: GroupPosition, applied: GroupConsumers) -> Result<(), ApiError> {
        let mut guard = self.lock_core().ok_or(ApiError::STREAM_NOT_FOUND)?;
        let (core, _) = guard.parts();
        let joined = core.store_mut().join_group(position, self.scope.host.now());
        let joined = joined.and_then(|()| core.group_consumers(self.consumers.join_group(), applied));
        core.watch_consumers(self.consumers.activity());
        drop(guard);
        if let (Some(me), true) = (self.me.upgrade(), self.config().retention != Retention::Limits) {
            // From here on it is for the group's leader to hear what of it is stored elsewhere.
            let relink = move || me.downstreams.relink_all();
            self.scope.host.spawn_api(CallScope::Server, Box::new(relink));
        }
        joined.map_err(ApiError::stream_general)
    }

    /// Another role from now on: a follower is bound to nothing, and its consumers neither. Only
    /// for threads that may wait.
    pub fn set_role(self: &Arc<Self>, role: ReplicaRole) {
        if !role.leads() {
            self.view.set_role(role);
            self.unbind_unless_handing_over();
            let left = self.leave_requests();
            self.consumers.suspend();
            // Before what they have decided is nothing any more.
            self.consumers.set_role(role, left.as_deref());
            self.release_waits.give_up();
            self.sourcing.suspend();
        }
        let Some(mut guard) = self.lock_core() else { return };
        let (core, effects) = guard.parts();
        if role.leads() && !self.may_lead(core) {
            return;
        }
        core.set_role(role, self.scope.host.now(), effects);
        drop(guard);
        if !role.leads() {
            // Until now another configuration may have begun to be copied.
            return self.sourcing.suspend();
        }
        self.consumers.set_role(role, None);
        // All are known now that want messages.
        self.reconcile();
        match self.membership.place.get() {
            // Else it is served when its account may use JetStream again.
            Some(place) => place.unless_suspended(&|| self.serve_as_leader()),
            None => self.serve_as_leader(),
        }
    }

    /// Hears what clients publish, ask and acknowledge, and copies what it is to copy.
    pub(super) fn serve_as_leader(self: &Arc<Self>) {
        self.consumers.resume();
        self.tell_left_requests();
        self.tell_asked_elsewhere();
        self.begin_to_take();
        self.bind();
        self.sourcing.begin(self, &self.config());
    }

    /// Answers direct gets that are for its origin, as a mirror may.
    pub(super) fn bind_as_mirror(&self, origin: &str) -> Vec<Arc<Binding>> {
        self.direct.bind(&self.scope, origin)
    }

    /// Receives nothing any more.
    pub(super) fn unbind(&self) {
        self.direct.withdraw(&self.scope);
        self.refuse_publishes();
    }

    /// Answers no direct gets any more: what is here does not go on.
    pub(in crate::engine) fn withdraw_direct_gets(&self) {
        self.direct.withdraw(&self.scope);
    }

    /// A follower answers direct gets when it has what its leader has.
    pub(in crate::engine) fn await_direct_gets(&self) {
        self.direct.offer(&self.scope, false, self.config().allow_direct);
    }

    /// Receives nothing of its subjects any more: another server does.
    fn refuse_publishes(&self) {
        self.ingress.unbind(&self.scope.account);
    }

    /// Whether a message of so many bytes may still wait: with what the stream has to say and could
    /// not say yet.
    fn has_room(&self, bytes: usize) -> bool {
        self.ingress.has_room(bytes, self.outbox.bytes())
    }

    /// Leaves messages for the holder of the turn, and works them off if there is none.
    /// `out`: memory for what there is to say.
    fn publish(&self, msgs: ServiceBatch, out: MessageBuf) -> TurnResult {
        self.ingress.add(&msgs);
        self.submit(StreamWork::Publish(msgs), out)
    }

    /// Leaves those messages for the holder of the turn that find room; counts or refuses the
    /// others.
    #[cold]
    fn publish_what_fits(&self, msgs: &ServiceBatch) -> TurnResult {
        let (mut taken, mut refused) = (ServiceBatch::default(), MessageBuf::default());
        let mut dropped = 0;
        for (at, msg) in msgs.iter().enumerate() {
            let MessageRef { subject, reply, headers, payload, .. } = msg;
            if self.has_room(subject.len() + reply.len() + headers.len() + payload.len()) {
                taken.push_traced(msg, msgs.trace(at));
                continue;
            }
            msgs.trace(at).into_iter().for_each(|trace| self.give_up_trace(trace, "too many requests"));
            if reply.is_empty() {
                dropped += 1;
            } else {
                refuse_overload(&self.scope.name, reply, &mut refused);
            }
        }
        self.log_overload();
        if dropped > 0 {
            // Whoever has the turn next counts them; somebody will have it.
            self.ingress.note_dropped(dropped);
            self.wake();
        }
        let mut after =
            if taken.is_empty() { TurnResult::default() } else { self.publish(taken, MessageBuf::default()) };
        after.must_send |= self.outbox.add(&mut refused);
        after
    }
}

impl LiveStream {
    /// Ends traces of messages that the stream does not look at.
    #[cold]
    fn give_up_traces(&self, msgs: &ServiceBatch) {
        msgs.traces().for_each(|trace| self.give_up_trace(trace, "stream closed"));
    }

    fn give_up_trace(&self, traced: &Traced, why: &str) {
        if traced.settled(Err(why.to_owned())) {
            self.scope.host.wake(traced.trace());
        }
    }
}

impl Service for LiveStream {
    fn trace_role(&self) -> TraceRole<'_> {
        TraceRole::Stream(&self.scope.name)
    }

    fn is_behind(&self) -> bool {
        self.ingress.is_behind()
    }

    fn serve(&self, msgs: &mut ServiceBatch, shard: &mut ServiceShard) {
        if msgs.is_empty() || self.wakeup.is_woken() {
            // A wake-up may come with messages.
            let after = self.note_released();
            self.deliver(after, shard);
        }
        if self.membership.hand_over.recent.is_on() {
            self.pass_over_refused(msgs);
        }
        if msgs.is_empty() {
            return;
        }
        let after = if self.has_room(msgs.bytes()) {
            self.publish(std::mem::take(msgs), shard.spare_buf())
        } else {
            self.publish_what_fits(msgs)
        };
        let spare = self.deliver(after, shard);
        if msgs.is_empty() {
            msgs.msgs = spare;
        }
    }

    fn flushed(&self, shard: &mut ServiceShard) {
        if self.outbox.flushed() {
            self.send_outbox(shard);
        }
    }
}

/// Tells a stream that a round has released what waits: a wake-up, whatever the number of batches.
pub(super) struct ReleaseListener(pub(super) Mutex<Weak<LiveStream>>);

impl OnRelease for ReleaseListener {
    fn released(&self, _: StreamId, _: Seq, _: Ticket) {
        self.wake();
    }

    fn failed(&self, _: StreamId, _: &str) {
        self.wake();
    }

    fn unreadable(&self, _: StreamId, error: &io::Error) {
        if let Some(stream) = self.stream() {
            stream.note_unreadable(error);
        }
    }

    fn damaged(&self, id: StreamId, lost: &Lost, count: usize) {
        if let Some(stream) = self.stream() {
            stream.note_damaged(id, lost, count);
        }
    }
}

impl ReleaseListener {
    fn wake(&self) {
        if let Some(stream) = self.stream() {
            stream.wake();
            stream.release_waits.wake();
        }
    }

    fn stream(&self) -> Option<Arc<LiveStream>> {
        lock(&self.0).upgrade()
    }
}
