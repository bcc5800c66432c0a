//! Clusters of real servers: named scenarios, compression between every two modes, and random
//! lives. `MYELIN_CLUSTER_MIX` says which programs: `r` is the reference, `m` is Myelin, in turns,
//! so that `rrr`, `mmm` and `mrm` are clusters of three. Without it the reference is tried, which
//! proves the tests, and with `MYELIN_SERVER` that program as well, alone and mixed.

mod compression;
mod programs;
mod random;
mod scenarios;
