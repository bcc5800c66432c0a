//! Leaks as fuzzers see them. One test, for the allocator counts the whole process.

use myelin_fuzz::watched;
use std::cell::RefCell;
use std::panic::catch_unwind;
use std::rc::Rc;

/// A value that holds itself, as long as the input says.
fn cycle(data: &[u8]) {
    struct Node(RefCell<Option<Rc<Node>>>, Vec<u8>);
    let node = Rc::new(Node(RefCell::new(None), data.to_vec()));
    if data == b"cycle" {
        *node.0.borrow_mut() = Some(Rc::clone(&node));
    }
    assert_eq!(node.1, data);
}

thread_local! {
    static KNOWN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Keeps each input once.
fn learn(data: &[u8]) {
    KNOWN.with_borrow_mut(|known| {
        if !known.iter().any(|one| one == data) {
            known.push(data.to_vec());
        }
    });
}

#[test]
fn a_cycle_is_found_and_a_cache_is_not() {
    watched(cycle, b"no cycle");
    watched(learn, b"once");
    let found = catch_unwind(|| watched(cycle, b"cycle")).expect_err("a cycle leaks");
    let text = found.downcast_ref::<String>().expect("a panic with figures has a text");
    assert!(text.contains("leaves memory behind"), "{text}");
    let huge = catch_unwind(|| watched(|_| drop(Vec::<u8>::with_capacity(3 << 30)), b""));
    assert!(huge.is_err(), "3 GiB for one input");
}
