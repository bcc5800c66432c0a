//! Header of a proxy in front of a connection, if there is one (`proxy_protocol`): reads it off the
//! socket, and not a byte of the client's more than can be given back.

use super::handshake::Ends;
use super::reader::ConnTask;
use crate::budget::StrangerBudget;
use myelin_broker::Level;
use myelin_wire::error::CloseReason;
use myelin_wire::proxy::{self, HeaderPart, HeaderStep, ProxyHeader};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::net::tcp::OwnedReadHalf;
use tokio::time::timeout;

/// Time for the bytes that tell whether there is a header, and again for the whole.
const PATIENCE: Duration = Duration::from_secs(5);

impl ConnTask {
    /// Takes the header from the front of the connection. What the client itself has sent with it
    /// is held.
    ///
    /// # Errors
    /// When it is no good, or nothing comes.
    pub(super) async fn read_proxy_header(&mut self) -> Result<(), CloseReason> {
        let ends = Ends { ours: self.read.local_addr().ok(), peer: self.link.conn.peer() };
        let mut bytes = Vec::new();
        let outcome = tokio::select! {
            outcome = read((&mut self.read, &mut self.budget), &ends, &mut bytes) => outcome,
            () = self.link.kicked() => {
                return Err(self.link.conn.close_requested().unwrap_or(CloseReason::ClientClosed));
            }
        };
        match outcome {
            Ok(header) => {
                if let Some(client) = header.and_then(|header| header.client) {
                    self.link.conn.set_client(client);
                }
                self.hold_back(&bytes);
                Ok(())
            }
            Err(error) => {
                let what = format_args!("Error reading PROXY protocol header from {}: {error}", ends.peer);
                self.local.broker.log().write(Level::Warn, what);
                Err(CloseReason::ProtocolViolation)
            }
        }
    }
}

/// Reads the header, if there is one; in `bytes` is then what came behind it.
async fn read(
    (read, budget): (&mut OwnedReadHalf, &mut StrangerBudget),
    ends: &Ends,
    bytes: &mut Vec<u8>,
) -> Result<Option<ProxyHeader>, String> {
    let mut part = HeaderPart::Version;
    // Compat: the second time begins when it is known what comes, or when the first is over.
    match timeout(PATIENCE, advance((&mut *read, &mut *budget), ends, bytes, &mut part, true)).await {
        Ok(probed) => drop(probed?),
        // Compat: who has said nothing by then is taken for somebody who has left.
        Err(_) if bytes.is_empty() => return Err(format!("{part}: EOF")),
        Err(_) => {}
    }
    match timeout(PATIENCE, advance((read, budget), ends, bytes, &mut part, false)).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("{part}: {}", ends.elapsed("read"))),
    }
}

/// Reads on, to the end or only until it is known what comes.
async fn advance(
    (read, budget): (&mut OwnedReadHalf, &mut StrangerBudget),
    ends: &Ends,
    bytes: &mut Vec<u8>,
    part: &mut HeaderPart,
    is_probe: bool,
) -> Result<Option<ProxyHeader>, String> {
    loop {
        match proxy::next(bytes).map_err(|error| error.to_string())? {
            HeaderStep::Absent => return Ok(None),
            HeaderStep::More(_, needed) if is_probe && needed != HeaderPart::Version => return Ok(None),
            HeaderStep::More(most, needed) => {
                let is_first = *part != needed || bytes.is_empty();
                *part = needed;
                let n = more((&mut *read, &mut *budget), ends, needed, most, bytes).await?;
                if n == 0 {
                    let is_cut = needed.is_read_whole() && !is_first;
                    return Err(format!("{needed}: {}", if is_cut { "unexpected EOF" } else { "EOF" }));
                }
            }
            HeaderStep::Whole(_) if is_probe => return Ok(None),
            HeaderStep::Whole(header) => {
                *part = header.part;
                skip((read, budget), ends, header, bytes).await?;
                return Ok(Some(header));
            }
        }
    }
}

/// Takes the header out of `bytes`, and what of it was not read off the socket.
async fn skip(
    (read, budget): (&mut OwnedReadHalf, &mut StrangerBudget),
    ends: &Ends,
    header: ProxyHeader,
    bytes: &mut Vec<u8>,
) -> Result<(), String> {
    while bytes.len() < header.length {
        let before = bytes.len();
        if more((&mut *read, &mut *budget), ends, header.part, header.length - before, bytes).await? == 0 {
            let is_cut = header.part.is_read_whole();
            return Err(format!("{}: {}", header.part, if is_cut { "unexpected EOF" } else { "EOF" }));
        }
    }
    bytes.drain(..header.length);
    Ok(())
}

async fn more(
    (read, budget): (&mut OwnedReadHalf, &mut StrangerBudget),
    ends: &Ends,
    part: HeaderPart,
    most: usize,
    bytes: &mut Vec<u8>,
) -> Result<usize, String> {
    let read = read.take(most as u64).read_buf(bytes).await;
    let read = read.map_err(|error| format!("{part}: {}", ends.words("read", &error)))?;
    budget.charge(read).map_err(|spent| format!("{part}: {spent}"))?;
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    /// Reads a header with a budget of `left` bytes; answers the bytes that are left of it.
    fn told(header: &[u8], left: usize) -> Result<usize, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
            let mut proxy =
                TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a peer");
            let (stream, peer) = listener.accept().await.expect("a connection");
            proxy.write_all(header).await.expect("sent");
            let ends = Ends { ours: stream.local_addr().ok(), peer };
            let (mut half, _write) = stream.into_split();
            let mut budget = StrangerBudget::of(left);
            read((&mut half, &mut budget), &ends, &mut Vec::new()).await.map(|_| budget.left())
        })
    }

    #[test]
    fn what_a_proxy_says_is_charged() {
        let line = b"PROXY TCP4 1.1.1.1 2.2.2.2 3 4\r\n";
        assert_eq!(told(line, line.len() + 9).map(|left| left < 10), Ok(true));
        assert!(
            told(line, line.len() - 1).is_err_and(|error| error.ends_with("too much before authentication"))
        );
        let mut binary = b"\r\n\r\n\0\r\nQUIT\n\x21\x11".to_vec();
        binary.extend_from_slice(&1000_u16.to_be_bytes());
        binary.extend_from_slice(&[1; 1000]);
        assert!(told(&binary, 2000).is_ok());
        assert!(told(&binary, 900).is_err_and(|error| error.ends_with("too much before authentication")));
    }
}
