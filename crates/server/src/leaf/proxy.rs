//! Proxies of HTTP: a hub is reached by a tunnel that one of them opens (`CONNECT`).
//!
//! A proxy with `https://` is spoken to by TLS. A link is served as a socket, perhaps with TLS of
//! its own inside, so what such a tunnel carries is passed on between the proxy and a pair of
//! sockets on this machine.

use crate::os_error;
use crate::supervise::{self, SupervisedPart};
use crate::tls::{LINK_TIMEOUT, outbound_config, words};
use myelin_conf::options::LeafProxyOptions;
use myelin_stdx::base64;
use myelin_wire::http_status::HttpStatus;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, copy, split};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The longest answer of a proxy.
const LONGEST_ANSWER: usize = 32 * 1024;

/// Ports of proxies whose URL has none: without TLS, and with it.
const DEFAULT_PORTS: [u16; 2] = [80, 443];

/// Proxy of HTTP through which a hub is reached.
pub(super) struct HttpProxy {
    host: String,
    port: u16,
    /// User and password as the request says them.
    credentials: Option<String>,
    /// Time for the TCP connection, and for the tunnel.
    timeout: Duration,
    tls: Option<ProxyTls>,
}

/// TLS with a proxy.
struct ProxyTls {
    config: Arc<ClientConfig>,
    /// Time for the handshake.
    timeout: Duration,
}

impl HttpProxy {
    /// `None` where the block is empty. `dial_timeout`: where it has no time of its own.
    ///
    /// # Errors
    /// When the files of its `tls{}` are no good.
    pub(super) fn of(options: &LeafProxyOptions, dial_timeout: Duration) -> Result<Option<Self>, String> {
        let Some(url) = &options.url else { return Ok(None) };
        let credentials = options.username.as_ref().zip(options.password.as_ref());
        let is_secure = url.scheme == "https";
        let tls = || {
            let given = options.tls.as_ref().and_then(|tls| tls.timeout);
            let config = Arc::new(outbound_config(options.tls.as_ref())?);
            Ok::<_, String>(ProxyTls { config, timeout: given.unwrap_or(LINK_TIMEOUT) })
        };
        let default_port = DEFAULT_PORTS[usize::from(is_secure)];
        Ok(Some(Self {
            host: url.host().to_owned(),
            port: url.port().and_then(|port| port.parse().ok()).unwrap_or(default_port),
            credentials: credentials
                .map(|(user, password)| base64::encode(format!("{user}:{}", password.reveal()).as_bytes())),
            timeout: options.timeout.unwrap_or(dial_timeout),
            tls: is_secure.then(tls).transpose()?,
        }))
    }

    /// Opens a tunnel to `target`. The address is the proxy's.
    ///
    /// # Errors
    /// Why there is none. Compat: in the reference's words.
    pub(super) async fn tunnel(&self, target: &str) -> Result<(TcpStream, SocketAddr), String> {
        let (mut stream, address) =
            self.connect().await.map_err(|error| format!("failed to connect to proxy: {error}"))?;
        let Some(tls) = &self.tls else {
            self.open(&mut stream, target).await?;
            return Ok((stream, address));
        };
        let shaken = tls.shake(stream, &self.host).await;
        let mut stream = shaken.map_err(|error| format!("proxy TLS handshake failed: {error}"))?;
        self.open(&mut stream, target).await?;
        let near = near_end(stream).await;
        Ok((
            near.map_err(|error| format!("no sockets for the tunnel: {}", os_error::words(&error)))?,
            address,
        ))
    }

    async fn open(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        target: &str,
    ) -> Result<(), String> {
        let answer = timeout(self.timeout, self.ask(stream, target)).await;
        let answer = answer.unwrap_or_else(|_| Err("i/o timeout".to_owned()));
        let status = answer.and_then(|head| HttpStatus::of(&head).map_err(|line| line.to_string()));
        let status = status.map_err(|error| format!("failed to read proxy response: {error}"))?;
        if status.code != 200 {
            return Err(format!("proxy CONNECT failed: {}", status.text));
        }
        Ok(())
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
    async fn ask(
        &self,
        stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
        target: &str,
    ) -> Result<Vec<u8>, String> {
        let credentials = match &self.credentials {
            Some(credentials) => format!("Proxy-Authorization: Basic {credentials}\r\n"),
            None => String::new(),
        };
        let request = format!(
            "CONNECT {target} HTTP/1.1\r\nHost: {target}\r\nUser-Agent: Go-http-client/1.1\r\n{credentials}\r\n"
        );
        let words = |error: &io::Error| os_error::words(error);
        stream.write_all(request.as_bytes()).await.map_err(|error| words(&error))?;
        stream.flush().await.map_err(|error| words(&error))?;
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

impl ProxyTls {
    async fn shake(&self, stream: TcpStream, host: &str) -> Result<TlsStream<TcpStream>, String> {
        let name = ServerName::try_from(host.to_owned());
        let name = name.map_err(|_| format!("tls: invalid server name {host:?}"))?;
        let shaking = TlsConnector::from(Arc::clone(&self.config)).connect(name, stream);
        let shaken = timeout(self.timeout, shaking).await.map_err(|_| "i/o timeout".to_owned())?;
        shaken.map_err(|error| {
            let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
            inner.map_or_else(|| os_error::words(&error), words)
        })
    }
}

/// One of a pair of sockets; what goes through it goes through the tunnel.
async fn near_end(tunnel: TlsStream<TcpStream>) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let near = TcpStream::connect(listener.local_addr()?).await?;
    let own = near.local_addr()?;
    // Others of this machine may come first.
    let far = loop {
        let (far, peer) = listener.accept().await?;
        if peer == own {
            break far;
        }
    };
    far.set_nodelay(true)?;
    supervise::spawn(SupervisedPart::Link, pass_on(far, tunnel));
    Ok(near)
}

/// Passes on what comes from either side, until one of them ends.
async fn pass_on(far: TcpStream, tunnel: TlsStream<TcpStream>) {
    let ((mut from_link, mut to_link), (mut from_hub, mut to_hub)) = (split(far), split(tunnel));
    tokio::select! {
        _ = copy(&mut from_link, &mut to_hub) => {}
        _ = copy(&mut from_hub, &mut to_link) => {}
    }
    // The link has ended, or will when it reads the end; what is left of TLS is for the proxy only.
    let _ = timeout(LINK_TIMEOUT, to_hub.shutdown()).await;
}
