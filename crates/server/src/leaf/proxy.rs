//! Proxies of HTTP: a hub is reached by a tunnel that one of them opens (`CONNECT`).

use crate::os_error;
use myelin_conf::options::LeafProxyOptions;
use myelin_stdx::base64;
use myelin_wire::http_status::HttpStatus;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// The longest answer of a proxy.
const LONGEST_ANSWER: usize = 32 * 1024;

/// Port of a proxy whose URL has none.
const DEFAULT_PORT: u16 = 80;

/// Proxy of HTTP through which a hub is reached.
pub(super) struct HttpProxy {
    host: String,
    port: u16,
    /// User and password as the request says them.
    credentials: Option<String>,
    /// Time for the TCP connection, and for the tunnel.
    timeout: Duration,
}

impl HttpProxy {
    /// `None` where the block is empty. `dial_timeout`: where it has no time of its own.
    pub(super) fn of(options: &LeafProxyOptions, dial_timeout: Duration) -> Option<Self> {
        let url = options.url.as_ref()?;
        let credentials = options.username.as_ref().zip(options.password.as_ref());
        Some(Self {
            host: url.host().to_owned(),
            port: url.port().and_then(|port| port.parse().ok()).unwrap_or(DEFAULT_PORT),
            credentials: credentials
                .map(|(user, password)| base64::encode(format!("{user}:{}", password.reveal()).as_bytes())),
            timeout: options.timeout.unwrap_or(dial_timeout),
        })
    }

    /// Opens a tunnel to `target`. The address is the proxy's.
    ///
    /// # Errors
    /// Why there is none. Compat: in the reference's words.
    pub(super) async fn tunnel(&self, target: &str) -> Result<(TcpStream, SocketAddr), String> {
        let (mut stream, address) =
            self.connect().await.map_err(|error| format!("failed to connect to proxy: {error}"))?;
        let answer = timeout(self.timeout, self.ask(&mut stream, target)).await;
        let answer = answer.unwrap_or_else(|_| Err("i/o timeout".to_owned()));
        let status = answer.and_then(|head| HttpStatus::of(&head).map_err(|line| line.to_string()));
        let status = status.map_err(|error| format!("failed to read proxy response: {error}"))?;
        if status.code != 200 {
            return Err(format!("proxy CONNECT failed: {}", status.text));
        }
        Ok((stream, address))
    }

    async fn connect(&self) -> Result<(TcpStream, SocketAddr), String> {
        let lookup = |why: &str| format!("dial tcp: lookup {}: {why}", self.host);
        let found = tokio::net::lookup_host((self.host.as_str(), self.port)).await;
        let mut found = found.map_err(|error| lookup(&os_error::words(&error)))?;
        let address = found.next().ok_or_else(|| lookup("no such host"))?;
        match timeout(self.timeout, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => Ok((stream, address)),
            Ok(Err(error)) => Err(format!("dial tcp {address}: connect: {}", os_error::words(&error))),
            Err(_) => Err(format!("dial tcp {address}: i/o timeout")),
        }
    }

    /// Asks for the tunnel; the head of the answer is returned, and nothing behind it is read: that
    /// is the hub's.
    async fn ask(&self, stream: &mut TcpStream, target: &str) -> Result<Vec<u8>, String> {
        let credentials = match &self.credentials {
            Some(credentials) => format!("Proxy-Authorization: Basic {credentials}\r\n"),
            None => String::new(),
        };
        let request = format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: Go-http-client/1.1\r\n{credentials}\r\n"
        );
        let words = |error: &std::io::Error| os_error::words(error);
        stream.write_all(request.as_bytes()).await.map_err(|error| words(&error))?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") && !head.ends_with(b"\n\n") {
            let mut byte = [0];
            match stream.read(&mut byte).await.map_err(|error| words(&error))? {
                0 if head.is_empty() => return Err("unexpected EOF".to_owned()),
                // Compat: what is no answer is known by its first line.
                0 => break,
                _ => head.push(byte[0]),
            }
            if head.len() > LONGEST_ANSWER || byte == *b"\n" && !head.starts_with(b"HTTP/") {
                break;
            }
        }
        Ok(head)
    }
}
