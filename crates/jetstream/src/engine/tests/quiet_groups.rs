//! Groups in which nothing happens: their members rest, and go on when something does.

use super::meta_cluster::MetaCluster;

#[test]
fn a_group_in_which_nothing_happens_rests_and_goes_on() {
    let mut cluster = MetaCluster::new(3);
    let first = cluster.elect();
    cluster.publish(first, "one");
    cluster.pass(100);
    assert!((0..3).all(|number| cluster.rests(number)), "nothing happens");
    let before = cluster.carried;
    cluster.pass(40);
    // Four words and four answers a second between each two servers.
    assert!(cluster.carried - before <= 2 * 6 * 2 * 5, "{} frames", cluster.carried - before);
    assert_eq!(cluster.leader(), Some(first));
    cluster.publish(first, "two");
    assert_eq!(cluster.acks(), 2);
    cluster.pass(100);
    assert!((0..3).all(|number| cluster.rests(number)), "it rests again");
    cluster.kill(first);
    for _ in 0..70 {
        cluster.pass(1);
    }
    let second = cluster.leader().expect("the loss of a server wakes its groups");
    cluster.publish(second, "three");
    assert_eq!(cluster.acks(), 3);
    cluster.begin(first);
    cluster.pass(160);
    assert_eq!(cluster.contents(), [(3, 3); 3]);
    assert!((0..3).all(|number| cluster.rests(number)), "with all of them");
}

#[test]
fn a_member_that_lacks_something_does_not_rest() {
    let mut cluster = MetaCluster::new(3);
    let leader = cluster.elect();
    let away = (leader + 1) % 3;
    cluster.pass(10);
    cluster.isolated.push(away);
    cluster.publish(leader, "one");
    cluster.pass(100);
    assert!(!cluster.rests(leader) && !cluster.rests(away));
    cluster.isolated.clear();
    cluster.pass(160);
    assert!((0..3).all(|number| cluster.rests(number)));
    assert_eq!(cluster.contents(), [(1, 1); 3]);
}

#[test]
fn a_leader_whose_word_that_it_rests_is_lost_leads_on() {
    let begin = || {
        let mut cluster = MetaCluster::new(3);
        let first = cluster.elect();
        cluster.publish(first, "one");
        (cluster, first)
    };
    let (mut cluster, first) = begin();
    let beats = (1..).find(|_| {
        cluster.pass(1);
        cluster.rests(first)
    });
    let (mut cluster, first) = begin();
    cluster.pass(beats.expect("it rests") - 1);
    cluster.isolated.push(first);
    cluster.pass(1);
    cluster.isolated.clear();
    assert!((0..3).all(|number| cluster.rests(number) == (number == first)), "the others have not heard it");
    // Less than an election takes.
    cluster.pass(16);
    assert!(!cluster.rests(first), "it is asked for a word");
    for _ in 0..160 {
        cluster.pass(1);
        assert_eq!(cluster.leader(), Some(first), "nobody else is elected");
    }
    assert!((0..3).all(|number| cluster.rests(number)), "with another word");
}
