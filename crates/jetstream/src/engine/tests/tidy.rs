//! The log of a stream's consumers is written anew beside the work.

use super::house::{House, stream};
use myelin_stdx::sync::lock;
use myelin_store::consumer::AckRules;

#[test]
fn what_is_asked_for_again_and_again_is_done_once() {
    let mut house = House::new();
    house.create(stream("S"));
    let live = house.stream("S");
    let blob = vec![7; 64 << 10];
    for round in 0..2 {
        for _ in 0..20 {
            let noted =
                live.consumers().note_position("source of: nothing", AckRules::default(), Some(&blob));
            noted.expect("the disk takes it");
        }
        assert_eq!(lock(&house.host.reads).len(), 1, "{round}");
        house.settle();
    }
    assert_eq!(
        live.consumers().positions("source of: ", |kept| Some(kept.len())),
        [("nothing".into(), 64 << 10)]
    );
}
