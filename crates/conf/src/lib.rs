//! Configuration: the grammar of the file, the options it sets, and the flags that win over it.
//!
//! [`load`] is the way in. A file goes through `cursor`, `lexer` and `parser` into a tree
//! (`value`), from there field by field into [`options`]; `flags` come before it and after it. To
//! add an option: a struct field, a line in the `set` of its group, and its line in
//! `options/table`.
//!
//! This crate owns every default and every text about a wrong configuration. It never listens, logs
//! or exits: it answers what to do.

mod bytes;
mod cursor;
mod diagnostic;
mod digest;
mod duration;
mod files;
mod flags;
#[cfg(test)]
mod grammar_tests;
mod host_port;
mod lexer;
mod load;
pub mod options;
mod parser;
mod path;
mod redaction;
mod reload;
mod scalar;
mod secret;
mod url;
mod usage;
mod value;

pub use bytes::Bytes;
pub use diagnostic::{Diagnostic, Position};
pub use host_port::advertised;
pub use load::{Invocation, LoadError, Loaded, load, load_inspected, load_text};
pub use options::Options;
pub use redaction::redacted_args;
pub use reload::{BoundPorts, CheckedChange, Effect, NotReloadable, changes, check_reload};
pub use secret::Secret;
pub use url::Url;
pub use usage::{DescribedFlag, FlagGroup, flag_groups, help_tls, usage};
