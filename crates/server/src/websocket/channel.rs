//! A connection before it is a WebSocket: bytes in and out, encrypted or not.

use crate::budget::StrangerBudget;
use crate::shard::Socket;
use rustls::ServerConnection;
use std::io::{self, Read, Write};
use tokio::net::TcpStream;

/// Bytes that are read at once.
const CHUNK: usize = 4096;

/// Connection before it is a WebSocket: bytes in and out, encrypted or not.
pub(super) struct Channel {
    pub(super) stream: TcpStream,
    pub(super) security: Option<ServerConnection>,
    /// Budget of what may still come.
    pub(super) budget: StrangerBudget,
}

impl Channel {
    /// Appends what comes next; nothing is the end.
    pub(super) async fn read(&mut self, into: &mut Vec<u8>) -> io::Result<usize> {
        let mut chunk = [0; CHUNK];
        loop {
            let read = match &mut self.security {
                None => self.stream.try_read(&mut chunk),
                Some(connection) => decrypt(&self.stream, connection, &mut chunk),
            };
            match read {
                Ok(n) => {
                    self.budget.charge(n).map_err(|spent| io::Error::other(spent.to_string()))?;
                    into.extend_from_slice(&chunk[..n]);
                    return Ok(n);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.readable().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Writes all of it.
    pub(super) async fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        if let Some(connection) = &mut self.security {
            connection.writer().write_all(bytes)?;
            bytes = &[];
        }
        loop {
            let written = match &mut self.security {
                Some(connection) if connection.wants_write() => {
                    connection.write_tls(&mut Socket(&self.stream)).map(drop)
                }
                None if !bytes.is_empty() => self.stream.try_write(bytes).map(|n| bytes = &bytes[n..]),
                _ => return Ok(()),
            };
            match written {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.stream.writable().await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Says goodbye, and reads what was sent in vain, so that the end does not reset the connection
    /// under the answer.
    pub(super) async fn close(mut self) {
        if let Some(connection) = &mut self.security {
            connection.send_close_notify();
            let _ = self.write(&[]).await;
        }
        let mut unread = [0; CHUNK];
        while self.stream.try_read(&mut unread).is_ok_and(|n| n > 0) {}
    }
}

/// Decrypts, reading as much as it takes.
fn decrypt(stream: &TcpStream, connection: &mut ServerConnection, into: &mut [u8]) -> io::Result<usize> {
    loop {
        match connection.reader().read(into) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(0),
            read => return read,
        }
        connection.read_tls(&mut Socket(stream))?;
        connection.process_new_packets().map_err(io::Error::other)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::TcpListener;

    #[test]
    fn what_a_client_asks_for_is_charged() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("a listener");
            let mut client =
                TcpStream::connect(listener.local_addr().expect("an address")).await.expect("a peer");
            let (stream, _) = listener.accept().await.expect("a connection");
            let mut channel = Channel { stream, security: None, budget: StrangerBudget::of(10) };
            let mut request = Vec::new();
            client.write_all(b"GET / HTTP").await.expect("sent");
            while request.len() < 10 {
                channel.read(&mut request).await.expect("within the budget");
            }
            client.write_all(b"/").await.expect("sent");
            assert!(channel.read(&mut request).await.is_err());
            assert_eq!(request.len(), 10);
        });
    }
}
