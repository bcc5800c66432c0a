//! Products of `just dist`: programs without symbols, the symbols, a tarball, a `.deb`, an image
//! for containers, and what is in all of them as a bill of materials.
//!
//! Owns every byte of a package but those of the programs: nothing here depends on the time, on the
//! order of a folder or on the path in which it is built, so that the same commit gives the same
//! bytes on machines with the same tools. It never uploads anything and needs no daemon.
//!
//! The way: `version` from git, `programs` from cargo, `contents` puts files where they are
//! installed, `deb` and `image` wrap that, `archive` writes it. `manual` and `completion` are made
//! of the tables that `--help` is made of.

mod archive;
mod bill;
mod completion;
mod contents;
mod deb;
mod digest;
mod error;
mod image;
mod libraries;
mod licenses;
mod manual;
mod packages;
mod programs;
mod tool;
mod tree;
mod verify;
mod version;

pub use error::DistError;
pub use packages::{PackageOrder, Programs, make};
pub use verify::verify;
pub use version::Version;
