//! Bounds of what a connection may take.

use super::*;

#[test]
fn what_is_inflated_is_bounded_by_what_is_left() {
    let allowed = |left| allowed_to_strangers(StrangerBudget::of(left));
    let full = allowed(1 << 20);
    assert_eq!((full.content, full.gathered), (UNKNOWN_PER_MESSAGE, Some(READ_UNKNOWN)));
    assert_eq!((allowed(5000).content, allowed(5000).gathered), (5000, Some(5000)));
    assert_eq!(allowed(0).content, 0);
}

/// Memory of an idle connection is mostly this future, which must not grow unnoticed.
#[test]
fn an_idle_connection_is_small() {
    fn size_of_future<F: Future>(_: fn(ConnTask, SessionStatus, Option<Box<Preamble>>) -> F) -> usize {
        std::mem::size_of::<F>()
    }
    assert!(size_of_future(serve) <= 560, "{}", size_of_future(serve));
}
