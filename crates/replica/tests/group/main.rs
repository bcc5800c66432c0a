//! Groups of members that speak over a network which loses, delays, repeats and cuts, and that
//! die and come back with what they had persisted: what Raft promises is checked at every step.

mod changes;
mod network;
mod random;
mod traps;
