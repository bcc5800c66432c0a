//! Contents of a stream, as it tells them.

use super::house::{House, stream};
use crate::engine::host::Host;
use myelin_jsapi::api::DELETED_LIMIT;
use myelin_jsapi::config::{Storage, StreamConfig};

/// A gap may be as wide as sequences are high: listed whole it would take the server's memory.
#[test]
fn of_a_wide_gap_so_many_sequences_are_listed_and_all_are_counted() {
    let mut house = House::new();
    house.create(StreamConfig { storage: Storage::Memory, ..stream("S") });
    house.publish("S.a");
    let live = house.stream("S");
    let end = 4 * DELETED_LIMIT as u64;
    let now = house.host.now();
    let mut guard = live.lock_core().expect("it is there");
    let (core, effects) = guard.parts();
    core.store_mut().skip(end, now).expect("the disk has room");
    core.released(effects);
    drop(guard);
    house.settle();
    house.publish("S.a");
    assert_eq!(live.failure(), None);
    let state = live.state(true);
    assert_eq!((state.first_seq, state.last_seq, state.num_deleted), (1, end + 1, end - 1));
    assert_eq!((state.deleted.len(), state.deleted[0]), (DELETED_LIMIT, 2));
    assert_eq!(state.deleted_unlisted, end - 1 - DELETED_LIMIT as u64);
    let brief = live.state(false);
    assert!(brief.deleted.is_empty() && brief.deleted_unlisted == 0);
}
