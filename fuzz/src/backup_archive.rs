//! Backups from strangers, in both formats: the framing, the archive, the tar, and what is inside.
//!
//! Promised: any bytes are read or refused, in whatever pieces they come and with the same result;
//! nothing larger than its limit is ever held. What was written is read as it was. A stream that is
//! filled has its messages in order, whatever sequences they had.

use myelin_jsapi::config::{Storage, StreamConfig};
use myelin_jsapi::consumer::config::ConsumerConfig;
use myelin_natsfiles::archive::{self, ArchiveReader, put_head};
use myelin_natsfiles::frames::{FrameReader, FrameWriter, unpack_all};
use myelin_natsfiles::tar::TarReader;
use myelin_store::consumer::Consumers;
use myelin_store::{Seq, Stream};
use myelin_streams::backup::backup_reader::{BackupReader, RestoreError, RestoreProgress, RestoreTarget};
use myelin_streams::backup::state::{ArchivedConsumer, StreamSummary};
use myelin_streams::backup::stream_builder::StreamBuilder;
use myelin_streams::stream::storage_config;

/// Bytes of a message, at most.
const LARGEST: usize = 4096;

/// Any bytes as a stream of frames, as what is inside of one, and as the JSON inside of that.
pub fn backup_archive(data: &[u8]) {
    let whole = read(data, data.len().max(1));
    assert_eq!(whole, read(data, 7));
    let _ = unpack_all(data, 1 << 20);
    let mut inside = FrameWriter::default();
    inside.write(archive::MAGIC);
    inside.write(data);
    inside.flush();
    assert_eq!(read(&inside.out, inside.out.len()), read(&inside.out, 5));
    restore(&inside.out);
    read_tar(data);
    let _ = StreamSummary::read(data);
    if let Ok(consumer) = ArchivedConsumer::read("C", data) {
        let again = ArchivedConsumer::write(&consumer.config, &consumer.state, u64::MAX);
        let again = ArchivedConsumer::read("C", &again).map(|consumer| consumer.state);
        assert_eq!(again, Ok(consumer.state));
    }
    written_is_read(data);
}

/// How many entries there were, their bytes, and what ended it.
fn read(bytes: &[u8], step: usize) -> (usize, usize, Option<String>) {
    let mut reader = ArchiveReader::new(FrameReader::default(), LARGEST);
    let (mut count, mut size) = (0, 0);
    for piece in bytes.chunks(step) {
        reader.feed(piece);
        loop {
            let mut budget = 100;
            match reader.next(&mut budget) {
                Ok(Some(entry)) => {
                    if entry.sequence > 0 {
                        assert!(entry.headers.len() + entry.payload.len() <= LARGEST);
                    }
                    count += 1;
                    size += entry.name.len() + entry.headers.len() + entry.payload.len();
                }
                Ok(None) if budget == 0 => {}
                Ok(None) => break,
                Err(error) => return (count, size, Some(error.to_string())),
            }
        }
    }
    (count, size, None)
}

fn read_tar(data: &[u8]) {
    let mut inside = FrameWriter::default();
    inside.write(data);
    inside.write(&[0; 1024]);
    inside.flush();
    restore(&inside.out);
    let mut reader = TarReader::new(FrameReader::default());
    reader.feed(&inside.out);
    let mut budget = 1 << 20;
    while let Ok(Some(file)) = reader.next(&mut budget) {
        assert!(file.data.len() <= data.len() + 1024);
    }
}

/// Takes everything, in memory.
struct Everything;

const NOW: i64 = 1_700_000_000_000_000_000;

impl RestoreTarget for Everything {
    fn name(&self) -> &str {
        "S"
    }

    fn largest(&self) -> usize {
        LARGEST
    }

    fn open(&mut self, first: Seq, _: u64) -> Result<StreamBuilder, RestoreError> {
        let config = StreamConfig { name: "S".into(), storage: Storage::Memory, ..StreamConfig::default() };
        let stream = Stream::in_memory(storage_config(&config, false), 1, NOW);
        let mut builder = StreamBuilder::new(config, NOW, stream, Consumers::in_memory());
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

/// Restores a backup until it is whole or refused.
fn restore(bytes: &[u8]) {
    let mut reader = BackupReader::default();
    reader.feed(bytes);
    loop {
        match reader.work(&mut Everything, 1000, NOW) {
            Ok(RestoreProgress::More) => {}
            Ok(_) => break,
            Err(_) => return,
        }
    }
    assert!(reader.held() < 64 << 20, "held for {} bytes", bytes.len());
    if let Ok(built) = reader.finish(&mut Everything, NOW) {
        let totals = built.stream.state().totals;
        assert!(totals.messages <= totals.last_seq.saturating_add(1).saturating_sub(totals.first_seq));
    }
}

fn written_is_read(data: &[u8]) {
    let (name, payload) = data.split_at(data.len() / 3);
    let mut writer = FrameWriter::default();
    writer.write(archive::MAGIC);
    let mut head = Vec::new();
    put_head(&mut head, name, -5, 9, 0, payload.len());
    writer.write(&head);
    writer.write(payload);
    writer.flush();
    let mut reader = ArchiveReader::new(FrameReader::default(), data.len());
    reader.feed(&writer.out);
    let mut budget = usize::MAX;
    let entry = reader.next(&mut budget).expect("it was written so").expect("it is there");
    assert_eq!((entry.name, entry.payload, entry.timestamp, entry.sequence), (name, payload, -5, 9));
}
