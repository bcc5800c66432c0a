//! Times at which consumers of a group were active last, whoever led it then.

use crate::engine::host::Host;
use myelin_stdx::sync::lock;
use myelin_store::Timestamp;
use myelin_store::consumer::ConsumerId;
use myelin_streams::stream::{ConsumerActivity, ConsumerSign};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// The last delivery and the last acknowledgement.
pub(super) type Active = (Option<Timestamp>, Option<Timestamp>);

/// When consumers were active last, as this replica has heard since its start.
pub(super) struct ActiveTimes {
    host: Arc<dyn Host>,
    times: Mutex<BTreeMap<ConsumerId, Active>>,
}

impl ActiveTimes {
    pub(super) fn new(host: &Arc<dyn Host>) -> Arc<Self> {
        Arc::new(Self { host: Arc::clone(host), times: Mutex::default() })
    }

    /// Nothing of one that was not active.
    pub(super) fn of(&self, consumer: ConsumerId) -> Active {
        lock(&self.times).get(&consumer).copied().unwrap_or_default()
    }
}

impl ConsumerActivity for ActiveTimes {
    fn note(&self, consumer: ConsumerId, sign: ConsumerSign) {
        let now = Some(self.host.now());
        let mut times = lock(&self.times);
        match sign {
            ConsumerSign::Delivered => times.entry(consumer).or_default().0 = now,
            ConsumerSign::Acknowledged => times.entry(consumer).or_default().1 = now,
            ConsumerSign::Reset => drop(times.remove(&consumer)),
        }
    }
}
