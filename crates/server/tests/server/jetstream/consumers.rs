//! SIGKILL while messages are acknowledged: what was confirmed never comes again, what was not
//! acknowledged comes.

use super::{Asker, Home, publish};
use crate::process::Server;
use crate::{PATIENCE, eventually};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Instant;

/// Messages of the stream.
const MESSAGES: u64 = 3_000;
/// After how many confirmations of each run the server is killed.
const MOMENTS: [usize; 3] = [1, 700, 300];
/// Messages that are pulled at once.
const BATCH: usize = 100;

/// Messages that a client has acknowledged, by their sequences.
#[derive(Debug, Default)]
struct Known {
    /// Sent; perhaps they came to the server.
    sent: BTreeSet<u64>,
    /// Confirmed by an answer.
    confirmed: BTreeSet<u64>,
}

/// A client that pulls and acknowledges until its connection ends.
struct Worker {
    reading: BufReader<TcpStream>,
    known: Known,
}

/// A message as it came: its subject, its reply subject and what is in it.
type Came = (String, String, Vec<u8>);

impl Worker {
    fn connect(server: &Server) -> Self {
        let mut socket = TcpStream::connect(server.address()).expect("the server listens");
        socket.set_nodelay(true).expect("a TCP socket");
        socket.set_read_timeout(Some(PATIENCE)).expect("a positive time");
        let connect = "CONNECT {\"verbose\":false,\"headers\":true}\r\nSUB work 1\r\nSUB done.> 2\r\n";
        socket.write_all(connect.as_bytes()).expect("the server reads");
        Self { reading: BufReader::new(socket), known: Known::default() }
    }

    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.reading.get_mut().write_all(bytes)
    }

    fn message(&mut self) -> io::Result<Came> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.reading.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            let (subject, reply, size) = match words[..] {
                ["MSG", subject, _, size] | ["HMSG", subject, _, _, size] => (subject, "", size),
                ["MSG", subject, _, reply, size] => (subject, reply, size),
                _ => continue,
            };
            let mut body = vec![0; size.parse::<usize>().expect("sizes are digits") + 2];
            self.reading.read_exact(&mut body)?;
            return Ok((subject.to_owned(), reply.to_owned(), body));
        }
    }

    /// Pulls once and acknowledges what comes, but for every seventh message; answers which came.
    /// The last messages of the stream come again and again.
    fn pull(&mut self, mut confirmed: impl FnMut(usize)) -> io::Result<Vec<u64>> {
        let request = json!({ "batch": BATCH, "no_wait": true }).to_string();
        self.send(&publish("$JS.API.CONSUMER.MSG.NEXT.S.C", "work", "", request.as_bytes()))?;
        let mut came = Vec::new();
        loop {
            let (subject, reply, body) = self.message()?;
            if let Some(seq) = subject.strip_prefix("done.") {
                self.known.confirmed.insert(seq.parse().expect("a number"));
                confirmed(self.known.confirmed.len());
            } else if body.starts_with(b"NATS/1.0") {
                return Ok(came);
            } else {
                let seq = seq_of(&reply);
                came.push(seq);
                if !seq.is_multiple_of(7) {
                    self.known.sent.insert(seq);
                    self.send(&publish(&reply, &format!("done.{seq}"), "", b"+ACK"))?;
                }
                if came.len() == BATCH {
                    return Ok(came);
                }
            }
        }
    }
}

/// The sequence in the stream that an acknowledgement's subject says.
fn seq_of(reply: &str) -> u64 {
    reply.split('.').nth(5).and_then(|seq| seq.parse().ok()).unwrap_or_else(|| panic!("{reply}"))
}

fn info(asker: &mut Asker) -> Value {
    asker.api("CONSUMER.INFO.S.C", &Value::Null)
}

/// Fills a stream, and kills the server while its messages are acknowledged, several times.
fn torment(lines: &str, stream: &Value) {
    let home = Home::new();
    let mut server = home.start(lines);
    let mut asker = Asker::connect(&server);
    asker.create("S", stream);
    let config = json!({
        "name": "C", "durable_name": "C", "ack_policy": "explicit",
        "ack_wait": 300_000_000_u64, "max_ack_pending": -1,
    });
    asker.api("CONSUMER.CREATE.S.C", &json!({ "stream_name": "S", "config": config }));
    for n in 1..=MESSAGES {
        asker.raw.send_bytes(&publish("S.a", "", "", n.to_string().as_bytes()));
    }
    eventually("all messages are stored", || asker.number("S", "last_seq") == MESSAGES);
    let (mut sent, mut confirmed) = (BTreeSet::new(), BTreeSet::new());
    for enough in MOMENTS {
        let mut asker = Asker::connect(&server);
        let mut worker = Worker::connect(&server);
        let strike = |now| {
            if now == enough {
                server.signal(Signal::KILL);
            }
        };
        let deadline = Instant::now() + PATIENCE;
        while let Ok(came) = worker.pull(strike) {
            let confirmed_now = worker.known.confirmed.len();
            assert!(Instant::now() < deadline, "{confirmed_now} of {enough}: {}", info(&mut asker));
            let again: Vec<_> = came.iter().filter(|seq| confirmed.contains(*seq)).collect();
            assert!(again.is_empty(), "confirmed, and came again: {again:?}");
        }
        assert!(worker.known.confirmed.len() >= enough);
        sent.append(&mut worker.known.sent);
        confirmed.append(&mut worker.known.confirmed);
        server.restart();
    }
    finish(&server, &sent, &confirmed);
    let log = server.log();
    assert!(!log.contains("[ERR]") && !log.contains("[FTL]"), "{log}");
}

/// Acknowledges all that is left, and checks that this is what it should be.
fn finish(server: &Server, sent: &BTreeSet<u64>, confirmed: &BTreeSet<u64>) {
    let mut asker = Asker::connect(server);
    asker.raw.subscribe("work", 2);
    let mut left = BTreeSet::new();
    eventually("everything is acknowledged", || {
        let request = json!({ "batch": BATCH, "no_wait": true }).to_string();
        asker.raw.send_bytes(&publish("$JS.API.CONSUMER.MSG.NEXT.S.C", "work", "", request.as_bytes()));
        for _ in 0..BATCH {
            let message = asker.raw.message();
            let Some(reply) = &message.reply else { break };
            left.insert(seq_of(reply));
            asker.raw.publish(reply, "+ACK");
        }
        let info = info(&mut asker);
        info["num_pending"] == 0 && info["num_ack_pending"] == 0
    });
    let again: Vec<_> = left.intersection(confirmed).collect();
    assert!(again.is_empty(), "confirmed, and came again: {again:?}");
    let forgotten: Vec<_> = (1..=MESSAGES).filter(|seq| !sent.contains(seq) && !left.contains(seq)).collect();
    assert!(forgotten.is_empty(), "never acknowledged, and did not come: {forgotten:?}");
    let info = info(&mut asker);
    assert_eq!(info["ack_floor"]["stream_seq"], MESSAGES, "{info}");
    assert_eq!(info["delivered"]["stream_seq"], MESSAGES, "{info}");
    let config = asker.api("STREAM.INFO.S", &Value::Null)["config"].clone();
    let stays = if config["retention"] == "limits" { MESSAGES } else { 0 };
    eventually("what is settled is removed", || asker.number("S", "messages") == stays);
}

#[test]
fn acknowledgements() {
    torment("", &json!({}));
}

#[test]
fn acknowledgements_synced_always() {
    torment("sync_interval: always", &json!({}));
}

#[test]
fn acknowledgements_of_an_encrypted_stream() {
    torment("key: secret", &json!({}));
}

#[test]
fn acknowledgements_of_a_work_queue() {
    torment("", &json!({ "retention": "workqueue" }));
}

#[test]
fn acknowledgements_of_a_stream_with_interest() {
    torment("", &json!({ "retention": "interest" }));
}

#[test]
fn monitoring_shows_consumers() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    let config = json!({ "name": "C", "durable_name": "C", "ack_policy": "explicit" });
    asker.api("CONSUMER.CREATE.S.C", &json!({ "stream_name": "S", "config": config }));
    asker.publish("S.a", "x");
    assert_eq!(server.page("/jsz")["consumers"], 1);
    let detail = |query: &str| {
        let page = server.page(&format!("/jsz?consumers=1{query}"));
        page["account_details"][0]["stream_detail"][0]["consumer_detail"][0].clone()
    };
    let consumer = detail("");
    assert_eq!((&consumer["name"], &consumer["num_pending"]), (&json!("C"), &json!(1)), "{consumer}");
    assert!(consumer.get("config").is_none(), "{consumer}");
    assert_eq!(detail("&config=1")["config"]["ack_policy"], "explicit");
    let health = |consumer: &str| {
        let page = server.page(&format!("/healthz?account=$G&stream=S&consumer={consumer}"));
        page["status"].clone()
    };
    assert_eq!(health("C"), "ok");
    assert_ne!(health("D"), "ok");
}
