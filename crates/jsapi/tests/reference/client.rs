//! A client that asks and waits for the answer.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

pub(crate) struct Client {
    socket: TcpStream,
    incoming: BufReader<TcpStream>,
}

impl Client {
    pub(crate) fn connect(address: &str) -> Self {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
            .write_all(b"CONNECT {\"verbose\":false,\"user\":\"a\",\"pass\":\"a\"}\r\nSUB inbox 1\r\n")
            .unwrap();
        let incoming = BufReader::new(socket.try_clone().unwrap());
        Self { socket, incoming }
    }

    pub(crate) fn request(&mut self, subject: &str, body: &[u8]) -> String {
        let mut bytes = format!("PUB {subject} inbox {}\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        bytes.extend_from_slice(b"\r\n");
        self.socket.write_all(&bytes).unwrap();
        loop {
            let mut line = String::new();
            assert_ne!(self.incoming.read_line(&mut line).unwrap(), 0, "closed after {subject}");
            match line.split_ascii_whitespace().collect::<Vec<_>>()[..] {
                ["PING"] => self.socket.write_all(b"PONG\r\n").unwrap(),
                ["MSG", .., size] => {
                    let mut payload = vec![0; size.parse::<usize>().unwrap() + 2];
                    self.incoming.read_exact(&mut payload).unwrap();
                    payload.truncate(payload.len() - 2);
                    return String::from_utf8(payload).unwrap();
                }
                _ => assert!(!line.starts_with("-ERR"), "{line}"),
            }
        }
    }
}
