//! Accepts clients and links with other servers, and hands each to a shard.

use crate::logging::Logger;
use crate::os_error::words;
use crate::shard::{LinkSecurity, LinkWith, Mail, Mailbox, NewLink};
use crate::supervise::{self, SupervisedPart, persist};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// First and longest pause after accepting failed, most likely for want of file descriptors.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Clients that wait to be accepted, as many as the system allows.
const BACKLOG: i32 = 4096;

/// Binds `host:port`. Restarting on a port that was just in use works at once.
///
/// # Errors
/// When the host does not resolve or the port is taken.
pub(crate) fn bind(host: &str, port: u16) -> std::io::Result<TcpListener> {
    let address = resolve(host, port)?;
    if address.ip() == Ipv4Addr::UNSPECIFIED {
        // Compat: all addresses means IPv6 too, where the system has it.
        let all = SocketAddr::from((Ipv6Addr::UNSPECIFIED, port));
        return listen(all).or_else(|_| listen(address));
    }
    listen(address)
}

fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = socket2::Socket::new(socket2::Domain::for_address(address), socket2::Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(false)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

fn resolve(host: &str, port: u16) -> std::io::Result<SocketAddr> {
    let mut addresses = (host, port).to_socket_addrs()?;
    addresses.next().ok_or_else(|| std::io::ErrorKind::AddrNotAvailable.into())
}

/// Accepts until it is dropped. A client goes to the shard with the fewest connections, as the mail
/// that `mail` makes. `kind`: theirs, in the log.
pub(crate) async fn accept(
    listener: TcpListener,
    shards: Vec<Mailbox>,
    (kind, log): (&'static str, Arc<Logger>),
    mail: impl Fn(std::net::TcpStream, SocketAddr) -> Mail,
) {
    let acceptor = Acceptor::new(listener, log);
    persist(SupervisedPart::Accept, || accept_all(&acceptor, kind, &shards, &mail)).await;
}

async fn accept_all(
    acceptor: &Acceptor,
    kind: &str,
    shards: &[Mailbox],
    mail: &impl Fn(std::net::TcpStream, SocketAddr) -> Mail,
) {
    loop {
        let (stream, peer) = acceptor.next().await;
        match stream.into_std() {
            Ok(stream) => place(shards, mail(stream, peer)),
            Err(error) => acceptor.log.error(format_args!("{kind} Accept error: {}", words(&error))),
        }
    }
}

/// Accepts links with other servers until the task is ended. `kind`: theirs, in the log; `link`
/// says for each with whom it is and how it is secured.
pub(crate) fn accept_links(
    listener: TcpListener,
    (kind, log): (&'static str, &Arc<Logger>),
    shards: Vec<Mailbox>,
    link: impl Fn() -> (LinkWith, Option<LinkSecurity>) + Send + Sync + 'static,
) -> JoinHandle<()> {
    let acceptor = Acceptor::new(listener, Arc::clone(log));
    supervise::spawn_guarding(async move {
        persist(SupervisedPart::Accept, || accept_all_links(&acceptor, kind, &shards, &link)).await;
    })
}

async fn accept_all_links(
    acceptor: &Acceptor,
    kind: &str,
    shards: &[Mailbox],
    link: &impl Fn() -> (LinkWith, Option<LinkSecurity>),
) {
    loop {
        let (stream, peer) = acceptor.next().await;
        match stream.into_std() {
            Ok(stream) => {
                let (with, security) = link();
                let new = NewLink { stream, peer, with, security, upgrade: None };
                place(shards, Mail::Link(Box::new(new)));
            }
            Err(error) => acceptor.log.error(format_args!("{kind} Accept error: {}", words(&error))),
        }
    }
}

/// Accepts one after the other, and pauses when that fails.
pub(crate) struct Acceptor {
    listener: TcpListener,
    log: Arc<Logger>,
}

impl Acceptor {
    pub(crate) fn new(listener: TcpListener, log: Arc<Logger>) -> Self {
        Self { listener, log }
    }

    /// The next connection.
    pub(crate) async fn next(&self) -> (TcpStream, SocketAddr) {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.listener.accept().await {
                Ok((stream, peer)) => {
                    return (stream, SocketAddr::new(peer.ip().to_canonical(), peer.port()));
                }
                Err(error) => self.failed(&error, pause).await,
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    async fn failed(&self, error: &std::io::Error, pause: Duration) {
        self.log.error(format_args!(
            "Temporary Client Accept Error(accept tcp {}: accept4: {}), sleeping {}ms",
            self.listener.local_addr().map(|address| address.to_string()).unwrap_or_default(),
            words(error),
            pause.as_millis()
        ));
        tokio::time::sleep(pause).await;
    }
}

/// Gives a connection to the shard with the fewest.
pub(crate) fn place(shards: &[Mailbox], connection: Mail) {
    if let Some(shard) = shards.iter().min_by_key(|shard| shard.load()) {
        shard.expect_one();
        shard.post(connection);
    }
}
