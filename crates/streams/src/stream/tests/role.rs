//! A replica that follows does nothing of its own accord, and all of it when it leads again.

use std::sync::Arc;

use myelin_store::{Admission, GroupPosition, NewMessage, StoreError, Stream};
use myelin_wire::message_buf::MessageRef;

use super::batches::fast;
use super::interest::{Consumers, interested};
use super::schedules::{SECOND, TO_A, plan, subjects};
use super::upkeep::pass;
use super::{Bench, block, config, msg};
use crate::ReplicaRole;
use crate::stream::effects::Effects;
use crate::stream::{StreamCore, StreamSettings, storage_config};
use myelin_jsapi::config::{Retention, StreamConfig};

impl Bench {
    fn set_role(&mut self, role: ReplicaRole) {
        self.core.set_role(role, self.now, &mut self.effects);
        assert!(self.effects.due_changed, "who wakes the stream has to know");
        self.effects.clear();
        assert_eq!(self.core.role(), role);
    }

    /// Stores a message as a leader elsewhere has decided, with a time of that one's clock.
    fn apply(&mut self, subject: &str, headers: &[&str], timestamp: i64) {
        let block = block(headers);
        let (subject, headers) = (subject.as_bytes(), block.as_bytes());
        let message = NewMessage { subject, headers, payload: b"x", timestamp, ..NewMessage::default() };
        let store = self.core.store_mut();
        store.append(&[message], Admission::Granted, timestamp, &mut Vec::new()).unwrap();
        let (seq, mut buffer) = (self.last(), Vec::new());
        let message = self.core.store_mut().read(seq, &mut buffer).unwrap().expect("it was just stored");
        self.core.applied(&message);
    }
}

#[test]
fn nothing_ends_by_the_clock_of_a_follower() {
    let limits = StreamConfig { max_age: 10 * SECOND, allow_msg_ttl: true, ..config() };
    let mut bench = Bench::new(limits);
    pass(&mut bench, 0);
    bench.publish("a", &[], "x");
    bench.publish("b", &["Nats-TTL: 2"], "x");
    bench.set_role(ReplicaRole::Follower);
    assert_eq!(bench.core.next_due(), None, "nobody has to wake it");
    bench.now += 60 * SECOND;
    bench.core.due(bench.now, &mut bench.effects);
    bench.core.catch_up(0, bench.now);
    assert_eq!(bench.core.state().totals.messages, 2);
    bench.set_role(ReplicaRole::Leader);
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 0);
}

#[test]
fn a_follower_enforces_no_limit() {
    let mut bench = Bench::new(config());
    bench.msgs(&[msg("a", ""); 100]);
    bench.set_role(ReplicaRole::Follower);
    let tighter = Arc::new(StreamConfig { max_msgs: 10, ..config() });
    bench.core.update(tighter, bench.now, &mut bench.effects).unwrap();
    bench.core.due(bench.now, &mut bench.effects);
    assert_eq!((bench.core.state().totals.messages, bench.core.next_due()), (100, None));
    bench.set_role(ReplicaRole::Leader);
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 10);
}

#[test]
fn a_follower_fires_no_schedule() {
    let scheduling = StreamConfig { allow_msg_schedules: true, allow_rollup_hdrs: true, ..config() };
    let mut bench = Bench::new(scheduling);
    plan(&mut bench, "s.a", "@every 10s", &[TO_A]);
    bench.set_role(ReplicaRole::Follower);
    // What another leader has published meanwhile is a schedule, too.
    let pattern = "Nats-Schedule: @every 20s";
    bench.apply("s.b", &[pattern, "Nats-Schedule-Target: t.b"], bench.now + 1);
    bench.now += 15 * SECOND;
    bench.core.due(bench.now, &mut bench.effects);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b"]);
    bench.set_role(ReplicaRole::Leader);
    pass(&mut bench, 0);
    assert_eq!(subjects(&bench), ["1 s.a", "2 s.b", "3 t.a"], "it is due since it was a follower");
    pass(&mut bench, 6 * SECOND);
    let fired = |target: &str| subjects(&bench).iter().filter(|stored| stored.ends_with(target)).count();
    assert_eq!((fired("t.a"), fired("t.b")), (2, 1), "{:?}", subjects(&bench));
}

#[test]
fn a_follower_removes_nothing_that_is_settled() {
    let consumers = Consumers::want(&[">"]);
    let config = StreamConfig { retention: Retention::WorkQueue, ..config() };
    let mut bench = Bench::with(config, interested(&consumers));
    pass(&mut bench, 0);
    bench.msgs(&[msg("a", ""); 3]);
    bench.set_role(ReplicaRole::Follower);
    consumers.settle([1, 2]);
    bench.core.acknowledged(&[1, 2], bench.now, &mut bench.effects);
    bench.core.reconcile(bench.now, &mut bench.effects);
    bench.core.due(bench.now, &mut bench.effects);
    assert_eq!((bench.core.state().totals.messages, bench.core.next_due()), (3, None));
    bench.set_role(ReplicaRole::Leader);
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 3, "consumers may be missing");
    bench.core.reconcile(bench.now, &mut bench.effects);
    pass(&mut bench, 0);
    assert_eq!(bench.core.state().totals.messages, 1, "nobody has to say again what is settled");
}

#[test]
fn a_new_leader_removes_nothing_before_all_consumers_are_there() {
    for retention in [Retention::Interest, Retention::WorkQueue] {
        let consumers = Consumers::want(&[">"]);
        let mut bench = Bench::with(StreamConfig { retention, ..config() }, interested(&consumers));
        bench.set_role(ReplicaRole::Follower);
        bench.apply("a", &[], bench.now + 1);
        bench.apply("a", &[], bench.now + 2);
        bench.set_role(ReplicaRole::Leader);
        // A consumer that is there has settled both, one that is not wants the second.
        consumers.settle([1, 2]);
        bench.core.acknowledged(&[1, 2], bench.now, &mut bench.effects);
        let limits = Arc::new((**bench.core.config()).clone());
        bench.core.update(limits, bench.now, &mut bench.effects).unwrap();
        pass(&mut bench, 0);
        assert_eq!(bench.core.state().totals.messages, 2);
        consumers.replace();
        consumers.settle([1]);
        bench.core.reconcile(bench.now, &mut bench.effects);
        pass(&mut bench, 0);
        assert_eq!((bench.core.state().totals.messages, bench.core.state().totals.first_seq), (1, 2));
    }
}

#[test]
fn a_follower_gives_up_no_batch() {
    let mut bench = Bench::new(StreamConfig { allow_atomic: true, ..config() });
    let headers = block(&["Nats-Batch-Id: b", "Nats-Batch-Sequence: 1"]);
    bench.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg("a", "r") }]);
    bench.set_role(ReplicaRole::Follower);
    bench.now += 3600 * SECOND;
    bench.core.due(bench.now, &mut bench.effects);
    assert!(bench.effects.abandoned.is_empty());
    assert_eq!(bench.core.next_due(), None);
    bench.set_role(ReplicaRole::Leader);
    bench.core.due(bench.now, &mut bench.effects);
    assert_eq!(bench.effects.abandoned.len(), 1);
}

#[test]
fn message_ids_follow_what_is_applied_by_its_own_time() {
    let mut bench = Bench::new(config());
    bench.publish("a", &["Nats-Msg-Id: own"], "x");
    bench.set_role(ReplicaRole::Follower);
    let began = bench.now;
    bench.apply("a", &["Nats-Msg-Id: early"], began + SECOND);
    bench.apply("a", &["Nats-Msg-Id: late"], began + 100 * SECOND);
    // Its own clock, which is far ahead, makes it forget nothing.
    bench.now = began + 3600 * SECOND;
    bench.core.due(bench.now, &mut bench.effects);
    assert_eq!(bench.core.known_ids().count, 3);
    bench.apply("a", &["Nats-Msg-Id: later"], began + 122 * SECOND);
    assert_eq!(bench.core.known_ids().count, 2, "by the time of what is applied two are over");
    bench.now = began + 130 * SECOND;
    bench.set_role(ReplicaRole::Leader);
    let duplicate = |seq: u64| format!(r#"{{"stream":"S","seq":{seq},"duplicate": true}}"#);
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: late"], "x"), duplicate(3));
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: later"], "x"), duplicate(4));
    assert_eq!(bench.publish("a", &["Nats-Msg-Id: own"], "x"), r#"{"stream":"S","seq":5}"#);
    let expected = bench.publish("a", &["Nats-Expected-Last-Msg-Id: own"], "x");
    assert_eq!(expected, r#"{"stream":"S","seq":6}"#);
}

/// A leader that was deposed has perhaps stored messages that its group never agreed on.
#[test]
fn entries_that_are_taken_back_leave_no_message_id_and_answer_nobody() {
    let mut bench = Bench::new(config());
    let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
    bench.core.store_mut().join_group(position, bench.now).unwrap();
    let send = |bench: &mut Bench, id: &str| {
        let headers = block(&[&format!("Nats-Msg-Id: {id}")]);
        bench.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg("a", "reply") }])
    };
    assert!(send(&mut bench, "kept").is_empty(), "it waits for its commit");
    let kept = bench.core.store_mut().group().unwrap().index;
    assert!(send(&mut bench, "lost").is_empty() && send(&mut bench, "lost, too").is_empty());
    bench.set_role(ReplicaRole::Follower);
    bench.apply("a", &["Nats-Msg-Id: of another"], bench.now + SECOND);
    assert_eq!(bench.core.known_ids().count, 4);
    bench.core.store_mut().committed(kept);
    assert!(matches!(bench.core.take_back(kept, bench.now), Err(StoreError::Committed { through: 1 })));
    bench.core.take_back(kept + 1, bench.now).unwrap();
    assert_eq!((bench.core.known_ids().count, bench.core.state().totals.last_seq), (1, 1));
    bench.core.released(&mut bench.effects);
    assert_eq!(bench.said(), [r#"reply {"stream":"S","seq":1}"#], "what is committed is answered");
    bench.set_role(ReplicaRole::Leader);
    assert_eq!(
        send(&mut bench, "kept"),
        [r#"reply {"stream":"S","seq":1,"duplicate": true}"#],
        "what was not taken back is known"
    );
    assert!(send(&mut bench, "lost").is_empty());
    let last = bench.core.store_mut().group().unwrap().index;
    bench.core.store_mut().committed(last);
    bench.core.released(&mut bench.effects);
    assert_eq!(bench.said(), [r#"reply {"stream":"S","seq":2}"#], "those of before hear nothing");
    let follows = block(&["Nats-Expected-Last-Msg-Id: lost"]);
    let answers = bench.msgs(&[MessageRef { headers: follows.as_bytes(), ..msg("a", "reply") }]);
    assert!(answers.is_empty(), "it is the last one: {answers:?}");
}

/// A leader of a group with more messages of a subject than a rollup removes at once.
fn before_a_rollup() -> Bench {
    let mut bench = Bench::new(StreamConfig { allow_rollup_hdrs: true, ..config() });
    let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
    bench.core.store_mut().join_group(position, bench.now).unwrap();
    bench.msgs(&[msg("a", ""); 12_000]);
    commit(&mut bench);
    bench
}

/// Has all that the log of the group holds committed; answers what was said then.
fn commit(bench: &mut Bench) -> Vec<String> {
    let last = bench.core.store_mut().group().unwrap().index;
    bench.core.committed(last, &mut bench.effects);
    bench.said()
}

fn roll_up(bench: &mut Bench) -> Vec<String> {
    let headers = block(&["Nats-Rollup: sub"]);
    bench.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg("a", "r") }, msg("b", "behind")])
}

/// Its sequence is given out again, and what it would have replaced is all that there is.
#[test]
fn a_rollup_that_is_taken_back_removes_nothing_when_its_replica_leads_again() {
    let mut bench = before_a_rollup();
    let kept = bench.core.store_mut().group().unwrap().index;
    assert!(roll_up(&mut bench).is_empty());
    bench.set_role(ReplicaRole::Follower);
    bench.core.take_back(kept + 1, bench.now).unwrap();
    bench.set_role(ReplicaRole::Leader);
    pass(&mut bench, 0);
    assert!(commit(&mut bench).is_empty());
    assert_eq!(bench.core.state().totals.messages, 12_000);
}

#[test]
fn a_rollup_is_answered_when_all_that_it_replaces_is_removed() {
    let mut bench = before_a_rollup();
    assert!(roll_up(&mut bench).is_empty() && commit(&mut bench).is_empty(), "some are left");
    assert!(bench.core.state().totals.messages > 2);
    pass(&mut bench, 0);
    assert!(bench.said().is_empty(), "their removal is not committed");
    let answers = [r#"r {"stream":"S","seq":12001}"#, r#"behind {"stream":"S","seq":12002}"#];
    assert_eq!(commit(&mut bench), answers);
    assert_eq!(bench.core.state().totals.messages, 2);

    let mut alone = Bench::new(StreamConfig { allow_rollup_hdrs: true, ..config() });
    alone.msgs(&[msg("a", ""); 12_000]);
    assert!(roll_up(&mut alone).is_empty());
    pass(&mut alone, 0);
    assert_eq!((alone.said(), alone.core.state().totals.messages), (answers.map(str::to_owned).into(), 2));
}

/// Whoever leads next knows nothing of what is left to remove: the publisher tries once more.
#[test]
fn a_rollup_whose_leader_goes_before_it_is_through_is_not_answered() {
    let mut bench = before_a_rollup();
    assert!(roll_up(&mut bench).is_empty() && commit(&mut bench).is_empty());
    bench.set_role(ReplicaRole::Follower);
    bench.core.released(&mut bench.effects);
    assert_eq!(bench.said(), [r#"behind {"stream":"S","seq":12002}"#], "others do not wait any longer");
    bench.set_role(ReplicaRole::Leader);
    pass(&mut bench, 0);
    assert!(commit(&mut bench).is_empty() && bench.core.state().totals.messages > 2);
    assert!(roll_up(&mut bench).is_empty());
    pass(&mut bench, 0);
    assert_eq!(commit(&mut bench).len(), 2);
    assert_eq!(bench.core.state().totals.messages, 3);
}

/// A publisher must not be told that all is stored, when this server leads again soon.
#[test]
fn a_fast_batch_ends_with_its_messages_that_are_taken_back() {
    let mut bench = fast();
    let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
    bench.core.store_mut().join_group(position, bench.now).unwrap();
    let says_nothing = |bench: &mut Bench, id: &str, members: &[(u64, u8, &str)]| {
        let said = bench.fast(id, 100, "ok", members);
        assert!(said.iter().all(|line| line.contains("ack")), "it waits for its commit: {said:?}");
    };
    says_nothing(&mut bench, "kept", &[(1, 0, "")]);
    let kept = bench.core.store_mut().group().unwrap().index;
    says_nothing(&mut bench, "lost", &[(1, 0, ""), (2, 1, "")]);
    bench.set_role(ReplicaRole::Follower);
    bench.core.store_mut().committed(kept);
    bench.core.take_back(kept + 1, bench.now).unwrap();
    bench.core.released(&mut bench.effects);
    drop(bench.said());
    bench.set_role(ReplicaRole::Leader);
    let said = bench.fast("lost", 100, "ok", &[(3, 2, "")]);
    assert!(said.len() == 1 && said[0].contains("batch publish ID unknown"), "{said:?}");
    says_nothing(&mut bench, "kept", &[(2, 2, "")]);
    let last = bench.core.store_mut().group().unwrap().index;
    bench.core.store_mut().committed(last);
    bench.core.released(&mut bench.effects);
    let said = bench.said().join(" ");
    assert!(said.contains(r#""batch":"kept","count":2"#), "{said}");
}

/// A start reads the ids of what is released, and those of the rest when it is.
#[test]
fn ids_in_entries_that_a_start_has_found_are_known_when_they_are_committed() {
    let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
    let mut leader = Bench::new(config());
    leader.core.store_mut().join_group(position, leader.now).unwrap();
    for id in ["a", "b", "c"] {
        let headers = block(&[&format!("Nats-Msg-Id: {id}")]);
        leader.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg("a", "r") }]);
    }
    let entries = leader.core.store_mut().take_decided();
    let mut before = Bench::new(config());
    before.core.store_mut().join_group(position, before.now).unwrap();
    before.set_role(ReplicaRole::Follower);
    entries.iter().for_each(|entry| before.core.append_decided(entry, before.now).unwrap());
    before.core.committed(1, &mut before.effects);
    let settings = StreamSettings { role: ReplicaRole::Follower, ..StreamSettings::default() };
    let now = before.now;
    let fresh = Stream::in_memory(storage_config(&config(), false), 1, now);
    let store = std::mem::replace(before.core.store_mut(), fresh);
    let core = StreamCore::new(Arc::new(config()), store, settings, now);
    let mut bench = Bench { core, now, effects: Effects::default() };
    let known = |bench: &Bench| bench.core.known_ids().count;
    assert_eq!(known(&bench), 1);
    bench.core.committed(2, &mut bench.effects);
    assert_eq!(known(&bench), 2);
    bench.core.take_back(3, now).unwrap();
    assert_eq!(bench.core.store().totals().last_seq, 2);
    bench.core.append_decided(&entries[2], now).unwrap();
    bench.core.committed(3, &mut bench.effects);
    assert_eq!(known(&bench), 3);
    bench.set_role(ReplicaRole::Leader);
    let headers = block(&["Nats-Msg-Id: b"]);
    let answers = bench.msgs(&[MessageRef { headers: headers.as_bytes(), ..msg("a", "r") }]);
    assert_eq!(answers, [r#"r {"stream":"S","seq":2,"duplicate": true}"#]);
}

/// Ids of a decision of several entries are known when all of it is committed, and never if it is
/// aborted or taken back.
#[test]
fn ids_of_an_aborted_decision_are_not_known() {
    let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
    let mut leader = Bench::new(config());
    leader.core.store_mut().join_group(position, leader.now).unwrap();
    leader.core.store_mut().bound_entries(80);
    let headers = ["a", "b", "c"].map(|id| block(&[&format!("Nats-Msg-Id: {id}")]));
    let msgs = headers.each_ref().map(|block| MessageRef { headers: block.as_bytes(), ..msg("a", "r") });
    assert!(leader.msgs(&msgs).is_empty(), "it waits for its commit");
    let parts = leader.core.store_mut().take_decided();
    assert_eq!(parts.len(), 3);
    let follow = |count: usize| {
        let mut bench = Bench::new(config());
        bench.core.store_mut().join_group(position, bench.now).unwrap();
        bench.set_role(ReplicaRole::Follower);
        parts[..count].iter().for_each(|part| bench.core.append_decided(part, bench.now).unwrap());
        bench
    };
    let known = |bench: &Bench| bench.core.known_ids().count;

    let mut whole = follow(3);
    whole.core.committed(2, &mut whole.effects);
    assert_eq!(known(&whole), 0, "it is committed by half");
    whole.core.committed(3, &mut whole.effects);
    assert_eq!(known(&whole), 3);

    let mut another = follow(2);
    another.core.store_mut().abort_unfinished(another.now).unwrap();
    let aborts = another.core.store_mut().take_decided();
    let mut aborted = follow(2);
    aborted.core.append_decided(&aborts[0], aborted.now).unwrap();
    for bench in [&mut another, &mut aborted] {
        bench.core.committed(3, &mut bench.effects);
        bench.effects.clear();
        bench.set_role(ReplicaRole::Leader);
        assert_eq!(known(bench), 0);
        assert!(bench.msgs(&msgs[..1]).is_empty(), "it is no duplicate");
    }

    // Who has aborted it need not have led: somebody else goes on behind that.
    // Whoever begins to lead aborts it: of what waits behind it nothing could be released.
    let mut leads = follow(2);
    leads.core.committed(2, &mut leads.effects);
    leads.set_role(ReplicaRole::Leader);
    assert_eq!(leads.core.store_mut().take_decided().len(), 1);
    assert!(!leads.core.store().is_unfinished());

    let mut outvoted = follow(2);
    outvoted.core.store_mut().abort_unfinished(outvoted.now).unwrap();
    let next = another.core.store_mut().take_decided();
    outvoted.core.append_decided(&next[0], outvoted.now).unwrap();
    outvoted.core.committed(4, &mut outvoted.effects);
    assert_eq!(known(&outvoted), 1);

    let mut taken_back = follow(2);
    taken_back.core.append_decided(&aborts[0], taken_back.now).unwrap();
    taken_back.core.take_back(3, taken_back.now).unwrap();
    taken_back.core.append_decided(&parts[2], taken_back.now).unwrap();
    taken_back.core.committed(3, &mut taken_back.effects);
    assert_eq!(known(&taken_back), 3, "the abort does not count");
}

/// A publisher that was not told of its message tries once more, with what it expected before.
#[test]
fn a_group_knows_a_message_before_it_asks_what_that_expects() {
    let position = GroupPosition { epoch: 1, term: 1, index: 0, chain: 0, commit: 0 };
    for is_of_group in [false, true] {
        let mut bench = Bench::new(config());
        if is_of_group {
            bench.core.store_mut().join_group(position, bench.now).unwrap();
        }
        let headers = block(&["Nats-Msg-Id: one", "Nats-Expected-Last-Subject-Sequence: 0"]);
        let message = MessageRef { headers: headers.as_bytes(), ..msg("a", "r") };
        let mut first = bench.msgs(&[message]);
        if is_of_group {
            bench.core.committed(1, &mut bench.effects);
            first.extend(bench.said());
        }
        assert_eq!(first, [r#"r {"stream":"S","seq":1}"#]);
        let again = bench.msgs(&[message]);
        let is_told = again[0].contains(r#""seq":1,"duplicate": true"#);
        assert_eq!(is_told, is_of_group, "{again:?}");
        assert_eq!(bench.core.state().totals.last_seq, 1);
    }
}
