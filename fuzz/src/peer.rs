//! A link as its task sees it, whoever is at the other end, without a socket: bytes go in, and what
//! is said is kept.

use crate::stage::{Stage, Written};
use myelin_mesh::{Next, PeerSession};
use myelin_wire::error::CloseReason;
use myelin_wire::s2::S2Reader;
use std::time::Duration;

/// Bytes of a block that the other side may send.
const BLOCK: usize = 1 << 16;

/// Outcome of an input: how the link ended, what the other side heard but for INFO, which holds
/// something new each time, and how many bytes of the same kind the client heard.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LinkOutcome {
    pub(crate) end: Option<CloseReason>,
    pub(crate) lines: Vec<Vec<u8>>,
    pub(crate) heard: [u32; 256],
}

/// One link.
pub(crate) struct Peer {
    session: Box<dyn PeerSession>,
    written: Written,
    held: Vec<u8>,
    need: usize,
    unpacking: Option<S2Reader>,
    /// Whether what comes on a compressed link is taken as if it had been unpacked already.
    is_unpacked: bool,
    end: Option<CloseReason>,
}

impl Peer {
    /// A link that begins.
    pub(crate) fn open(mut session: Box<dyn PeerSession>, written: Written, stage: &mut Stage) -> Self {
        session.greet(&mut stage.shard, stage.now);
        Self { session, written, held: Vec::new(), need: 1, unpacking: None, is_unpacked: false, end: None }
    }

    /// Takes what comes as if it had been unpacked already, where the link is compressed.
    pub(crate) fn take_unpacked(&mut self) {
        self.is_unpacked = true;
    }

    /// Takes bytes as they come, compressed where that was agreed on.
    pub(crate) fn receive(&mut self, stage: &mut Stage, mut bytes: &[u8]) {
        while !bytes.is_empty() && self.end.is_none() {
            let Some(reader) = &mut self.unpacking else {
                return self.receive_plain(stage, bytes);
            };
            match reader.read(bytes) {
                Ok((used, data)) => {
                    bytes = &bytes[used..];
                    let data = data.to_vec();
                    self.receive_plain(stage, &data);
                }
                Err(_) => self.close(CloseReason::ReadError),
            }
        }
    }

    /// Takes bytes that are not compressed.
    pub(crate) fn receive_plain(&mut self, stage: &mut Stage, bytes: &[u8]) {
        self.held.extend_from_slice(bytes);
        while self.end.is_none() && !self.held.is_empty() && self.held.len() >= self.need {
            let ingested = self.session.ingest(&mut stage.shard, &self.held, None, stage.now);
            assert!(ingested.bytes <= self.held.len(), "took more than there is");
            self.held.drain(..ingested.bytes);
            match ingested.next {
                Next::Close(reason) => self.close(reason),
                Next::More(need) => {
                    assert!(need > self.held.len(), "asks for {need} bytes of {}", self.held.len());
                    self.need = need;
                }
                Next::Flush => self.need = 1,
                Next::Check(login) => {
                    self.need = 1;
                    if let Err(reason) =
                        self.session.checked(&mut stage.shard, login.run_at_once(), stage.now)
                    {
                        self.close(reason);
                    }
                }
            }
            if let Some(announcing) = self.session.take_announcing() {
                announcing.run();
            }
            let switched = self.session.take_switch();
            self.flush(stage);
            if switched.is_some() {
                self.need = 1;
                self.session.has_switched();
                if !self.is_unpacked {
                    self.unpacking = Some(S2Reader::new(BLOCK));
                    let packed = std::mem::take(&mut self.held);
                    return self.receive(stage, &packed);
                }
            }
        }
    }

    fn flush(&self, stage: &mut Stage) {
        stage.shard.flush_link(self.session.conn());
        stage.shard.flush();
    }

    /// The link's next deadline comes, and then its end. Says how it ended before that, and what
    /// was said.
    pub(crate) fn finish(mut self, stage: &mut Stage) -> (Option<CloseReason>, Vec<Vec<u8>>) {
        if self.end.is_none() {
            stage.now = self.session.deadline().max(stage.now) + Duration::from_millis(1);
            if let Some(reason) = self.session.on_deadline(stage.now) {
                self.close(reason);
            }
            self.flush(stage);
        }
        let (end, lines) = (self.end, said(&self.written.take()));
        self.close(CloseReason::ClientClosed);
        self.flush(stage);
        self.session.conn().discard();
        (end, lines)
    }

    fn close(&mut self, reason: CloseReason) {
        if self.end.replace(reason).is_none() {
            self.session.end(reason).into_iter().for_each(|removal| removal.run());
        }
    }
}

/// Lines in an order of their own, without INFO.
fn said(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let mut lines: Vec<_> = lines.filter(|line| !line.starts_with(b"INFO ")).map(<[u8]>::to_vec).collect();
    lines.sort_unstable();
    lines
}

/// How many there are of each byte: which of the client's subscriptions gets a message first is
/// left open.
pub(crate) fn counted(bytes: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    counts
}
