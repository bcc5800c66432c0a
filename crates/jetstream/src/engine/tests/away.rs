//! Servers that were away, and those that were removed and run still.

use super::meta_cluster::MetaCluster;
use myelin_stdx::sync::lock;
use std::sync::atomic::Ordering::Relaxed;

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

/// No server would answer, and what was not answered would be done later.
#[test]
fn a_stream_is_not_changed_while_all_of_its_servers_are_away() {
    let mut cluster = MetaCluster::with_meta(3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let away = (cluster.meta_leader().expect("it is there") + 1) % 3;
    cluster.answer_within(200, "STREAM.CREATE.S", &on_server(away));
    let holder = cluster.elect();
    assert_eq!(holder, away);
    cluster.publish(away, "one");
    cluster.kill(away);
    cluster.pass(220);
    let limited = on_server(away).replacen('{', r#"{"max_age":1000000000,"#, 1);
    let answer = cluster.answer_within(200, "STREAM.UPDATE.S", &limited);
    assert!(answer.contains(r#""err_code":10118"#), "{answer}");
    cluster.begin(away);
    cluster.elect();
    cluster.pass(40);
    assert_eq!(cluster.house(away).contents("S"), (1, 1));
    let info = cluster.answer_within(200, "STREAM.INFO.S", "");
    assert!(info.contains(r#""max_age":0"#), "{info}");
    let answer = cluster.answer_within(200, "STREAM.UPDATE.S", &limited);
    assert!(answer.contains(r#""max_age":1000000000"#), "{answer}");
}

/// The configuration of a stream that lies on one server.
fn on_server(number: usize) -> String {
    config(1).replace('}', &format!(r#","placement":{{"tags":["node:{}"]}}}}"#, number + 1))
}

/// Has a stream of this configuration made and removed again.
fn make_and_remove(cluster: &mut MetaCluster, config: &str) {
    let made = cluster.answer_within(200, "STREAM.CREATE.S", config);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    remove(cluster);
}

fn remove(cluster: &mut MetaCluster) {
    let removed = cluster.answer_within(200, "STREAM.DELETE.S", "");
    assert!(removed.contains(r#""success":true"#), "{removed}");
}

/// Has a stream of this configuration, and a message in it, removed while one of its servers is
/// away, and others of its name so often that are made and removed again. Answers who was away, and
/// is there again.
fn come_back_after(cluster: &mut MetaCluster, config: impl Fn(usize) -> String, times: usize) -> usize {
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let leader = cluster.meta_leader().expect("it is there");
    let away = (leader + 1) % 3;
    cluster.answer_within(200, "STREAM.CREATE.S", &config(away));
    let led_by = cluster.elect();
    cluster.publish(led_by, "one");
    cluster.wait_until("it is stored", |cluster| cluster.house(away).contents("S") == (1, 1));
    // With the next assignment it is written down that this one is committed.
    cluster.answer_within(200, "STREAM.CREATE.T", &on_server(leader).replace('S', "T"));
    cluster.pass(4);
    cluster.kill(away);
    cluster.pass(60);
    remove(cluster);
    (0..times).for_each(|_| make_and_remove(cluster, &on_server(leader)));
    cluster.begin(away);
    assert_eq!(cluster.holders("S"), [away], "it knows of nothing yet");
    let committed = |cluster: &mut MetaCluster, number: usize| {
        cluster.house(number).jetstream.meta().expect("it has one").live().released()
    };
    // It looks at what was assigned when it has all of it.
    cluster.house(away).host.is_busy.store(true, Relaxed);
    let all = committed(cluster, leader);
    cluster.wait_until("everything", |cluster| committed(cluster, away) == all);
    cluster.house(away).host.is_busy.store(false, Relaxed);
    away
}

/// Of the meta stream it gets the last assignment of each name only: which streams are gone that
/// had the name before stands there.
#[test]
fn a_stream_of_which_another_one_was_made_and_removed_is_not_there_any_more() {
    for config in [on_server as fn(usize) -> String, |_| config(3)] {
        let mut cluster = MetaCluster::with_meta(3);
        let away = come_back_after(&mut cluster, config, 1);
        cluster.wait_until("it is removed", |cluster| cluster.holders("S").is_empty());
        cluster.pass(100);
        assert_eq!(cluster.holders("S"), [0; 0]);
        let info = cluster.answer_within(200, "STREAM.INFO.S", "");
        assert!(info.contains("stream not found"), "{info}");
        assert_eq!(cluster.take_answers(), [""; 0], "one answer");
        make_and_remove(&mut cluster, &on_server(away));
    }
}

/// The last assignment says of so many streams only which are gone.
#[test]
fn a_stream_is_gone_however_often_others_of_its_name_were_made_and_removed() {
    for config in [on_server as fn(usize) -> String, |_| config(3)] {
        let mut cluster = MetaCluster::with_meta(3);
        come_back_after(&mut cluster, config, 70);
        cluster.wait_until("it is removed", |cluster| cluster.holders("S").is_empty());
        cluster.pass(100);
        assert_eq!(cluster.holders("S"), [0; 0]);
        let names = cluster.answer_within(200, "STREAM.NAMES", "");
        assert!(names.contains(r#""streams":["T"]"#), "{names}");
    }
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
