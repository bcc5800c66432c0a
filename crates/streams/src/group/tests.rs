//! Groups of streams on disks, over a network that loses, repeats and reorders what they say.

mod changes;
mod group;
mod random;
mod replica;
mod votes;

use super::{GroupStart, MemberFailed, Persistence};
use crate::ReplicaRole;
use crate::stream::Effects;
use group::Group;
use myelin_disk::faulty::Survival;
use myelin_replica::{RaftMessage, RaftMessageKind, RaftRole};
use myelin_stdx::histogram::HistogramCounts;

/// Answer to a client that has published message `seq`.
fn stored(seq: u64) -> String {
    format!(r#"{{"stream":"S","seq":{seq}}}"#)
}

#[test]
fn a_message_is_acknowledged_when_a_majority_has_it() {
    let mut group = Group::new(3, Persistence::Written, 1);
    let leader = group.elect(0);
    group.publish(leader, "a", "first");
    assert!(group.replicas[leader].said.is_empty(), "nobody else has it");
    assert!(group.replicas[leader].payloads().is_empty(), "nor does anybody read it");
    group.until_quiet();
    assert_eq!(group.replicas[leader].said, [("a".to_owned(), stored(1))]);
    group.beat();
    for replica in &group.replicas {
        assert_eq!(replica.payloads(), [(1, "first".to_owned())], "replica {}", replica.number);
    }
}

/// Entries that a leader alone has written are nobody's when others elect another one.
#[test]
fn a_leader_that_is_alone_acknowledges_nothing_and_takes_it_back() {
    let mut group = Group::new(3, Persistence::Written, 2);
    group.elect(0);
    group.publish(0, "a", "kept");
    group.until_quiet();
    group.isolate(0);
    for text in ["lost", "lost, too"] {
        group.publish(0, text, text);
    }
    group.elect(1);
    group.publish(1, "b", "other");
    group.until_quiet();
    assert_eq!(group.replicas[1].said, [("b".to_owned(), stored(2))]);
    group.join_all();
    group.beat();
    let expected = [(1, "kept".to_owned()), (2, "other".to_owned())];
    for replica in &group.replicas {
        assert_eq!(replica.payloads(), expected, "replica {}", replica.number);
    }
    assert_eq!(group.replicas[0].said.len(), 1, "{:?}", group.replicas[0].said);
    assert_eq!(group.replicas[0].core().role(), ReplicaRole::Follower);
}

/// Others may have what was decided when its leader's stream fails, and store it.
#[test]
fn a_leader_that_fails_does_not_say_that_others_have_not_stored_it() {
    let mut group = Group::new(3, Persistence::Written, 14);
    group.elect(0);
    group.publish(0, "a", "first");
    let mut effects = Effects::default();
    let core = group.replicas[0].core_mut();
    core.store().give_up("the disk");
    core.released(&mut effects);
    assert!(effects.failed.is_some() && effects.out.is_empty(), "{} messages", effects.out.len());
    group.deliver_entries(1, 9);
    group.kill(0);
    group.elect(1);
    group.until_quiet();
    assert_eq!(group.replicas[1].payloads(), [(1, "first".to_owned())]);
}

/// A member that was away gets entries that nobody has in memory any more.
#[test]
fn a_member_that_was_away_is_given_what_it_lacks() {
    let mut group = Group::new(3, Persistence::Written, 3);
    group.elect(0);
    group.kill(2);
    for n in 0..300 {
        group.publish(0, "a", &format!("{n} {}", "x".repeat(20_000)));
        group.until_quiet();
    }
    group.kill(0);
    group.kill(1);
    (0..3).for_each(|number| group.come_back(number));
    group.elect(1);
    group.beat();
    assert_eq!(group.replicas[2].payloads().len(), 50, "as many as the stream keeps");
    assert_eq!(group.replicas[2].payloads(), group.replicas[1].payloads());
}

/// From the proposal to the answers of a majority; what is committed at once is none.
#[test]
fn how_long_a_leader_waits_for_its_group_is_counted() {
    let mut group = Group::new(3, Persistence::Written, 25);
    group.elect(0);
    group.until_quiet();
    let counts = |group: &Group| group.replicas[0].commit_waits.counts();
    let before = counts(&group);
    group.publish(0, "a", "first");
    group.now += 7_000_000;
    group.until_quiet();
    let after = counts(&group);
    assert_eq!(after.sum - before.sum, 7_000_000);
    let total = |counts: &HistogramCounts| counts.counts.iter().sum::<u64>();
    assert_eq!(total(&after) - total(&before), 1);
    assert_eq!(total(&counts(&group)), total(&after), "nothing is counted twice");
    assert_eq!(total(&group.replicas[1].commit_waits.counts()), 0, "who follows waits for nobody");
}

/// With `sync_interval: always` the word of a member counts when it outlives a loss of power.
#[test]
fn a_member_that_syncs_confirms_nothing_before() {
    let mut group = Group::new(3, Persistence::Synced, 4);
    group.elect(0);
    group.are_syncs_held = true;
    group.publish(0, "a", "first");
    group.until_quiet();
    assert!(group.replicas[0].said.is_empty(), "nobody has synced it");
    group.sync(1);
    group.until_quiet();
    assert!(group.replicas[0].said.is_empty(), "one of three has");
    group.sync(2);
    group.until_quiet();
    assert_eq!(group.replicas[0].said.len(), 1, "a majority has, without the leader");
    group.are_syncs_held = false;
    (0..3).for_each(|number| group.lose_power(number, Survival::None));
    (0..3).for_each(|number| group.come_back(number));
    group.elect_anyone();
    group.beat();
    for replica in &group.replicas {
        assert_eq!(replica.payloads(), [(1, "first".to_owned())], "replica {}", replica.number);
    }
}

/// The table of ids of a new leader knows what the old one has stored.
#[test]
fn another_leader_knows_the_ids_of_messages() {
    let mut group = Group::new(3, Persistence::Written, 5);
    group.elect(0);
    group.publish_with(0, "a", &["Nats-Msg-Id: one"], "first");
    group.until_quiet();
    group.kill(0);
    let leader = group.elect(2);
    group.publish_with(leader, "b", &["Nats-Msg-Id: one"], "again");
    let said = &group.replicas[leader].said;
    assert_eq!(said, &[("b".to_owned(), r#"{"stream":"S","seq":1,"duplicate": true}"#.to_owned())]);
}

/// A decision of several entries whose leader ends in the middle of it leaves nothing.
#[test]
fn half_a_decision_is_aborted_by_the_next_leader() {
    let mut group = Group::new(3, Persistence::Written, 6);
    group.elect(0);
    group.replicas[0].core_mut().store_mut().bound_entries(100);
    let messages: Vec<String> = (0..6).map(|n| format!("{n} {}", "x".repeat(60))).collect();
    group.publish_all(0, &messages);
    let entries = group.count_entries_in_flight();
    assert!(entries > 3, "{entries}");
    group.deliver_entries(1, 2);
    group.kill(0);
    let leader = group.elect(1);
    group.publish(leader, "b", "next");
    group.until_quiet();
    group.come_back(0);
    group.beat();
    for replica in &group.replicas {
        let texts: Vec<String> = replica.payloads().into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["next"], "replica {}", replica.number);
    }
}

/// A member that asks for votes votes for itself, and one that gives its vote must remember it.
#[test]
fn no_vote_leaves_before_it_is_durable() {
    let mut group = Group::new(3, Persistence::Written, 8);
    group.replicas[0].are_votes_held = true;
    group.replicas[1].are_votes_held = true;
    group.kill(2);
    group.replicas[0].member().consensus_mut().campaign().unwrap();
    group.advance(0);
    group.until_quiet();
    assert!(group.replicas[0].persist_vote(), "it stands for election");
    assert!(!group.replicas[1].persist_vote(), "and has asked nobody before");
    group.advance(0);
    group.until_quiet();
    assert!(!group.replicas[0].leads());
    assert!(group.replicas[1].persist_vote(), "nobody has heard of the other's vote");
    group.advance(1);
    group.until_quiet();
    assert!(group.replicas[0].leads());
}

/// A disk that takes entries and no vote: nobody syncs again and again meanwhile.
#[test]
fn who_waits_for_a_vote_asks_for_no_sync_of_what_is_synced() {
    let mut group = Group::new(3, Persistence::Synced, 24);
    group.replicas[1].are_votes_held = true;
    group.elect(0);
    group.publish(0, "a", "stored");
    group.until_quiet();
    let position = group.replicas[1].position();
    assert!(position.index > 0 && position.commit < position.index, "it has an entry, which waits");
    group.sync(1);
    assert!(!group.replicas[1].needs_sync);
    assert!(group.replicas[1].persist_vote());
}

/// More than may be under way is decided, and not proposed: nobody else ever hears of it.
#[test]
fn what_was_not_proposed_is_taken_back() {
    let mut group = Group::new(3, Persistence::Written, 9);
    group.elect(0);
    group.isolate(0);
    let before = group.replicas[0].position().index;
    let large = "x".repeat(1 << 20);
    (0..20).for_each(|_| group.publish(0, "lost", &large));
    assert_eq!(group.replicas[0].position().index, before + 20);
    let proposed = group.replicas[0].member().status().last;
    assert!(proposed > before + 10 && proposed < before + 20, "{proposed}");
    group.elect(1);
    group.publish(1, "a", "kept");
    group.until_quiet();
    group.join_all();
    group.beat();
    for replica in &group.replicas {
        assert_eq!(replica.payloads(), [(1, "kept".to_owned())], "replica {}", replica.number);
    }
    assert!(group.replicas[0].said.is_empty());
}

/// Between two looks a member may lose an election and win another one: what it has decided in
/// between is of no term.
#[test]
fn a_leader_that_was_elected_again_steps_down_first() {
    let mut group = Group::new(3, Persistence::Written, 10);
    group.elect(0);
    let (me, other) = (group.replicas[0].peer(), group.replicas[1].peer());
    let term = group.replicas[0].member().status().term;
    let message = |kind, term| RaftMessage {
        kind,
        from: other,
        to: me,
        term,
        index: 0,
        log_term: 0,
        commit: 0,
        commit_term: 0,
        is_refused: false,
        reject_hint: 0,
        is_transfer: false,
        entries: Vec::new(),
    };
    let member = group.replicas[0].member();
    member.step(message(RaftMessageKind::Heartbeat, term + 1)).unwrap();
    member.consensus_mut().campaign().unwrap();
    member.step(message(RaftMessageKind::PreVoteAnswer, term + 2)).unwrap();
    member.step(message(RaftMessageKind::VoteAnswer, term + 2)).unwrap();
    let status = member.status();
    assert_eq!((status.role, status.term), (RaftRole::Leader, term + 2));
    let now = group.now;
    group.replicas[0].publish(&[("lost", &[], "lost")], now);
    let mut roles = Vec::new();
    group.replicas[0].advance_once(now, &mut roles);
    assert_eq!(roles, [Some(ReplicaRole::Follower)]);
    group.advance(0);
    group.until_quiet();
    assert!(group.replicas[0].leads() && group.replicas[0].payloads().is_empty());
}

/// Entries of an earlier term than the one in which a member was elected may take the place of its
/// own.
#[test]
fn entries_of_earlier_terms_take_the_place_of_ones_own() {
    let mut group = Group::new(5, Persistence::Written, 11);
    group.elect(0);
    group.beat();
    group.publish(0, "a", "of the first leader");
    group.deliver_entries(4, 9);
    group.kill(0);
    group.elect_alone(1);
    group.elect_alone(4);
    group.replicas[4].member().tick().unwrap();
    group.beat();
    group.come_back(0);
    group.beat();
    group.beat();
    for replica in &group.replicas {
        let expected = [(1, "of the first leader".to_owned())];
        assert_eq!(replica.payloads(), expected, "replica {}", replica.number);
    }
}

/// Entries of the term in which a member was elected may come back from another one, when those of
/// a later leader have taken their place in between.
#[test]
fn ones_own_entries_may_come_back() {
    let mut group = Group::new(5, Persistence::Written, 12);
    group.elect(0);
    group.beat();
    group.publish(0, "a", "of the first leader");
    group.deliver_entries(1, 9);
    group.elect_alone(2);
    group.talk(2, 0);
    group.kill(2);
    group.elect_alone(1);
    group.talk(1, 0);
    let (ours, theirs) = (group.replicas[0].position(), group.replicas[1].position());
    assert_eq!((ours.index, ours.chain), (theirs.index, theirs.chain));
}

/// Entries that are not synced are nothing that a member may begin with.
#[test]
fn a_member_begins_with_what_is_persisted() {
    let mut group = Group::new(3, Persistence::Synced, 13);
    group.elect(0);
    group.are_syncs_held = true;
    group.publish(0, "a", "first");
    group.until_quiet();
    let start = group.replicas[1].start();
    let opened = super::GroupMember::open(group.replicas[1].core_mut(), start);
    assert!(matches!(opened, Err(MemberFailed::NotSynced)));
}

#[test]
fn a_stream_without_a_group_has_no_member() {
    let mut group = Group::new(1, Persistence::Written, 7);
    let start = GroupStart { voters: Vec::new(), ..group.replicas[0].start() };
    let opened = super::GroupMember::open(group.replicas[0].core_mut(), start);
    assert!(matches!(opened, Err(MemberFailed::Consensus(_))), "nobody votes");
    let mut bench = crate::stream::tests::follower();
    let opened = super::GroupMember::open(&mut bench, group.replicas[0].start());
    assert!(matches!(opened, Err(MemberFailed::NoGroup)));
}
