//! Three clusters that are joined by gateways, which are cut and come back.

use crate::programs::mixes_of_three;
use crate::scenarios::{all_hear_all, client, payloads};
use myelin_cluster_test::{Client, Cluster, ClusterPlan, LinkState, Topology};
use std::collections::BTreeMap;

/// Messages or requests of each client at a time.
const EACH: usize = 20;

/// One cluster's clients: one that publishes and asks, one that has a part in the queue group.
struct Place {
    server: usize,
    asks: Client,
    works: Client,
    group: Option<u64>,
    /// Answers that were asked for.
    asked: usize,
}

impl Place {
    fn join(&mut self) {
        self.group = Some(self.works.subscribe("work.*", Some("group")));
        self.works.settle().expect("it answers");
    }

    fn leave(&mut self) {
        self.works.unsubscribe(self.group.take().expect("it is a member"), None);
        self.works.settle().expect("it answers");
    }

    /// Sends requests, each with a name of its own.
    fn ask(&mut self) {
        for _ in 0..EACH {
            self.asked += 1;
            let name = self.asked.to_string();
            let reply = format!("inbox.{}.{name}", self.server);
            self.asks.publish("svc.a", Some(&reply), name.as_bytes());
        }
    }

    /// How often each answer has come.
    fn answers(&self) -> BTreeMap<String, usize> {
        let mut answers = BTreeMap::new();
        payloads(&self.asks).into_iter().for_each(|name| *answers.entry(name).or_default() += 1);
        answers
    }
}

/// Has each of the clusters publish for the queue group, and looks which of them had how much.
fn shares(cluster: &mut Cluster, places: &[Place], from: usize) -> Vec<usize> {
    cluster.settle().expect("interest is known");
    let before: Vec<usize> = places.iter().map(|place| place.works.deliveries(0).len()).collect();
    for n in 0..EACH {
        places[from].asks.publish("work.a", None, n.to_string().as_bytes());
    }
    let had = || places.iter().zip(&before).map(|(one, before)| one.works.deliveries(0).len() - before);
    myelin_cluster_test::wait_for("work that is done", || (had().sum::<usize>() >= EACH).then_some(()))
        .expect("work that is done");
    // What came twice would come now.
    cluster.settle().expect("interest is known");
    had().collect()
}

/// Requests of all clusters are answered, each once.
fn all_are_answered(places: &mut [Place]) {
    for place in places {
        place.ask();
        let names = (place.asked - EACH + 1..=place.asked).map(|name| name.to_string());
        let names: Vec<String> = names.collect();
        place
            .asks
            .wait_for("answers", |all| {
                let has = |name: &&String| all.iter().any(|one| one.payload == name.as_bytes());
                (names.iter().filter(has).count() == EACH).then_some(())
            })
            .expect("answers");
        let after = place.answers();
        assert!(names.iter().all(|name| after[name] == 1), "{after:?}");
    }
}

fn live(mut cluster: Cluster) {
    let mut places: Vec<Place> = (0..3)
        .map(|server| {
            let (mut asks, mut works) = (client(&cluster, server), client(&cluster, server));
            asks.subscribe(&format!("inbox.{server}.*"), None);
            asks.settle().expect("it answers");
            // The first cluster serves nothing itself.
            if server > 0 {
                works.serve("svc.*", "svc");
            }
            Place { server, asks, works, group: None, asked: 0 }
        })
        .collect();
    places.iter_mut().for_each(Place::join);
    // Members in the sender's own cluster come first.
    assert_eq!(shares(&mut cluster, &places, 0), [EACH, 0, 0]);
    all_are_answered(&mut places);
    places[0].leave();
    let [cut, whole] = [LinkState::Cut, LinkState::Whole];
    for (first, second, expected) in [(cut, whole, [0, 0, EACH]), (whole, cut, [0, EACH, 0])] {
        cluster.links().set(0, 1, first);
        cluster.links().set(0, 2, second);
        // What is asked meanwhile may find nobody.
        places.iter_mut().for_each(Place::ask);
        assert_eq!(shares(&mut cluster, &places, 0), expected);
        assert_eq!(shares(&mut cluster, &places, 2), [0, 0, EACH]);
        all_are_answered(&mut places);
    }
    cluster.links().set(0, 2, whole);
    places.iter_mut().for_each(Place::ask);
    let had = shares(&mut cluster, &places, 0);
    assert_eq!((had[0], had[1] + had[2]), (0, EACH));
    all_are_answered(&mut places);
    all_hear_all(&mut cluster);
    assert!(cluster.crashed().is_empty(), "servers that ended by themselves");
}

#[test]
fn requests_and_queue_groups_go_on_while_gateways_are_cut_and_come_back() {
    for mix in mixes_of_three() {
        println!("mix {}", mix.name);
        let plan = ClusterPlan::shaped(&mix.programs, Topology::super_cluster(&[0, 1, 2]));
        let cluster = Cluster::start(&plan).unwrap_or_else(|why| panic!("{}: {why}", mix.name));
        live(cluster);
    }
}
