//! Whatever is random in streams and consumers comes from the given source: equal seeds give equal
//! messages and files.

use super::house::{House, copy, source, stream};
use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_disk::Disk;
use myelin_disk::faulty::FaultyDisk;
use myelin_jsapi::config::StreamConfig;
use myelin_jsapi::consumer::config::{AckPolicy, ConsumerConfig};
use myelin_stdx::sync::lock;
use myelin_wire::message_buf::MessageRef;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const SECOND: i64 = 1_000_000_000;

/// Keeps every message that it hears, whole.
#[derive(Default)]
struct Recorder(Mutex<Vec<[Vec<u8>; 4]>>);

impl Service for Recorder {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let whole =
            msgs.iter().map(|msg| [msg.subject, msg.reply, msg.headers, msg.payload].map(<[u8]>::to_vec));
        lock(&self.0).extend(whole);
        msgs.clear();
    }
}

/// Everything that was published, and everything that is on the disk in the end.
type Seen = (Vec<[Vec<u8>; 4]>, BTreeMap<PathBuf, Vec<u8>>);

fn run_with(seed: u64) -> Seen {
    let disk = FaultyDisk::new(1);
    let mut house = House::seeded(&disk, seed);
    let recorder = Arc::<Recorder>::default();
    for subject in ["to.*", "ack.*", "$JS.EVENT.>"] {
        let _ = house.account.bind(subject.as_bytes(), Arc::clone(&recorder) as Arc<dyn Service>);
    }
    house.create(StreamConfig { max_msgs_per_subject: 3, ..stream("S") });
    house.create(copy("C", &[source("S", "S.a.>")]));
    let pull = |name: &str| ConsumerConfig {
        name: name.into(),
        durable_name: name.into(),
        ack_policy: AckPolicy::Explicit,
        ack_wait: SECOND,
        ..ConsumerConfig::default()
    };
    house.consume("S", pull("all"));
    house.consume("S", ConsumerConfig { sample_freq: "50%".into(), ..pull("sampled") });
    for n in 0..40 {
        let reply = format!("ack.{n}");
        house.say(&format!("S.{}.{}", ["a", "b"][n % 2], n % 7), &reply, "payload");
        for consumer in ["all", "sampled"] {
            let next = format!("$JS.API.CONSUMER.MSG.NEXT.S.{consumer}");
            house.say(&next, &format!("to.{consumer}"), r#"{"batch":3,"no_wait":true}"#);
        }
        house.settle();
        let replies: Vec<Vec<u8>> = lock(&recorder.0).iter().map(|message| message[1].clone()).collect();
        let last = replies.iter().rfind(|reply| reply.starts_with(b"$JS.ACK"));
        if let Some(last) = last.filter(|_| n % 3 == 0) {
            let last = String::from_utf8(last.clone()).unwrap();
            house.say(&last, "", "+ACK");
            house.settle();
        }
        house.pass(SECOND / 4);
    }
    house.delete("C");
    house.pass(5 * SECOND);
    live_on(&mut house, pull);
    drop(house);
    // What a start writes anew, and in which order it opens what it finds, is in no order of a
    // hash.
    let disk = disk.kill();
    let mut house = House::seeded(&disk, seed);
    let _ = house.account.bind(b"to.*", Arc::clone(&recorder) as Arc<dyn Service>);
    house.pass(5 * SECOND);
    house.say("S.a.last", "", "payload");
    house.settle();
    let messages = lock(&recorder.0).clone();
    let mut files = BTreeMap::new();
    collect(&disk, Path::new("/store"), &mut files);
    (messages, files)
}

/// Lets there be what stands in tables: streams without a message, schedules, consumers that share
/// a log, and some of all that are gone.
fn live_on(house: &mut House, pull: impl Fn(&str) -> ConsumerConfig) {
    for n in 0..12 {
        house.create(stream(&format!("E{n}")));
    }
    house.delete("E5");
    house.delete("E7");
    for n in 0..8 {
        house.consume("S", pull(&format!("more{n}")));
    }
    house.create(StreamConfig { allow_msg_schedules: true, allow_rollup_hdrs: true, ..stream("T") });
    for n in 0..12 {
        let headers = format!(
            "NATS/1.0\r\nNats-Schedule: @every {}s\r\nNats-Schedule-Target: T.fired.{n}\r\n\r\n",
            1 + n % 3
        );
        let subject = format!("T.schedule.{n}");
        house.send(MessageRef {
            subject: subject.as_bytes(),
            headers: headers.as_bytes(),
            payload: b"fired",
            ..MessageRef::default()
        });
    }
    house.settle();
    (0..12).for_each(|_| house.pass(SECOND / 2));
    assert!(house.contents("T").1 > 30, "schedules have fired: {:?}", house.contents("T"));
    for n in 0..8 {
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.S.more{n}");
        house.say(&next, "to.more", r#"{"batch":5,"no_wait":true}"#);
        house.settle();
    }
    house.pass(5 * SECOND);
}

fn collect(disk: &FaultyDisk, folder: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in disk.list(folder).unwrap() {
        let path = folder.join(&entry.name);
        if entry.is_directory {
            collect(disk, &path, files);
            continue;
        }
        let file = disk.open(&path).unwrap();
        let mut bytes = vec![0; file.len().unwrap() as usize];
        let read = file.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(read);
        files.insert(path, bytes);
    }
}

#[test]
fn equal_seeds_give_equal_messages_and_files() {
    let (messages, files) = run_with(1);
    assert!(messages.len() > 100, "{} messages", messages.len());
    let (same_messages, same_files) = run_with(1);
    assert_eq!(same_messages.len(), messages.len());
    for (n, (one, other)) in messages.iter().zip(&same_messages).enumerate() {
        assert_eq!(
            one.each_ref().map(|part| String::from_utf8_lossy(part)),
            other.each_ref().map(|part| String::from_utf8_lossy(part)),
            "message {n}"
        );
    }
    assert_eq!(files.keys().collect::<Vec<_>>(), same_files.keys().collect::<Vec<_>>());
    let differ: Vec<_> =
        files.iter().filter(|(path, bytes)| same_files[*path] != **bytes).map(|(path, _)| path).collect();
    assert!(differ.is_empty(), "{differ:?}");
    assert_ne!(run_with(2).1, files, "the salts of files are others");
}
