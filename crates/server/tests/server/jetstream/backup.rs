//! Backups: made by one server and restored by another, ours and the reference's, and what hostile
//! ones come to.

use super::{Asker, Home, publish, setup_in};
use crate::logging::programs;
use crate::process::{PROGRAM, Server};
use crate::raw::Message;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where pieces go.
const PIECES: &str = "pieces";

/// A backup as it came.
#[derive(Debug, Clone)]
pub(super) struct Backup {
    pub(super) config: Value,
    pub(super) state: Value,
    pub(super) bytes: Vec<u8>,
    /// Text of the last message: nothing, or why the backup ended early.
    pub(super) end: String,
}

/// Asks for a backup and acknowledges each piece; `during` is called after the first.
pub(super) fn back_up(asker: &mut Asker, stream: &str, more: &Value, during: &mut dyn FnMut()) -> Backup {
    let (answer, mut pieces) = begin_backup(asker, stream, more);
    let mut bytes = Vec::new();
    let end = loop {
        let piece = pieces.next(asker);
        if piece.body.is_empty() || piece.body.starts_with(b"NATS/1.0 ") {
            break piece.text().to_owned();
        }
        if bytes.is_empty() {
            during();
        }
        bytes.extend_from_slice(&piece.body);
        if let Some(reply) = piece.reply {
            asker.raw.publish(&reply, "");
        }
    };
    Backup { config: answer["config"].clone(), state: answer["state"].clone(), bytes, end }
}

struct Pieces(Vec<Message>);

impl Pieces {
    fn next(&mut self, asker: &mut Asker) -> Message {
        if self.0.is_empty() {
            loop {
                let message = asker.raw.message();
                if message.subject == PIECES {
                    return message;
                }
            }
        }
        self.0.remove(0)
    }
}

/// Asks for a backup; the answer, and pieces that came before it was looked at.
fn begin_backup(asker: &mut Asker, stream: &str, more: &Value) -> (Value, Pieces) {
    let mut request = json!({ "deliver_subject": PIECES });
    request
        .as_object_mut()
        .expect("it was made as one")
        .extend(more.as_object().cloned().unwrap_or_default());
    asker.raw.subscribe(PIECES, 7);
    let reply = asker.reply();
    let subject = format!("$JS.API.STREAM.SNAPSHOT.{stream}");
    asker.raw.send_bytes(&publish(&subject, &reply, "", request.to_string().as_bytes()));
    let mut pieces = Vec::new();
    loop {
        let message = asker.raw.message();
        if message.subject == reply {
            let answer: Value = serde_json::from_slice(&message.body).expect("an answer");
            assert!(answer.get("error").is_none(), "{answer}");
            return (answer, Pieces(pieces));
        }
        pieces.push(message);
    }
}

/// Sends a backup in pieces; the last answer.
pub(super) fn restore(asker: &mut Asker, config: &Value, state: &Value, bytes: &[u8], piece: usize) -> Value {
    let name = config["name"].as_str().expect("a name");
    let request = json!({ "config": config, "state": state });
    let answer = asker.try_api(&format!("STREAM.RESTORE.{name}"), &request);
    let Some(subject) = answer["deliver_subject"].as_str().filter(|subject| !subject.is_empty()) else {
        return answer;
    };
    for piece in bytes.chunks(piece) {
        let answer = asker.ask_bytes(subject, piece);
        if !answer.body.is_empty() {
            return serde_json::from_slice(&answer.body).expect("an answer");
        }
    }
    serde_json::from_slice(&asker.ask_bytes(subject, b"").body).expect("an answer")
}

impl Asker {
    fn ask_bytes(&mut self, subject: &str, body: &[u8]) -> Message {
        let reply = self.reply();
        self.raw.send_bytes(&publish(subject, &reply, "", body));
        loop {
            let message = self.raw.message();
            if message.subject == reply {
                return message;
            }
        }
    }
}

/// A server of either kind, with JetStream in a folder.
pub(super) fn start(program: &Path, folder: &Path, lines: &str) -> Server {
    let setup = setup_in(folder, lines);
    if program == Path::new(PROGRAM) { setup.start() } else { setup.program(program).start() }
}

/// Settings of the streams that are tried.
pub(super) fn shapes() -> [(&'static str, Value); 5] {
    [
        ("FILE", json!({ "allow_msg_ttl": true })),
        ("PACKED", json!({ "allow_msg_ttl": true, "compression": "s2", "max_msgs_per_subject": 20 })),
        ("MEMORY", json!({ "allow_msg_ttl": true, "storage": "memory" })),
        ("SHORT", json!({ "allow_msg_ttl": true, "max_msgs": 100 })),
        ("WORK", json!({ "allow_msg_ttl": true, "retention": "workqueue" })),
    ]
}

/// Fills a stream with all that a stream can hold: gaps, headers, lifetimes, consumers in the
/// middle of their work.
pub(super) fn fill(asker: &mut Asker, name: &str, config: &Value) {
    asker.create(name, config);
    for n in 0..300 {
        let subject = format!("{name}.{}.x", n % 23);
        let body = format!("{n} ").repeat(n % 50);
        let headers = match n % 7 {
            0 => format!("Key: value {n}\r\n"),
            1 => "Nats-TTL: 262800h\r\n".to_owned(),
            2 => "Nats-TTL: never\r\nOther: 1\r\n".to_owned(),
            _ => String::new(),
        };
        asker.publish_with(&headers, &subject, &body);
    }
    for seq in [1, 2, 250, 251, 252, 270, 299, 300] {
        // Limits have taken some.
        asker.try_api(&format!("STREAM.MSG.DELETE.{name}"), &json!({ "seq": seq, "no_erase": true }));
    }
    let consumers = [
        ("NEW", json!({ "ack_policy": "explicit", "filter_subject": format!("{name}.1.*") })),
        ("BUSY", json!({ "ack_policy": "explicit", "filter_subject": format!("{name}.2.*") })),
    ];
    for (consumer, config) in consumers {
        let mut config = config;
        config["durable_name"] = json!(consumer);
        config["ack_wait"] = json!(3_600_000_000_000_u64);
        let request = json!({ "stream_name": name, "config": config });
        asker.api(
            &format!("CONSUMER.CREATE.{name}.{consumer}.{}", config["filter_subject"].as_str().unwrap_or("")),
            &request,
        );
    }
    let mut replies = Vec::new();
    for _ in 0..4 {
        let reply = asker.reply();
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{name}.BUSY");
        asker.raw.send_bytes(&publish(&next, &reply, "", b"1"));
        let message = asker.raw.message();
        replies.extend(message.reply);
    }
    // One is done, one is to come again, two are left open.
    if let [done, again, ..] = &replies[..] {
        asker.ask(done, "+ACK");
        asker.raw.publish(again, "-NAK");
        asker.raw.barrier();
    }
}

/// All that can be known of a stream, but for times that differ from server to server.
pub(super) fn digest(asker: &mut Asker, name: &str) -> Value {
    let info = asker.api(&format!("STREAM.INFO.{name}"), &json!({ "deleted_details": true }));
    let mut state = info["state"].clone();
    // A gap at an end may have the time of another message; those of messages are compared with
    // them.
    state["first_ts"].take();
    state["last_ts"].take();
    let mut messages = Vec::new();
    let mut seq = 0;
    loop {
        let answer =
            asker.try_api(&format!("STREAM.MSG.GET.{name}"), &json!({ "seq": seq + 1, "next_by_subj": ">" }));
        let message = answer["message"].clone();
        let Some(next) = message["seq"].as_u64() else { break };
        seq = next;
        messages.push(message);
    }
    let mut consumers = Vec::new();
    for consumer in asker.api(&format!("CONSUMER.LIST.{name}"), &Value::Null)["consumers"]
        .as_array()
        .into_iter()
        .flatten()
    {
        let mut kept = consumer.clone();
        for field in ["created", "ts", "cluster", "num_waiting"] {
            kept.as_object_mut().expect("a consumer").remove(field);
        }
        for field in ["delivered", "ack_floor"] {
            kept[field].as_object_mut().expect("a place").remove("last_active");
        }
        // Compat: of one that has done nothing, ours is where its stream begins.
        if kept["delivered"]["consumer_seq"] == 0 {
            for field in ["delivered", "ack_floor"] {
                kept[field].take();
            }
        }
        kept["config"]["metadata"].take();
        consumers.push(kept);
    }
    consumers.sort_by_key(|consumer| consumer["name"].to_string());
    let mut config = info["config"].clone();
    config["metadata"].take();
    json!({ "config": config, "state": state, "messages": messages, "consumers": consumers })
}

fn name_of(program: &Path) -> &str {
    program.file_name().and_then(|name| name.to_str()).unwrap_or("?")
}

/// The reference is still deleting what was there before, now and then, and has three attempts.
fn restore_surely(asker: &mut Asker, program: &Path, backup: &Backup, piece: usize) -> Value {
    let attempts = if program == Path::new(PROGRAM) { 1 } else { 3 };
    let mut answer = Value::Null;
    for _ in 0..attempts {
        answer = restore(asker, &backup.config, &backup.state, &backup.bytes, piece);
        if answer.get("error").is_none() {
            break;
        }
        let name = backup.config["name"].as_str().unwrap_or_default();
        asker.try_api(&format!("STREAM.DELETE.{name}"), &Value::Null);
    }
    answer
}

#[test]
fn each_server_restores_what_each_has_made() {
    let programs = programs();
    let homes: Vec<Home> = programs.iter().map(|_| Home::new()).collect();
    let servers: Vec<Server> =
        programs.iter().zip(&homes).map(|(program, home)| start(program, home.path(), "")).collect();
    let mut askers: Vec<Asker> = servers.iter().map(Asker::connect).collect();
    for (name, config) in shapes() {
        let mut backups = Vec::new();
        for (asker, program) in askers.iter_mut().zip(&programs) {
            fill(asker, name, &config);
            let before = digest(asker, name);
            assert!(before["messages"].as_array().is_some_and(|all| all.len() > 80), "{name}");
            let backup = back_up(asker, name, &json!({ "chunk_size": 1024 }), &mut || {});
            assert!(backup.end.starts_with("NATS/1.0 204"), "{}: {:?}", name_of(program), backup.end);
            backups.push((program.clone(), before, backup));
            asker.api(&format!("STREAM.DELETE.{name}"), &Value::Null);
        }
        for (asker, program) in askers.iter_mut().zip(&programs) {
            for (from, before, backup) in &backups {
                for piece in [1000, 100_000] {
                    let answer = restore_surely(asker, program, backup, piece);
                    let way = format!("{name} from {} into {}", name_of(from), name_of(program));
                    assert!(answer.get("error").is_none(), "{way}: {answer}");
                    assert_eq!(answer["type"], "io.nats.jetstream.api.v1.stream_create_response");
                    assert_eq!(digest(asker, name), *before, "{way}");
                    asker.api(&format!("STREAM.DELETE.{name}"), &Value::Null);
                }
            }
        }
    }
}

#[test]
fn a_restored_stream_outlives_the_server() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    fill(&mut asker, "S", &json!({ "allow_msg_ttl": true, "compression": "s2" }));
    let before = digest(&mut asker, "S");
    let backup = back_up(&mut asker, "S", &Value::Null, &mut || {});
    // Compat: everything has gone into one piece, and nobody says that it was good.
    assert_eq!(backup.end, "");
    asker.api("STREAM.DELETE.S", &Value::Null);
    restore(&mut asker, &backup.config, &backup.state, &backup.bytes, 5000);
    for signal in [Signal::KILL, Signal::TERM] {
        server.signal(signal);
        server.wait();
        server.restart();
        assert_eq!(digest(&mut Asker::connect(&server), "S"), before);
    }
    let mut asker = Asker::connect(&server);
    assert_eq!(asker.publish("S.a", "next"), json!({ "stream": "S", "seq": 301 }));
}

/// Messages that the consumer of a work queue was reset past stay for whoever goes back: a backup
/// says that they are no rest which should have gone.
#[test]
fn a_backup_carries_what_the_consumer_of_a_work_queue_was_reset_past() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("W", &json!({ "retention": "workqueue" }));
    let config = json!({ "stream_name": "W", "config": { "durable_name": "C", "ack_policy": "explicit" } });
    asker.api("CONSUMER.CREATE.W.C", &config);
    for n in 1..=5 {
        asker.publish("W.a", &n.to_string());
    }
    asker.api("CONSUMER.RESET.W.C", &json!({ "seq": 4 }));
    let backup = back_up(&mut asker, "W", &Value::Null, &mut || {});
    asker.api("STREAM.DELETE.W", &Value::Null);
    restore(&mut asker, &backup.config, &backup.state, &backup.bytes, 5000);
    assert_eq!(asker.number("W", "messages"), 5);
    server.signal(Signal::KILL);
    server.wait();
    server.restart();
    let mut asker = Asker::connect(&server);
    assert_eq!(asker.number("W", "messages"), 5);
    let back = asker.api("CONSUMER.RESET.W.C", &json!({ "seq": 1 }));
    assert_eq!((&back["num_pending"], &back["reset_seq"]), (&json!(5), &json!(1)), "{back}");
}

#[test]
fn a_backup_is_of_one_moment() {
    let home = Home::new();
    let server = home.start("");
    let (mut asker, mut other) = (Asker::connect(&server), Asker::connect(&server));
    asker.create("S", &json!({}));
    let body: String = (0..2000).map(|n| char::from(b'!' + (n * n % 89) as u8)).collect();
    for n in 0..500 {
        asker.publish("S.a", &format!("{n}{body}"));
    }
    let before = digest(&mut asker, "S");
    let request = json!({ "chunk_size": 1024, "window_size": 1024 });
    let backup = back_up(&mut asker, "S", &request, &mut || {
        for _ in 0..100 {
            other.publish("S.b", "later");
        }
    });
    assert_eq!((backup.state["messages"].as_u64(), other.number("S", "messages")), (Some(500), 600));
    asker.api("STREAM.DELETE.S", &Value::Null);
    restore(&mut asker, &backup.config, &backup.state, &backup.bytes, 100_000);
    assert_eq!(digest(&mut asker, "S"), before);
}

#[test]
fn what_is_damaged_leaves_nothing_behind() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    fill(&mut asker, "S", &json!({ "allow_msg_ttl": true }));
    let backup = back_up(&mut asker, "S", &Value::Null, &mut || {});
    asker.api("STREAM.DELETE.S", &Value::Null);
    let Backup { config, state, bytes, .. } = backup;
    let mut cases: Vec<Vec<u8>> =
        [0, 5, 30, bytes.len() / 2, bytes.len() - 1].map(|end| bytes[..end].to_vec()).into();
    for at in [0, 3, 12, 17, bytes.len() / 2, bytes.len() - 2] {
        let mut hurt = bytes.clone();
        hurt[at] ^= 0x40;
        cases.push(hurt);
    }
    cases.push(b"nothing of the kind".to_vec());
    for (number, case) in cases.iter().enumerate() {
        let answer = restore(&mut asker, &config, &state, case, 4000);
        assert!(answer["error"]["err_code"].as_u64().is_some(), "{number}: {answer}");
        assert_eq!(asker.api("STREAM.NAMES", &Value::Null)["total"], 0, "{number}");
        assert_eq!(asker.api("INFO", &Value::Null)["storage"], 0, "{number}");
    }
    server.signal(Signal::KILL);
    server.wait();
    server.restart();
    let mut asker = Asker::connect(&server);
    assert_eq!(asker.api("STREAM.NAMES", &Value::Null)["total"], 0);
    let answer = restore(&mut asker, &config, &state, &bytes, 4000);
    assert!(answer.get("error").is_none(), "{answer}");
}

#[test]
fn a_restore_that_was_interrupted_is_removed() {
    let home = Home::new();
    let mut server = home.start("");
    let mut asker = Asker::connect(&server);
    fill(&mut asker, "S", &json!({ "allow_msg_ttl": true }));
    let backup = back_up(&mut asker, "S", &Value::Null, &mut || {});
    asker.api("STREAM.DELETE.S", &Value::Null);
    let request = json!({ "config": backup.config, "state": backup.state });
    let answer = asker.api("STREAM.RESTORE.S", &request);
    let subject = answer["deliver_subject"].as_str().expect("a subject").to_owned();
    assert!(asker.ask_bytes(&subject, &backup.bytes).body.is_empty());
    server.signal(Signal::KILL);
    server.wait();
    server.restart();
    server.wait_for_log("Stream '$G > S' was not restored to its end, and was removed");
    let mut asker = Asker::connect(&server);
    assert_eq!(asker.api("STREAM.NAMES", &Value::Null)["total"], 0);
    asker.create("S", &json!({}));
}

#[test]
fn a_receiver_that_is_silent_or_leaves_is_given_up() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    for n in 0..200_u32 {
        asker.publish("S.a", &format!("{:?}", (0..200).map(|m| n * m * 7919 % 1009).collect::<Vec<_>>()));
    }
    asker.raw.subscribe("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S", 9);
    let small = json!({ "chunk_size": 1024, "window_size": 2048 });
    let complete = |asker: &mut Asker, pieces: &mut Pieces| loop {
        let message = if pieces.0.is_empty() { asker.raw.message() } else { pieces.0.remove(0) };
        if message.sid == "9" {
            let advisory: Value = serde_json::from_slice(&message.body).expect("an advisory");
            return advisory["error"].as_str().unwrap_or_default().to_owned();
        }
    };
    let (_, mut pieces) = begin_backup(&mut asker, "S", &small);
    // It has begun, and watches.
    pieces.next(&mut asker);
    asker.raw.send("UNSUB 7\r\n");
    assert_eq!(complete(&mut asker, &mut pieces), "no interest");
    let (_, mut pieces) = begin_backup(&mut asker, "S", &small);
    assert_eq!([pieces.next(&mut asker), pieces.next(&mut asker)].map(|piece| piece.body.len()), [1024; 2]);
    let end = pieces.next(&mut asker);
    assert!(end.text().starts_with("NATS/1.0 408 No Flow Response\r\n"), "{}", end.text());
    assert_eq!(complete(&mut asker, &mut pieces), "no flow response");
}

/// A backup that is cut short must not look whole: what was not read yet may be there or not.
///
/// Compat: nats-server says nothing more then, and the receiver waits for its own patience to end.
#[test]
fn a_backup_of_a_stream_that_is_deleted_ends_with_an_error() {
    for storage in ["file", "memory"] {
        let home = Home::new();
        let server = home.start("");
        let mut asker = Asker::connect(&server);
        asker.create("S", &json!({ "storage": storage }));
        for n in 0..200_u32 {
            let body = format!("{:?}", (0..200).map(|m| n * m * 7919 % 1009).collect::<Vec<_>>());
            asker.publish("S.a", &body);
        }
        asker.raw.subscribe("$JS.EVENT.ADVISORY.STREAM.SNAPSHOT_COMPLETE.S", 9);
        let small = json!({ "chunk_size": 1024, "window_size": 2048 });
        let backup = back_up(&mut asker, "S", &small, &mut || {
            Asker::connect(&server).api("STREAM.DELETE.S", &Value::Null);
        });
        assert!(backup.end.starts_with("NATS/1.0 500 stream was deleted\r\n"), "{}", backup.end);
        let advisory: Value = serde_json::from_slice(&asker.raw.message().body).expect("an advisory");
        assert_eq!(advisory["error"], "stream was deleted");
        // And the name is free.
        asker.create("S", &json!({}));
    }
}

/// Metadata of a restored stream: the API level in it follows from the configuration, whatever the
/// backup says.
#[test]
fn a_restored_stream_has_the_metadata_that_it_came_with() {
    let mut all = Vec::new();
    for program in programs() {
        let home = Home::new();
        let server = start(&program, home.path(), "");
        let mut asker = Asker::connect(&server);
        asker.create("S", &json!({ "allow_msg_ttl": true, "metadata": { "a": "b" } }));
        let backup = back_up(&mut asker, "S", &Value::Null, &mut || {});
        let mut said = Vec::new();
        for metadata in
            [json!({}), json!({ "c": "d" }), json!({ "_nats.req.level": "0", "_nats.level": "1" })]
        {
            asker.api("STREAM.DELETE.S", &Value::Null);
            let mut backup = backup.clone();
            backup.config["metadata"] = metadata;
            let answer = restore_surely(&mut asker, &program, &backup, 1000);
            assert!(answer.get("error").is_none(), "{answer}");
            let info = asker.api("STREAM.INFO.S", &Value::Null);
            said.push([answer["config"]["metadata"].clone(), info["config"]["metadata"].clone()]);
        }
        all.push(said);
    }
    assert_eq!(all[0][0][1].get("_nats.req.level"), None, "{all:?}");
    assert!(all.iter().all(|said| *said == all[0]), "{all:?}");
}

/// As the official client does it, whose inbox for answers matches the subject of the pieces.
#[test]
fn a_receiver_may_listen_after_the_answer() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    asker.publish("S.a", "x");
    let late = format!("{}.late", asker.inbox);
    asker.api("STREAM.SNAPSHOT.S", &json!({ "deliver_subject": late }));
    asker.raw.subscribe(&late, 8);
    let mut pieces = Vec::new();
    while pieces.last().is_none_or(|piece: &Message| !piece.body.is_empty()) {
        let message = asker.raw.message();
        if message.sid == "8" {
            pieces.push(message);
        }
    }
    assert_eq!(pieces.len(), 2);
    assert!(pieces[0].body.starts_with(b"\xff\x06\x00\x00S2sTwO"));
}

/// Paths of what was recorded of the reference.
pub(super) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/jetstream/fixtures").join(name)
}

/// Restored messages are encrypted like all others.
#[test]
fn a_backup_is_restored_into_an_encrypted_store() {
    for cipher in ["chacha", "aes"] {
        let home = Home::new();
        let mut server = home.start(&format!("key: \"a secret\"\ncipher: {cipher}"));
        let mut asker = Asker::connect(&server);
        fill(&mut asker, "S", &json!({ "allow_msg_ttl": true }));
        asker.publish("S.1.x", "words that must not be found");
        let before = digest(&mut asker, "S");
        let backup = back_up(&mut asker, "S", &Value::Null, &mut || {});
        asker.api("STREAM.DELETE.S", &Value::Null);
        let answer = restore(&mut asker, &backup.config, &backup.state, &backup.bytes, 5000);
        assert!(answer.get("error").is_none(), "{answer}");
        assert_eq!(digest(&mut asker, "S"), before);
        server.signal(Signal::KILL);
        server.wait();
        server.restart();
        assert_eq!(digest(&mut Asker::connect(&server), "S"), before);
        let found = Command::new("grep").args(["-rlq", "words that must not"]).arg(home.path()).status();
        assert_eq!(found.expect("grep is there").code(), Some(1), "{cipher}");
    }
}

#[test]
fn a_stream_that_overlaps_is_refused_in_the_references_words() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    fill(&mut asker, "S", &json!({ "allow_msg_ttl": true }));
    let backup = back_up(&mut asker, "S", &Value::Null, &mut || {});
    let mut config = backup.config.clone();
    config["name"] = json!("OTHER");
    let answer = restore(&mut asker, &config, &backup.state, &backup.bytes, 1_000_000);
    let why = "restore failed: error adding stream: subjects overlap with an existing stream (10065)";
    assert_eq!(answer["error"], json!({ "code": 500, "err_code": 10062, "description": why }));
}

/// Numbers from outside are added to those of the account, and taken off again.
#[test]
fn a_backup_that_says_to_be_endless_is_refused() {
    let home = Home::new();
    let server = home.start("");
    let mut asker = Asker::connect(&server);
    let mut archive = myelin_natsfiles::frames::FrameWriter::default();
    let state = format!(r#"{{"messages":1,"bytes":{},"first_seq":1,"last_seq":1}}"#, i64::MAX);
    archive.write(myelin_natsfiles::archive::MAGIC);
    let mut head = Vec::new();
    myelin_natsfiles::archive::put_head(&mut head, b"state.json", 1, 0, 0, state.len());
    archive.write(&head);
    archive.write(state.as_bytes());
    archive.flush();
    let config = json!({ "name": "S", "subjects": ["S.>"] });
    for _ in 0..3 {
        let answer = restore(&mut asker, &config, &json!({}), &archive.out, 1_000_000);
        assert_eq!(answer["error"]["err_code"], 10047, "{answer}");
        assert_eq!(asker.api("INFO", &Value::Null)["storage"], 0);
    }
}

/// As Go prints a span of time: whole parts with a unit, and not all zero where something was done.
fn is_span(text: &str) -> bool {
    let is_digit = |c: char| c.is_ascii_digit() || c == '.';
    let unit = text.trim_start_matches(is_digit);
    text.starts_with(|c: char| c.is_ascii_digit()) && ["ns", "µs", "ms", "s"].contains(&unit)
}

/// Lines of the log about a backup have the form of the reference's, and the time that it took.
#[test]
fn the_log_says_how_long_a_backup_took() {
    for program in programs() {
        let home = Home::new();
        let server = start(&program, home.path(), "");
        let mut asker = Asker::connect(&server);
        asker.create("S", &json!({}));
        asker.publish("S.a", "1");
        let backup = back_up(&mut asker, "S", &Value::Null, &mut || {});
        asker.api("STREAM.DELETE.S", &Value::Null);
        restore(&mut asker, &backup.config, &backup.state, &backup.bytes, 1024);
        let took = |what: &str| {
            let mut time = String::new();
            crate::eventually("a line on it", || {
                let log = server.log();
                let Some(line) = log.lines().find(|line| line.contains(what)) else { return false };
                assert!(line.contains("for stream '$G > S' in "), "{line}");
                line.rsplit(' ').next().unwrap_or_default().clone_into(&mut time);
                true
            });
            time
        };
        let snapshot = took("Completed snapshot of ");
        assert!(is_span(&snapshot) && !snapshot.starts_with("0"), "{snapshot} in {}", program.display());
        let restore = took("Completed restore of ");
        // In whole milliseconds.
        assert!(is_span(&restore) && !restore.ends_with("µs") && !restore.ends_with("ns"), "{restore}");
    }
}
