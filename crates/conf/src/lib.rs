//! Configuration: the grammar of the file, the options it sets, and the flags that win over it.
//!
//! [`load`] is the way in. This crate owns every default and every text about a wrong configuration.
//! It never listens, logs or exits: it answers what to do.

mod cursor;
mod diagnostic;
mod digest;
mod duration;
mod flags;
mod lexer;
mod load;
pub mod options;
mod parser;
mod path;
mod scalar;
mod secret;
mod usage;
mod value;

pub use diagnostic::{Diagnostic, Position};
pub use load::{Command, LoadError, Loaded, SignalCommand, load};
pub use options::Options;
pub use secret::Secret;
pub use usage::usage;
