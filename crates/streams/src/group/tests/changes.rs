//! Members of a stream's group come and go.

use super::group::Group;
use super::replica::Replica;
use crate::group::Persistence;
use myelin_disk::faulty::Survival;
use myelin_replica::Peer;
use myelin_stdx::rng::Rng;

#[test]
fn a_group_grows_and_shrinks_with_its_messages() {
    let mut group = Group::with_others(1, 4, Persistence::Written, 21);
    group.elect(0);
    group.publish(0, "a", "of one");
    group.until_quiet();
    assert_eq!(group.replicas[0].said.len(), 1);
    group.change_to(&[0, 1, 2]);
    group.publish(0, "b", "of three");
    group.until_quiet();
    group.change_to(&[0, 1, 2, 3, 4]);
    group.kill(0);
    let leader = group.elect(4);
    group.publish(leader, "c", "of five");
    group.until_quiet();
    group.beat();
    let expected = [(1, "of one".to_owned()), (2, "of three".to_owned()), (3, "of five".to_owned())];
    for replica in &group.replicas[1..] {
        assert_eq!(replica.payloads(), expected, "replica {}", replica.number);
    }
    group.change_to(&[3]);
    (1..5).filter(|&other| other != 3).for_each(|other| group.kill(other));
    group.kill(3);
    group.come_back(3);
    let leader = group.elect_anyone();
    assert_eq!(leader, 3, "its own log says that it is alone");
    group.publish(3, "d", "of one again");
    group.until_quiet();
    assert_eq!(group.replicas[3].payloads().len(), 4);
}

/// A note that is taken back was never there.
#[test]
fn a_change_that_nobody_heard_of_is_none() {
    let mut group = Group::with_others(3, 1, Persistence::Written, 22);
    group.elect(0);
    group.beat();
    group.isolate(0);
    let wanted = group.want(&[0, 1, 2, 3]);
    group.advance(0);
    assert!(group.replicas[0].core().store().decided_note(b"group.members").is_some());
    (1..4).for_each(|other| group.replicas[other].member().want_members(&[]));
    group.elect(1);
    group.beat();
    group.replicas[0].member().want_members(&[]);
    group.join_all();
    group.beat();
    for number in 0..3 {
        let replica = &mut group.replicas[number];
        assert!(replica.core().store().decided_note(b"group.members").is_none(), "replica {number}");
        assert!(!replica.member().has_members(&wanted));
    }
    group.change_to(&[0, 1, 2, 3]);
}

/// Members that may have lost entries vote for nobody yet.
#[test]
fn no_majority_needs_who_may_have_lost_entries() {
    let mut group = Group::with_others(3, 1, Persistence::Written, 23);
    group.elect(0);
    group.publish(0, "a", "of three");
    let peers: Vec<Peer> = group.replicas.iter().map(Replica::peer).collect();
    let forget = |group: &mut Group, forgetful: &[usize]| {
        let forgetful = forgetful.iter().map(|&number| peers[number]);
        group.replicas[0].member().set_forgetful(forgetful);
    };
    let members = |group: &mut Group| group.replicas[0].member().consensus().members().clone();
    let beat = |group: &mut Group| {
        (0..20).for_each(|_| {
            group.want(&[1, 2, 3]);
            group.beat();
        });
    };
    forget(&mut group, &[3]);
    beat(&mut group);
    let learning = members(&mut group);
    assert_eq!((learning.is_joint(), &*learning.learners), (false, &peers[3..]));
    forget(&mut group, &[1, 2]);
    beat(&mut group);
    assert!(members(&mut group).is_joint() && group.replicas[0].leads(), "it hands over to nobody");
    forget(&mut group, &[2]);
    beat(&mut group);
    assert!(!group.replicas[0].leads(), "two of three are enough");
    group.change_to(&[1, 2, 3]);
}

/// The one that decides alone loses power in the middle of a change, at each of its steps: others
/// know of nothing that it has lost.
#[test]
fn who_is_a_majority_alone_tells_nobody_what_its_power_can_take() {
    for (from, wanted) in [(1, &[0, 1, 2][..]), (3, &[0])] {
        for steps in 0..24 {
            let mut group = Group::with_others(from, 3 - from, Persistence::Written, 23);
            group.elect(0);
            group.beat();
            group.sync(0);
            group.are_syncs_held = true;
            group.want(wanted);
            for step in 0..steps {
                group.publish(0, "a", &format!("message {step}"));
                group.until_quiet();
                if step % 3 == 2 {
                    group.tick(0);
                    group.sync(0);
                }
            }
            group.lose_power(0, Survival::None);
            group.are_syncs_held = false;
            group.come_back(0);
            group.change_to(wanted);
            group.beat();
            let first = group.replicas[0].payloads();
            for &number in wanted {
                assert_eq!(
                    group.replicas[number].payloads(),
                    first,
                    "{from}, {steps} steps, replica {number}"
                );
            }
        }
    }
}

/// Members change at random, end and lose power: what was acknowledged is on all that are members
/// at the end.
#[test]
fn random_changes_lose_no_message() {
    for seed in 0..12 {
        let persistence = if seed % 2 == 0 { Persistence::Synced } else { Persistence::Written };
        let mut group = Group::with_others(3, 2, persistence, seed);
        let mut rng = Rng::seeded(seed ^ 0xc4a6e5);
        group.loss = 30;
        let mut wanted = vec![0, 1, 2];
        for step in 0..400 {
            let number = rng.below(5) as usize;
            match rng.below(60) {
                0 => {
                    let size = 1 + rng.below(5) as usize;
                    wanted = (0..5).collect();
                    while wanted.len() > size {
                        wanted.swap_remove(rng.below(wanted.len() as u64) as usize);
                    }
                }
                1 if persistence == Persistence::Synced => group.lose_power(number, Survival::None),
                1 => group.kill(number),
                2 | 3 => group.come_back_if_dead(number),
                4..12 => {
                    let leads = |number: &usize| group.replicas[*number].leads();
                    if let Some(leader) = (0..5).find(leads) {
                        group.publish(leader, "a", &format!("{seed} {step}"));
                    }
                }
                12..20 => {
                    group.now += 50_000_000;
                    (0..5).for_each(|number| group.tick(number));
                }
                20 | 21 => {
                    group.want(&wanted);
                }
                _ => (0..4).for_each(|_| group.deliver_any()),
            }
        }
        group.loss = 0;
        (0..5).for_each(|number| group.come_back_if_dead(number));
        group.change_to(&wanted);
        group.beat();
        let said: usize = group.replicas.iter().map(|replica| replica.said.len()).sum();
        let first = group.replicas[wanted[0]].payloads();
        assert!(first.len() >= said.min(50), "seed {seed}: {} of {said}", first.len());
        for &number in &wanted {
            assert_eq!(group.replicas[number].payloads(), first, "seed {seed}, replica {number}");
        }
    }
}
