//! The locks and atomics that the model checker must see.
//!
//! These are std's own, except under `--cfg loom`, where loom's take their place and the tests of
//! [`claim`](crate::claim), [`turn`](crate::turn) and [`backlog`](crate::backlog) walk through
//! every interleaving. Code whose correctness depends on interleavings imports from here, never
//! from `std::sync`.

#[cfg(loom)]
pub use loom::sync::{Arc, Mutex, MutexGuard, atomic};
#[cfg(not(loom))]
pub use std::sync::{Arc, Mutex, MutexGuard, atomic};

use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

/// Locks `mutex` whether or not an earlier holder panicked.
///
/// For locks whose holders leave the data consistent at every step, so that poisoning says nothing.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `rwlock` for reading whether or not an earlier writer panicked, as [`lock`] does.
pub fn read_lock<T>(rwlock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    rwlock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `rwlock` for writing whether or not an earlier writer panicked, as [`lock`] does.
pub fn write_lock<T>(rwlock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    rwlock.write().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a `mutex` that nobody else can hold at this moment; that it is held is a bug.
pub(crate) fn lock_uncontended<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    match mutex.try_lock() {
        Ok(guard) => guard,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => panic!("two threads hold one turn"),
    }
}
