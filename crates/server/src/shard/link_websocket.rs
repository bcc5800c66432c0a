//! A WebSocket under a link: from the listener for WebSocket, or asked for where this server has
//! dialled.

use super::link::LinkTask;
use super::link_upgrade::LinkUpgrade;
use crate::tls::peer_certificate;
use myelin_broker::Level;
use myelin_stdx::rng::Rng;
use myelin_wire::error::CloseReason;
use myelin_wire::websocket::upgrade::{Granted, LONGEST_REQUEST, Solicitation, end_of_head};
use myelin_wire::websocket::{Extensions, FrameReader, FrameWriter};
use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::time::timeout;

impl LinkTask {
    /// Goes on in frames.
    ///
    /// # Errors
    /// When the other side does not become a WebSocket.
    pub(super) async fn begin_web_socket(&mut self, upgrade: LinkUpgrade) -> Result<(), CloseReason> {
        match upgrade {
            LinkUpgrade::Accepted(leaf) => {
                if let Some(connection) = leaf.security {
                    let shown = peer_certificate(connection.peer_certificates());
                    self.note_tls(&connection, &leaf.trusted);
                    if let Some(tls) = &self.handle.tls {
                        tls.begin(connection);
                    }
                    self.session.secured(shown, Instant::now())?;
                }
                let Extensions { compresses, .. } = leaf.upgrade.extensions;
                self.debug(&format!("Leafnode compression={compresses}"));
                let reader = FrameReader::new(leaf.upgrade.is_masked, compresses);
                self.begin_frames(reader, FrameWriter::new(leaf.upgrade.extensions), Vec::new());
            }
            LinkUpgrade::Dialled(solicitation, patience) => {
                let (granted, ahead) = self.solicit(&solicitation, patience).await?;
                let Granted { compresses, is_masked } = granted;
                self.debug(&format!("Leafnode compression={compresses} masking={is_masked}"));
                let extensions = Extensions { compresses, ..Extensions::default() };
                let seed = RandomState::new().hash_one(self.handle.conn.cid());
                let writer = match is_masked {
                    true => FrameWriter::masking(extensions, Rng::seeded(seed)),
                    false => FrameWriter::new(extensions),
                };
                self.begin_frames(FrameReader::new(false, compresses), writer, ahead);
                // Its address was configured.
                self.read.trust();
            }
        }
        Ok(())
    }

    fn begin_frames(&mut self, reader: FrameReader, writer: FrameWriter, ahead: Vec<u8>) {
        if writer.compresses() {
            self.session.leave_compression();
        }
        self.read.begin_frames(reader, ahead);
        self.layers.begin_frames(writer, self.handle.secure().is_some());
    }

    /// Asks a hub for a WebSocket; bytes behind its answer are returned, too.
    async fn solicit(
        &mut self,
        solicitation: &Solicitation,
        patience: Duration,
    ) -> Result<(Granted, Vec<u8>), CloseReason> {
        self.handle.conn.say(solicitation.text().as_bytes());
        self.flush_all().await?;
        let answer = async {
            let mut answer = Vec::new();
            loop {
                let seen = answer.len();
                let read = tokio::select! {
                    read = self.read.read_buf(&mut answer) => read,
                    () = self.handle.kicked() => return Err(None),
                };
                match read {
                    Ok(0) => return Err(Some("EOF".to_owned())),
                    Ok(_) => {}
                    Err(error) => return Err(Some(error.to_string())),
                }
                if let Some(end) = end_of_head(&answer, seen) {
                    let ahead = answer.split_off(end);
                    return Ok((answer, ahead));
                }
                // Compat: what is no HTTP is known by its first line.
                if answer.len() > LONGEST_REQUEST || is_no_http(&answer) {
                    return Ok((answer, Vec::new()));
                }
            }
        };
        let answered =
            timeout(patience, answer).await.unwrap_or_else(|_| Err(Some("i/o timeout".to_owned())));
        let judged = answered.and_then(|(head, ahead)| {
            let granted = solicitation.judge(&head).map_err(|why| Some(why.to_string()))?;
            Ok((granted, ahead))
        });
        judged.map_err(|why| match why {
            Some(why) => {
                let line = format_args!("Error soliciting websocket connection: {why}");
                self.local.broker.log_for(Level::Error, &self.handle.conn, line);
                CloseReason::ReadError
            }
            None => self.handle.conn.close_requested().unwrap_or(CloseReason::ClientClosed),
        })
    }

    /// Nothing more can be read.
    pub(super) fn failed(&self) -> CloseReason {
        if let Some(fault) = self.read.fault() {
            let line = format_args!("read error: {fault}");
            self.local.broker.log_for(Level::Error, &self.handle.conn, line);
        }
        CloseReason::ReadError
    }

    fn debug(&self, line: &str) {
        self.local.broker.log_for(Level::Debug, &self.handle.conn, format_args!("{line}"));
    }
}

/// Whether the first line is whole and does not begin an answer.
fn is_no_http(answer: &[u8]) -> bool {
    answer.contains(&b'\n') && !answer.starts_with(b"HTTP/")
}
