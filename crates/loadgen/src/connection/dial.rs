//! The socket to a server, which is there in time or not at all.

use std::io::{self, ErrorKind};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

use crate::connection::address::Address;
use crate::error::BenchError;

/// How long each of a server's addresses may take; the system would try for minutes.
const LIMIT: Duration = Duration::from_secs(5);

/// Connects to the first address of the server that answers, or has the proxy do so.
pub(crate) fn dial(address: &Address) -> Result<TcpStream, BenchError> {
    let Some(proxy) = &address.proxy else {
        return dial_within((address.host.as_str(), address.port), LIMIT)
            .map_err(BenchError::io("connecting to the server"));
    };
    let doing = "connecting by the proxy";
    let socket = dial_within((proxy.host.as_str(), proxy.port), LIMIT).map_err(BenchError::io(doing))?;
    socket.set_read_timeout(Some(LIMIT)).map_err(BenchError::io("setting a time-out"))?;
    proxy.ask(&socket, &address.host, address.port).map_err(BenchError::io(doing))?;
    Ok(socket)
}

fn dial_within(server: impl ToSocketAddrs, limit: Duration) -> io::Result<TcpStream> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the host has no address");
    for address in server.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, limit) {
            Ok(socket) => return Ok(socket),
            Err(error) => failure = error,
        }
    }
    Err(failure)
}

#[cfg(test)]
mod tests {
    use std::net::{SocketAddr, TcpListener};

    use super::*;

    #[test]
    fn every_address_is_tried_but_none_for_ever() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let good = listener.local_addr().unwrap();
        let full = TcpListener::bind("127.0.0.1:0").unwrap();
        rustix::net::listen(&full, 0).unwrap();
        let silent = full.local_addr().unwrap();
        let limit = Duration::from_millis(50);
        // Nobody accepts: when the queue is full the system drops who knocks.
        let waiting: Vec<_> = (0..8).map(|_| dial_within(silent, limit)).collect();
        let last = waiting.last().unwrap().as_ref();
        assert_eq!(last.map_err(io::Error::kind).unwrap_err(), ErrorKind::TimedOut);
        let addresses: [SocketAddr; 2] = [silent, good];
        assert_eq!(dial_within(&addresses[..], limit).unwrap().peer_addr().unwrap(), good);
    }
}
