//! The edge: lifecycle, listeners, shards, sockets, logging, HTTP, signals.
//!
//! Everything that touches the operating system is here; what the bytes mean is decided in the floors
//! below. `main.rs` reads the command line and calls [`run`].

mod banner;
mod budget;
mod fault;
mod http;
mod jetstream;
mod lame_duck;
mod lifecycle;
mod listener;
mod logging;
mod monitoring;
mod ocsp;
mod pidfile;
mod ports;
mod process;
mod reload;
mod resolver;
mod setup;
mod shard;
mod signals;
mod supervise;
mod system;
mod tls;
mod websocket;

pub use lifecycle::{StartError, run};
pub use reload::ReadAgain;
pub use signals::deliver;
pub use tls::inspect as inspect_tls;

/// Myelin's own version, beside the reference level that clients see.
pub const MYELIN_VERSION: &str = env!("CARGO_PKG_VERSION");
