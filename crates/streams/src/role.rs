//! Role of a replica: one that decides, or one that applies what another has decided.

/// Role of a stream's replica, with its consumers.
///
/// A follower does nothing of its own accord that others could see: by its clock nothing ends, no
/// schedule fires, no batch is given up and nothing is delivered, and of what it sees in its log
/// nothing follows. It knows what a leader has to know: message ids, times, lifetimes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReplicaRole {
    /// Decides what becomes of messages, and when.
    #[default]
    Leader,
    /// Applies what the leader has decided.
    Follower,
}

impl ReplicaRole {
    /// Whether it decides.
    #[must_use]
    pub fn leads(self) -> bool {
        self == Self::Leader
    }
}
