//! Backups from strangers: what is refused, with which words, and that it costs little.

use super::backup_reader::{BackupReader, RestoreError, RestoreProgress, RestoreTarget};
use super::stream_builder::{BuiltStream, StreamBuilder};
use crate::stream::storage_config;
use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_natsfiles::archive::{self, put_head};
use myelin_natsfiles::frames::FrameWriter;
use myelin_natsfiles::hash::Hasher;
use myelin_store::consumer::Consumers;
use myelin_store::{Seq, Stream, Timestamp};

const NOW: Timestamp = 1_700_000_000_000_000_000;

/// Takes everything, in memory.
#[derive(Default)]
struct Everything {
    opened: usize,
}

fn config() -> StreamConfig {
    StreamConfig {
        name: "S".into(),
        subjects: vec!["s.>".into()],
        storage: Storage::Memory,
        max_msgs: -1,
        max_bytes: -1,
        max_msgs_per_subject: -1,
        allow_msg_ttl: true,
        ..StreamConfig::default()
    }
}

impl RestoreTarget for Everything {
    fn name(&self) -> &str {
        "S"
    }

    fn largest(&self) -> usize {
        1 << 20
    }

    fn open(&mut self, first: Seq, _: u64) -> Result<StreamBuilder, RestoreError> {
        self.opened += 1;
        let stream = Stream::in_memory(storage_config(&config(), false), 1, NOW);
        let mut builder = StreamBuilder::new(config(), NOW, stream, Consumers::in_memory());
        builder.start_at(first, NOW)?;
        Ok(builder)
    }

    fn consumer(&mut self, _: &StreamConfig, config: ConsumerConfig) -> Result<ConsumerConfig, RestoreError> {
        Ok(config)
    }

    fn admit(&mut self, _: u64) -> Result<(), RestoreError> {
        Ok(())
    }
}

/// Outcome of restoring these bytes: number of messages, first and last sequence, or why not.
fn restored(packed: &[u8]) -> Result<(u64, Seq, Seq), String> {
    let totals = built(packed)?.stream.state().totals;
    Ok((totals.messages, totals.first_seq, totals.last_seq))
}

/// Parts of a backup that were left out, as an operator is told of them.
fn left(packed: &[u8]) -> Result<Vec<String>, String> {
    built(packed).map(|built| built.left)
}

fn built(packed: &[u8]) -> Result<BuiltStream, String> {
    let (mut reader, mut target) = (BackupReader::default(), Everything::default());
    for piece in packed.chunks(10_000) {
        reader.feed(piece);
        while reader.work(&mut target, 1 << 20, NOW).map_err(|fault| fault.to_string())?
            == RestoreProgress::More
        {}
    }
    reader.finish(&mut target, NOW).map_err(|(_, fault)| fault.to_string())
}

#[derive(Default)]
struct Archive(FrameWriter);

impl Archive {
    fn new(state: &str) -> Self {
        let mut archive = Self::default();
        archive.0.write(archive::MAGIC);
        archive.entry(b"state.json", 0, state.as_bytes())
    }

    fn entry(mut self, name: &[u8], seq: Seq, data: &[u8]) -> Self {
        let mut head = Vec::new();
        put_head(&mut head, name, NOW, seq, 0, data.len());
        self.0.write(&head);
        self.0.write(data);
        self
    }

    fn message(self, seq: Seq) -> Self {
        self.entry(b"s.a", seq, b"x")
    }

    fn end(mut self) -> Vec<u8> {
        let mut head = Vec::new();
        put_head(&mut head, b"", 0, 0, 0, 0);
        self.0.write(&head);
        self.0.flush();
        self.0.out
    }
}

const CONSUMER: &[u8] = br#"{"config":{"durable_name":"C","ack_policy":"explicit"},"state":{}}"#;

#[test]
fn members_come_in_their_order() {
    let state = r#"{"messages":2,"first_seq":1,"last_seq":2,"consumer_count":1}"#;
    let good = Archive::new(state).entry(b"consumers/C", 0, CONSUMER).message(1).message(2);
    assert_eq!(restored(&good.end()), Ok((2, 1, 2)));
    let early = Archive::new(state).message(1).entry(b"consumers/C", 0, CONSUMER);
    assert_eq!(restored(&early.end()), Err(r#"expected consumer, found "s.a""#.into()));
    let plain = r#"{"messages":2,"first_seq":1,"last_seq":2}"#;
    let late = Archive::new(plain).message(1).entry(b"consumers/C", 0, CONSUMER);
    assert_eq!(restored(&late.end()), Err("expected message sequence".into()));
    let twice = Archive::new(plain).entry(b"state.json", 0, plain.as_bytes());
    assert_eq!(restored(&twice.end()), Err("expected message sequence".into()));
    let backwards = Archive::new(plain).message(2).message(1);
    assert_eq!(restored(&backwards.end()), Err("message sequence 1 out of order".into()));
    let mut headless = Archive::default();
    headless.0.write(archive::MAGIC);
    assert_eq!(restored(&headless.message(1).end()), Err("expected state.json first".into()));
    let fewer = Archive::new(state).end();
    assert!(restored(&fewer).is_err());
}

#[test]
fn numbers_that_cannot_be_are_refused() {
    let most = u64::MAX;
    for state in [
        format!(r#"{{"first_seq":{most},"last_seq":{}}}"#, most - 1),
        format!(r#"{{"messages":1,"first_seq":1,"last_seq":{most}}}"#),
        format!(r#"{{"messages":{most},"bytes":{most},"first_seq":1,"last_seq":{most}}}"#),
    ] {
        assert!(restored(&Archive::new(&state).message(1).end()).is_err(), "{state}");
    }
    let plain = r#"{"messages":1,"first_seq":1,"last_seq":1}"#;
    assert!(restored(&Archive::new(plain).message(most).end()).is_err());
    let consumer = format!(
        r#"{{"config":{{"durable_name":"C"}},"state":{{"delivered":{{"consumer_seq":{most},"stream_seq":{most}}},
            "pending":{{"{most}":{{"Sequence":{most},"Timestamp":{}}}}},"redelivered":{{"{most}":{most}}}}}}}"#,
        i64::MIN
    );
    let state = r#"{"messages":1,"first_seq":1,"last_seq":1,"consumer_count":1}"#;
    let hostile = Archive::new(state).entry(b"consumers/C", 0, consumer.as_bytes()).message(1).end();
    assert!(restored(&hostile).is_err());
}

/// Each would be a file of its own.
#[test]
fn messages_far_apart_are_refused() {
    let far = |count: u64, step: u64| {
        let state = format!(r#"{{"messages":{count},"first_seq":1,"last_seq":{}}}"#, 1 + (count - 1) * step);
        (0..count).fold(Archive::new(&state), |archive, n| archive.message(1 + n * step)).end()
    };
    let refused = Err("too many of its messages are far apart".to_owned());
    assert_eq!(restored(&far(5000, 1 << 40)), refused);
    assert_eq!(restored(&far(70_000, 1 << 21)), refused);
    // As old streams have it.
    assert_eq!(restored(&far(100, 1 << 40)), Ok((100, 1, 1 + (99 << 40))));
    assert_eq!(restored(&far(70_000, 1 << 20)), Ok((70_000, 1, 1 + (69_999 << 20))));
}

#[test]
fn names_of_consumers_are_names() {
    let state = r#"{"messages":0,"first_seq":1,"last_seq":0,"consumer_count":1}"#;
    for name in ["", "../C", "/C", "a/b", "a.b", "a b", "..", "a\\b", "*"] {
        let full = [b"consumers/", name.as_bytes()].concat();
        let config = CONSUMER.to_vec();
        assert!(restored(&Archive::new(state).entry(&full, 0, &config).end()).is_err(), "{name:?}");
    }
    // Twice the same.
    let two = r#"{"messages":0,"first_seq":1,"last_seq":0,"consumer_count":2}"#;
    let twice = Archive::new(two).entry(b"consumers/C", 0, CONSUMER).entry(b"consumers/C", 0, CONSUMER);
    assert!(restored(&twice.end()).is_err());
}

#[test]
fn consumers_without_end_are_refused() {
    let mut described = super::backup_reader::Described::default();
    let count = (0..1_000_000).take_while(|_| described.add(100).is_ok()).count();
    assert!((50_000..200_000).contains(&count), "{count}");
}

#[test]
fn what_has_ended_leaves_its_sequence() {
    let state = r#"{"messages":3,"first_seq":1,"last_seq":5}"#;
    let mut archive = Archive::new(state).message(1);
    for seq in [2, 4] {
        let headers = b"NATS/1.0\r\nNats-TTL: 1s\r\n\r\n";
        let mut head = Vec::new();
        put_head(&mut head, b"s.a", NOW - 5_000_000_000, seq, headers.len(), 0);
        archive.0.write(&head);
        archive.0.write(headers);
    }
    assert_eq!(restored(&archive.end()), Ok((1, 1, 5)));
}

/// The other format: files in a tar.
#[derive(Default)]
struct Tar(Vec<u8>);

impl Tar {
    fn file(self, name: &str, data: &[u8]) -> Self {
        self.member(name, b'0', data)
    }

    fn member(mut self, name: &str, kind: u8, data: &[u8]) -> Self {
        let mut header = [0; 512];
        header[..name.len()].copy_from_slice(name.as_bytes());
        header[124..135].copy_from_slice(format!("{:011o}", data.len()).as_bytes());
        header[148..156].fill(b' ');
        header[156] = kind;
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        header[148..154].copy_from_slice(format!("{sum:06o}").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(data);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn described() -> Self {
        let meta = br#"{"name":"S","subjects":["s.>"]}"#;
        Self::default().file("meta.inf", meta).file("meta.sum", digits("S", meta).as_bytes())
    }

    fn end(self) -> Vec<u8> {
        let mut frames = FrameWriter::default();
        frames.write(&self.0);
        frames.write(&[0; 1024]);
        frames.flush();
        frames.out
    }
}

fn digits(name: &str, bytes: &[u8]) -> String {
    Hasher::new(name).sum(&[bytes]).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A record of a block, with its checksum.
fn record(block: u32, seq: Seq, subject: &[u8]) -> Vec<u8> {
    let mut bytes = ((22 + subject.len() + 8) as u32).to_le_bytes().to_vec();
    bytes.extend_from_slice(&seq.to_le_bytes());
    bytes.extend_from_slice(&NOW.to_le_bytes());
    bytes.extend_from_slice(&(subject.len() as u16).to_le_bytes());
    bytes.extend_from_slice(subject);
    let sum = Hasher::new(&format!("S-{block}")).sum(&[&bytes[4..20], subject]);
    bytes.extend_from_slice(&sum);
    bytes
}

fn block(seqs: impl IntoIterator<Item = Seq>) -> Vec<u8> {
    seqs.into_iter().flat_map(|seq| record(1, seq, b"s.a")).collect()
}

/// An index behind this block, of one block with these words of deletions.
fn index(block: &[u8], last: Seq, nodes: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![11, 4, 1, 9, 1, 0];
    put_number(last, &mut bytes);
    bytes.extend_from_slice(&[0, 0, 1, 1, 9, 1, 0, 2, 0, 1, 0, 0, 22, 2]);
    bytes.extend_from_slice(&(nodes.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&[0; 4]);
    for (base, word) in nodes {
        bytes.extend_from_slice(&base.to_le_bytes());
        (0..32).for_each(|_| bytes.extend_from_slice(&word.to_le_bytes()));
        bytes.extend_from_slice(&[1, 0]);
    }
    bytes.push(1);
    bytes.extend_from_slice(&block[block.len() - 8..]);
    let sum = Hasher::new("S").sum(&[&bytes]);
    bytes.extend_from_slice(&sum);
    bytes
}

fn put_number(mut value: u64, out: &mut Vec<u8>) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

#[test]
fn an_old_backup_is_files_in_their_order() {
    let good = Tar::described().file("msgs/1.blk", &block([1, 2, 5]));
    assert_eq!(restored(&good.end()), Ok((3, 1, 5)));
    let early = Tar::default().file("msgs/1.blk", &block([1]));
    assert_eq!(restored(&early.end()), Err("expected the stream's description first".into()));
    let meta = br#"{"name":"T","subjects":["s.>"]}"#;
    let other = Tar::default().file("meta.inf", meta);
    assert_eq!(restored(&other.end()), Err("stream names do not match".into()));
}

/// Compat: the reference restores what there is, too. There may be no other backup.
#[test]
fn what_is_damaged_in_an_old_backup_is_named_and_the_rest_is_taken() {
    let good = || Tar::described().file("msgs/1.blk", &block([1, 2, 5]));
    assert_eq!(left(&good().end()), Ok(vec![]));
    let mut cut = block([6, 7]);
    cut.truncate(cut.len() - 1);
    let cut = good().file("msgs/2.blk", &cut).file("errors.txt", b"could not read message block [3]");
    let said = left(&cut.end()).expect("it is restored");
    assert!(said[0].starts_with("the end of block 2.blk: a checksum is wrong"), "{said:?}");
    assert_eq!(said[1..], ["could not read message block [3]"]);
    let meta = br#"{"name":"S","subjects":["s.>"]}"#;
    let sums = [None, Some(digits("S", b"other")), Some(digits("T", meta))];
    for sum in sums {
        let mut tar = Tar::default().file("meta.inf", meta);
        if let Some(sum) = &sum {
            tar = tar.file("meta.sum", sum.as_bytes());
        }
        let said = left(&tar.file("msgs/1.blk", &block([1, 2, 5])).end()).expect("it is restored");
        assert_eq!(said.len(), usize::from(sum.is_some()), "{said:?}");
    }
}

#[test]
fn states_of_both_versions_come_with_an_old_backup() {
    let meta = br#"{"name":"C","durable_name":"C","ack_policy":"explicit"}"#;
    let with = |state: &[u8]| {
        let sum = digits("S/C", meta);
        let tar = Tar::described()
            .file("msgs/1.blk", &block(1..=9))
            .file("obs/C/meta.inf", meta)
            .file("obs/C/meta.sum", sum.as_bytes())
            .file("obs/C/o.dat", state);
        built(&tar.end()).map(|built| {
            let consumer = built.consumers.iter().next().expect("there is one").1.state().clone();
            let pending =
                consumer.pending().iter().map(|(seq, one)| (seq, one.delivery.0)).collect::<Vec<_>>();
            (consumer.delivered().stream, consumer.ack_floor().stream, pending)
        })
    };
    // Floor 5, delivered 8; 7 and 8 are pending.
    let pending = vec![(7, 3), (8, 4)];
    assert_eq!(with(&[22, 2, 2, 5, 4, 8, 2, 0, 2, 1, 0, 3, 2, 0, 0]), Ok((8, 5, pending.clone())));
    assert_eq!(with(&[22, 1, 2, 5, 3, 4, 2, 0, 3, 0, 2, 0, 0]), Ok((8, 5, pending)));
    assert_eq!(with(b""), Ok((0, 0, vec![])));
    assert_eq!(with(&[22, 9]), Err(r#"error restoring consumer ["C"]: corrupt state"#.into()));
}

/// Nothing of what is in a tar is ever a path.
#[test]
fn strange_files_are_refused() {
    for name in ["../../etc/passwd", "/etc/passwd", "msgs/../1.blk", "obs/../../C/meta.inf", "other", "msgs"]
    {
        let refused = restored(&Tar::described().file(name, b"x").end());
        assert_eq!(refused, Err(format!("unexpected content {name:?}")), "{name}");
    }
    for kind in *b"123456LKgS" {
        let refused = restored(&Tar::described().member("msgs/1.blk", kind, b"").end());
        assert_eq!(refused, Err("unexpected content".into()), "{}", char::from(kind));
    }
    let meta = br#"{"name":"C","durable_name":"C"}"#;
    for name in ["..", "a b", "*"] {
        let tar = Tar::described()
            .file(&format!("obs/{name}/meta.inf"), meta)
            .file(&format!("obs/{name}/meta.sum"), digits(&format!("S/{name}"), meta).as_bytes());
        assert!(restored(&tar.end()).is_err(), "{name}");
    }
}

/// Sequences that an index names cost nothing beyond what its messages have cost.
#[test]
fn an_index_that_names_everything_is_no_work() {
    let messages = block([1, 64, 65, 200, 1 << 40]);
    // All there is but 64, and millions of sequences besides.
    let mut nodes = vec![(0, !1)];
    nodes.extend((1..2000).map(|n| (n << 30, u64::MAX)));
    let tar = Tar::described()
        .file("msgs/1.blk", &messages)
        .file("msgs/index.db", &index(&messages, 1 << 40, &nodes));
    assert_eq!(restored(&tar.end()), Ok((1, 64, 1 << 40)));
}
