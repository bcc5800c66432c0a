//! Groups of replicas: who leads one, what is committed, and what members say to each other.
//!
//! Owns consensus (Raft), behind [`Consensus`], so that nothing else knows which library does it;
//! the frames between members ([`frame`]), what a member must remember of an election
//! ([`hard_state`]), and whether other servers are there ([`liveness`]). Entries are bytes here:
//! what they do to a stream is for `store` and `streams`, which know no elections. Must never do
//! I/O, nor have a clock, a thread or a random source: time comes as ticks, and a seed from
//! outside, so that a simulation can repeat everything. Nothing from the network reaches a parser
//! but ours.
//!
//! The design is in `docs/replication.md`.
//!
//! # One entry
//!
//! 1. The leader's stream decides and writes it, then [`Consensus::propose`] takes its bytes.
//! 2. [`Consensus::ready`] gives messages for the others, which leave at once.
//! 3. Another member gives them to [`Consensus::step`]; its `ready` says what to write, and which
//!    answers may leave once that is persisted ([`Consensus::persisted`]).
//! 4. With the answers of a majority the leader's `ready` says that the entry is committed.

#![cfg_attr(not(test), deny(clippy::cast_possible_truncation))]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::iter_over_hash_type))]

pub mod frame;
pub mod hard_state;
pub mod liveness;

mod consensus;
mod members;
mod message;
mod peer;

pub use consensus::{
    Broken, Consensus, Fetch, FetchId, LogStart, MemberProgress, MemberStart, RaftEntry, RaftRole, Ready,
    Refused, Status, Vote,
};
pub use members::Members;
pub use message::{RaftMessage, RaftMessageKind};
pub use peer::{GroupId, Peer};
