//! Clusters of real servers: named scenarios, compression between every two modes, and random
//! lives. `MYELIN_CLUSTER_MIX` says which programs: `r` is the reference, `m` is Myelin, in turns,
//! so that `rrr`, `mmm` and `mrm` are clusters of three. Without it the reference is tried alone,
//! which proves the tests, then Myelin alone, then both in turns.

mod compression;
mod gateways;
mod programs;
mod random;
mod replacing;
mod scenarios;
