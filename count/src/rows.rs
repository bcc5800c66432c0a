//! Rows that are counted: each is a load of the server, given as the bytes that its clients send.

use crate::embedded::{BEGINNING, Client, Embedded};
use bytes::Bytes;

/// Messages that a publisher sends at once.
const BATCH: usize = 64;
/// Subjects in turn.
const SUBJECTS: usize = 64;
/// Subscriptions that one server is told of.
const TOLD: usize = 1280;
/// Keys of a bucket.
const KEYS: usize = 1024;

/// One load.
pub(crate) struct Row {
    /// Its name on the command line.
    pub(crate) name: &'static str,
    /// Description of one message of it.
    pub(crate) about: &'static str,
    /// Has the server take this many messages.
    pub(crate) run: fn(&mut Embedded, usize),
}

/// All of them, in the order in which they are printed.
pub(crate) const ROWS: [Row; 19] = [
    Row { name: "pub", about: "16 bytes that nobody subscribes to", run: publish },
    Row { name: "1:1", about: "16 bytes to one subscriber", run: |server, n| fan_out(server, n, 1) },
    Row { name: "1:64", about: "16 bytes to 64 subscribers", run: |server, n| fan_out(server, n, 64) },
    Row { name: "queue", about: "16 bytes to one of a group of ten", run: queue },
    Row { name: "request", about: "a request and its reply, 16 bytes each", run: request },
    Row { name: "sub", about: "a subscription that comes and goes", run: subscribe },
    Row { name: "connect", about: "a connection that comes and goes", run: connect },
    Row { name: "forward", about: "16 bytes that another server wants", run: forward },
    Row { name: "routed", about: "16 bytes from another server to one subscriber", run: routed },
    Row { name: "tell", about: "a subscription that a server which joins is told of", run: tell },
    Row { name: "told", about: "a subscription of a server to which this one joins", run: told },
    Row { name: "js-mem", about: "128 bytes stored in memory and acknowledged", run: js_memory },
    Row { name: "js-file", about: "128 bytes stored in a file and acknowledged", run: js_file },
    Row { name: "js-async", about: "js-file, each reply once", run: js_async },
    Row { name: "js-limit", about: "the same at max_msgs 1,000, each subject once", run: js_limit },
    Row { name: "js-push", about: "js-file, pushed to a consumer that acknowledges nothing", run: js_push },
    Row { name: "js-pull", about: "js-file, pulled 64 at a time and acknowledged one by one", run: js_pull },
    Row { name: "kv-put", about: "128 bytes under one of 1,024 keys, history 1", run: kv_put },
    Row { name: "kv-get", about: "a direct get of one of 1,024 keys", run: kv_get },
];

/// The row with this name.
pub(crate) fn named(name: &str) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.name == name)
}

/// Sends `messages` of them in batches, the one with number `n` as `text(n % period)`: what repeats
/// is made once, so that what the client does is hardly counted.
fn send_all(
    server: &mut Embedded,
    client: &mut Client,
    messages: usize,
    period: usize,
    text: impl Fn(usize) -> String,
) {
    let batch = |first: usize| Bytes::from((first..period.min(first + BATCH)).map(&text).collect::<String>());
    let batches: Vec<Bytes> = (0..period).step_by(BATCH).map(batch).collect();
    assert!(messages.is_multiple_of(BATCH) && period.is_multiple_of(BATCH), "whole batches");
    for n in 0..messages / BATCH {
        server.send(client, &batches[n % batches.len()]);
    }
}

fn orders(n: usize) -> String {
    format!("PUB bench.orders.{} 16\r\n0123456789abcdef\r\n", n)
}

fn publish(server: &mut Embedded, messages: usize) {
    let mut publisher = server.client("");
    send_all(server, &mut publisher, messages, SUBJECTS, orders);
}

fn fan_out(server: &mut Embedded, messages: usize, receivers: usize) {
    let subscribers: Vec<Client> = (0..receivers).map(|_| server.client("SUB bench.> 1\r\n")).collect();
    publish(server, messages);
    assert!(subscribers.iter().all(|one| one.received() > 16 * messages as u64), "each gets each message");
}

fn queue(server: &mut Embedded, messages: usize) {
    let members: Vec<Client> = (0..10).map(|_| server.client("SUB bench.> group 1\r\n")).collect();
    publish(server, messages);
    assert!(
        members.iter().map(Client::received).sum::<u64>() > 16 * messages as u64,
        "one gets each message"
    );
}

fn request(server: &mut Embedded, messages: usize) {
    let mut responder = server.client("SUB service 1\r\n");
    let mut requester = server.client("SUB _INBOX.abcdefghijkl.* 1\r\n");
    let before = requester.received();
    for n in 0..messages {
        let asked = format!("PUB service _INBOX.abcdefghijkl.{n} 16\r\n0123456789abcdef\r\n");
        server.send(&mut requester, &Bytes::from(asked));
        let replied = format!("PUB _INBOX.abcdefghijkl.{n} 16\r\n0123456789abcdef\r\n");
        server.send(&mut responder, &Bytes::from(replied));
    }
    assert!(requester.received() - before > 16 * messages as u64, "each request is answered");
}

fn subscribe(server: &mut Embedded, messages: usize) {
    let mut client = server.client("");
    send_all(server, &mut client, messages, messages, |n| format!("SUB _INBOX.{n}.* {n}\r\nUNSUB {n}\r\n"));
}

fn connect(server: &mut Embedded, messages: usize) {
    for _ in 0..messages {
        let client = server.client("SUB _INBOX.abcdefghijkl.* 1\r\nPING\r\n");
        assert!(client.received() > 0, "it is answered");
        server.end(client);
    }
}

fn forward(server: &mut Embedded, messages: usize) {
    server.form_cluster();
    let mut link = server.link();
    server.send_from_link(&mut link, &Bytes::from_static(b"RS+ $G bench.>\r\n"));
    publish(server, messages);
    assert!(link.received() > 16 * messages as u64, "each message goes there");
}

fn routed(server: &mut Embedded, messages: usize) {
    server.form_cluster();
    let subscriber = server.client("SUB bench.> 1\r\n");
    let mut link = server.link();
    let message = |n: usize| format!("RMSG $G bench.orders.{n} 16\r\n0123456789abcdef\r\n");
    let batches = SUBJECTS.div_ceil(BATCH);
    let batch = |at: usize| Bytes::from((at * BATCH..(at + 1) * BATCH).map(message).collect::<String>());
    let batches: Vec<Bytes> = (0..batches).map(batch).collect();
    for n in 0..messages / BATCH {
        server.send_from_link(&mut link, &batches[n % batches.len()]);
    }
    assert!(subscriber.received() > 16 * messages as u64, "each message is delivered");
}

/// Subjects of subscriptions that are told of.
fn wanted(n: usize) -> String {
    format!("orders.{}.{}", n % 1000, n / 1000)
}

fn tell(server: &mut Embedded, messages: usize) {
    server.form_cluster();
    let mut client = server.client("");
    let each = messages.min(TOLD);
    send_all(server, &mut client, each, each, |n| format!("SUB {} {n}\r\n", wanted(n)));
    for _ in 0..messages / each {
        let link = server.link();
        assert!(link.received() > 16 * each as u64, "each is told");
        server.end_link(link);
    }
}

fn told(server: &mut Embedded, messages: usize) {
    server.form_cluster();
    let mut link = server.link();
    let lines: String = (0..messages).map(|n| format!("RS+ $G {}\r\n", wanted(n))).collect();
    server.send_from_link(&mut link, &Bytes::from(lines));
    assert_eq!(link.told(), messages, "each is known");
}

/// Makes a stream of everything below `S`.
fn stream(server: &mut Embedded, options: &str) -> Client {
    let mut client = server.client("SUB _INBOX.abcdefghijkl.* 1\r\n");
    let body = format!("{{\"name\":\"S\",\"subjects\":[\"S.>\"],\"num_replicas\":1{options}}}");
    server.ask(&mut client, "STREAM.CREATE.S", &body);
    client
}

/// Publishes with acknowledgements.
fn store(
    server: &mut Embedded,
    publisher: &mut Client,
    messages: usize,
    period: usize,
    subject: impl Fn(usize) -> String,
) {
    let payload = "x".repeat(128);
    let (before, stored) = (publisher.received(), server.stored("S"));
    send_all(server, publisher, messages, period, |n| {
        format!("PUB {} _INBOX.abcdefghijkl.{n} 128\r\n{payload}\r\n", subject(n))
    });
    assert_eq!(server.stored("S") - stored, messages as u64, "each message is stored");
    assert!(publisher.received() - before > 16 * messages as u64, "each message is acknowledged");
}

fn in_turn(n: usize) -> String {
    format!("S.orders.{n}")
}

fn js_memory(server: &mut Embedded, messages: usize) {
    let mut publisher = stream(server, ",\"storage\":\"memory\"");
    store(server, &mut publisher, messages, SUBJECTS, in_turn);
}

fn js_file(server: &mut Embedded, messages: usize) {
    let mut publisher = stream(server, ",\"storage\":\"file\"");
    store(server, &mut publisher, messages, SUBJECTS, in_turn);
}

fn js_async(server: &mut Embedded, messages: usize) {
    let mut publisher = stream(server, ",\"storage\":\"file\"");
    store(server, &mut publisher, messages, messages, |n| in_turn(n % SUBJECTS));
}

fn js_limit(server: &mut Embedded, messages: usize) {
    let mut publisher = stream(server, ",\"storage\":\"file\",\"max_msgs\":1000");
    store(server, &mut publisher, messages, messages, |n| format!("S.{n}"));
}

fn js_push(server: &mut Embedded, messages: usize) {
    let mut publisher = stream(server, ",\"storage\":\"file\"");
    let mut subscriber = server.client("SUB deliver 1\r\n");
    let body = "{\"stream_name\":\"S\",\"config\":{\"deliver_subject\":\"deliver\",\"ack_policy\":\"none\",\
        \"deliver_policy\":\"all\"}}";
    server.ask(&mut subscriber, "CONSUMER.CREATE.S", body);
    let before = subscriber.received();
    store(server, &mut publisher, messages, SUBJECTS, in_turn);
    assert!(subscriber.received() - before > 128 * messages as u64, "each message is delivered");
}

fn js_pull(server: &mut Embedded, messages: usize) {
    let mut publisher = stream(server, ",\"storage\":\"file\"");
    let mut worker = server.client("SUB work 1\r\n");
    let body = "{\"stream_name\":\"S\",\"config\":{\"durable_name\":\"C\",\"ack_policy\":\"explicit\",\
        \"deliver_policy\":\"all\",\"max_ack_pending\":10000}}";
    server.ask(&mut worker, "CONSUMER.CREATE.S.C", body);
    let before = worker.received();
    for first in (0..messages).step_by(BATCH) {
        store(server, &mut publisher, BATCH, SUBJECTS, in_turn);
        let pull = "PUB $JS.API.CONSUMER.MSG.NEXT.S.C work 2\r\n64\r\n";
        server.send(&mut worker, &Bytes::from_static(pull.as_bytes()));
        let acks = (first + 1..=first + BATCH)
            .map(|seq| format!("PUB $JS.ACK.S.C.1.{seq}.{seq}.{BEGINNING}.0 0\r\n\r\n"));
        server.send(&mut worker, &Bytes::from(acks.collect::<String>()));
    }
    assert!(worker.received() - before > 128 * messages as u64, "each message is delivered");
}

/// A bucket of 1,024 keys, each with a value.
fn bucket(server: &mut Embedded) -> Client {
    let mut client = stream(server, ",\"storage\":\"file\",\"max_msgs_per_subject\":1,\"allow_direct\":true");
    store(server, &mut client, KEYS, KEYS, |n| format!("S.key.{n}"));
    client
}

fn kv_put(server: &mut Embedded, messages: usize) {
    let mut client = bucket(server);
    store(server, &mut client, messages, KEYS, |n| format!("S.key.{n}"));
}

fn kv_get(server: &mut Embedded, messages: usize) {
    let mut client = bucket(server);
    let before = client.received();
    send_all(server, &mut client, messages, KEYS, |n| {
        format!("PUB $JS.API.DIRECT.GET.S.S.key.{n} _INBOX.abcdefghijkl.{n} 0\r\n\r\n")
    });
    assert!(client.received() - before > 128 * messages as u64, "each key is found");
}
