//! Servers that were away, and those that were removed and run still.

use super::meta_cluster::MetaCluster;
use myelin_stdx::sync::lock;

fn config(replicas: usize) -> String {
    format!(
        r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas},"allow_direct":true}}"#
    )
}

/// The answer of one server to a direct get, if it gives one.
fn direct_get(cluster: &mut MetaCluster, number: usize) -> Option<String> {
    let house = cluster.house(number);
    let heard = house.record("gets");
    house.say("$JS.API.DIRECT.GET.S", "gets", r#"{"seq":1}"#);
    cluster.settle();
    std::mem::take(&mut *lock(&heard)).into_iter().next().map(|heard| heard.payload)
}

/// While its server is away a stream without replicas is removed and made anew elsewhere.
#[test]
fn a_stream_that_was_made_anew_elsewhere_is_not_served_by_a_server_that_was_away() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let leader = cluster.meta_leader().expect("it is there");
    // It is not to go away with who decides.
    let named = |name: &str| config(1).replace('S', name);
    let (name, away) = ["S", "T", "U"]
        .into_iter()
        .find_map(|name| {
            cluster.answer_within(200, &format!("STREAM.CREATE.{name}"), &named(name));
            let holder = cluster.holders(name)[0];
            (holder != leader).then_some((name, holder))
        })
        .expect("not all streams are put on one server");
    cluster.kill(away);
    cluster.pass(60);
    let removed = cluster.answer_within(200, &format!("STREAM.DELETE.{name}"), "");
    assert!(removed.contains(r#""success":true"#), "{removed}");
    let made = cluster.answer_within(200, &format!("STREAM.CREATE.{name}"), &named(name));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let elsewhere = cluster.holders(name);
    assert!(elsewhere.len() == 1 && elsewhere != [away], "{elsewhere:?}");
    cluster.begin(away);
    cluster.wait_until("one stream", |cluster| cluster.holders(name) == elsewhere);
    cluster.pass(40);
    assert_eq!(cluster.holders(name), elsewhere);
}

/// Its replicas stand still: a get would be as old as its removal.
#[test]
fn a_server_that_was_removed_answers_no_direct_gets_until_it_is_a_member_again() {
    let mut cluster = MetaCluster::founded_by(4, 4);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.answer_within(200, "STREAM.CREATE.S", &config(3));
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    let meta_leader = cluster.meta_leader().expect("it is there");
    let follows = |&number: &usize| number != leader && number != meta_leader;
    let gone = cluster.holders("S").into_iter().find(follows).expect("there are three");
    cluster.wait_until("an answer", |cluster| direct_get(cluster, gone).is_some_and(|get| get == "one"));
    cluster.remove_server(&format!("n{}", gone + 1)).expect("all are there");
    cluster.wait_until("it is out", |cluster| {
        cluster.house(gone).jetstream.meta().expect("it has one").is_out()
    });
    assert_eq!(direct_get(&mut cluster, gone), None);
}

/// As instances of an application do at their start.
#[test]
fn all_who_make_the_same_stream_at_once_are_answered() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    (0..4).for_each(|_| cluster.ask("STREAM.CREATE.S", &config(3)));
    let mut answers = Vec::new();
    cluster.wait_until("four answers", |cluster| {
        answers.extend(cluster.take_answers());
        answers.len() >= 4
    });
    let made = answers.iter().filter(|answer| answer.contains(r#""did_create":true"#)).count();
    assert_eq!((answers.len(), made), (4, 1), "{answers:?}");
}
