//! A proxy before a server's port, for other servers, which keeps what goes through it.

use myelin_stdx::sync::lock;
use myelin_wire::peer::groups::INTERNAL_ACCOUNTS;
use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Bytes of one direction that are kept, at most: its beginning.
const MOST: usize = 24 << 10;

/// INFO and CONNECT of a link, which name its account, are within so many bytes.
const GREETING: usize = 4 << 10;

type Said = Arc<Mutex<Vec<u8>>>;

/// The proxy, and both directions of each connection.
pub(super) struct Recorder {
    pub(super) port: u16,
    connections: Arc<Mutex<Vec<[Said; 2]>>>,
}

impl Recorder {
    /// A proxy before this port.
    pub(super) fn before(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let this =
            Self { port: listener.local_addr().expect("it listens").port(), connections: Arc::default() };
        let connections = Arc::clone(&this.connections);
        thread::spawn(move || {
            for from in listener.incoming().flatten() {
                let Ok(to) = TcpStream::connect(("127.0.0.1", port)) else { continue };
                let said = [Said::default(), Said::default()];
                lock(&connections).push(said.clone());
                let [forth, back] = said;
                pass(&from, &to, forth);
                pass(&to, &from, back);
            }
        });
        this
    }

    /// Bytes of the links of internal accounts so far, with the name of the account.
    pub(super) fn said(&self) -> Vec<(&'static str, Vec<u8>)> {
        let mut all = Vec::new();
        for connection in lock(&self.connections).iter() {
            let directions = connection.each_ref().map(|said| lock(said).clone());
            let names = |said: &Vec<u8>, account: &str| {
                let (greeting, name) = (&said[..GREETING.min(said.len())], format!("\"{account}\""));
                greeting.windows(name.len()).any(|part| part == name.as_bytes())
            };
            for account in INTERNAL_ACCOUNTS {
                if directions.iter().any(|said| names(said, account)) {
                    all.extend(directions.iter().map(|said| (account, said.clone())));
                }
            }
        }
        all
    }
}

/// Passes on what comes from one end to the other, in a thread of its own.
fn pass(from: &TcpStream, to: &TcpStream, said: Said) {
    let (mut from, mut to) = (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
    thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(count) = from.read(&mut bytes)
            && count > 0
            && to.write_all(&bytes[..count]).is_ok()
        {
            let mut said = lock(&said);
            let room = MOST.saturating_sub(said.len()).min(count);
            said.extend_from_slice(&bytes[..room]);
        }
        let _ = to.shutdown(Shutdown::Both);
    });
}
