//! Each thread and task of the server is made to panic while it serves: the server goes on, or ends
//! with a message, as the table in `src/supervise/table.rs` has it.
//!
//! The list is read from the sources: whoever adds a thread or a task without a row, or a row
//! without a case here, fails [`sources`]. Builds with debug assertions only: others have nothing
//! that can be asked to panic.

mod clients;
mod ends;
mod identities;
mod pages;
mod sources;
mod streams;

use crate::eventually;
use crate::process::{Server, Setup};
use crate::raw::Raw;
use std::fs;
use std::path::Path;
use tempfile::TempDir;

/// A server whose parts can be struck.
struct Stage {
    folder: TempDir,
    server: Server,
}

impl Stage {
    fn start(setup: Setup) -> Self {
        Self::start_struck(setup, &[])
    }

    /// Starts a server where these parts panic as soon as they do something.
    fn start_struck(setup: Setup, parts: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        parts.iter().for_each(|part| ask_for(folder.path(), part));
        let server = setup.panics(folder.path()).start();
        Self { server, folder }
    }

    /// Has a part panic while `provoke` gives it something to do, and waits until the log tells of
    /// it.
    fn strike(&self, part: &str, mut provoke: impl FnMut(&Server)) {
        let before = self.server.log_len();
        let path = self.folder.path().join(part);
        ask_for(self.folder.path(), part);
        eventually(&format!("a panic in {part}"), || {
            provoke(&self.server);
            !path.exists()
        });
        self.server.wait_for_log_after(before, &format!("Panic in {part} (thread "));
    }

    /// Whether messages come through, on every shard, for whoever connects now.
    fn serves(&self) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let mut clients: Vec<_> = (0..2 * cores).map(|_| Raw::connect(&self.server)).collect();
        for client in &mut clients {
            client.subscribe("all", 1);
            client.barrier();
        }
        clients[0].publish("all", "hello");
        for client in &mut clients {
            assert_eq!(client.message().text(), "hello");
        }
        // They are gone before anything is counted.
        drop(clients);
        eventually("they are gone", || self.server.connections() == 0);
    }

    /// How many panics the server has counted.
    fn panics(&self) -> u64 {
        self.server.page("/debug/vars")["panics"].as_u64().expect("a number")
    }
}

fn ask_for(folder: &Path, part: &str) {
    fs::write(folder.join(part), "").expect("the folder takes files");
}

/// Sends something that may be answered, or not.
fn knock(address: std::net::SocketAddr, bytes: &[u8]) {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = std::net::TcpStream::connect(address) else { return };
    let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(200)));
    let _ = stream.write_all(bytes);
    let _ = stream.read(&mut [0; 512]);
}

impl Stage {
    /// Checks that the server serves others while somebody stays connected.
    fn serves_beside(&self, client: &mut Raw) {
        let mut other = Raw::connect(&self.server);
        client.publish("own", "again");
        assert_eq!(client.message().text(), "again");
        other.barrier();
    }
}
