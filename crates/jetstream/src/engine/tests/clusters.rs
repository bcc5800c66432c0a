//! Servers of several clusters in one meta group: a stream lies in one of them, and moves between
//! them.

use super::meta_cluster::{MetaCluster, NAMES};

const A_AND_B: [&str; 6] = ["A", "A", "A", "B", "B", "B"];

fn config(replicas: usize, placement: &str) -> String {
    let placement =
        if placement.is_empty() { String::new() } else { format!(r#","placement":{{{placement}}}"#) };
    format!(r#"{{"name":"S","subjects":["S.>"],"storage":"file","num_replicas":{replicas}{placement}}}"#)
}

/// A client of this cluster asks from now on.
fn from(cluster: &mut MetaCluster, own: &str) {
    cluster.asked_with = format!("NATS/1.0\r\nMyelin-Cluster: {own}\r\n\r\n");
}

/// The one answer to a request.
fn ask(cluster: &mut MetaCluster, subject: &str, body: &str) -> String {
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.answer_within(200, subject, body)
}

/// The servers that have the stream, once nothing is under way.
fn settled(cluster: &mut MetaCluster, replicas: usize) -> Vec<usize> {
    cluster.wait_until("all replicas, and no more", |cluster| {
        let numbers: Vec<usize> = cluster.running().collect();
        let is_settled = |number: usize| {
            let meta = cluster.house(number).jetstream.meta();
            let known = meta.and_then(|meta| meta.view().get("$G", "S"));
            known.is_some_and(|one| one.change.is_none() && one.before.is_empty())
        };
        numbers.into_iter().all(is_settled) && cluster.holders("S").len() == replicas
    });
    cluster.holders("S")
}

fn publish(cluster: &mut MetaCluster, text: &str) {
    let before = cluster.acks();
    cluster.wait_until("an acknowledgement", |cluster| {
        if let Some(leader) = cluster.leader() {
            cluster.publish(leader, text);
            cluster.pass(2);
        }
        cluster.acks() > before
    });
}

#[test]
fn a_new_stream_lies_in_the_cluster_of_who_asks_or_where_it_is_to() {
    let mut cluster = MetaCluster::of_clusters(&A_AND_B);
    let cases = [
        ("B", config(3, ""), vec![3, 4, 5], "B"),
        ("A", config(3, ""), vec![0, 1, 2], "A"),
        ("B", config(3, r#""cluster":"A""#), vec![0, 1, 2], "A"),
        ("A", config(2, r#""cluster":"B""#), vec![], "B"),
        // Only there are servers with that tag.
        ("A", config(2, r#""tags":["!node:1","!node:2"]"#), vec![], "B"),
        ("B", config(2, r#""tags":["cloud:a"]"#), vec![0, 1], "A"),
        ("B", config(1, r#""tags":["node:5"]"#), vec![4], "B"),
    ];
    for (own, config, holders, of) in cases {
        from(&mut cluster, own);
        let made = ask(&mut cluster, "STREAM.CREATE.S", &config);
        assert!(made.contains(r#""did_create":true"#), "{made}");
        let replicas = if config.contains(r#"replicas":3"#) { 3 } else { holders.len().max(1) };
        let is_two = config.contains(r#"replicas":2"#);
        let found = settled(&mut cluster, if is_two { 2 } else { replicas });
        if !holders.is_empty() {
            assert_eq!(found, holders, "{config} from {own}");
        }
        assert!(found.iter().all(|&number| A_AND_B[number] == of), "{config} from {own}: {found:?}");
        let info = ask(&mut cluster, "STREAM.INFO.S", "");
        assert!(info.contains(&format!(r#""cluster":{{"name":"{of}""#)), "{info}");
        ask(&mut cluster, "STREAM.DELETE.S", "");
        cluster.wait_until("no stream", |cluster| cluster.holders("S").is_empty());
    }
    let refused = [
        (config(3, r#""cluster":"C""#), "no suitable peers for placement"),
        // Six servers are there, and three in each cluster.
        (config(5, ""), "no suitable peers for placement"),
        (config(3, r#""tags":["cloud:b"]"#), "no suitable peers for placement, tags not matched ['cloud:b']"),
    ];
    for (config, words) in refused {
        let answer = ask(&mut cluster, "STREAM.CREATE.S", &config);
        let wanted = format!(r#"{{"code":400,"err_code":10005,"description":"{words}"}}"#);
        assert!(config.contains("cloud:b") || answer.contains(&wanted), "{config}: {answer}");
    }
}

#[test]
fn a_stream_moves_to_another_cluster_and_back_with_all_it_has() {
    for replicas in [1, 3] {
        let mut cluster = MetaCluster::of_clusters(&A_AND_B);
        from(&mut cluster, "A");
        let made = ask(&mut cluster, "STREAM.CREATE.S", &config(replicas, ""));
        assert!(made.contains(r#""did_create":true"#), "{made}");
        let at_first = settled(&mut cluster, replicas);
        let mut count = 0;
        for to in ["B", "A", "B"] {
            publish(&mut cluster, "before");
            let moved =
                ask(&mut cluster, "STREAM.UPDATE.S", &config(replicas, &format!(r#""cluster":"{to}""#)));
            let desired = format!(r#""name":"{to}","replicas":["#);
            assert!(moved.contains(r#""desired":{"#) && moved.contains(&desired), "{moved}");
            publish(&mut cluster, "meanwhile");
            let found = settled(&mut cluster, replicas);
            assert!(found.iter().all(|&number| A_AND_B[number] == to), "{to}: {found:?}");
            count = cluster.acks() as u64;
            cluster.wait_until("all messages", |cluster| {
                let leader = cluster.elect();
                let info = cluster.house(leader).stream("S").reader().state().totals;
                info.messages >= count
            });
        }
        assert!(count >= 6);
        // A move that is cancelled ends where it has begun.
        let back = config(replicas, r#""cluster":"A""#);
        ask(&mut cluster, "STREAM.UPDATE.S", &back);
        let cancelled = ask(&mut cluster, "STREAM.CANCEL_MOVE.S", "");
        assert!(cancelled.contains(r#""cluster":"B""#), "{cancelled}");
        let found = settled(&mut cluster, replicas);
        assert!(found.iter().all(|&number| A_AND_B[number] == "B"), "{found:?}, first {at_first:?}");
    }
}

/// A replica that a server loses for good comes anew in the same cluster, and not where others have
/// less to do.
#[test]
fn other_servers_for_a_stream_are_of_its_cluster() {
    let mut cluster = MetaCluster::of_clusters(&A_AND_B);
    from(&mut cluster, "B");
    ask(&mut cluster, "STREAM.CREATE.S", &config(2, ""));
    let found = settled(&mut cluster, 2);
    let third = (3..6).find(|number| !found.contains(number)).expect("three are of B");
    // It is led and asked for from another cluster.
    from(&mut cluster, "A");
    let removed = ask(&mut cluster, "STREAM.PEER.REMOVE.S", &format!(r#"{{"peer":"{}"}}"#, NAMES[found[0]]));
    assert!(removed.contains(r#""success":true"#), "{removed}");
    let after = settled(&mut cluster, 2);
    assert_eq!(after.iter().filter(|&&number| number == third || number == found[1]).count(), 2);
    ask(&mut cluster, "STREAM.UPDATE.S", &config(3, ""));
    assert_eq!(settled(&mut cluster, 3), [3, 4, 5]);
    let full = ask(&mut cluster, "STREAM.PEER.REMOVE.S", &format!(r#"{{"peer":"{}"}}"#, NAMES[found[0]]));
    assert!(full.contains(r#""err_code":10075"#), "there is no other in B: {full}");
    ask(&mut cluster, "STREAM.DELETE.S", "");
    cluster.wait_until("no stream", |cluster| cluster.holders("S").is_empty());
}

#[test]
fn mirrors_are_alternates_and_the_nearest_comes_first() {
    let mut cluster = MetaCluster::of_clusters(&A_AND_B);
    from(&mut cluster, "A");
    ask(&mut cluster, "STREAM.CREATE.S", &config(1, ""));
    let mirror =
        r#"{"name":"M","storage":"file","num_replicas":1,"mirror":{"name":"S"},"placement":{"cluster":"B"}}"#;
    let made = ask(&mut cluster, "STREAM.CREATE.M", mirror);
    assert!(made.contains(r#""did_create":true"#), "{made}");
    let (own, other) = (r#"{"name":"S","cluster":"A"}"#, r#"{"name":"M","cluster":"B"}"#);
    for (asking, alternates) in [("A", [own, other]), ("B", [other, own])] {
        from(&mut cluster, asking);
        let info = ask(&mut cluster, "STREAM.INFO.S", "");
        let wanted = format!(r#""alternates":[{}]"#, alternates.join(","));
        assert!(info.contains(&wanted), "{asking}: {info}");
    }
}

/// Whoever leads the meta group in a life in which it has never been linked with a server knows of
/// which cluster that is.
#[test]
fn the_cluster_of_a_server_that_is_away_is_known() {
    let mut cluster = MetaCluster::of_clusters(&A_AND_B);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.pass(100);
    cluster.kill(5);
    cluster.unlinked.push(5);
    (0..5).for_each(|number| {
        cluster.kill(number);
        cluster.begin(number);
    });
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    for number in 0..5 {
        let meta = cluster.house(number).jetstream.meta().expect("it is a member");
        cluster.wait_until("all that was committed", |_| !meta.is_behind());
        assert_eq!(meta.cluster_of("n6"), "B", "n{}", number + 1);
    }
}

#[test]
fn a_group_of_one_cluster_has_no_word_of_it_on_its_disks() {
    let mut cluster = MetaCluster::of_clusters(&["A", "A", "A"]);
    cluster.wait_until("a meta leader", |cluster| cluster.meta_leader().is_some());
    cluster.pass(100);
    let meta = cluster.house(0).jetstream.meta().expect("it is a member");
    assert_eq!(meta.live().reader().state().totals.messages, 0);
    assert_eq!(meta.cluster_of("n2"), "A");
}
