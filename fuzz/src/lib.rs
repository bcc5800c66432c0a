//! Hostile input for every room that reads bytes from outside.
//!
//! One function per target: it takes any bytes and panics when a promise is broken. The same
//! functions run three ways: under libFuzzer (`just fuzz NAME`), over given files on stable
//! (`cargo run --bin NAME -- FILE…` in `libfuzzer/`, to replay a find), and as the short smoke run
//! of CI (`tests/smoke.rs`). What they promise is written at the head of each file; none reads the
//! clock for a decision, so that a find can be replayed. The first two look for memory that inputs
//! leave.

mod acknowledgement;
mod api_json;
mod backup_archive;
mod batch;
mod callout;
mod certificate_names;
mod client_parser;
mod configuration;
mod connect_json;
mod consumer;
mod consumer_json;
mod direct_get;
mod document;
mod flags;
mod gateway;
mod headers;
mod jwt;
mod leaf;
mod leaks;
mod link;
mod mapped_reply;
mod member;
mod monitoring;
mod mqtt_headers;
mod mqtt_packets;
mod mqtt_records;
mod mqtt_topics;
mod nkey;
mod ocsp;
mod peer;
mod peer_json;
mod peer_parser;
mod permissions;
mod pieces;
mod proxy;
mod publish;
mod pull_request;
mod s2_frames;
mod schedule;
mod session;
mod stage;
mod store_base;
mod store_consumer;
mod store_file;
mod store_footer;
mod store_import;
mod store_journal;
mod store_pack;
mod store_records;
mod store_segment;
mod transform;
mod websocket_frames;
mod websocket_inflate;
mod websocket_upgrade;

pub use acknowledgement::acknowledgement;
pub use api_json::api_json;
pub use backup_archive::backup_archive;
pub use batch::batch;
pub use callout::callout;
pub use certificate_names::certificate_names;
pub use client_parser::client_parser;
pub use configuration::configuration;
pub use connect_json::connect_json;
pub use consumer_json::consumer_json;
pub use direct_get::direct_get;
pub use flags::flags;
pub use gateway::gateway;
pub use headers::headers;
pub use jwt::jwt;
pub use leaf::leaf;
pub use leaks::watched;
pub use link::link;
pub use mapped_reply::mapped_reply;
pub use member::member;
pub use monitoring::monitoring;
pub use mqtt_headers::mqtt_headers;
pub use mqtt_packets::mqtt_packets;
pub use mqtt_records::mqtt_records;
pub use mqtt_topics::mqtt_topics;
pub use nkey::nkey;
pub use ocsp::ocsp;
pub use peer_json::peer_json;
pub use peer_parser::peer_parser;
pub use permissions::permissions;
pub use proxy::proxy;
pub use publish::publish;
pub use pull_request::pull_request;
pub use s2_frames::s2_frames;
pub use schedule::schedule;
pub use session::session;
pub use store_base::store_base;
pub use store_consumer::store_consumer;
pub use store_footer::store_footer;
pub use store_import::store_import;
pub use store_journal::store_journal;
pub use store_pack::store_pack;
pub use store_records::store_records;
pub use store_segment::store_segment;
pub use transform::transform;
pub use websocket_frames::websocket_frames;
pub use websocket_inflate::websocket_inflate;
pub use websocket_upgrade::websocket_upgrade;

use std::process::ExitCode;

/// Makes the `main` of a target from its function: libFuzzer's under `cfg(fuzzing)`, otherwise one
/// that replays files.
#[macro_export]
macro_rules! target {
    ($body:path) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|data: &[u8]| $crate::watched($body, data));
        #[cfg(not(fuzzing))]
        fn main() -> std::process::ExitCode {
            $crate::replay($body)
        }
    };
}

/// Runs `body` over the files that the command line names. A broken promise panics.
pub fn replay(body: fn(&[u8])) -> ExitCode {
    for file in std::env::args_os().skip(1) {
        match std::fs::read(&file) {
            Ok(data) => watched(body, &data),
            Err(error) => {
                eprintln!("{}: {error}", file.display());
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
