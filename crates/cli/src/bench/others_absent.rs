//! What stands for the drivers of systems that do not speak NATS in a build without them: nothing can be measured.

use crate::bench::contest::Round;
use crate::bench::error::BenchError;
use crate::bench::plan::{Amount, Workload};
use crate::bench::process::Server;
use crate::bench::scratch::Scratch;
use crate::bench::system::{Kind, System};

/// Whether this build has the drivers.
pub(crate) const ARE_HERE: bool = false;

fn absent() -> BenchError {
    BenchError::Usage("this build speaks NATS only; build it with --features other-systems".into())
}

pub(crate) fn can(_: Kind, _: &Workload) -> bool {
    false
}

pub(crate) fn start(_: &System, _: &Scratch) -> Result<Server, BenchError> {
    Err(absent())
}

pub(crate) fn version(_: &System) -> Option<String> {
    None
}

pub(crate) fn measure(_: Kind, _: &Server, _: &Workload, _: Amount) -> Result<Round, BenchError> {
    Err(absent())
}
