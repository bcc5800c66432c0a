//! `bench null`: what the driver itself costs, measured against a server that does nothing.

use clap::Args;
use myelin_loadgen::error::BenchError;
use myelin_loadgen::units::{Bytes, grouped};
use myelin_loadgen::workloads::null::{Cost, costs};

use crate::screen::tell;

/// `bench null`
#[derive(Args, Debug)]
pub(crate) struct NullArguments {
    /// Messages of each row
    #[arg(long, default_value_t = 5_000_000)]
    pub(crate) msgs: u64,
    /// Size of the messages
    #[arg(long, default_value = "128B")]
    pub(crate) size: Bytes,
}

/// Prints what the driver costs in each role.
pub(crate) fn run(arguments: &NullArguments) -> Result<(), BenchError> {
    let NullArguments { msgs, size } = arguments;
    let size = usize::try_from(size.0).unwrap_or(usize::MAX).min(1 << 26);
    tell(&format!(
        "The driver against a server that does nothing, {} messages of {size} B:\n",
        grouped(*msgs)
    ));
    for Cost { role, rate, cpu } in costs(*msgs, size)? {
        tell(&format!(" {role:<20} {:>12} msgs/sec ~ client CPU {cpu:.3}us/msg\n", grouped(rate)));
    }
    Ok(())
}
