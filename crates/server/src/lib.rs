//! The edge: lifecycle, listeners, shards, sockets, logging, HTTP, signals.
//!
//! Everything that touches the operating system is here; what the bytes mean is decided in the
//! floors below. `main.rs` reads the command line and calls [`run`].
//!
//! # From a file to a running server
//!
//! 1. `conf/src/flags/`, `conf/src/load.rs`: flags, then the file, then the flags again. Questions
//!    (`-v`, `-t`, `--signal`) are answered before.
//! 2. `conf/src/{cursor,lexer,parser}.rs`: text to a tree whose nodes know their places; includes,
//!    variables.
//! 3. `conf/src/options/field.rs`: each field is looked up in `conf/src/options/table/` and is
//!    unknown, without meaning, missing, or read by the `set` of its group.
//! 4. `conf/src/options/conflicts/`: what options forbid each other.
//! 5. `setup.rs`: the options become the small configurations of the other rooms. `Options` is
//!    known to `conf` and this crate only.
//! 6. `lifecycle.rs`: banner, files, broker, shards, listeners, in the reference's order; then
//!    signals.
//! 7. `reload.rs`: SIGHUP: 1 to 4 again, and everything changes or nothing.
//!
//! # Threads
//!
//! Shards (`shard/`) own the connections. The *control runtime*, one thread and a few for blocking
//! work, accepts, answers HTTP, shakes hands, checks bcrypt passwords and handles signals; it never
//! delivers a message. JetStream's threads are in `jetstream/`, those of the system account in
//! `system/`. All are started in `supervise/`.
//!
//! # Where to look
//!
//! - A flag or option: `conf/src/flags/` or its line in `conf/src/options/table/`, the `set` of its
//!   group, then `setup.rs`. Whether a reload may change it: `conf/src/reload.rs`, then
//!   `reload.rs`.
//! - Sockets: `shard/` (read, write, close, TLS, WebSocket); before that `listener.rs`,
//!   `shard/preamble.rs`.
//! - WebSocket: the upgrade in `wire/src/websocket/upgrade.rs` and `websocket/`; frames in
//!   `wire/src/websocket/{frame_reader,frame_writer}.rs` and `shard/websocket.rs`.
//! - MQTT: `mqtt.rs` listens; what packets do is `broker`'s.
//! - Other servers: `cluster/` accepts and dials, `shard/link.rs` serves a link.
//! - What a stranger may send before it is known who that is: `budget.rs`.
//! - What the log says and where it goes: `banner/`, `logging/`. A page of monitoring:
//!   `monitoring.rs` fills what `monitor` renders. Metrics and spans that are pushed: `otlp/`.
//! - Certificates: `tls/`, revoked ones: `ocsp/`. Where tokens of accounts are found: `resolver/`.
//! - JetStream's threads and time: `jetstream/`. Limits by tier: `jetstream/settings.rs`. `$SYS`:
//!   `system/`.

mod banner;
mod budget;
mod cluster;
mod gateway;
mod http;
mod http_client;
mod jetstream;
mod lame_duck;
mod leaf;
mod lifecycle;
mod listener;
mod logging;
mod monitoring;
mod mqtt;
mod ocsp;
mod os_error;
mod otlp;
mod pidfile;
mod ports;
mod process;
mod reload;
mod resolver;
mod service_manager;
mod setup;
mod shard;
mod signals;
mod supervise;
mod system;
mod tls;
mod websocket;
mod zone;

pub use lifecycle::{StartError, run};
pub use reload::ReadAgain;
pub use signals::deliver;
pub use tls::inspect as inspect_tls;

/// Myelin's own version, beside the reference level that clients see.
pub use myelin_stdx::VERSION as MYELIN_VERSION;
