//! Pages of a server's monitoring, over plain HTTP: who needs TLS has a program that knows it.

use myelin_loadgen::error::BenchError;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// Bytes of an answer that are read at most.
const LONGEST_ANSWER: u64 = 16 << 20;

/// Asks for a page at `monitor`, which is HOST:PORT with its base path if it has one. Answers
/// status and body.
pub(crate) fn page(monitor: &str, page: &str, timeout: Duration) -> io::Result<(u16, String)> {
    let address = monitor.trim_start_matches("http://").trim_end_matches('/');
    let (host, base) = address.split_once('/').unwrap_or((address, ""));
    let base = if base.is_empty() { String::new() } else { format!("/{base}") };
    let mut stream = connect(host, timeout)?;
    stream.set_read_timeout(Some(timeout))?;
    stream.set_write_timeout(Some(timeout))?;
    // A long page would come in chunks by a later version of the protocol.
    let request = format!("GET {base}/{page} HTTP/1.0\r\nHost: {host}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(LONGEST_ANSWER).read_to_end(&mut answer)?;
    understand(&String::from_utf8_lossy(&answer))
}

/// Asks for a page that is JSON, as [`page`] does.
pub(crate) fn json(monitor: &str, path: &str, timeout: Duration) -> Result<Value, BenchError> {
    let (status, body) = page(monitor, path, timeout).map_err(BenchError::io("asking the monitoring"))?;
    let wrong = |what: String| BenchError::Protocol(format!("{path} of {monitor}: {what}"));
    if status != 200 {
        return Err(wrong(format!("status {status}")));
    }
    serde_json::from_str(&body).map_err(|error| wrong(error.to_string()))
}

fn connect(host: &str, timeout: Duration) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in host.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Takes status and body out of an answer.
fn understand(answer: &str) -> io::Result<(u16, String)> {
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((answer, ""));
    let first = head.lines().next().unwrap_or_default();
    let status = first.split(' ').nth(1).filter(|_| first.starts_with("HTTP/"));
    match status.and_then(|status| status.parse().ok()) {
        Some(status @ 100..=599) => Ok((status, body.trim().to_owned())),
        _ => Err(io::Error::new(io::ErrorKind::InvalidData, format!("it says {first:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_has_a_status() {
        let answer = |status: &str| format!("HTTP/1.1 {status}\r\nContent-Type: x\r\n\r\n{{}}\n");
        assert_eq!(understand(&answer("200 OK")).unwrap(), (200, "{}".to_owned()));
        assert_eq!(understand(&answer("404 Not Found")).unwrap(), (404, "{}".to_owned()));
        for nothing in [answer("2000"), String::new(), "220 smtp\r\n".to_owned()] {
            assert!(understand(&nothing).is_err(), "{nothing}");
        }
    }
}
