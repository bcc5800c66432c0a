//! A proxy in front of the route port of each server. Peers reach the server only through it,
//! because it is what the server advertises. Each remote of a leaf node has a proxy of its own.
//!
//! Who dials a route is found out from the server's name in what it sends first: the INFO of a
//! route is never compressed.

use crate::Error;
use crate::links::{Links, ProxiedConnection};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::thread;

/// Bytes in which a name has to be.
const OPENING: usize = 32 << 10;

/// Proxy of one server.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
}

/// Servers that may dial a proxy.
pub(crate) enum Dialer {
    /// Any of these, by number, each by its name.
    Named(Vec<String>),
    /// The server with this number.
    Known(usize),
}

/// State that the threads of a proxy share.
struct Route {
    /// Number of the server behind the proxy.
    acceptor: usize,
    server: SocketAddr,
    dialer: Dialer,
    links: Arc<Links>,
}

impl Proxy {
    /// Starts a proxy. Its thread ends with the process.
    pub(crate) fn start(
        acceptor: usize,
        server: SocketAddr,
        dialer: Dialer,
        links: &Arc<Links>,
    ) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        let route = Arc::new(Route { acceptor, server, dialer, links: Arc::clone(links) });
        thread::spawn(move || {
            for dialer in listener.incoming().flatten() {
                let route = Arc::clone(&route);
                thread::spawn(move || route.serve(dialer));
            }
        });
        Ok(Self { address })
    }
}

impl Route {
    /// Passes on a connection until one side ends it or the link is cut.
    fn serve(self: Arc<Self>, dialer: TcpStream) {
        // A server that is down is a connection that ends.
        let Ok(acceptor) = TcpStream::connect(self.server) else { return };
        let _ = (dialer.set_nodelay(true), acceptor.set_nodelay(true));
        let connection = Arc::new(ProxiedConnection { dialer, acceptor });
        let from = Arc::new(OnceLock::new());
        if let Dialer::Known(dialer) = self.dialer {
            let _ = from.set(dialer);
        }
        let back = {
            let (route, connection, from) = (Arc::clone(&self), Arc::clone(&connection), Arc::clone(&from));
            thread::spawn(move || {
                let _ = route.copy(&connection.acceptor, &connection.dialer, &from);
                connection.close();
            })
        };
        let _ = self.forth(&connection, &from);
        connection.close();
        let _ = back.join();
        self.links.leave(&connection);
    }

    fn forth(&self, connection: &Arc<ProxiedConnection>, from: &OnceLock<usize>) -> io::Result<()> {
        let mut opening = Vec::new();
        let dialer = match &self.dialer {
            Dialer::Known(dialer) => *dialer,
            Dialer::Named(names) => {
                let Some(dialer) = find_dialer(names, &connection.dialer, &mut opening)? else {
                    return Ok(());
                };
                let _ = from.set(dialer);
                dialer
            }
        };
        if self.links.enter(dialer, self.acceptor, connection) && self.links.pass(dialer, self.acceptor) {
            (&connection.acceptor).write_all(&opening)?;
            self.copy(&connection.dialer, &connection.acceptor, from)?;
        }
        Ok(())
    }

    /// Copies one direction. Before the dialer is known all passes.
    fn copy(&self, mut source: &TcpStream, mut sink: &TcpStream, from: &OnceLock<usize>) -> io::Result<()> {
        let mut room = vec![0; 64 << 10];
        loop {
            let count = source.read(&mut room)?;
            if count == 0 || from.get().is_some_and(|dialer| !self.links.pass(*dialer, self.acceptor)) {
                return Ok(());
            }
            sink.write_all(&room[..count])?;
        }
    }
}

/// Reads until it is known who has dialled, or that nobody will say so.
fn find_dialer(names: &[String], mut source: &TcpStream, opening: &mut Vec<u8>) -> io::Result<Option<usize>> {
    loop {
        let mut piece = [0; 4096];
        let count = source.read(&mut piece)?;
        opening.extend_from_slice(&piece[..count]);
        let text = String::from_utf8_lossy(opening);
        // Its own name comes first: behind it may be what it has heard of others.
        let places = names.iter().map(|name| text.find(name.as_str()));
        let found = places.enumerate().filter_map(|(number, place)| Some((place?, number))).min();
        if found.is_some() || count == 0 || opening.len() > OPENING {
            return Ok(found.map(|(_, dialer)| dialer));
        }
    }
}
