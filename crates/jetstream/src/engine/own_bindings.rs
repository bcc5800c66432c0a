//! Bindings through which a stream or a consumer receives.

use myelin_broker::{Account, Binding};
use myelin_stdx::sync::lock;
use std::mem;
use std::sync::{Arc, Mutex, Weak};

/// Bindings whose receiver has them. The account holds them, and each holds its receiver: held from
/// here, too, neither would ever be freed.
#[derive(Default)]
pub(super) struct OwnBindings(Mutex<Vec<Weak<Binding>>>);

impl OwnBindings {
    /// Receives through these bindings, which have begun, and no others. Those before end after
    /// that: no message may fall between.
    pub(super) fn replace(&self, account: &Account, bindings: &[Arc<Binding>]) {
        let new = bindings.iter().map(Arc::downgrade).collect();
        let old = mem::replace(&mut *lock(&self.0), new);
        old.iter().filter_map(Weak::upgrade).for_each(|binding| account.unbind(&binding));
    }
}
