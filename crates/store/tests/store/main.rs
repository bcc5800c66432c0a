//! The store from outside: what it promises to whoever embeds it, on disks that fail.
//!
//! `enumeration` is the machine that crashes a workload at every point; `toy` shows that it finds
//! what it must find.

mod crash;
mod damage;
mod enumeration;
mod faults;
mod flips;
mod kill;
mod lost_register;
mod model;
mod power;
mod read_only;
mod subjects;
mod toy;
mod twin;
mod verify;
