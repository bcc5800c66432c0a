//! Servers come to the meta group, are removed from it, and come back.

use super::meta_cluster::MetaCluster;
use crate::engine::meta::{AnswerKind, Assignment};
use std::pin::pin;
use std::task::{Context, Waker};

fn config(replicas: usize) -> String {
    format!(r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas}}}"#)
}

/// The one answer to a request.
fn ask(cluster: &mut MetaCluster, subject: &str, body: &str) -> String {
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.answer_within(200, subject, body)
}

/// Members of the meta group that vote, as its leader counts them, and names that servers know.
fn members(cluster: &mut MetaCluster) -> (usize, Vec<String>) {
    let Some(leader) = cluster.meta_leader() else { return (0, Vec::new()) };
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    (meta.live().voters().len(), (*meta.servers()).clone())
}

fn wait_for_members(cluster: &mut MetaCluster, names: &[&str]) {
    cluster.wait_until(&format!("{names:?}"), |cluster| {
        let (votes, known) = members(cluster);
        votes == names.len() && known == names
    });
}

#[test]
fn a_server_that_comes_later_becomes_a_member_and_gets_streams() {
    let mut cluster = MetaCluster::founded_by(3, 5);
    let made = ask(&mut cluster, "STREAM.CREATE.S", &config(3));
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(5));
    assert!(answer.contains(r#""err_code":10005"#), "{answer}");
    cluster.begin(3);
    wait_for_members(&mut cluster, &["n1", "n2", "n3", "n4"]);
    cluster.begin(4);
    wait_for_members(&mut cluster, &["n1", "n2", "n3", "n4", "n5"]);
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    let answer = ask(&mut cluster, "STREAM.UPDATE.S", &config(5));
    assert!(answer.contains(r#""num_replicas":5"#), "{answer}");
    cluster.wait_until("five replicas", |cluster| cluster.holders("S").len() == 5);
    cluster.pass(60);
    assert_eq!(cluster.contents(), [(1, 1); 5]);
    // A majority of five is three, whoever they are.
    let leader = cluster.meta_leader().expect("it is there");
    cluster.kill(leader);
    cluster.kill((leader + 1) % 5);
    let names = ask(&mut cluster, "STREAM.NAMES", "");
    assert!(names.contains(r#"["S"]"#), "{names}");
    // All of it is known to who begins anew.
    (0..5).for_each(|number| cluster.kill(number));
    (0..5).for_each(|number| cluster.begin(number));
    wait_for_members(&mut cluster, &["n1", "n2", "n3", "n4", "n5"]);
}

/// As many servers are linked as are configured, so that one might found a group of its own.
#[test]
fn a_server_that_comes_while_nobody_leads_waits_for_the_group_that_is_there() {
    let mut cluster = MetaCluster::founded_by(3, 4);
    cluster.pass(60);
    cluster.kill(0);
    cluster.kill(1);
    cluster.pass(60);
    assert_eq!(cluster.meta_leader(), None);
    cluster.begin(3);
    cluster.pass(60);
    cluster.begin(0);
    wait_for_members(&mut cluster, &["n1", "n2", "n3", "n4"]);
}

#[test]
fn servers_that_have_no_group_found_one_when_all_have_said_so() {
    let mut cluster = MetaCluster::founded_by(0, 3);
    cluster.begin(0);
    cluster.begin(1);
    cluster.pass(60);
    assert_eq!(cluster.meta_leader(), None, "one is missing");
    cluster.begin(2);
    wait_for_members(&mut cluster, &["n1", "n2", "n3"]);
}

/// All of them have said in these lives that they have none, so nobody waits for what a member may
/// have forgotten; one that hears of the group from its other founders does not either.
#[test]
fn a_new_group_has_a_leader_within_a_second() {
    for is_slow in [false, true] {
        let mut cluster = MetaCluster::founded_by(0, 3);
        (0..3).for_each(|number| cluster.begin(number));
        for passed in 0..19 {
            // The others found it, and the third one hears of that.
            match (is_slow, passed) {
                (true, 8) => cluster.isolated.push(2),
                (true, 11) => cluster.isolated.clear(),
                _ => {}
            }
            cluster.pass(1);
        }
        let leader = cluster.meta_leader();
        assert!(leader.is_some(), "{is_slow}: {:?}", cluster.statuses());
        let live = cluster.house(leader.unwrap_or(0)).jetstream.meta().expect("it leads").live();
        assert!(live.leads_surely(), "{is_slow}: others support it already");
    }
}

/// As where a cluster was cut in two before it was founded: each part says so when they meet, and
/// none counts a server of the other as a member, of which it would need a majority.
#[test]
fn a_server_of_another_group_is_not_taken_in() {
    let mut cluster = MetaCluster::founded_by(2, 3);
    cluster.begin(2);
    let others = ["n3", "n9"].map(str::to_owned);
    cluster.house(2).jetstream.begin_meta(&others).expect("a healthy disk");
    cluster.pass(200);
    assert_eq!(members(&mut cluster), (2, vec!["n1".to_owned(), "n2".to_owned()]));
    for number in 0..3 {
        let told = cluster.house(number).host.warnings_with("is of another cluster");
        assert_eq!(told, 1, "n{}", number + 1);
    }
}

#[test]
fn a_server_with_a_new_disk_is_the_member_that_it_was() {
    let mut cluster = MetaCluster::founded_by(3, 4);
    cluster.begin(3);
    wait_for_members(&mut cluster, &["n1", "n2", "n3", "n4"]);
    ask(&mut cluster, "STREAM.CREATE.S", &config(3));
    cluster.kill(3);
    cluster.replace_disk(3);
    cluster.begin(3);
    cluster.pass(100);
    let meta = cluster.house(3).jetstream.meta().expect("it has found the group");
    assert_eq!(*meta.servers(), ["n1", "n2", "n3", "n4"]);
    assert!(meta.view().get("$G", "S").is_some());
}

#[test]
fn streams_leave_a_server_that_is_removed() {
    let mut cluster = MetaCluster::founded_by(4, 4);
    ask(&mut cluster, "STREAM.CREATE.S", &config(3));
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    let gone = leader;
    cluster.kill(gone);
    cluster.pass(100);
    cluster.remove_server(&format!("n{}", gone + 1)).expect("three of four are there");
    let rest: Vec<String> = (0..4).filter(|&one| one != gone).map(|one| format!("n{}", one + 1)).collect();
    let rest: Vec<&str> = rest.iter().map(String::as_str).collect();
    wait_for_members(&mut cluster, &rest);
    cluster.wait_until("three replicas", |cluster| cluster.holders("S").len() == 3);
    cluster.pass(60);
    assert_eq!(cluster.contents(), [(1, 1); 3]);
    let info = ask(&mut cluster, "STREAM.INFO.S", "");
    assert!(!info.contains(&format!(r#""name":"n{}""#, gone + 1)), "{info}");
}

/// With one server less there is no place for a third replica; the next server that comes gets it.
#[test]
fn a_stream_that_has_lost_a_server_gets_another_one_when_there_is_one() {
    let mut cluster = MetaCluster::founded_by(3, 4);
    ask(&mut cluster, "STREAM.CREATE.S", &config(3));
    let leader = cluster.elect();
    cluster.publish(leader, "one");
    let gone = (cluster.meta_leader().expect("it is there") + 1) % 3;
    cluster.kill(gone);
    cluster.pass(100);
    cluster.remove_server(&format!("n{}", gone + 1)).expect("two of three are there");
    cluster.wait_until("two members", |cluster| members(cluster).0 == 2);
    cluster.begin(3);
    cluster.wait_until("three replicas", |cluster| cluster.holders("S").len() == 3);
    cluster.pass(60);
    assert_eq!(cluster.contents(), [(1, 1); 3]);
}

/// Nobody asks for a stream of it, and what it has stays where it is until it comes back, which it
/// may after five minutes.
#[test]
fn a_removed_server_is_silent_and_may_come_back() {
    let mut cluster = MetaCluster::founded_by(4, 4);
    ask(&mut cluster, "STREAM.CREATE.S", &config(3));
    let gone = (0..4).find(|&one| Some(one) != cluster.meta_leader()).expect("there are others");
    let one = config(1).replace('S', "T");
    let mut of_gone = None;
    for n in 0..8 {
        let name = format!("T{n}");
        let made = ask(&mut cluster, &format!("STREAM.CREATE.{name}"), &one.replace('T', &name));
        if made.contains(&format!(r#""leader":"n{}""#, gone + 1)) {
            of_gone = Some(name);
            break;
        }
    }
    let of_gone = of_gone.expect("each server gets some");
    cluster.house(gone).publish(&format!("{of_gone}.a"));
    cluster.remove_server(&format!("n{}", gone + 1)).expect("all are there");
    cluster.wait_until("three members", |cluster| members(cluster).0 == 3);
    cluster.pass(400);
    let house = cluster.house(gone);
    assert_eq!(house.host.warnings_with("our server was removed from the cluster"), 1);
    assert!(house.jetstream.was_removed());
    house.publish(&format!("{of_gone}.b"));
    assert_eq!(house.contents(&of_gone), (1, 1), "it takes nothing");
    cluster.wait_until("a leader", |cluster| cluster.leader().is_some_and(|leader| leader != gone));
    let names = ask(&mut cluster, "STREAM.NAMES", "");
    assert!(names.contains(&of_gone), "nothing is forgotten: {names}");
    // A new life changes nothing, until it has been away for long enough.
    cluster.kill(gone);
    cluster.begin(gone);
    cluster.pass(400);
    assert_eq!(members(&mut cluster).0, 3);
    cluster.house(gone).publish(&format!("{of_gone}.b"));
    assert_eq!(cluster.house(gone).contents(&of_gone), (1, 1));
    cluster.pass(5600);
    cluster.wait_until("four members", |cluster| members(cluster).0 == 4);
    cluster.wait_until("it is no more out", |cluster| {
        !cluster.house(gone).jetstream.meta().expect("it has one").is_out()
    });
    cluster.pass(100);
    cluster.house(gone).publish(&format!("{of_gone}.b"));
    assert_eq!(cluster.house(gone).contents(&of_gone), (2, 2), "it goes on");
    assert_eq!(cluster.holders("S").len(), 3);
}

/// A server that was not there when it was removed hears of it when it comes back.
#[test]
fn a_server_that_was_removed_while_it_was_away_is_told() {
    let mut cluster = MetaCluster::founded_by(4, 4);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let gone = (cluster.meta_leader().expect("it is there") + 1) % 4;
    cluster.kill(gone);
    cluster.pass(60);
    cluster.remove_server(&format!("n{}", gone + 1)).expect("three of four are there");
    cluster.wait_until("three members", |cluster| members(cluster).0 == 3);
    cluster.begin(gone);
    cluster.pass(200);
    assert!(cluster.house(gone).jetstream.meta().expect("it has one").is_out());
}

#[test]
fn who_leads_the_meta_group_can_be_removed() {
    let mut cluster = MetaCluster::founded_by(3, 3);
    ask(&mut cluster, "STREAM.CREATE.S", &config(1));
    let leader = cluster.meta_leader().expect("it is there");
    cluster.remove_server(&format!("n{}", leader + 1)).expect("all are there");
    cluster.wait_until("two members and another leader", |cluster| {
        cluster.meta_leader() != Some(leader) && members(cluster).0 == 2
    });
    let names = ask(&mut cluster, "STREAM.NAMES", "");
    assert!(names.contains(r#"["S"]"#), "{names}");
}

/// Three of five are lost for good: the others decide again, and remove those.
#[test]
fn a_meta_group_that_has_lost_its_majority_is_rescued() {
    let mut cluster = MetaCluster::with_meta(5);
    ask(&mut cluster, "STREAM.CREATE.S", &config(1));
    let rescue = |cluster: &mut MetaCluster, number: usize, quorum| {
        let jetstream = cluster.house(number).jetstream.clone();
        let meta = jetstream.meta().expect("it has one");
        meta.rescue(&jetstream, quorum).map_err(|error| error.description.into_owned())
    };
    let refusal = |words: &str| Err(format!("JetStream system rescue not applied: raft: {words}"));
    let said = rescue(&mut cluster, 0, 2);
    assert_eq!(said, refusal("leader is known"));
    for quorum in [0, 4, -1] {
        let said = rescue(&mut cluster, 0, quorum);
        assert_eq!(said, refusal("rescue quorum must be between 1 and current quorum"));
    }
    (2..5).for_each(|number| cluster.kill(number));
    cluster.pass(200);
    assert_eq!(cluster.meta_leader(), None, "two of five");
    for number in 0..2 {
        assert_eq!(rescue(&mut cluster, number, 2), Ok((3, 2)));
        assert_eq!(
            rescue(&mut cluster, number, 3),
            refusal("rescue quorum must be between 1 and current quorum")
        );
    }
    for name in ["n3", "n4", "n5"] {
        cluster.remove_server(name).expect("two are enough");
    }
    wait_for_members(&mut cluster, &["n1", "n2"]);
    cluster.pass(80);
    let ended: usize =
        (0..2).map(|number| cluster.house(number).host.warnings_with("Unsafe quorum rescue stopped")).sum();
    assert_eq!(ended, 2, "it needs no more than two now");
    ask(&mut cluster, "STREAM.CREATE.T", &config(2).replace('S', "T"));
    // One alone decides nothing again.
    cluster.kill(1);
    cluster.pass(200);
    assert_eq!(cluster.meta_leader(), None);
}

#[test]
fn a_rescue_ends_after_five_minutes() {
    let mut cluster = MetaCluster::with_meta(3);
    ask(&mut cluster, "STREAM.CREATE.S", &config(1));
    (1..3).for_each(|number| cluster.kill(number));
    cluster.pass(200);
    let jetstream = cluster.house(0).jetstream.clone();
    let meta = jetstream.meta().expect("it has one");
    assert_eq!(meta.rescue(&jetstream, 1), Ok((2, 1)));
    cluster.wait_until("a leader alone", |cluster| cluster.meta_leader() == Some(0));
    cluster.pass(299 * 20);
    assert_eq!(cluster.meta_leader(), Some(0));
    cluster.pass(400);
    assert_eq!(cluster.meta_leader(), None);
    assert_eq!(cluster.house(0).host.warnings_with("Unsafe quorum rescue expired, quorum restored to 2"), 1);
    (1..3).for_each(|number| cluster.begin(number));
    cluster.wait_until("a leader of all", |cluster| cluster.meta_leader().is_some());
}

/// Whoever removes a server before he switches it off does not find it a member again.
#[test]
fn a_removed_server_that_runs_on_does_not_come_back_before_it_is_started_anew() {
    let mut cluster = MetaCluster::founded_by(3, 3);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    let gone = (cluster.meta_leader().expect("it is there") + 1) % 3;
    cluster.remove_server(&format!("n{}", gone + 1)).expect("all are there");
    cluster.wait_until("two members", |cluster| members(cluster).0 == 2);
    cluster.pass(6400);
    assert_eq!(members(&mut cluster).0, 2);
    cluster.kill(gone);
    cluster.begin(gone);
    cluster.wait_until("three members", |cluster| members(cluster).0 == 3);
}

/// Nothing is committed where nobody else hears of it.
#[test]
fn a_leader_that_is_cut_off_does_not_say_that_streams_leave_a_server() {
    let mut cluster = MetaCluster::with_meta(4);
    ask(&mut cluster, "STREAM.CREATE.S", &config(1));
    let left = cluster.holders("S")[0];
    let leader = cluster.meta_leader().expect("it is there");
    cluster.isolated = (0..4).filter(|&number| number != leader).collect();
    cluster.asks_for_system = true;
    cluster.ask("SERVER.EVACUATE", &format!(r#"{{"peer":"n{}"}}"#, left + 1));
    assert_eq!(cluster.take_answers(), Vec::<String>::new(), "it is not known yet");
    cluster.pass(300);
    let answers = cluster.take_answers().concat();
    assert!(answers.contains(r#""err_code":10008"#) && !answers.contains("success"), "{answers}");
}

/// Another one may lead already: that one answers, if it is asked.
#[test]
fn a_leader_that_is_in_doubt_says_nothing_about_servers() {
    let mut cluster = MetaCluster::with_meta(4);
    ask(&mut cluster, "STREAM.CREATE.S", &config(1));
    let left = cluster.holders("S")[0];
    let leader = cluster.meta_leader().expect("it is there");
    cluster.isolated = (0..4).filter(|&number| number != leader).collect();
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    cluster.wait_until("a doubt", |_| !meta.live().leads_surely());
    assert!(meta.leads(), "it does not know better");
    cluster.asks_for_system = true;
    for action in ["EVACUATE", "REMOVE"] {
        cluster.ask(&format!("SERVER.{action}"), &format!(r#"{{"peer":"n{}"}}"#, left + 1));
    }
    cluster.pass(300);
    assert_eq!(cluster.take_answers(), Vec::<String>::new());
}

/// The proposal that a stream leaves a server counts for nothing where another one about the same
/// stream is quicker: it is made once more.
#[test]
fn a_stream_that_is_changed_just_then_leaves_its_server_all_the_same() {
    let mut cluster = MetaCluster::with_meta(4);
    ask(&mut cluster, "STREAM.CREATE.S", &config(1));
    let left = format!("n{}", cluster.holders("S")[0] + 1);
    let leader = cluster.meta_leader().expect("it is there");
    let meta = cluster.house(leader).jetstream.meta().expect("it leads");
    let (known, on) = meta.known("$G", "S");
    let known = known.expect("it is there");
    let mut changed = Assignment { nonce: 7, answer: AnswerKind::Update, ..(*known).clone() };
    changed.config.max_msgs = 5;
    changed.asked.reply.clear();
    let mut quicker = pin!(meta.propose(&changed, on));
    let _ = quicker.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    cluster.asks_for_system = true;
    let answer = ask(&mut cluster, "SERVER.EVACUATE", &format!(r#"{{"peer":"{left}"}}"#));
    assert!(answer.contains(r#""success":true"#), "{answer}");
    let now = meta.view().get("$G", "S").expect("it is there");
    assert_eq!(now.config.max_msgs, 5, "the other one was quicker");
    assert!(!now.peers.contains(&left), "{now:?}");
}
