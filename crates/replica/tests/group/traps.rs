//! Where the library ends a process, or does what a caller would not think: a test for each place.
//!
//! Two need no test. An entry here has no type, so that the library takes none for a change of
//! members and parses nothing: it is told of changes (`changes.rs`). And
//! [`Consensus::ready`](myelin_replica::Consensus::ready) takes what is ready and moves on in one
//! call, so that nothing can come between.

use crate::network::{Disk, Network, open, peer};
use bytes::Bytes;
use myelin_replica::{RaftEntry, RaftMessage, RaftMessageKind, RaftRole, Refused, Vote};
use proptest::prelude::*;

/// A quiet group of three whose member `0` leads, with an entry that all have.
fn led_by_the_first() -> Network {
    let mut network = Network::new(3, 1);
    network.consensus(0).campaign().expect("a sound group");
    network.settle(0);
    network.until(20, "a leader", |network| {
        network.members[0].consensus.as_ref().is_some_and(|one| one.can_propose())
    });
    store(&mut network, 0, 1, 10);
    network
}

/// Has `count` entries be committed and known by all that live.
fn store(network: &mut Network, leader: usize, count: usize, bytes: usize) {
    let alive: Vec<usize> = (0..3).filter(|&member| network.is_alive(member)).collect();
    for number in 0..count {
        let mut data = format!("{number} ").into_bytes();
        data.resize(bytes, b'x');
        let last = network.propose(leader, &data).expect("it leads");
        network.until(60, "an entry", |network| {
            alive.iter().all(|&member| network.members[member].written.committed >= last)
        });
    }
}

/// A message of a member, in its term.
fn message(network: &mut Network, kind: RaftMessageKind, from: usize, to: usize) -> RaftMessage {
    let term = network.consensus(from).status().term;
    RaftMessage { from: peer(from), to: peer(to), term, ..vote(kind) }
}

/// A term near the highest one would leave nobody another to be elected in.
#[test]
fn a_term_that_nobody_can_have_reached_is_not_taken() {
    let mut network = led_by_the_first();
    let before = network.consensus(1).status().term;
    for kind in RaftMessageKind::ALL {
        let far = RaftMessage { term: (1 << 62) - 1, ..message(&mut network, kind, 2, 1) };
        network.consensus(1).step(far).expect("it is dropped");
        network.settle(1);
    }
    assert_eq!(network.consensus(1).status().term, before);
    let near =
        RaftMessage { term: before + 1_000, ..message(&mut network, RaftMessageKind::Heartbeat, 2, 1) };
    network.consensus(1).step(near).expect("it has been away for long");
    assert_eq!(network.consensus(1).status().term, before + 1_000);
}

/// A leader counts on what a member has confirmed, tells it in heartbeats to commit that much, and
/// does not listen when it says that it has less.
#[test]
fn a_member_that_has_lost_its_log_gets_it_again() {
    let mut network = led_by_the_first();
    store(&mut network, 0, 5, 10);
    network.die(1, false);
    (network.members[1].written, network.members[1].persisted) = (Disk::default(), Disk::default());
    network.come_back(1);
    let commit = network.consensus(0).status().committed;
    let heartbeat = RaftMessage { commit, ..message(&mut network, RaftMessageKind::Heartbeat, 0, 1) };
    network.consensus(1).step(heartbeat).expect("a heartbeat that counts on more is dropped");
    network.settle(1);
    assert_eq!(network.consensus(1).status().committed, 0);
    network.until(100, "the same log", |network| network.members[1].written.committed >= commit);
    assert_eq!(network.members[1].written.entries[..6], network.members[0].written.entries[..6]);
}

/// The library answers a leader that only says what is committed, and that has heard already how
/// much the member has.
#[test]
fn that_more_is_committed_needs_no_answer() {
    let mut network = led_by_the_first();
    let (term, last) = network.consensus(1).last();
    let append = message(&mut network, RaftMessageKind::Append, 0, 1);
    let entry = RaftEntry { index: last + 1, term, data: Bytes::from_static(b"x") };
    let mut answers = |index, commit, entries| {
        let append = RaftMessage { index, log_term: term, commit, entries, ..append.clone() };
        let member = network.consensus(1);
        member.step(append).expect("it is sound");
        let Some(ready) = member.ready().expect("it is sound") else { return (None, Vec::new()) };
        member.persisted(ready.number).expect("it is sound");
        assert!(ready.now.is_empty(), "only a leader has them");
        (ready.commit, ready.after.iter().map(|answer| answer.index).collect())
    };
    assert_eq!(answers(last, last, vec![entry]), (None, vec![last + 1]));
    assert_eq!(answers(last + 1, last + 1, Vec::new()), (Some(last + 1), Vec::new()));
    // Nothing more is committed: the leader has forgotten what this member has.
    assert_eq!(answers(last + 1, last + 1, Vec::new()), (None, vec![last + 1]));
}

/// The whole log is not sent where its end is enough: to take a member for new sets what it needs
/// next to the first entry.
#[test]
fn a_member_that_comes_back_with_its_log_is_not_sent_all_of_it() {
    let mut network = led_by_the_first();
    store(&mut network, 0, 20, 1_000);
    network.die(1, false);
    network.come_back(1);
    network.frames.clear();
    let mut sent = 0;
    for _ in 0..30 {
        network.tick();
        (0..3).for_each(|member| network.persist(member, usize::MAX));
        sent += network.frames.iter().map(|(_, frame)| frame.len()).sum::<usize>();
    }
    assert!(sent < 15_000, "{sent} bytes");
    store(&mut network, 0, 1, 10);
}

/// The library asserts that all is persisted when a member becomes leader.
#[test]
fn a_group_of_one_persists_when_it_likes() {
    let mut network = Network::new(1, 1);
    for _ in 0..100 {
        network.tick();
    }
    assert_eq!(network.leader(), Some(0));
    assert!(!network.consensus(0).can_propose(), "its first entry is not persisted");
    network.persist(0, usize::MAX);
    assert!(network.consensus(0).can_propose());
    network.propose(0, b"one").expect("it leads");
    (0..100).for_each(|_| network.tick());
    assert_eq!(network.members[0].written.committed, 1);
    network.persist(0, usize::MAX);
    assert_eq!(network.members[0].written.committed, 2);
}

/// While no time passes the library takes a leader for one that was just heard, and protects it.
#[test]
fn members_that_rested_elect_another_leader_at_once() {
    let mut network = led_by_the_first();
    network.until(60, "rest", |network| network.consensus(0).can_rest());
    (0..3).for_each(|member| network.consensus(member).rest());
    network.frames.clear();
    (0..100).for_each(|_| network.tick());
    assert!(network.frames.is_empty(), "nobody says a word");
    network.die(0, false);
    for member in [1, 2] {
        network.consensus(member).wake(true).expect("a sound member");
        network.settle(member);
    }
    network.until(12, "another leader", |network| network.leader().is_some());
    assert_eq!(network.leaders.len(), 2, "of the first election that was held");
}

/// Else all would stand for election at the same moment, and nobody be elected.
#[test]
fn who_wakes_without_a_leader_does_not_stand_at_once() {
    for seed in 0..40 {
        let mut network = Network::new(3, seed);
        network.until(60, "a leader", |network| network.leader().is_some());
        let leader = network.leader().expect("as was waited for");
        let other = (leader + 1) % 3;
        network.until(20, "an entry", |network| network.members[other].written.committed > 0);
        network.consensus(other).rest();
        network.consensus(other).wake(true).expect("a sound member");
        assert_eq!(network.consensus(other).status().role, RaftRole::Follower, "seed {seed}");
    }
}

/// A member that has not heard of the term may vote for somebody else, whomever it supports.
#[test]
fn a_leader_is_sure_of_those_who_have_confirmed_its_term() {
    let mut network = led_by_the_first();
    let supports = |of: usize| move |other| other == peer(of);
    assert!(network.consensus(0).is_sure(supports(1)) && network.consensus(0).is_sure(supports(2)));
    assert!(!network.consensus(0).is_sure(|_| false), "one is no majority");
    assert!(!network.consensus(1).is_sure(|_| true), "it does not lead");
    network.cut = vec![(0, 2), (2, 0), (1, 2), (2, 1)];
    network.consensus(0).transfer(peer(1)).expect("a sound member");
    assert!(!network.consensus(0).is_sure(|_| true), "it hands over");
    network.settle(0);
    network.until(60, "another leader", |network| {
        network.leader() == Some(1) && network.consensus(1).can_propose()
    });
    assert!(network.consensus(1).is_sure(supports(0)));
    assert!(!network.consensus(1).is_sure(supports(2)), "it has confirmed nothing of this term");
}

/// A leader that is there is not disturbed by members that wake.
#[test]
fn members_that_wake_keep_their_leader() {
    let mut network = led_by_the_first();
    (0..3).for_each(|member| network.consensus(member).rest());
    (0..100).for_each(|_| network.tick());
    (0..3).for_each(|member| network.consensus(member).wake(false).expect("a sound member"));
    store(&mut network, 0, 1, 10);
    assert_eq!((network.leader(), network.leaders.len()), (Some(0), 1));
}

/// The library hands a follower's proposal on to the leader, or drops one after it was decided.
#[test]
fn who_does_not_lead_does_not_propose() {
    let mut network = led_by_the_first();
    let last = network.consensus(1).status().last;
    network.frames.clear();
    assert_eq!(network.consensus(1).propose(last + 1, Bytes::from("no")), Err(Refused::NotNow));
    network.settle(1);
    assert!(network.frames.is_empty());
    let refused = network.consensus(0).propose(last + 2, Bytes::from("no"));
    assert_eq!(refused, Err(Refused::NotNext { expected: last + 1 }));
    let empty = network.consensus(0).propose(last + 1, Bytes::new());
    assert_eq!(empty, Err(Refused::NotNext { expected: last + 1 }), "empty is what a leader begins with");
    let to = peer(1);
    network.consensus(0).transfer(to).expect("a sound member");
    assert!(!network.consensus(0).can_propose(), "it hands over");
}

/// The library would take any number of bytes.
#[test]
fn a_leader_that_nobody_answers_stops_proposing() {
    let mut network = led_by_the_first();
    network.frames.clear();
    let mut proposed = 0;
    while network.propose(0, &[0; 1 << 20]).is_some() {
        proposed += 1;
    }
    assert_eq!(proposed, 16);
    network.until(60, "room", |network| network.consensus(0).can_propose());
}

/// At an election the library reads all that is committed and not applied, and ends where it
/// cannot.
#[test]
fn a_member_stands_for_election_without_its_log_in_memory() {
    let mut network = led_by_the_first();
    store(&mut network, 0, 6, 400_000);
    for member in 0..3 {
        network.die(member, false);
        network.come_back(member);
    }
    network.until(100, "a leader", |network| {
        network.leader().is_some_and(|leader| network.consensus(leader).can_propose())
    });
}

/// The library ends where it cannot read; it waits where it is told to.
#[test]
fn a_member_that_is_far_behind_is_sent_what_is_no_more_in_memory() {
    let mut network = led_by_the_first();
    network.die(2, false);
    store(&mut network, 0, 8, 400_000);
    network.come_back(2);
    network.until(200, "the same log", |network| {
        network.members[2].written.committed == network.members[0].written.committed
    });
    assert_eq!(network.members[2].written.entries, network.members[0].written.entries);
}

/// The library would ask for a snapshot, and ends without one.
#[test]
fn a_member_that_lacks_what_is_gone_waits() {
    let mut network = led_by_the_first();
    network.die(2, false);
    store(&mut network, 0, 5, 10);
    network.consensus(0).forget_before(5);
    network.come_back(2);
    let had = network.members[2].written.entries.len();
    for _ in 0..60 {
        network.tick();
        (0..3).for_each(|member| network.persist(member, usize::MAX));
    }
    assert_eq!(network.members[2].written.entries.len(), had);
    assert_eq!(network.consensus(0).lacking(), [peer(2)], "who drives the leader hears of it");
    assert_eq!(network.consensus(0).lacking(), [], "until the next answer");
    assert!(network.consensus(0).can_propose() && network.propose(0, b"on").is_some(), "the others go on");
}

/// With its defaults the library sends one entry in each message.
#[test]
fn entries_share_messages() {
    let mut network = led_by_the_first();
    network.frames.clear();
    let first = network.consensus(0).status().last + 1;
    for index in first..first + 1_000 {
        network.consensus(0).propose(index, Bytes::from("x")).expect("it leads");
    }
    network.settle(0);
    assert_eq!(network.frames.len(), 2, "one for each of the others");
    network.die(2, false);
    network.until(60, "all", |network| network.members[0].written.committed > 1_000);
    network.come_back(2);
    let mut sent = 0;
    network.until(100, "the same log", |network| {
        sent += network.frames.len();
        network.members[2].written.committed > 1_000
    });
    assert!(sent < 100, "{sent} frames");
}

/// Two answers between which nobody looks: one that lets a member know of a commit, and its own
/// that it lacks what is before. The library puts both into one message.
#[test]
fn a_message_says_what_is_before_its_entries() {
    let mut network = led_by_the_first();
    network.die(2, false);
    store(&mut network, 0, 5, 10);
    let last = network.consensus(0).status().last;
    let of_the_dead = message(&mut network, RaftMessageKind::AppendAnswer, 0, 0);
    let of_the_dead = RaftMessage { from: peer(2), ..of_the_dead };
    network.consensus(0).step(RaftMessage { index: 1, ..of_the_dead.clone() }).expect("a sound group");
    while network.consensus(0).ready().expect("a sound group").is_some() {}
    network.consensus(0).propose(last + 1, Bytes::from("x")).expect("it leads");
    while network.consensus(0).ready().expect("a sound group").is_some() {}
    let other = message(&mut network, RaftMessageKind::AppendAnswer, 1, 0);
    network.consensus(0).persisted(u64::MAX).expect("a sound group");
    network.consensus(0).step(RaftMessage { index: last + 1, ..other }).expect("a sound group");
    let refusal = RaftMessage { index: last, is_refused: true, reject_hint: 1, log_term: 1, ..of_the_dead };
    network.consensus(0).step(refusal).expect("a sound group");
    let mut entries = 0;
    while let Some(ready) = network.consensus(0).ready().expect("a sound group") {
        for message in ready.now.iter().filter(|message| message.to == peer(2)) {
            entries += message.entries.len();
            let first = message.entries.first().map_or(message.index + 1, |entry| entry.index);
            assert_eq!(first, message.index + 1, "{message:?}");
        }
    }
    assert!(entries > 0, "it is sent what it lacks");
}

/// An entry is written when it is proposed; the library would count it and refuse.
#[test]
fn whoever_can_propose_can_propose_the_largest_message() {
    let mut network = led_by_the_first();
    while network.consensus(0).can_propose() {
        network.propose(0, &[0; (1 << 20) - 1_000]).expect("it can");
    }
    network.until(60, "room", |network| network.consensus(0).can_propose());
    network.propose(0, &vec![0; 64 << 20]).expect("it can");
    assert!(!network.consensus(0).can_propose());
    network.until(60, "room", |network| network.consensus(0).can_propose());
}

/// The library puts all that is under way to a member into one message.
#[test]
fn messages_are_not_large() {
    let mut network = led_by_the_first();
    network.die(2, false);
    network.frames.clear();
    for index in 0..200 {
        network.propose(0, format!("{index:>9000}").as_bytes()).expect("it leads");
    }
    network.come_back(2);
    let mut largest = 0;
    network.until(100, "the same log", |network| {
        largest = network.frames.iter().map(|(_, frame)| frame.len()).max().unwrap_or(0).max(largest);
        network.members[2].written.committed == network.members[0].written.committed
            && network.members[2].written.committed > 200
    });
    assert!((200_000..300_000).contains(&largest), "{largest} bytes");
    assert_eq!(network.members[2].written.entries, network.members[0].written.entries);
}

/// Entries that a leader has proposed may be committed by the next one.
#[test]
fn what_a_lost_leader_proposed_can_be_committed_still() {
    let mut network = led_by_the_first();
    let index = network.propose(0, b"late").expect("it leads");
    network.now += 5;
    network.deliver();
    (1..3).for_each(|member| network.persist(member, usize::MAX));
    network.die(0, true);
    network.until(100, "another leader", |network| network.leader().is_some());
    network.until(100, "the entry", |network| network.committed.contains_key(&index));
    assert_eq!(&*network.committed[&index].data, b"late");
}

/// A member that may have lost votes and entries that it confirmed neither votes nor leads.
#[test]
fn an_amnesiac_member_takes_entries_and_does_not_vote() {
    let mut network = led_by_the_first();
    network.die(1, false);
    come_back_amnesiac(&mut network, 1);
    store(&mut network, 0, 1, 10);
    // Nobody knows of a leader that it would protect.
    (0..3).for_each(|member| network.die(member, false));
    network.frames.clear();
    come_back_amnesiac(&mut network, 1);
    network.come_back(2);
    for _ in 0..100 {
        network.tick();
        (0..3).for_each(|member| network.persist(member, usize::MAX));
        assert_eq!(network.consensus(1).status().role, RaftRole::Follower, "it does not stand for election");
        assert_eq!(network.leader(), None, "one vote is no majority");
    }
    network.consensus(1).recovered();
    network.until(100, "a leader", |network| network.leader().is_some());
}

fn come_back_amnesiac(network: &mut Network, at: usize) {
    let (disk, voters) = (network.members[at].persisted.clone(), network.voters.clone());
    let consensus = open(peer(at), &voters, &disk, 7, true);
    network.members[at].consensus = Some(consensus);
    network.members[at].life += 1;
}

/// The library ends at an entry that contradicts one that is committed, and where counting ends.
#[test]
fn a_member_that_is_told_nonsense_goes_on_or_is_broken_alone() {
    let mut network = led_by_the_first();
    let append = message(&mut network, RaftMessageKind::Append, 0, 1);
    let entry = |index: u64, term: u64| RaftEntry { index, term, data: Bytes::from("x") };
    let nonsense = [
        RaftMessage { index: 1, log_term: 1, entries: vec![entry(3, 1)], ..append.clone() },
        RaftMessage { index: 1, log_term: 9, ..append.clone() },
        RaftMessage { index: u64::MAX, log_term: 1, ..append.clone() },
        RaftMessage { term: u64::MAX, ..append.clone() },
        RaftMessage { term: 0, ..append.clone() },
        // Who asks may be a member that this one has not heard of; who answers was asked.
        RaftMessage { from: peer(7), kind: RaftMessageKind::AppendAnswer, ..append.clone() },
        RaftMessage { to: peer(2), ..append.clone() },
        RaftMessage { index: 2, log_term: 1, entries: vec![entry(3, 0)], ..append.clone() },
        RaftMessage { kind: RaftMessageKind::Vote, entries: vec![entry(1, 1)], ..append.clone() },
    ];
    let before = network.consensus(1).status();
    for message in nonsense {
        network.consensus(1).step(message.clone()).expect("dropped");
        assert_eq!(network.consensus(1).status(), before, "{message:?}");
    }
    let term = append.term + 1;
    let contradiction = RaftMessage { term, entries: vec![entry(1, term)], ..append };
    let broken = network.consensus(1).step(contradiction).expect_err("one of the two is wrong for good");
    assert!(broken.reason.contains("has another entry 1"), "{}", broken.reason);
    assert_eq!(network.consensus(1).tick(), Err(broken), "it stays so");
    network.die(1, false);
    network.come_back(1);
    store(&mut network, 0, 1, 10);
}

fn any_message() -> impl Strategy<Value = RaftMessage> {
    let kinds = RaftMessageKind::ALL;
    let numbers = proptest::array::uniform6(0_u64..9);
    let terms = proptest::collection::vec(0_u64..3, 0..4);
    (0..kinds.len(), 0_usize..3, numbers, any::<(bool, bool)>(), terms).prop_map(
        move |(kind, from, numbers, (is_refused, is_transfer), terms)| {
            let [term, index, log_term, commit, commit_term, reject_hint] = numbers;
            let mut before = log_term;
            let entries = (index + 1..).zip(terms).map(|(index, more)| {
                before += more;
                RaftEntry { index, term: before, data: Bytes::from("x") }
            });
            let entries = entries.filter(|_| kinds[kind] == RaftMessageKind::Append).collect();
            let (from, to, kind) = (peer(from), peer(1), kinds[kind]);
            RaftMessage {
                kind,
                from,
                to,
                term,
                index,
                log_term,
                commit,
                commit_term,
                is_refused,
                reject_hint,
                is_transfer,
                entries,
            }
        },
    )
}

/// A leader would send such a member nothing any more.
#[test]
fn a_member_that_confirms_more_than_there_is_gets_entries_still() {
    let mut network = led_by_the_first();
    for other in [1, 2] {
        let answer = message(&mut network, RaftMessageKind::AppendAnswer, other, 0);
        network.consensus(0).step(RaftMessage { index: 100, ..answer }).expect("dropped");
    }
    network.settle(0);
    store(&mut network, 0, 1, 10);
}

/// A message of an earlier leader comes late, with an entry that was taken back meanwhile.
#[test]
fn a_late_message_contradicts_nobody() {
    let voters: Vec<_> = (0..3).map(peer).collect();
    let entries = vec![RaftEntry { index: 1, term: 2, data: Bytes::from("x") }];
    let disk = Disk { vote: Vote { term: 2, voted_for: None }, entries, committed: 1 };
    let mut member = open(peer(1), &voters, &disk, 1, false);
    let entries = vec![RaftEntry { index: 1, term: 1, data: Bytes::from("y") }];
    let late = RaftMessage { kind: RaftMessageKind::Append, entries, ..vote(RaftMessageKind::Vote) };
    member.step(late).expect("dropped");
}

/// A vote for the member `1` of the first election.
fn vote(kind: RaftMessageKind) -> RaftMessage {
    RaftMessage {
        kind,
        from: peer(0),
        to: peer(1),
        term: 1,
        index: 0,
        log_term: 0,
        commit: 0,
        commit_term: 0,
        is_refused: false,
        reject_hint: 0,
        is_transfer: false,
        entries: Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    /// Whatever a member is told, the library does not end: it goes on, or says who contradicts it.
    #[test]
    fn no_message_ends_the_library(leads in any::<bool>(), messages in proptest::collection::vec((any_message(), any::<bool>()), 1..40)) {
        let voters: Vec<_> = (0..3).map(peer).collect();
        let mut member = open(peer(1), &voters, &Disk::default(), 1, false);
        let mut written: Vec<RaftEntry> = Vec::new();
        let elected = [RaftMessageKind::PreVoteAnswer, RaftMessageKind::VoteAnswer].map(|kind| (vote(kind), true));
        if leads {
            member.campaign().expect("a sound member");
        }
        for (message, persists) in elected.into_iter().filter(|_| leads).chain(messages) {
            let text = format!("{message:?}");
            let mut told = member.step(message);
            if told.is_ok() && persists {
                told = (0..4).try_for_each(|_| member.tick());
            }
            while let Ok(Some(ready)) = told.clone().and_then(|()| member.ready()) {
                if let Some(first) = ready.append.first() {
                    written.truncate(first.index as usize - 1);
                    written.extend(ready.append.iter().cloned());
                }
                for fetch in member.wanted() {
                    let found = written[fetch.from as usize - 1..fetch.to as usize - 1].to_vec();
                    told = member.fetched(fetch.id, found);
                }
                if persists {
                    told = told.and_then(|()| member.persisted(ready.number));
                }
            }
            match told {
                Ok(()) => {}
                Err(broken) if broken.reason.contains("has another entry") => break,
                Err(broken) => prop_assert!(false, "{} at {text}", broken.reason),
            }
        }
    }
}
