//! JSON as Go's `encoding/json` reads and writes it, because clients and logs see what that package
//! does.
//!
//! `encode` writes values with Go's escapes, `raw` lays pieces out again that were encoded before,
//! [`syntax`] finds where a value ends or says in Go's words why it does not, and [`Value`] walks
//! through a text that has passed. What a document means is decided elsewhere.

mod encode;
mod lossy;
mod raw;
pub mod syntax;
mod value;

pub use encode::{compact, counts, is_false, is_zero, nanoseconds, pretty, text, wide};
pub use lossy::Text;
pub use value::{Value, ValueKind};
