//! A client of a few lines, for what official ones do not do: half a message, no farewell, no
//! reading.

use crate::Error;
use crate::world::World;
use socket2::SockRef;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(10);

/// A connection without manners.
#[derive(Debug)]
pub(super) struct Raw(TcpStream);

impl Raw {
    /// A connection that has said nothing, and takes few bytes that it does not read.
    pub(super) async fn open(world: &World) -> Result<Self, Error> {
        let socket = TcpSocket::new_v4()?;
        // The kernel must not take what the server is to keep.
        socket.set_recv_buffer_size(4096)?;
        Ok(Self(timeout(PATIENCE, socket.connect(world.ports().clients)).await??))
    }

    /// One that is logged in.
    pub(super) async fn connect(world: &World, user: &str) -> Result<Self, Error> {
        let mut raw = Self::open(world).await?;
        raw.send(&format!(
            "CONNECT {{\"verbose\":false,\"pedantic\":false,\"user\":\"{user}\",\"pass\":\"p\",\"lang\":\"raw\",\
             \"headers\":true,\"no_responders\":true}}\r\n"
        ))
        .await?;
        raw.barrier().await?;
        Ok(raw)
    }

    pub(super) async fn send(&mut self, text: &str) -> Result<(), Error> {
        Ok(timeout(PATIENCE, self.0.write_all(text.as_bytes())).await??)
    }

    /// Waits until the server has done everything that was sent.
    pub(super) async fn barrier(&mut self) -> Result<(), Error> {
        self.send("PING\r\n").await?;
        let (mut read, mut chunk) = (Vec::new(), [0; 4096]);
        while !read.windows(6).any(|bytes| bytes == b"PONG\r\n") {
            match timeout(PATIENCE, self.0.read(&mut chunk)).await?? {
                0 => return Err("the server closed a connection that did nothing wrong".into()),
                len => read.extend_from_slice(&chunk[..len]),
            }
        }
        Ok(())
    }

    /// Ends it as a client ends whose machine was switched off, as far as a process can.
    pub(super) fn kill(self) -> Result<(), Error> {
        Ok(SockRef::from(&self.0).set_linger(Some(Duration::ZERO))?)
    }
}
