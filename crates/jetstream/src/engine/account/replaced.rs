//! Streams in whose place others stand: a start has found both.

use myelin_jsapi::config::stored::Stored;
use myelin_store::FoundStream;
use std::collections::BTreeSet;

/// Has streams be removed in whose place others stand: a start has found both.
pub(in crate::engine) fn mark_replaced(found: &mut [FoundStream]) {
    let stored = |stream: &FoundStream| Stored::decode(&stream.meta.config).ok();
    let whole = found.iter().filter_map(stored).filter(|stored| !stored.unfinished);
    let replaced: BTreeSet<u64> = whole.map(|stored| stored.in_place_of).filter(|&id| id > 0).collect();
    for stream in found.iter_mut().filter(|stream| replaced.contains(&stream.id.0)) {
        if let Some(stored) = stored(stream) {
            stream.meta.config = Stored { unfinished: true, ..stored }.encode();
        }
    }
}
