//! Files of nats-server's store: blocks of messages, the index, the states of consumers.
//!
//! Promised: any bytes are read or refused. A block gives records that lie in it, in order, each
//! behind a right checksum, and ends.

use myelin_natsfiles::block::{Record, Records, readable};
use myelin_natsfiles::consumer::NatsConsumerState;
use myelin_natsfiles::hash::Hasher;
use myelin_natsfiles::index::NatsIndex;
use myelin_natsfiles::keys::Keys;

/// Any bytes as each of the files, and as records whose checksums are right.
pub fn store_import(data: &[u8]) {
    let _ = NatsConsumerState::read(data);
    let _ = NatsIndex::read(data, "S", None);
    let mut summed = data.to_vec();
    summed.extend_from_slice(&Hasher::new("S").sum(&[data]));
    let _ = NatsIndex::read(&summed, "S", None);
    let _ = Keys::new(vec![b"key".to_vec()]).unseal("A", "S", data);
    if let Ok(block) = readable(data.to_vec(), None, 1 << 20) {
        count(&block);
    }
    let block = sealed(data);
    assert!(data.len() < 2 || count(&block) > 0);
}

fn count(block: &[u8]) -> usize {
    let mut count = 0;
    for record in Records::new(block, "S", 1).map_while(Result::ok) {
        count += 1;
        if let Record::Message { seq, subject, headers, payload, .. } = record {
            assert!(seq != 0 && subject.len() + headers.len() + payload.len() <= block.len());
        }
        assert!(count <= block.len() / 30);
    }
    count
}

/// A record of these bytes.
fn sealed(data: &[u8]) -> Vec<u8> {
    let (subject, payload) = data.split_at(data.len() / 2);
    let mut record = ((22 + data.len() + 8) as u32).to_le_bytes().to_vec();
    let mut numbers = [0; 16];
    for (number, byte) in numbers.iter_mut().zip(data) {
        *number = *byte;
    }
    record.extend_from_slice(&numbers);
    record.extend_from_slice(&(subject.len() as u16).to_le_bytes());
    record.extend_from_slice(data);
    let sum = Hasher::new("S-1").sum(&[&numbers[..], subject, payload]);
    record.extend_from_slice(&sum);
    record
}
