//! What a server says about itself before anybody has said who they are.

use std::fmt;
use std::io::{BufRead, BufReader, Read};

use serde_json::Value;

use crate::bench::address::Address;
use crate::bench::connection::PATIENCE;
use crate::bench::connection::dial::dial;
use crate::bench::error::BenchError;

/// Longer greetings are not read to the end.
const LONGEST: u64 = 64 * 1024;

/// The INFO of a server; prints as its name and versions.
pub(crate) struct Greeting(Value);

impl Greeting {
    /// Connects, reads one line and goes away.
    pub(crate) fn of(address: &Address) -> Result<Self, BenchError> {
        let stream = dial(address)?;
        stream.set_read_timeout(Some(PATIENCE)).map_err(BenchError::io("setting a time-out"))?;
        let mut line = String::new();
        let read = BufReader::new(stream.take(LONGEST)).read_line(&mut line);
        read.map_err(BenchError::io("waiting for the greeting"))?;
        Self::read(&line).ok_or_else(|| BenchError::Protocol("the server does not greet with INFO".into()))
    }

    fn read(line: &str) -> Option<Self> {
        Some(Self(serde_json::from_str(line.strip_prefix("INFO ")?.trim()).ok()?))
    }
}

impl fmt::Display for Greeting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = |key: &str| self.0[key].as_str().unwrap_or("unknown");
        write!(f, "protocol version {}, {}", word("version"), word("go"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_greeting_says_the_versions() {
        let greeting = Greeting::read("INFO {\"version\":\"2.15.2\",\"go\":\"go1.26\"} \r\n").unwrap();
        assert_eq!(greeting.to_string(), "protocol version 2.15.2, go1.26");
        assert!(Greeting::read("-ERR 'x'\r\n").is_none() && Greeting::read("INFO {").is_none());
    }
}
