//! Where the states of consumers are when their process ends: gone with it, in a log of their own,
//! or with another replica of a group.

use myelin_store::consumer::{Consumers, GroupConsumers};
use myelin_store::{Durability, Store, StreamId, Timestamp};

/// Where states are kept.
pub(super) enum Kept {
    Nowhere,
    /// In a log of their own, in this store.
    Files(Store),
    /// With a replica that applies what is proposed here, once it is flushed.
    Replica(GroupConsumers),
}

fn words(error: &dyn std::fmt::Display) -> String {
    error.to_string()
}

impl Kept {
    /// Consumers of a new stream, and where they are kept.
    pub(super) fn begin(store: Option<Store>, stream: StreamId, is_in_group: bool) -> (Self, Consumers) {
        match store {
            Some(store) => {
                let opened = store.open_consumers(stream, Durability::Written, None);
                let (consumers, _) = opened.expect("a healthy disk");
                (Self::Files(store), consumers)
            }
            None if is_in_group => {
                let replica = GroupConsumers::in_memory(0);
                let consumers = replica.lead();
                (Self::Replica(replica), consumers)
            }
            None => (Self::Nowhere, Consumers::in_memory()),
        }
    }

    pub(super) fn store(&self) -> Option<&Store> {
        if let Self::Files(store) = self { Some(store) } else { None }
    }

    /// Whether a process finds its consumers as they were flushed last.
    pub(super) fn outlives(&self) -> bool {
        !matches!(self, Self::Nowhere)
    }

    pub(super) fn flush(&mut self, consumers: &mut Consumers, now: Timestamp) -> Result<(), String> {
        consumers.flush(now).map_err(|error| words(&error))?;
        if consumers.checkpoint_due() {
            consumers.checkpoint().map_err(|error| words(&error))?;
        }
        match self {
            Self::Nowhere => Ok(()),
            Self::Files(store) => {
                store.put_away(consumers);
                Ok(())
            }
            Self::Replica(replica) => follow(replica, consumers),
        }
    }

    /// Consumers as another process finds them.
    pub(super) fn reopen(&self, stream: StreamId) -> Result<Consumers, String> {
        match self {
            Self::Nowhere => Err("nobody keeps them".into()),
            Self::Files(store) => {
                let opened = store.open_consumers(stream, Durability::Written, None);
                let (consumers, report) = opened.map_err(|error| words(&error))?;
                if report.torn.is_some() || !report.bad.is_empty() {
                    return Err(format!("the log reports {report:?}"));
                }
                Ok(consumers)
            }
            Self::Replica(replica) => Ok(replica.lead()),
        }
    }
}

/// Applies what a leader has decided since the last time: then the replica has what it has.
fn follow(replica: &mut GroupConsumers, leader: &mut Consumers) -> Result<(), String> {
    let index = replica.applied() + 1;
    let applied = replica.apply(index, &leader.take_records());
    applied.map_err(|diverged| format!("the follower diverges: {diverged:?}"))?;
    let followed: Vec<_> = replica.iter().collect();
    let led: Vec<_> =
        leader.iter().map(|(id, one)| (id, (one.name(), one.rules(), one.config(), one.state()))).collect();
    if followed == led { Ok(()) } else { Err(format!("the follower has {followed:?}, the leader {led:?}")) }
}
