//! Queue groups: each message to one member, all members busy, and what happens when one dies.

use crate::client::{plain, settle};
use crate::process::Server;
use crate::raw::Raw;
use crate::soon;
use futures_util::StreamExt as _;
use std::collections::HashSet;
use std::sync::mpsc;
use std::thread;

#[tokio::test]
async fn every_member_gets_a_share_and_each_message_goes_to_one() {
    const MEMBERS: usize = 5;
    const MESSAGES: usize = 2000;
    let server = Server::start();
    let (sender, mut taken) = tokio::sync::mpsc::unbounded_channel();
    for member in 0..MEMBERS {
        let client = plain(&server).await;
        let mut sub = client.queue_subscribe("work.*", "workers".into()).await.unwrap();
        settle(&client).await;
        let sender = sender.clone();
        tokio::spawn(async move {
            // The client lives as long as its subscription is read.
            let _client = client;
            while let Some(message) = sub.next().await {
                sender.send((member, message.payload)).unwrap();
            }
        });
    }
    let mut watcher = plain(&server).await.subscribe("work.>").await.unwrap();
    let publisher = plain(&server).await;
    settle(&publisher).await;
    for i in 0..MESSAGES {
        publisher.publish(format!("work.{}", i % 3), i.to_string().into()).await.unwrap();
    }
    let mut shares = [0; MEMBERS];
    let mut seen = HashSet::new();
    for _ in 0..MESSAGES {
        let (member, payload) = soon("a message", taken.recv()).await.unwrap();
        shares[member] += 1;
        assert!(seen.insert(payload), "a message came twice");
    }
    settle(&publisher).await;
    assert!(taken.try_recv().is_err(), "more messages than were sent");
    assert!(shares.iter().all(|&share| share > MESSAGES / MEMBERS / 2), "{shares:?}");
    // A subscription outside of the group hears them all.
    for _ in 0..MESSAGES {
        soon("a message", watcher.next()).await.unwrap();
    }
}

#[tokio::test]
async fn groups_do_not_share_with_one_another() {
    let server = Server::start();
    let client = plain(&server).await;
    let mut one = client.queue_subscribe("jobs", "one".into()).await.unwrap();
    let mut two = client.queue_subscribe("jobs", "two".into()).await.unwrap();
    for i in 0..100 {
        client.publish("jobs", i.to_string().into()).await.unwrap();
    }
    for i in 0..100 {
        for sub in [&mut one, &mut two] {
            assert_eq!(soon("a message", sub.next()).await.unwrap().payload, i.to_string());
        }
    }
}

/// Messages that were sent to a member before its death may be lost with it; from the moment that
/// the server has noticed, the others take everything.
#[test]
fn a_member_that_dies_in_the_middle_takes_nothing_with_it_afterwards() {
    let server = Server::start();
    let mut survivors: Vec<Raw> = (0..3).map(|_| Raw::connect(&server)).collect();
    for member in &mut survivors {
        member.send("SUB work q 1\r\n");
        member.barrier();
    }
    for round in 0..20 {
        let mut victim = Raw::connect(&server);
        victim.send("SUB work q 1\r\n");
        victim.barrier();
        let mut publisher = Raw::connect(&server);
        let (died, noticed) = mpsc::channel();
        let stream = thread::spawn(move || {
            publisher.send(&"PUB work 6\r\nbefore\r\n".repeat(500));
            publisher.barrier();
            noticed.recv().unwrap();
            publisher.send(&"PUB work 5\r\nafter\r\n".repeat(500));
            assert_eq!(publisher.barrier(), []);
        });
        let open = server.connections();
        drop(victim);
        crate::eventually("the death is noticed", || server.connections() < open);
        died.send(()).unwrap();
        stream.join().unwrap();
        let came: Vec<_> = survivors.iter_mut().flat_map(Raw::barrier).collect();
        let after = came.iter().filter(|message| message.text() == "after").count();
        assert_eq!(after, 500, "round {round}");
        assert!(came.len() <= 1000, "round {round}: a message came twice");
    }
}

/// A member that has stopped reading keeps its share until it is cut off; nobody waits for it.
#[test]
fn a_member_that_stops_reading_is_cut_off_and_the_others_go_on() {
    let server = Server::with_config("max_payload: 1000\nmax_pending: 1MB\n");
    let mut stuck = Raw::connect(&server);
    let mut alive = Raw::connect(&server);
    stuck.send("SUB work q 1\r\n");
    stuck.barrier();
    alive.send("SUB work q 1\r\n");
    alive.barrier();
    let mut publisher = Raw::connect(&server);
    let batch = format!("PUB work 1000\r\n{}\r\n", "x".repeat(1000)).repeat(100);
    crate::eventually("the stuck member is cut off", || {
        publisher.send(&batch);
        publisher.barrier();
        // Read in step, so that only the stuck one falls behind.
        assert!(!alive.barrier().is_empty());
        server.log().contains("Slow Consumer")
    });
    crate::eventually("the stuck member is gone", || server.connections() == 2);
    publisher.send(&"PUB work 5\r\nafter\r\n".repeat(100));
    publisher.barrier();
    assert_eq!(alive.barrier().len(), 100);
}
