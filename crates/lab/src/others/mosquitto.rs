//! Mosquitto: a server of MQTT and nothing else, with its usual settings but for queues and what
//! may be in flight, which are not bounded, so that no message is lost. Nothing is written to a
//! disk.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use myelin_loadgen::error::BenchError;
use myelin_loadgen::mqtt::client;

use crate::servers::process::{Launch, Server, free_port};
use crate::servers::scratch::Scratch;

/// Starts it, with its configuration in a directory of its own.
pub(super) fn start(program: &Path, scratch: &Scratch) -> Result<Server, BenchError> {
    let port = free_port()?;
    let room = scratch.room(&format!("mosquitto-{port}"))?;
    let file = room.path().join("mosquitto.conf");
    // Started by root it would become a user who may not read the configuration.
    let text = format!(
        "listener {port} 127.0.0.1\nallow_anonymous true\nuser root\npersistence false\n\
         max_queued_messages 0\nmax_inflight_messages 0\nlog_type error\nlog_type warning\n"
    );
    std::fs::write(&file, text).map_err(BenchError::io("writing the server's configuration"))?;
    let mut command = Command::new(program);
    command.arg("-c").arg(file);
    let patience = Duration::from_secs(10);
    Server::run(Launch { command, port, room: Some(room), is_ready: client::is_served, patience })
}

/// The first line of its help.
pub(super) fn version(program: &Path) -> Option<String> {
    let output = Command::new(program).arg("-h").output().ok()?;
    String::from_utf8_lossy(&output.stdout).lines().next().map(str::to_owned)
}
