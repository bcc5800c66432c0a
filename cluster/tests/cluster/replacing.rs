//! Servers of a running cluster are replaced by another program, one after the other, while
//! clients of the others go on: what an operator does who moves from one to the other.

use crate::scenarios::{all_hear_all, client};
use myelin_cluster_test::{Cluster, ClusterPlan};
use myelin_compat::implementation;
use std::path::Path;
use std::slice;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

#[test]
fn servers_are_replaced_one_after_the_other() {
    let (ours, theirs) = match (implementation::myelin(), implementation::reference()) {
        (Ok(ours), Ok(theirs)) => (ours.program, theirs.program),
        (Err(why), _) | (_, Err(why)) => return println!("skipped: {why}"),
    };
    for (before, after) in [(&theirs, &ours), (&ours, &theirs)] {
        let plan = ClusterPlan::of(slice::from_ref(before), 3);
        let mut cluster = Cluster::start(&plan).expect("it starts");
        for server in 0..3 {
            replace_under_load(&mut cluster, server, after);
        }
        all_hear_all(&mut cluster);
    }
}

/// Replaces a server while a client of the second publishes to a client of the third, and asks it.
fn replace_under_load(cluster: &mut Cluster, server: usize, program: &Path) {
    let [to, from] = [(server + 1) % 3, (server + 2) % 3];
    let (mut receiver, mut sender, leaving) =
        (client(cluster, to), client(cluster, from), client(cluster, server));
    receiver.subscribe("load", None);
    receiver.serve("work", "workers");
    sender.subscribe("answers.*", None);
    [&receiver, &sender].iter().for_each(|client| client.settle().expect("it answers"));
    cluster.settle().expect("interest");
    let is_over = AtomicBool::new(false);
    let count = thread::scope(|scope| {
        let load = scope.spawn(|| {
            let mut count = 0;
            while !is_over.load(Relaxed) {
                sender.publish("load", None, count.to_string().as_bytes());
                sender.publish("work", Some(&format!("answers.{count}")), b"x");
                sender.settle().expect("its server stays");
                count += 1;
            }
            count
        });
        let replaced = cluster.stop(server).and_then(|()| {
            cluster.replace(server, program);
            cluster.start_server(server)?;
            cluster.settle()
        });
        is_over.store(true, Relaxed);
        replaced.expect("the other program takes its place");
        load.join().expect("the load goes on")
    });
    assert!(leaving.is_closed() && count > 0);
    let all = |subject: &'static str| {
        move |all: &[myelin_cluster_test::Delivery]| {
            let of = all.iter().filter(|delivery| delivery.subject.starts_with(subject));
            let of: Vec<String> = of
                .map(|delivery| match delivery.subject.strip_prefix("answers.") {
                    Some(number) => number.to_owned(),
                    None => String::from_utf8_lossy(&delivery.payload).into_owned(),
                })
                .collect();
            (of.len() >= count).then_some(of)
        }
    };
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let came = receiver.wait_for("all messages", all("load")).expect("none is lost");
    assert_eq!(came, numbers);
    let answered = sender.wait_for("all answers", all("answers")).expect("each request is answered");
    assert_eq!(answered, numbers);
    // A client is not told which program it is.
    assert!(client(cluster, server).info().contains("\"version\":\"2.15.2\""));
}
