//! Consumers of a group: what a leader decides and what its followers apply, and the image between
//! two lives.

use std::num::NonZeroU64;

use myelin_disk::faulty::{DiskFault, FaultyDisk, Survival};
use myelin_stdx::rng::Rng;

use super::*;
use crate::consumer::image::LEAST_DUE;
use crate::record::ConsumerRecord;

type Everything = BTreeMap<ConsumerId, (String, AckRules, Vec<u8>, ConsumerState)>;

fn applied(consumers: &GroupConsumers) -> Everything {
    let flat = |(name, rules, config, state): (&str, AckRules, &[u8], &ConsumerState)| {
        (name.to_owned(), rules, config.to_owned(), state.clone())
    };
    consumers.iter().map(|(id, consumer)| (id, flat(consumer))).collect()
}

/// Does something to the consumers of a leader.
fn decide(consumers: &mut Consumers, rng: &mut Rng) {
    let ids: Vec<ConsumerId> = consumers.iter().map(|(id, _)| id).collect();
    let rules = AckRules {
        acks: [AckPolicy::Explicit, AckPolicy::Explicit, AckPolicy::All, AckPolicy::None]
            [rng.below(4) as usize],
        max_deliver: NonZeroU64::new(rng.below(4)),
    };
    if ids.is_empty() || (ids.len() < 6 && rng.below(12) == 0) {
        let name = format!("c{}", rng.below(1 << 40));
        consumers.create(&name, rules, &[rng.below(256) as u8]).expect("the name is new");
        return;
    }
    let id = ids[rng.below(ids.len() as u64) as usize];
    let mut byte = || rng.below(256) as u8;
    let (one, other) = (byte(), byte());
    let event = match rng.below(40) {
        0 => return drop(consumers.remove(id).expect("it is there")),
        1 => return consumers.update(id, rules, &[one]).expect("it is there"),
        2 => Event::Forget(one),
        3 => Event::DropBelow(one),
        4 => Event::Skip(one % 8),
        5 => Event::CutAbove(one),
        6 => Event::Reset(one),
        7 => Event::ForgetCounts(one),
        8..20 => Event::Acknowledge(one, other),
        20..23 => Event::AcknowledgeAny(one, other),
        23..28 => Event::Redeliver(one),
        _ => Event::Deliver(one),
    };
    let delta = event.delta(consumers.state(id).expect("it is there"));
    consumers.apply_one(id, delta).expect("it is there");
}

#[test]
fn followers_have_what_their_leader_had_at_the_same_index() {
    for seed in 0..60 {
        let mut rng = Rng::seeded(seed);
        let mut leader = GroupConsumers::in_memory(0);
        let mut follower = GroupConsumers::in_memory(0);
        let mut decided = leader.lead();
        let mut log: Vec<(u64, Vec<ConsumerRecord<'static>>, Everything)> = Vec::new();
        let mut done = [0, 0];
        for _ in 0..400 {
            decide(&mut decided, &mut rng);
            if rng.below(5) == 0 {
                let records = decided.take_records();
                log.push((log.len() as u64 + 1, records, everything(&decided)));
            }
            for (consumers, done) in [&mut leader, &mut follower].into_iter().zip(&mut done) {
                while *done < log.len() && rng.below(4) == 0 {
                    let (index, records, then) = &log[*done];
                    consumers.apply(*index, records).expect("it fits");
                    assert_eq!(applied(consumers), *then, "seed {seed}, index {index}");
                    *done += 1;
                }
            }
            if rng.below(100) == 0 {
                // Another one leads: what was decided and is not committed is nothing.
                log.truncate(done[0].max(done[1]));
                for (consumers, done) in [&mut leader, &mut follower].into_iter().zip(&mut done) {
                    log[*done..].iter().for_each(|(index, records, _)| {
                        consumers.apply(*index, records).expect("it fits");
                    });
                    *done = log.len();
                }
                decided = follower.lead();
                assert_eq!(everything(&decided), applied(&leader), "seed {seed}");
            }
        }
    }
}

#[test]
fn what_does_not_fit_is_told_and_what_was_applied_is_not_applied_again() {
    let mut leader = GroupConsumers::in_memory(0).lead();
    let id = leader.create("C", AckRules::default(), b"").expect("it is new");
    leader.apply(id, &[delivered(1, 1), delivered(2, 2)]).expect("it is there");
    let first = leader.take_records();
    leader.apply(id, &[acknowledged(1, 1)]).expect("it is there");
    let second = leader.take_records();
    assert!(leader.take_records().is_empty(), "it is told once");
    let mut follower = GroupConsumers::in_memory(0);
    assert_eq!(follower.apply(2, &second), Err(Diverged { index: 2, consumer: id }), "nobody knows it");
    follower.apply(1, &first).expect("it fits");
    follower.apply(1, &first).expect("it was applied before");
    follower.apply(2, &second).expect("it fits");
    assert_eq!(applied(&follower), everything(&leader));
    assert!(follower.apply(3, &second).is_err(), "it is acknowledged already");
    let nonsense = ConsumerRecord { consumer: id.0, kind: 9, payload: Vec::new().into() };
    assert!(GroupConsumers::in_memory(0).apply(1, &[nonsense]).is_err());
}

#[test]
fn a_position_is_released_when_its_proposal_is_committed() {
    let mut applied = GroupConsumers::in_memory(0);
    let mut leader = Consumers::in_memory();
    leader.create("own", AckRules::default(), b"").expect("it is new");
    applied.lead_with(&mut leader);
    assert!(leader.is_in_group() && leader.is_empty(), "the group has none");
    let at = |leader: &mut Consumers| leader.flush(0).expect("nothing is written").expect("a group");
    let begin = at(&mut leader);
    assert!(leader.is_released(begin), "nothing was decided yet");
    let id = leader.create("C", AckRules::default(), b"").expect("it is new");
    let defined = at(&mut leader);
    assert!(leader.is_dirty() && begin < defined);
    let records = leader.take_records();
    assert_eq!((at(&mut leader), leader.is_dirty()), (defined, false), "nothing was decided since");
    let proposal = leader.proposal();
    leader.apply(id, &[delivered(1, 1)]).expect("it is there");
    let second = at(&mut leader);
    assert!(second > defined);
    assert!(!leader.is_released(defined) && !leader.is_released(second));
    applied.apply(1, &records).expect("it fits");
    leader.committed(proposal);
    assert!(leader.is_released(defined) && !leader.is_released(second));
    assert!(leader.take_records().len() == 1 && !leader.is_released(second), "it is not committed");
    // Another one leads meanwhile, and has not decided that.
    applied.lead_with(&mut leader);
    assert_eq!(everything(&leader), super::group::applied(&applied));
    assert!(leader.is_released(defined) && !leader.is_released(second));
    let begin = at(&mut leader);
    assert!(leader.is_released(begin), "it has decided nothing");
    leader.apply(id, &[delivered(1, 1)]).expect("it is there");
    let third = at(&mut leader);
    assert!(third > second, "no number is given twice");
    assert_eq!(leader.take_records().len(), 1);
    leader.committed(leader.proposal());
    assert!(leader.is_released(third));
}

#[test]
fn a_number_that_somebody_knows_does_not_go_back() {
    let mut leader = GroupConsumers::in_memory(0).lead();
    let begin = leader.flush(0).expect("nothing is written").expect("a group");
    let id = leader.create("C", AckRules::default(), b"").expect("it is new");
    let known = leader.flush(0).expect("nothing is written").expect("a group");
    leader.remove(id).expect("it is there");
    assert_eq!(leader.flush(0).expect("nothing is written"), Some(known), "though nothing is left");
    assert!(leader.is_dirty() && leader.is_released(begin) && !leader.is_released(known));
    assert_eq!((leader.take_records().len(), leader.proposal()), (0, known.end));
    leader.committed(known.end);
    assert!(leader.is_released(known) && !leader.is_dirty());
}

#[test]
fn an_image_is_as_of_an_index() {
    for cipher in [None, Some(CipherKind::ChaCha20Poly1305)] {
        let disk = FaultyDisk::new(1);
        let (mut consumers, _) =
            GroupConsumers::open(place(Arc::new(disk.clone()), cipher)).expect("a healthy disk");
        let mut leader = consumers.lead();
        let mut rng = Rng::seeded(9);
        (0..200).for_each(|_| decide(&mut leader, &mut rng));
        consumers.apply(7, &leader.take_records()).expect("it fits");
        assert_eq!(write_image(&mut consumers).expect("a healthy disk"), 7);
        assert!(consumers.take_obsolete().is_empty());
        decide(&mut leader, &mut rng);
        consumers.pass(8);
        assert_eq!(write_image(&mut consumers).expect("a healthy disk"), 8);
        let before = consumers.take_obsolete();
        assert_eq!(before.len(), 1, "the one before");
        let (again, report) = reopen(&disk.power_cycle(Survival::None), cipher);
        assert!(report.bad.is_empty());
        assert_eq!((again.applied(), applied(&again)), (8, applied(&consumers)));
        assert_eq!(everything(&again.lead()).len(), applied(&consumers).len());
    }
}

fn write_image(consumers: &mut GroupConsumers) -> std::io::Result<u64> {
    let drawn = consumers.draw_image().expect("it has files");
    assert!(consumers.draw_image().is_none() && !consumers.image_due(), "one at a time");
    consumers.image_written(drawn.write())
}

/// Leader of a group, with the index of its last entry.
struct GroupLeader {
    decided: Consumers,
    rng: Rng,
    index: u64,
}

impl GroupLeader {
    /// Has consumers apply entries until it is enough. Answers the index of the last one.
    fn go_on(&mut self, consumers: &mut GroupConsumers, is_enough: impl Fn(&GroupConsumers) -> bool) -> u64 {
        while !is_enough(consumers) {
            (0..200).for_each(|_| decide(&mut self.decided, &mut self.rng));
            self.index += 1;
            consumers.apply(self.index, &self.decided.take_records()).expect("it fits");
        }
        self.index
    }
}

fn with_leader(disk: &FaultyDisk) -> (GroupConsumers, GroupLeader) {
    let (consumers, _) = GroupConsumers::open(place(Arc::new(disk.clone()), None)).expect("a healthy disk");
    let leader = GroupLeader { decided: consumers.lead(), rng: Rng::seeded(3), index: 0 };
    (consumers, leader)
}

/// The group goes on while an image is written: what it does not know is still to be written.
#[test]
fn an_image_is_of_the_moment_in_which_it_was_drawn() {
    let disk = FaultyDisk::new(1);
    let (mut consumers, mut leader) = with_leader(&disk);
    let before = leader.go_on(&mut consumers, GroupConsumers::image_due);
    let known = applied(&consumers);
    let drawn = consumers.draw_image().expect("it has files");
    // Twice as much comes meanwhile.
    let behind = leader.go_on(&mut consumers, |consumers| consumers.behind_image() >= 3 * LEAST_DUE);
    assert_eq!(consumers.image_written(drawn.write()).expect("a healthy disk"), before);
    assert!(consumers.behind_image() >= LEAST_DUE && behind > before);
    let (again, _) = reopen(&disk, None);
    assert_eq!((again.applied(), applied(&again)), (before, known));
}

/// A disk that is full is not written to with each change.
#[test]
fn an_image_that_could_not_be_written_is_due_again_later() {
    let disk = FaultyDisk::new(1);
    let (mut consumers, mut leader) = with_leader(&disk);
    let first = leader.go_on(&mut consumers, GroupConsumers::image_due);
    assert!(first > 1);
    let drawn = consumers.draw_image().expect("it has files");
    disk.set_capacity(Some(0));
    assert!(consumers.image_written(drawn.write()).is_err());
    disk.set_capacity(None);
    let last = leader.go_on(&mut consumers, GroupConsumers::image_due);
    assert!(last - first > 1, "not at once");
    assert_eq!(consumers.applied(), last);
    assert_eq!(write_image(&mut consumers).expect("there is room"), last);
    assert_eq!(reopen(&disk, None).0.applied(), last);
}

fn reopen(disk: &FaultyDisk, cipher: Option<CipherKind>) -> (GroupConsumers, LogReport) {
    let entropy = Arc::new(SeededEntropy::new(77));
    GroupConsumers::open(place_as_is(Arc::new(disk.clone()), cipher, entropy)).expect("nothing is wrong")
}

/// A log of the consumers' own is where a group begins.
#[test]
fn a_log_becomes_an_image() {
    let disk = FaultyDisk::new(1);
    let (mut own, _) = Consumers::open(place(Arc::new(disk.clone()), None)).expect("a healthy disk");
    let id = own.create("C", AckRules::default(), b"config").expect("it is new");
    own.apply(id, &[delivered(1, 1)]).expect("it is there");
    own.flush(1).expect("a healthy disk");
    let (mut group, _) = reopen(&disk, None);
    assert_eq!((group.applied(), applied(&group)), (0, everything(&own)));
    group.pass(3);
    write_image(&mut group).expect("a healthy disk");
    let (again, _) = reopen(&disk, None);
    assert_eq!((again.applied(), applied(&again)), (3, everything(&own)));
}

/// Power fails at each point of writing images: the one before or the one after is there, and the
/// entries behind it lead to the same states.
#[test]
fn whatever_image_a_crash_leaves_the_log_leads_on_from_it() {
    let mut rng = Rng::seeded(4);
    let mut leader = GroupConsumers::in_memory(0).lead();
    let mut log = Vec::new();
    for index in 1..=6 {
        (0..30).for_each(|_| decide(&mut leader, &mut rng));
        log.push((index, leader.take_records()));
    }
    let live = |disk: &FaultyDisk| {
        let Ok((mut consumers, _)) =
            GroupConsumers::open(place_as_is(Arc::new(disk.clone()), None, Arc::new(SeededEntropy::new(5))))
        else {
            return;
        };
        for (index, records) in &log {
            consumers.apply(*index, records).expect("it fits");
            if index % 2 == 0 && write_image(&mut consumers).is_err() {
                return;
            }
            for obsolete in consumers.take_obsolete() {
                let _ = disk.remove_file(&obsolete.path);
            }
        }
    };
    let prepared = || {
        let disk = FaultyDisk::new(3);
        place(Arc::new(disk.clone()), None);
        disk
    };
    let (whole, first) = (prepared(), prepared().points());
    live(&whole);
    let mut met = std::collections::BTreeSet::new();
    for point in first..whole.points() {
        for fault in [DiskFault::Crash, DiskFault::Error(io::ErrorKind::Other)] {
            let disk = prepared();
            disk.fail_at(point, fault);
            live(&disk);
            for survival in [Survival::None, Survival::All, Survival::Random(point)] {
                let (mut consumers, report) = reopen(&disk.power_cycle(survival), None);
                assert!(report.bad.is_empty() && report.affected.is_empty(), "point {point}: {report:?}");
                met.insert(consumers.applied());
                for (index, records) in &log {
                    consumers.apply(*index, records).expect("it fits");
                }
                assert_eq!(applied(&consumers), everything(&leader), "point {point}, {survival:?}");
                write_image(&mut consumers).expect("another number is free");
            }
        }
    }
    assert_eq!(met.into_iter().collect::<Vec<_>>(), [0, 2, 4, 6]);
}
