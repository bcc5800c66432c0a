//! Monitoring pages, as far as a cluster is read from them.

use crate::Error;
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A page as JSON.
pub(crate) fn page(monitor: SocketAddr, path: &str) -> Result<Value, Error> {
    let mut stream = TcpStream::connect(monitor)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").ok_or("an answer without a body")?;
    Ok(serde_json::from_str(body)?)
}
