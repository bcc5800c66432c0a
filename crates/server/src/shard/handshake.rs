//! A handshake with a client or another server, from its first byte to the last.
//!
//! It costs a millisecond of computing, so it runs away from the shards: waiting on the control
//! runtime, computing on its threads for blocking work, which give way to shards. What it costs in
//! memory is bounded: a client that has not sent its whole first record holds what it has sent, and
//! no more than `MAX_OPEN_HANDSHAKES` of the others are on their way at once; the rest wait with
//! their bytes in the socket, for as long as a handshake may take.

use std::cell::Cell;
use std::io;
use std::net::SocketAddr;
use std::ops::DerefMut;
use std::sync::Arc;

use super::Permits;
use super::secure::Socket;
use crate::budget::StrangerBudget;
use crate::ocsp::PeerCheck;
use crate::os_error;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{NO_HANDSHAKE, TlsTerms, bad_certificate, take_refused, words};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ConnectionCommon, ServerConnection, SideData};
use tokio::net::TcpStream;

/// The first byte of a handshake.
pub(crate) const HANDSHAKE: u8 = 0x16;

/// Handshakes on their way at once. Each takes some 20 KiB, at worst three times that.
pub(super) const MAX_OPEN_HANDSHAKES: usize = 2048;

/// In front of every record.
const HEADER: usize = 5;

/// The longest record that there may be.
const LONGEST: usize = 16 * 1024 + 2048;

/// How much threads for blocking work give way to shards: they get a quarter of a core that both
/// want.
const NICENESS: i32 = 5;

/// How often is looked for what a client that is turned away has written meanwhile.
const UNREAD_LOOKS: usize = 32;

/// Does the handshake with `peer`. INFO must be out where it comes first; `ahead` was read already,
/// and charged.
///
/// # Errors
/// In words for the log.
pub(crate) async fn handshake(
    stream: &TcpStream,
    peer: SocketAddr,
    (terms, permits): (TlsTerms, Permits),
    ahead: Vec<u8>,
    budget: &mut StrangerBudget,
) -> Result<ServerConnection, String> {
    // A socket that was reset no longer knows whose it was, and this one may have been already.
    let ends = Ends { ours: stream.local_addr().ok(), peer };
    let first = first_record(stream, &ends, ahead, budget).await?;
    // Boxed: it is most of the task, and those who have not come so far should not pay for it.
    Box::pin(async move {
        let begin = || ServerConnection::new(Arc::clone(&terms.config));
        let mut connection = converse(stream, &ends, begin, &permits, (&first, budget)).await?;
        if let Some(revocation) = &terms.revocation {
            // Boxed once more: few come so far.
            let shown = connection.peer_certificates().unwrap_or_default();
            if let Err(error) = Box::pin(revocation.verify(shown)).await {
                refuse(stream, connection);
                return Err(error);
            }
        }
        send(stream, &ends, &mut connection).await?;
        Ok(connection)
    })
    .await
}

/// Does the handshake with a server that was dialled and has to bear this name. `revocation`: of
/// its certificate, where that is asked.
///
/// # Errors
/// In words for the log.
pub(super) async fn greet_server(
    stream: &TcpStream,
    ends: &Ends,
    (config, name, revocation): (&Arc<ClientConfig>, ServerName<'static>, Option<&PeerCheck>),
    permits: &Permits,
    budget: &mut StrangerBudget,
) -> Result<ClientConnection, String> {
    let begin = || ClientConnection::new(Arc::clone(config), name);
    let mut connection = converse(stream, ends, begin, permits, (&[], budget)).await?;
    if let Some(revocation) = revocation {
        // The last words of the handshake are not out, and will not be.
        let shown = connection.peer_certificates().unwrap_or_default();
        Box::pin(revocation.verify(shown)).await?;
    }
    send(stream, ends, &mut connection).await?;
    Ok(connection)
}

/// The handshake itself, from a first record on. Its last words are not out.
async fn converse<C, D: SideData + 'static>(
    stream: &TcpStream,
    ends: &Ends,
    begin: impl FnOnce() -> Result<C, rustls::Error>,
    permits: &Permits,
    (first, budget): (&[u8], &mut StrangerBudget),
) -> Result<C, String>
where
    C: DerefMut<Target = ConnectionCommon<D>> + Send + 'static,
{
    let closed = |_| "EOF".to_owned();
    let _permit = permits.open_handshakes.acquire().await.map_err(closed)?;
    let mut connection = begin().map_err(|error| words(&error))?;
    let mut ahead = first;
    while connection.is_handshaking() {
        send(stream, ends, &mut connection).await?;
        if ahead.is_empty() {
            match connection.read_tls(&mut Socket(stream)) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    stream.readable().await.map_err(|error| ends.words("read", &error))?;
                    continue;
                }
                Ok(0) => return Err("EOF".to_owned()),
                read => {
                    let read = read.map_err(|error| ends.words("read", &error))?;
                    budget.charge(read).map_err(|spent| spent.to_string())?;
                }
            }
        } else {
            connection.read_tls(&mut ahead).map_err(|error| error.to_string())?;
        }
        let (mut advanced, (processed, refused)) = compute(connection, permits).await?;
        if let Err(error) = processed {
            // The alert, if the socket takes it.
            while advanced.wants_write() && advanced.write_tls(&mut Socket(stream)).is_ok() {}
            return Err(words(&error) + &refused);
        }
        connection = advanced;
    }
    Ok(connection)
}

/// Writes what rustls has to say.
async fn send<D: SideData>(
    stream: &TcpStream,
    ends: &Ends,
    connection: &mut ConnectionCommon<D>,
) -> Result<(), String> {
    while connection.wants_write() {
        match connection.write_tls(&mut Socket(stream)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                stream.writable().await.map_err(|error| ends.words("write", &error))?;
            }
            written => drop(written.map_err(|error| ends.words("write", &error))?),
        }
    }
    Ok(())
}

/// Says that the peer's certificate is no good, if the socket takes it, and reads what the peer has
/// sent in vain, so that the end does not reset the connection under the alert.
fn refuse(stream: &TcpStream, connection: ServerConnection) {
    if let Some(alert) = bad_certificate(connection) {
        let _ = stream.try_write(&alert);
        // What is still unread would have the system reset the connection before the alert is seen.
        // Not for ever: whoever is turned away may go on writing as fast as this reads.
        let mut unread = [0; 2048];
        for _ in 0..UNREAD_LOOKS {
            if !stream.try_read(&mut unread).is_ok_and(|n| n > 0) {
                break;
            }
        }
    }
}

/// Waits for the first record, so that nothing larger is kept for those who begin one and leave it
/// at that.
async fn first_record(
    stream: &TcpStream,
    ends: &Ends,
    ahead: Vec<u8>,
    budget: &mut StrangerBudget,
) -> Result<Vec<u8>, String> {
    let mut bytes = ahead;
    loop {
        if bytes.first().is_some_and(|first| *first != HANDSHAKE) {
            return Err(NO_HANDSHAKE.to_owned());
        }
        let missing = match bytes[..] {
            [_, _, _, high, low, ..] => {
                let length = usize::from(u16::from_be_bytes([high, low])).min(LONGEST);
                (HEADER + length).saturating_sub(bytes.len())
            }
            _ => HEADER - bytes.len(),
        };
        if missing == 0 {
            return Ok(bytes);
        }
        stream.readable().await.map_err(|error| ends.words("read", &error))?;
        let mut chunk = [0; 2048];
        let most = missing.min(chunk.len());
        match stream.try_read(&mut chunk[..most]) {
            Ok(0) if bytes.is_empty() => return Err("EOF".to_owned()),
            Ok(0) => return Err("unexpected EOF".to_owned()),
            Ok(n) => {
                budget.charge(n).map_err(|spent| spent.to_string())?;
                bytes.extend_from_slice(&chunk[..n]);
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(ends.words("read", &error)),
        }
    }
}

/// The addresses of a connection.
pub(super) struct Ends {
    pub(super) ours: Option<SocketAddr>,
    pub(super) peer: SocketAddr,
}

impl Ends {
    /// Why bytes did not come through, as Go words it.
    pub(super) fn words(&self, what: &str, error: &io::Error) -> String {
        let why = os_error::words(error);
        match self.ours {
            Some(ours) => format!("{what} tcp {ours}->{}: {what}: {why}", self.peer),
            None => format!("{what}: {why}"),
        }
    }

    /// Words for a handshake that did not end in time.
    pub(super) fn elapsed(&self, what: &str) -> String {
        match self.ours {
            Some(ours) => format!("{what} tcp {ours}->{}: i/o timeout", self.peer),
            None => format!("{what}: i/o timeout"),
        }
    }
}

/// Outcome of bytes that were read, and the certificates that were refused, in words.
type Processed = (Result<(), rustls::Error>, String);

/// Works on what was read, where it holds up nobody: thousands of clients that come back at once
/// would otherwise keep the control runtime from accepting, monitoring and signals for seconds.
async fn compute<C, D: SideData + 'static>(
    mut connection: C,
    permits: &Permits,
) -> Result<(C, Processed), String>
where
    C: DerefMut<Target = ConnectionCommon<D>> + Send + 'static,
{
    let Ok(_place) = permits.handshakes.acquire().await else { return Err("EOF".to_owned()) };
    let computing = supervise::blocking(SupervisedPart::Handshake, move || {
        give_way();
        let processed = connection.process_new_packets().map(drop);
        (connection, (processed, take_refused()))
    });
    computing.await.ok_or_else(|| "internal error".to_owned())
}

/// Lets shards go first from here on, where a core is wanted by both.
fn give_way() {
    thread_local! {
        static GIVES_WAY: Cell<bool> = const { Cell::new(false) };
    }
    if !GIVES_WAY.replace(true) {
        // Where that is not allowed, all are equal. On Linux this is about the calling thread
        // alone.
        let _ = rustix::process::setpriority_process(None, NICENESS);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[test]
    fn what_a_handshake_takes_is_charged() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            // A record whose end never comes, behind what was read already.
            let record = [&[HANDSHAKE, 3, 1, 0x40, 0][..], &[1; 600]].concat();
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
            let mut client =
                TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a peer");
            let (stream, peer) = listener.accept().await.expect("a connection");
            let ends = Ends { ours: stream.local_addr().ok(), peer };
            client.write_all(&record[100..]).await.expect("sent");
            let mut budget = StrangerBudget::of(500);
            let ahead = record[..100].to_vec();
            let error = first_record(&stream, &ends, ahead, &mut budget).await.expect_err("too much");
            assert_eq!(error, "too much before authentication");
        });
    }
}
