//! `myelin server …`: whether a server is well.

mod check;

pub(crate) use check::{ServerArguments, run};
