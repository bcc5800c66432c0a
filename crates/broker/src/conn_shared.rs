//! State that all connections of a broker share: their ids and slots, and the memory that they
//! hold.
//!
//! A *slot* is a small number for each living connection, the index into tables of the shards. It
//! is given out again once nothing refers to the connection that had it (`conn.rs`).

use bytes::Bytes;
use foldhash::fast::FixedState;
use myelin_stdx::entropy::Entropy;
use myelin_stdx::mem::{Accountant, MemKind};
use myelin_stdx::sync::lock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// State that all connections of a broker share.
#[derive(Debug, Default)]
pub(crate) struct ConnShared {
    pub(crate) slots: Slots,
    pub(crate) memory: Accountant,
    /// Hash of sids. Clients choose them, so it has a seed, which comes from outside: equal seeds
    /// give the subscriptions of a connection that ends equal orders.
    pub(crate) sids: FixedState,
    /// Connections so far.
    conns: AtomicU64,
}

impl ConnShared {
    /// State of a broker whose hashes follow from `entropy`.
    pub(crate) fn seeded(entropy: &dyn Entropy) -> Self {
        let mut seed = [0; 8];
        entropy.fill(&mut seed);
        Self { sids: FixedState::with_seed(u64::from_le_bytes(seed)), ..Self::default() }
    }

    /// The client id of the next connection; the first one is 1.
    pub(crate) fn next_cid(&self) -> u64 {
        self.conns.fetch_add(1, Relaxed) + 1
    }

    /// Memory that several connections will share: it counts once, for as long as any of them holds
    /// it.
    pub(crate) fn share(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        self.memory.charge(MemKind::Outbox, bytes.len());
        Bytes::from_owner(AccountedBytes { bytes, shared: Arc::clone(self) })
    }
}

/// A shared block, accounted for until its last holder lets go.
struct AccountedBytes {
    bytes: Bytes,
    shared: Arc<ConnShared>,
}

impl AsRef<[u8]> for AccountedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for AccountedBytes {
    fn drop(&mut self) {
        self.shared.memory.release(MemKind::Outbox, self.bytes.len());
    }
}

/// Slots that are given out, and those that came back.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    free: Mutex<FreeSlots>,
}

#[derive(Debug, Default)]
struct FreeSlots {
    released: Vec<u32>,
    next: u32,
}

impl FreeSlots {
    fn check(&self) {
        debug_assert!(
            self.released.len() <= self.next as usize,
            "no more slots are free than were given out"
        );
    }
}

impl Slots {
    pub(crate) fn take(&self) -> u32 {
        let mut free = lock(&self.free);
        free.check();
        free.released.pop().unwrap_or_else(|| {
            free.next += 1;
            free.next - 1
        })
    }

    pub(crate) fn release(&self, slot: u32) {
        let mut free = lock(&self.free);
        debug_assert!(slot < free.next, "a slot that comes back was given out");
        debug_assert!(
            free.released.iter().rev().take(64).all(|other| *other != slot),
            "a slot comes back once"
        );
        free.released.push(slot);
        free.check();
    }
}
