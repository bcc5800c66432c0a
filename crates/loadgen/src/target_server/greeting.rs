//! Name and versions of a server, from its INFO, for reports.

use std::fmt;

use serde_json::Value;

use crate::error::BenchError;
use crate::target_server::Target;

/// The INFO of a server; prints as its name and versions.
pub struct Greeting(Value);

impl Greeting {
    /// Connects, whatever the server wants for that, and goes away.
    pub fn of(server: &Target) -> Result<Self, BenchError> {
        Ok(Self(server.connect()?.info().clone()))
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
        let greeting = Greeting(serde_json::json!({"version": "2.15.2", "go": "go1.26"}));
        assert_eq!(greeting.to_string(), "protocol version 2.15.2, go1.26");
    }
}
