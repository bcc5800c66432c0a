//! Packages are made of the programs that the tests have anyway, then installed and run.
//!
//! Where a machine has no dpkg, systemd, rights or shells, that is not tried, and the test says so.

#![allow(clippy::unwrap_used, reason = "clippy sees tests only in functions marked as such")]

mod deb;
mod image;
mod made;
mod running;
mod shells;
