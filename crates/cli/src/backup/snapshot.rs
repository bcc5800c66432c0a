//! A stream's backup as a server sends it, and as one takes it: `$JS.API.STREAM.SNAPSHOT` and
//! `RESTORE`, as nats-server has them.
//!
//! Owns the connections of one worker: one that asks the API, and one on which pieces travel.

use std::path::Path;
use std::time::{Duration, Instant};

use myelin_loadgen::admin::{Admin, answered};
use myelin_loadgen::connection::{Connection, write_message};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::target_server::Target;
use serde_json::{Value, json};

use crate::backup::error::BackupError;
use crate::backup::place::{ArchivePieces, PIECE};

/// Bytes of a piece, and of those that are on their way.
const CHUNK: usize = 128 << 10;
const WINDOW: usize = 8 << 20;
/// How long nothing may come of a backup, or a piece of a restore may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a server may take to make a stream of what it was sent.
const LAST_PATIENCE: Duration = Duration::from_secs(3600);

/// Connections of one worker.
pub(super) struct StreamTransfer {
    pub(super) admin: Admin,
    pieces: Connection,
}

impl StreamTransfer {
    pub(super) fn open(target: &Target) -> Result<Self, BenchError> {
        Ok(Self { admin: Admin::open(target)?, pieces: target.connect()? })
    }

    /// Has a backup of the stream sent, and gives each piece to `piece`. Answers the server's
    /// description of it: configuration and state.
    ///
    /// # Errors
    /// The server refuses, or does not send it to its end.
    pub(super) fn receive(
        &mut self,
        stream: &str,
        piece: &mut dyn FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<Value, BackupError> {
        let inbox = self.pieces.new_inbox();
        let request = json!({ "deliver_subject": inbox, "chunk_size": CHUNK, "window_size": WINDOW });
        let answer = self.admin.ask(&format!("STREAM.SNAPSHOT.{stream}"), &request)?;
        // Both servers wait for somebody to listen, and send nothing before the answer.
        self.pieces.send(format!("SUB {inbox} 1\r\n").as_bytes())?;
        let received = self.pieces_of(stream, &inbox, piece);
        self.pieces.send(b"UNSUB 1\r\n")?;
        received.map(|()| json!({ "config": answer["config"], "state": answer["state"] }))
    }

    fn pieces_of(
        &mut self,
        stream: &str,
        inbox: &str,
        piece: &mut dyn FnMut(&[u8]) -> Result<(), BackupError>,
    ) -> Result<(), BackupError> {
        loop {
            let Some(message) = self.pieces.receive_until(Some(Instant::now() + PATIENCE))? else {
                let why = format!("the backup of {stream} has stopped: nothing came for {PATIENCE:?}");
                return Err(BenchError::Lost(why).into());
            };
            if message.subject != inbox {
                continue;
            }
            if message.payload.is_empty() {
                let status = String::from_utf8_lossy(&message.header);
                let status = status.trim_start_matches("NATS/1.0").trim();
                return match status {
                    // A backup in one piece ends without a status.
                    "" | "204" => Ok(()),
                    status => Err(BenchError::Refused(status.to_owned()).into()),
                };
            }
            // The server gives up on who does not acknowledge, however slow the disk here is.
            if let Some(reply) = &message.reply {
                let mut line = Vec::new();
                write_message(&mut line, reply, None, "", b"");
                self.pieces.send(&line)?;
            }
            piece(&message.payload)?;
        }
    }

    /// Sends the archive in a file as the backup of a stream with this description. Answers what
    /// the server made of it.
    ///
    /// # Errors
    /// The server refuses, or the file cannot be read.
    pub(super) fn send(
        &mut self,
        stream: &str,
        description: &Value,
        archive: &Path,
        sent: &dyn Fn(usize),
    ) -> Result<Value, BackupError> {
        let what = format!("STREAM.RESTORE.{stream}");
        let answer = self.admin.ask(&what, description)?;
        let subject = answer["deliver_subject"].as_str().unwrap_or_default().to_owned();
        let mut pieces = ArchivePieces::open(archive)?;
        let largest = self.pieces.max_payload().clamp(1, PIECE);
        while let Some(bytes) = pieces.next()? {
            for part in bytes.chunks(largest) {
                let reply = self.pieces.ask_within(&subject, "", part, PATIENCE)?;
                if reply.is_from_nobody() {
                    let why = format!("the server has given up the restore of {stream}: its log says why");
                    return Err(BenchError::Refused(why).into());
                }
                if !reply.payload.is_empty() {
                    answered(&what, &reply.payload)?;
                }
                sent(part.len());
            }
        }
        let reply = self.pieces.ask_within(&subject, "", b"", LAST_PATIENCE)?;
        Ok(answered(&what, &reply.payload)?)
    }
}
