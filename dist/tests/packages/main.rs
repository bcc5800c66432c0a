//! Packages are made of the programs that the tests have anyway, then installed and run.
//!
//! What a machine does not have (dpkg, systemd, rights, shells) is not tried, and the test says so.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod deb;
mod image;
mod made;
mod running;
mod shells;
