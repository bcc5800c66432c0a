//! Reads the sources of the workspace as text, for the tests that keep them tidy.
//!
//! It knows tokens, not grammar: enough to find definitions, to measure them, and to tell code from
//! comments.

mod lexer;
mod lists;
mod modules;
mod renames;
mod sources;

pub use lexer::{Kind, Token, lex};
pub use lists::{List, compare};
pub use modules::circles;
pub use renames::{Rename, apply, code, read};
pub use sources::{Source, documents, root, sources};
