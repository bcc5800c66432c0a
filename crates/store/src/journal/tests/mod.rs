//! Tests of the journal, on disks that fail and lose power.

mod block;
mod crash;
mod faults;
mod replay;
mod rounds;
mod world;
