//! The index keeps its promise about memory: everything counted, at every size on the way to a
//! million subjects.

use myelin_store::index::SubjectIndex;

#[test]
fn a_subject_takes_at_most_64_bytes_beyond_its_text() {
    let mut index = SubjectIndex::new(1);
    let (mut text_bytes, mut number) = (0, 1_u64);
    for seq in 1..=1_000_000_u64 {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 13 to 24 bytes: neither all of one length nor in order.
        let text = format!("orders.{:x}.{}", number >> 33, seq % 100);
        text_bytes += text.len();
        let id = index.enter(text.as_bytes());
        // Every one is on the list of touched subjects, too.
        index.appended(id, seq, 1);
        if seq >= 50_000 && seq % 5_000 == 0 {
            let beyond = (index.memory_bytes() - text_bytes) as f64 / index.len() as f64;
            assert!(beyond <= 64.0, "{beyond} bytes each at {seq}");
        }
    }
    assert!(index.len() > 999_000);
}
