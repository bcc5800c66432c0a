//! Assignments as a server carries them out: replicas are made, changed and removed.

use super::changing::AccountTurn;
use super::{AnswerKind, Asked, AssignedGroup, Assignment, LiveStream, Meta, StreamKey, peers_of, write_on};
use crate::engine::JetStream;
use crate::engine::account::{AccountStreams, suspend_stream, write_of_group};
use crate::engine::groups::GroupConfig;
use crate::engine::live::{JoinTerms, MemberWatcher};
use myelin_broker::Level;
use myelin_jsapi::ApiError;
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_replica::frame::GroupPlace;
use myelin_replica::{GroupId, Peer};
use myelin_stdx::sync::lock;
use myelin_store::{Seq, Timestamp};
use myelin_wire::message_buf::MessageBuf;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// Assignment as it is looked at.
pub(super) struct SeenAssignment {
    pub(super) assignment: Arc<Assignment>,
    /// Whether it was committed while this server looked, and somebody may wait for an answer.
    pub(super) is_new: bool,
    /// Its message, where it is the first one of the stream, and looked at for the first time.
    pub(super) first: Option<Seq>,
    /// Outcome of [making](Meta::make_together) its replica, where that was tried just now.
    pub(super) made: Option<Result<(), ApiError>>,
}

impl JetStream {
    /// An assignment of a stream with this configuration, which has an id from here on.
    pub(in crate::engine) fn new_assignment(
        &self,
        account: &str,
        config: StreamConfig,
        peers: Vec<String>,
        created: Timestamp,
    ) -> Assignment {
        let storage = match config.storage {
            Storage::File => 'F',
            Storage::Memory => 'M',
        };
        let id = self.host.unique_id();
        let name: String = id.chars().rev().take(8).collect();
        // The lowest ones are of groups that are no streams.
        let id = self.seed() | 1 << 63;
        Assignment {
            key: StreamKey::new(account, &config.name),
            id,
            group: AssignedGroup { name: format!("S-R{}{storage}-{name}", peers.len()), recovery: None },
            founders: if peers.len() > 1 { peers.clone() } else { Vec::new() },
            before: Vec::new(),
            change: None,
            leaves: Vec::new(),
            peers,
            created,
            replaces: Vec::new(),
            config,
            is_removed: false,
            nonce: id,
            asked: Asked::default(),
            answer: AnswerKind::Create,
            asked_before: Vec::new(),
        }
    }
}

impl Meta {
    /// Proposes streams that are on this server only, and that no assignment names: they were there
    /// before the server was in a cluster, or were restored here while nobody heard of it. The
    /// first proposal for a name counts.
    pub(super) fn offer_local(&self, jetstream: &JetStream) {
        let mut out = MessageBuf::default();
        for account in jetstream.accounts() {
            let all = account.streams().into_iter();
            let alone = all.filter(|live| !live.consumers().is_of_group() && !live.has_lost_log());
            alone.for_each(|live| self.offer(jetstream, &live, &mut out));
        }
        self.groups.publish(out);
    }

    /// Proposes a stream that is here, unless there is an assignment of its name, or this one was
    /// removed: that has yet to be carried out then.
    pub(super) fn offer(&self, jetstream: &JetStream, live: &LiveStream, out: &mut MessageBuf) {
        let (account, stream, created) = (live.account_name(), live.name(), live.created());
        let key = StreamKey::new(account, stream);
        let (is_free, on, replaces) = {
            let view = self.view();
            let was_it = |last: &Assignment| last.created == created || view.has_replaced(last, created);
            let is_free = view.last(&key).is_none_or(|last| last.is_removed && !was_it(&last));
            (is_free, view.last_of(&key), view.removed(account, stream))
        };
        if is_free {
            let (config, peers) = ((*live.config()).clone(), vec![self.name.clone()]);
            let made = jetstream.new_assignment(account, config, peers, created);
            write_on(&Assignment { replaces, ..made }, on, out);
        }
    }

    /// Does what an assignment says, on the thread of the API. `is_new`: it was committed while
    /// this server looked, and somebody may wait for an answer.
    pub(super) fn reconcile(&self, jetstream: &Arc<JetStream>, assignment: &Arc<Assignment>, is_new: bool) {
        let assignment = Arc::clone(assignment);
        self.carry_out(jetstream, SeenAssignment { assignment, is_new, first: None, made: None });
    }

    /// Does what assignments say that were committed: whether somebody may wait for an answer, and
    /// the message of the first one of a stream.
    pub(super) fn carry_out_all(
        &self,
        jetstream: &Arc<JetStream>,
        changed: Vec<(Arc<Assignment>, bool, Option<Seq>)>,
    ) {
        let mut made = self.make_together(jetstream, changed.iter().map(|(assignment, ..)| assignment));
        for (assignment, is_new, first) in changed {
            if assignment.is_removed {
                self.answer_refused(jetstream, &assignment);
            }
            let made = made.remove(&assignment.id);
            self.carry_out(jetstream, SeenAssignment { assignment, is_new, first, made });
        }
    }

    /// Makes the replicas of new streams that are this server's, for [`Meta::carry_out`]: they are
    /// durable together. Answers what has come of each, by the ids of their streams: of those
    /// before anything else, which may make room for what comes behind it.
    fn make_together<'a>(
        &self,
        jetstream: &Arc<JetStream>,
        assignments: impl Iterator<Item = &'a Arc<Assignment>>,
    ) -> BTreeMap<u64, Result<(), ApiError>> {
        let mut made = BTreeMap::new();
        for assignment in assignments {
            let Some(account) = jetstream.account(&assignment.key.account) else { continue };
            if assignment.is_removed
                || account.stream(&assignment.key.stream).is_some()
                || self.faults.changing.is_in(&assignment.key.account)
            {
                break;
            }
            let is_wanted = assignment.has_group()
                && assignment.is_on(&self.name)
                && !self.is_out()
                && self.view().last(&assignment.key).is_some_and(|last| Arc::ptr_eq(&last, assignment));
            if is_wanted {
                self.clear_place(jetstream, &account, assignment);
                let config = assignment.config.clone();
                let outcome = account.create_replica(jetstream, config, assignment.created);
                made.insert(assignment.id, outcome.map(drop));
            }
        }
        made
    }

    /// Removes what is left here of streams of this name that could not be opened and are removed
    /// from the cluster. A replica that is still wanted stays, though others may have all of it:
    /// its files may be the last ones that can be repaired.
    fn clear_place(&self, jetstream: &JetStream, account: &AccountStreams, assignment: &Assignment) {
        let (name, created) = (&assignment.key.stream, assignment.created);
        let cleared = account.delete_unrestored_if(jetstream, |one| {
            let is_removed = assignment.is_removed && one.created == created;
            one.name == *name && (is_removed || self.view().has_replaced(assignment, one.created))
        });
        if let Err(error) = cleared {
            let account = account.account().name();
            let line = format_args!(
                "JetStream stream '{account} > {name}': what could not be opened of it stays: {error}"
            );
            jetstream.host.log(Level::Error, line);
        }
    }

    /// Does what an assignment says, whose turn it is in its account until that is done.
    pub(super) fn act_on(&self, jetstream: &Arc<JetStream>, seen: SeenAssignment, turn: AccountTurn) {
        let Some(account) = known_or_sought(jetstream, &seen.assignment.key.account) else { return };
        let SeenAssignment { assignment, is_new, first, made } = &seen;
        let (is_mine, local) = (assignment.is_on(&self.name), account.stream(&assignment.key.stream));
        if self.is_out() {
            // What was decided since is not known here.
            return local.iter().for_each(|live| self.rest(live));
        }
        self.clear_place(jetstream, &account, assignment);
        let local = self.make_way(jetstream, (&account, assignment), local);
        let may_open = self.may_open(assignment, first.is_some());
        let was_there =
            made.is_none() && local.as_ref().is_some_and(|live| live.created() == assignment.created);
        if assignment.is_removed {
            return self.carry_out_removal(jetstream, &account, (assignment, *is_new), local);
        }
        let done = match local {
            Some(live)
                if live.created() != assignment.created
                    && !self.view().has_replaced(assignment, live.created()) =>
            {
                return self.leave_other(jetstream, (assignment, *is_new), &live);
            }
            // Its group has changed: the others have what is here. Or one of the same name that was
            // removed while this server was away, and made anew elsewhere.
            Some(live) if !is_mine => return self.remove(jetstream, &account, (assignment, false), &live),
            _ if !is_mine => return self.note_done(jetstream, assignment),
            Some(live) if made.is_some() && live.created() == assignment.created => {
                self.settle(jetstream, assignment, &live, may_open)
            }
            Some(live)
                if live.created() == assignment.created
                    && !self.lost_its_log(&live, assignment)
                    && !self.was_given_up(&live, assignment) =>
            {
                match self.stay(jetstream, &account, (assignment, live), may_open) {
                    Ok(live) if *live.config() != assignment.config => {
                        return self.change_config(jetstream, &account, live, (seen, turn));
                    }
                    done => return self.conclude(jetstream, &account, &seen, (was_there, done)),
                }
            }
            // What is served from its beginning, by this server alone, stays from then on.
            _ if !may_open && !assignment.has_group() => {
                return self.keep_and_make(jetstream, (assignment, *is_new));
            }
            // One of the same name that was removed while this server was away, or what is left of
            // a replica: the others have what it had.
            Some(live) => account
                .delete_and_wait(jetstream, &live, &mut MessageBuf::default())
                .and_then(|()| self.make(jetstream, &account, assignment, may_open)),
            None => match made {
                Some(Err(error)) => Err(error.clone()),
                _ => self.make(jetstream, &account, assignment, may_open),
            },
        };
        self.conclude(jetstream, &account, &seen, (was_there, done));
    }

    /// An assignment was carried out here, or could not be. `was_there`: its stream was.
    pub(super) fn conclude(
        &self,
        jetstream: &Arc<JetStream>,
        account: &Arc<AccountStreams>,
        SeenAssignment { assignment, is_new, first, .. }: &SeenAssignment,
        (was_there, done): (bool, Result<Arc<LiveStream>, ApiError>),
    ) {
        match done {
            // It was removed from the cluster while that was written down.
            Ok(live) if self.is_out() => self.rest(&live),
            Ok(live) => {
                self.note_done(jetstream, assignment);
                self.serve_restored(jetstream, (account, assignment), &live);
                let is_news = !was_there || assignment.answer != AnswerKind::Create;
                is_new.then(|| self.answer_later(jetstream, (assignment, is_news), &live));
                // As long as it may be taken back nobody knows what whoever waits is to hear.
                let may_open = self.may_open(assignment, first.is_some());
                let refused = may_open.then(|| self.made_after_all(assignment)).flatten();
                refused.into_iter().for_each(|asked| self.answer_later(jetstream, (&asked, true), &live));
            }
            Err(error) => self.has_failed(jetstream, account, (assignment, *is_new, *first), &error),
        }
    }

    fn carry_out_removal(
        &self,
        jetstream: &Arc<JetStream>,
        account: &Arc<AccountStreams>,
        (assignment, is_new): (&Assignment, bool),
        local: Option<Arc<LiveStream>>,
    ) {
        match local {
            Some(live) if live.created() == assignment.created => {
                return self.remove(jetstream, account, (assignment, is_new), &live);
            }
            // One of the same name that was removed while this server was away, as is now another
            // one that it never had.
            Some(live) if self.view().has_replaced(assignment, live.created()) => {
                self.remove(jetstream, account, (assignment, false), &live);
            }
            Some(_) => return,
            None => self.note_done(jetstream, assignment),
        }
        if is_new && self.leads() && self.lacks_quorum(assignment) && !assignment.is_refused() {
            // Nobody leads it who would answer.
            self.answer_removed(jetstream, assignment, None);
        }
    }

    /// Has a stream that this server alone is to have be made as soon as nobody can take it back.
    /// Whoever waits for it is answered then.
    fn keep_and_make(&self, jetstream: &JetStream, (assignment, is_new): (&Arc<Assignment>, bool)) {
        self.note_failed(jetstream, assignment, &ApiError::CLUSTER_NOT_AVAIL);
        if is_new {
            let refused = (Arc::clone(assignment), ApiError::CLUSTER_NOT_AVAIL);
            lock(&self.faults.refused).insert(assignment.key.clone(), refused);
        }
        self.keep(jetstream, &assignment.key);
    }

    /// An assignment could not be carried out here.
    fn has_failed(
        &self,
        jetstream: &JetStream,
        account: &AccountStreams,
        (assignment, is_new, first): (&Arc<Assignment>, bool, Option<Seq>),
        error: &ApiError,
    ) {
        // A stream that is alone may be there, and served, though that is not durable.
        let there = account.stream(&assignment.key.stream).filter(|_| !assignment.has_group());
        let is_used = || there.is_some_and(|live| !account.delete_unused(jetstream, &live));
        let first = first.filter(|_| !is_used());
        let leads_first = assignment.peers.first() == Some(&self.name);
        let is_news = self.note_failed(jetstream, assignment, error);
        if let Some(first) = first.filter(|_| leads_first) {
            self.note_refused(jetstream, assignment, (error, false));
            self.take_back(jetstream, (assignment, first), error);
        } else {
            if is_news || is_new {
                self.note_refused(jetstream, assignment, (error, is_new));
            }
            if !assignment.may_be_taken_back() {
                self.answer_refused(jetstream, assignment);
            }
        }
    }

    /// Leaves a stream alone that is none of the cluster, and has the name of one.
    fn leave_other(
        &self,
        jetstream: &JetStream,
        (assignment, is_new): (&Arc<Assignment>, bool),
        live: &LiveStream,
    ) {
        suspend_stream(live);
        let text = "this server has another stream of its name, which is not served and stays as it is";
        self.note_refused(jetstream, assignment, (&ApiError::stream_create(text), is_new));
    }

    /// Has a replica that is here be the member that is assigned.
    fn stay(
        &self,
        jetstream: &Arc<JetStream>,
        account: &Arc<AccountStreams>,
        (assignment, live): (&Assignment, Arc<LiveStream>),
        may_open: bool,
    ) -> Result<Arc<LiveStream>, ApiError> {
        let live = match live.replaced_by() {
            None => live,
            Some(_) => account.finish_install(jetstream, &live).map_err(ApiError::stream_general)?,
        };
        self.join(jetstream, assignment, &live, may_open)?;
        Ok(live)
    }

    /// An assignment could not be carried out: it is tried again. Answers whether that is news.
    pub(super) fn note_failed(
        &self,
        jetstream: &JetStream,
        assignment: &Assignment,
        error: &ApiError,
    ) -> bool {
        let now = jetstream.host.instant();
        lock(&self.faults.retries).failed(&assignment.key, now, error.to_string())
    }

    /// Why an assignment could not be carried out here at the last attempt.
    pub(in crate::engine) fn why_failed(&self, assignment: &Assignment) -> Option<String> {
        lock(&self.faults.retries).why(&assignment.key).map(str::to_owned)
    }

    /// An assignment is carried out here.
    fn note_done(&self, jetstream: &JetStream, assignment: &Assignment) {
        self.view().forget_outlived(&assignment.key);
        if lock(&self.faults.retries).succeeded(&assignment.key) {
            let (account, stream) = (&assignment.key.account, &assignment.key.stream);
            let line = format_args!("JetStream stream '{account} > {stream}' is as it is assigned now");
            jetstream.host.log(Level::Info, line);
        }
        if assignment.is_removed {
            self.groups.forget(GroupId(assignment.id));
        }
    }

    /// Tries again what could not be done, when it is time, and looks for replicas that are not
    /// there, or no members any more.
    pub(super) fn retry(&self, jetstream: &Arc<JetStream>) {
        let now = jetstream.host.instant();
        let is_missing = |one: &Arc<Assignment>| {
            let account = jetstream.account(&one.key.account);
            account.is_some_and(|account| account.stream(&one.key.stream).is_none())
        };
        if !self.is_out() {
            let missing = self.assigned_here().into_iter().filter(is_missing);
            missing.for_each(|one| lock(&self.faults.retries).suspect(one.key.clone(), now));
        }
        for live in jetstream.accounts().into_iter().flat_map(|account| account.streams()) {
            if !live.consumers().is_of_group() && !live.has_lost_log() || live.is_of_group() {
                continue;
            }
            let assignment = self.view().get(live.account_name(), live.name());
            let is_ours = |one: &Assignment| one.created == live.created() && one.has_group();
            if let Some(assignment) = assignment.filter(|one| is_ours(one)) {
                lock(&self.faults.retries).suspect(assignment.key.clone(), now);
            }
        }
        #[cfg(planted)]
        if myelin_stdx::planted::bug(114) {
            self.on_api(|meta, jetstream| meta.remove_orphans(jetstream));
        }
        let due = lock(&self.faults.retries).take_due(now);
        if !due.is_empty() {
            self.on_api(move |meta, jetstream| {
                for key in due {
                    let assignment = meta.view().last(&key);
                    assignment.into_iter().for_each(|one| meta.reconcile(jetstream, &one, false));
                }
            });
        }
    }

    /// Streams that no assignment names go: planted bug 114.
    #[cfg(planted)]
    fn remove_orphans(&self, jetstream: &Arc<JetStream>) {
        for account in jetstream.accounts() {
            for live in account.streams() {
                let key = StreamKey::new(account.account().name(), live.name());
                if live.consumers().is_of_group() && self.view().last(&key).is_none() {
                    let _ = account.delete_and_wait(jetstream, &live, &mut MessageBuf::default());
                }
            }
        }
    }

    /// Tells that an assignment cannot be carried out here.
    fn note_refused(
        &self,
        jetstream: &JetStream,
        assignment: &Assignment,
        (error, is_new): (&ApiError, bool),
    ) {
        let (account, stream) = (&assignment.key.account, &assignment.key.stream);
        jetstream.host.log(
            Level::Error,
            format_args!("JetStream stream '{account} > {stream}' is not as it is assigned: {error}"),
        );
        // Others may have what this server cannot have: of a group its leader answers for all, and
        // that alone.
        let answers = || match assignment.has_group() {
            true => {
                let live = jetstream.account(account).and_then(|account| account.stream(stream));
                live.is_some_and(|live| live.created() == assignment.created && live.role().leads())
            }
            false => assignment.peers.first() == Some(&self.name),
        };
        // Its leader says that it is there, if there is one.
        let is_said = assignment.answer == AnswerKind::Create && assignment.has_group();
        if is_new && !is_said && answers() {
            self.answer_not_done(jetstream, assignment, error);
        }
    }

    /// Makes a replica.
    fn make(
        &self,
        jetstream: &Arc<JetStream>,
        account: &Arc<AccountStreams>,
        assignment: &Assignment,
        may_open: bool,
    ) -> Result<Arc<LiveStream>, ApiError> {
        let live = if assignment.has_group() {
            account.create_replica(jetstream, assignment.config.clone(), assignment.created)?
        } else {
            account.create(jetstream, assignment.config.clone(), assignment.created)?
        };
        self.settle(jetstream, assignment, &live, may_open)
    }

    /// Has a replica that was made be there for good, with those that were made together with it,
    /// and be a member of its group.
    fn settle(
        &self,
        jetstream: &JetStream,
        assignment: &Assignment,
        live: &Arc<LiveStream>,
        may_open: bool,
    ) -> Result<Arc<LiveStream>, ApiError> {
        jetstream.settle().map_err(ApiError::stream_create)?;
        self.join(jetstream, assignment, live, may_open)?;
        Ok(Arc::clone(live))
    }

    /// Makes a replica a member of its group, if it has one and is none yet, and says who is to be
    /// one.
    fn join(
        &self,
        jetstream: &JetStream,
        assignment: &Assignment,
        live: &Arc<LiveStream>,
        may_open: bool,
    ) -> Result<(), ApiError> {
        if !assignment.has_group() {
            return Ok(());
        }
        let wanted = peers_of(&assignment.peers);
        self.groups.know(&wanted);
        self.groups.know(&peers_of(&assignment.before));
        if live.group_status().is_some() {
            live.tell_members(self.peers_with(assignment));
            live.found_by(peers_of(&assignment.founders));
            self.recover(assignment, live);
            if may_open {
                live.open_group();
            }
            live.want_members(wanted);
            return Ok(());
        }
        let place = GroupPlace { group: GroupId(assignment.id), epoch: assignment.epoch() };
        let voters = peers_of(&assignment.founders);
        let has_lost_log = live.has_lost_log() && assignment.servers().any(|other| *other != self.name);
        if has_lost_log {
            live.begin_lost_log(&place)?;
        } else if assignment.founders == [self.name.as_str()] {
            live.found_group(&self.groups, (&jetstream.store, jetstream.settings.sync_always))?;
        }
        write_of_group(jetstream, live)?;
        let is_synced = jetstream.settings.sync_always && live.is_stored();
        live.watch_member(self.me.clone() as Weak<dyn MemberWatcher>);
        let may_be_new = self.groups.is_younger_than_disk(assignment.created);
        let (seed, is_open, is_amnesiac) = (jetstream.seed(), may_open, has_lost_log);
        let terms = JoinTerms { is_open, is_amnesiac, ..JoinTerms::of(seed, is_synced, may_be_new) };
        live.join(&self.groups, &GroupConfig { place, voters }, terms)?;
        live.tell_members(self.peers_with(assignment));
        self.recover(assignment, live);
        live.want_members(wanted);
        if may_open && assignment.founders.first() == Some(&self.name) {
            live.stand_first();
        }
        Ok(())
    }

    /// Has a group that was recovered go on with those that are left.
    fn recover(&self, assignment: &Assignment, live: &LiveStream) {
        if assignment.group.recovery.is_some() {
            let few = assignment.counting().map(|servers| peers_of(&servers));
            live.recover(assignment.epoch(), few);
        }
    }

    /// Whether a replica is one that was given up with this server: what it has stored counts no
    /// more.
    fn was_given_up(&self, live: &LiveStream, assignment: &Assignment) -> bool {
        assignment.has_given_up(&self.name) && live.is_of_epoch_before(assignment.epoch())
    }

    /// Servers that have a replica of a stream, or may have: one that was removed for good has
    /// nothing to tell any more.
    pub(super) fn peers_with(&self, assignment: &Assignment) -> Vec<Peer> {
        let there = self.servers();
        let assigned: Vec<String> =
            assignment.servers().filter(|&name| there.contains(name)).cloned().collect();
        peers_of(&assigned)
    }

    /// Whether a replica has lost its log to a loss of power, which came before the first sync:
    /// nothing says that it was in a group, and there is no message.
    fn lost_its_log(&self, live: &LiveStream, assignment: &Assignment) -> bool {
        let begins_here = assignment.founders == [self.name.as_str()];
        assignment.has_group()
            && !begins_here
            && !live.consumers().is_of_group()
            && live.reader().state().totals.messages == 0
    }

    /// Says of streams whose groups are led here that a change is through: who is no member any
    /// more removes its replica then.
    pub(super) fn report_changes(&self, jetstream: &JetStream) {
        let under_way = self.view().under_way();
        self.report_of(jetstream, under_way);
    }

    /// Says of one stream that a change is through, where it is led here.
    pub(super) fn report_change(&self, jetstream: &JetStream, account: &str, stream: &str) {
        let of = self.view().get(account, stream).filter(|one| !one.before.is_empty());
        self.report_of(jetstream, of.into_iter().collect());
    }

    fn report_of(&self, jetstream: &JetStream, under_way: Vec<Arc<Assignment>>) {
        let mut out = MessageBuf::default();
        for assignment in under_way {
            let account = jetstream.account(&assignment.key.account);
            let live = account.and_then(|account| account.stream(&assignment.key.stream));
            let wanted = peers_of(&assignment.peers);
            if !live.is_some_and(|live| {
                live.created() == assignment.created && live.leads_members(&wanted) && live.leads_surely()
            }) {
                continue;
            }
            let done = Assignment { nonce: jetstream.seed(), ..assignment.settled() };
            self.write(&done, &mut out);
        }
        self.groups.publish(out);
    }

    fn remove(
        &self,
        jetstream: &Arc<JetStream>,
        account: &Arc<AccountStreams>,
        (assignment, is_new): (&Assignment, bool),
        live: &Arc<LiveStream>,
    ) {
        // Where nobody leads it the meta leader answers.
        let is_leaderless = || live.group_leadership().is_some_and(|group| group.leader.is_none());
        let led = live.role().leads() || (self.leads() && is_leaderless());
        let mut out = MessageBuf::default();
        // That of an older stream of the name is another one.
        let group = live.group().unwrap_or(GroupId(assignment.id));
        let deleted = account.delete_and_wait(jetstream, live, &mut out);
        self.groups.remove(group);
        if let Err(error) = &deleted {
            let (account, stream) = (&assignment.key.account, &assignment.key.stream);
            if self.note_failed(jetstream, assignment, error) {
                let line = format_args!("JetStream stream '{account} > {stream}' cannot be removed: {error}");
                jetstream.host.log(Level::Error, line);
            }
        } else {
            self.note_done(jetstream, assignment);
            if live.created() != assignment.created {
                self.groups.forget(group);
            }
        }
        if let Err(error) = jetstream.settle() {
            jetstream.host.log(Level::Error, format_args!("JetStream: a removal is not durable: {error}"));
        }
        if is_new && led && !assignment.is_refused() {
            if !out.is_empty() {
                jetstream.host.publish(account.account(), out);
            }
            self.answer_removed(jetstream, assignment, deleted.as_ref().err());
        }
    }
}

/// The account of this name. One that is not here yet is sought: its streams are made when it is
/// there.
fn known_or_sought(jetstream: &JetStream, name: &str) -> Option<Arc<AccountStreams>> {
    let known = jetstream.account(name);
    if known.is_none() {
        jetstream.host.seek_account(name);
    }
    known
}
