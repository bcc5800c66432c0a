//! The programs that are compared: which they are, their processes, and where those keep their
//! files.

pub(crate) mod process;
pub(crate) mod scratch;
pub(crate) mod system;
