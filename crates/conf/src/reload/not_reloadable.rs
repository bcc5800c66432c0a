//! Refusal of a reload, in the words of nats-server 2.15.2.

use std::fmt::{self, Display};

/// Why a reload is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotReloadable {
    /// An option has changed.
    Field {
        /// The reference's name of it.
        field: &'static str,
        /// Its value in force, as the reference prints it.
        old: String,
        /// Its value in the new configuration.
        new: String,
    },
    /// Something has changed, or in a way, that is told in these words.
    Change(&'static str),
    /// Something of a remote of leaf nodes has changed, in these words.
    LeafRemote(String),
    /// There is one now and was none, or the other way round.
    Move(&'static str),
}

impl Display for NotReloadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field { field, old, new } => {
                write!(f, "config reload not supported for {field}: old={old}, new={new}")
            }
            Self::LeafRemote(what) => {
                write!(f, "config reload not supported for LeafNode: remote {what}")
            }
            Self::Change(what) => write!(f, "config reload not supported for {what}"),
            Self::Move(what) => write!(f, "config reload does not support moving to or from {what}"),
        }
    }
}

impl std::error::Error for NotReloadable {}
