//! Streams that another cluster holds: clients of a server without JetStream use them over a
//! gateway.

use super::{Site, joined, leafs};
use crate::client::plain;
use crate::process::Server;
use crate::raw::Raw;
use crate::routes::{MIXES, Ours, Reference, ServerKind, free_port, wait_for_interest};
use async_nats::jetstream::context::PublishErrorKind;
use async_nats::jetstream::{self, AckKind, Context, consumer, kv, stream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use std::time::Duration;
use tempfile::TempDir;

const MESSAGES: usize = 50;

/// The cluster B of two nats-servers with JetStream, which needs routes there, and a server of A
/// without.
///
/// - `common`: of the configuration of all three.
/// - `more`: of that of the server of A.
fn with_streams(
    first: ServerKind,
    homes: &[TempDir; 2],
    (common, more): (&str, &str),
) -> Option<(Site, [Site; 2])> {
    let (port, others, routes) = (free_port(), [free_port(), free_port()], [free_port(), free_port()]);
    let member = |at: usize| {
        let more = format!(
            "{common}\njetstream {{ store_dir: {:?} }}\ncluster {{ name: B, listen: \"127.0.0.1:{}\", no_advertise: true, \
             routes: [\"nats://127.0.0.1:{}\", \"nats://127.0.0.1:{}\"] }}",
            homes[at].path(),
            routes[at],
            routes[0],
            routes[1]
        );
        Site::start(Reference, (["B1", "B2"][at], "B", others[at]), &[("A", port)], "", &more)
    };
    let members = [member(0)?, member(1)?];
    Some((
        Site::start(first, ("A1", "A", port), &[("B", others[0])], "", &format!("{common}\n{more}"))?,
        members,
    ))
}

async fn use_bucket(js: &Context) {
    let bucket = kv::Config { bucket: "b".to_owned(), history: 3, ..Default::default() };
    let bucket = js.create_key_value(bucket).await.expect("a bucket");
    let mut watched = bucket.watch("k").await.expect("a watcher");
    let revision = bucket.put("k", "1".into()).await.expect("it is stored");
    bucket.update("k", "2".into(), revision).await.expect("nobody has changed it");
    bucket.update("k", "3".into(), revision).await.expect_err("it has been changed");
    assert_eq!(bucket.get("k").await.expect("it can be read").as_deref(), Some(&b"2"[..]));
    for value in ["1", "2"] {
        assert_eq!(watched.next().await.expect("it goes on").expect("an entry").value, value);
    }
}

/// Does with streams of a domain what applications do, from the server's clients.
async fn use_streams(server: &Server, domain: Option<&str>) {
    let client = plain(server).await;
    let js = match domain {
        Some(domain) => jetstream::with_domain(client, domain),
        None => jetstream::new(client),
    };
    // Until the API is heard of, and the cluster has a leader.
    let made = loop {
        let config = stream::Config {
            name: "S".to_owned(),
            subjects: vec!["s.>".to_owned()],
            allow_direct: true,
            ..Default::default()
        };
        if let Ok(made) = js.create_stream(config).await {
            break made;
        }
    };
    for at in 0..MESSAGES {
        let stored = loop {
            let ack = js.publish("s.x", at.to_string().into()).await.expect("connected").await;
            match ack {
                // The stream is heard of later than the answer that it was made, for that comes
                // over another connection.
                Err(error) if at == 0 && error.kind() == PublishErrorKind::StreamNotFound => {}
                ack => break ack.expect("it is stored"),
            }
        };
        assert_eq!(stored.sequence, at as u64 + 1);
    }
    let config = consumer::pull::Config {
        durable_name: Some("c".to_owned()),
        ack_wait: Duration::from_secs(60),
        ..Default::default()
    };
    let mut pull = made.create_consumer(config).await.expect("a consumer");
    let mut taken = Vec::new();
    while taken.len() < MESSAGES {
        let batch = pull.fetch().max_messages(MESSAGES - taken.len()).messages().await.expect("a batch");
        let batch: Vec<_> = match batch.try_collect().await {
            // The consumer, too, is heard of later than the answer that it was made.
            Err(error) if taken.is_empty() && error.to_string().contains("503") => continue,
            batch => batch.expect("messages"),
        };
        for message in batch {
            assert_eq!(message.subject.as_str(), "s.x", "it is shown as it was stored");
            message.double_ack_with(AckKind::Ack).await.expect("it is confirmed");
            taken.push(String::from_utf8_lossy(&message.payload).into_owned());
        }
    }
    let expected: Vec<_> = (0..MESSAGES).map(|at| at.to_string()).collect();
    assert_eq!(taken, expected, "each once, for each is acknowledged");
    let info = pull.info().await.expect("there is one");
    assert_eq!((info.num_pending, info.num_ack_pending, info.num_redelivered), (0, 0, 0));
    let direct = made.direct_get(7).await.expect("it is stored");
    assert_eq!(direct.payload, "6");
    use_bucket(&js).await;
    js.delete_stream("S").await.expect("it was there");
}

/// Uses streams by a server, for a minute at most: the cluster that holds them may have to elect.
fn check(server: &Server, domain: Option<&str>, whose: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        tokio::time::timeout(Duration::from_secs(60), use_streams(server, domain))
            .await
            .unwrap_or_else(|_| panic!("{whose}"));
    });
}

fn homes() -> [TempDir; 2] {
    [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"))
}

#[test]
fn clients_use_the_streams_of_another_cluster() {
    let homes = homes();
    let Some((a, members)) = with_streams(Ours, &homes, ("", "")) else { return };
    joined(&mut a.client(), &mut members[0].client());
    check(&a.server, None, "over the gateway");
}

/// The streams are those of a leaf node: its domain is asked over the gateway.
#[test]
fn clients_use_the_streams_of_a_leaf_node_of_another_cluster() {
    for kinds in leafs::MIXES {
        let home = tempfile::tempdir().expect("a temporary folder");
        let jetstream = format!("jetstream {{ store_dir: {:?}, domain: EDGE }}", home.path());
        let Some((a, b, edge)) = leafs::start_with(kinds, &jetstream) else { continue };
        // What is answered before the hub has a link to the other cluster is lost.
        joined(&mut a.client(), &mut b.client());
        joined(&mut a.client(), &mut Raw::connect(&edge));
        for (server, whose) in [(&a.server, "over the gateway"), (&b.server, "the hub's")] {
            check(server, Some("EDGE"), &format!("{whose}, {kinds:?}"));
        }
    }
}

/// Streams of another cluster than the hub's. Leaf nodes have a JetStream of their own for all that
/// is asked for without a domain, unless both sides say that the account has none.
#[test]
fn clients_of_a_leaf_node_use_the_streams_of_another_cluster() {
    const NONE: &str = "default_js_domain: { \"$G\": \"\" }";
    for [hub, leaf] in MIXES {
        let (homes, port) = (homes(), free_port());
        let more = format!("{NONE}\nleafnodes {{ listen: \"127.0.0.1:{port}\" }}");
        let Some((a, members)) = with_streams(hub, &homes, (leafs::SYSTEM, &more)) else { continue };
        let Some(edge) = leafs::leaf_node(leaf, ("EDGE", port), NONE) else { continue };
        let Some(apart) = leafs::leaf_node(leaf, ("APART", port), "") else { continue };
        joined(&mut a.client(), &mut members[0].client());
        let (mut hub, mut alone) = (a.client(), Raw::connect(&apart));
        wait_for_interest(&mut hub, &mut Raw::connect(&edge));
        wait_for_interest(&mut hub, &mut alone);
        check(&edge, None, &format!("{hub:?}, {leaf:?}"));
        alone.send("SUB answer 9\r\nPUB $JS.API.INFO answer 0\r\n\r\n");
        assert!(alone.message().text().starts_with("NATS/1.0 503"), "it has none: {leaf:?}");
    }
}
