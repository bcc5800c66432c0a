//! Errors of the operating system, in the words that operators know from Go.

use std::io;

pub(crate) use myelin_stdx::os_error::words;

/// Why nobody can listen on `host:port`.
pub(crate) fn listening(host: &str, port: u16, error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(_) => format!("listen tcp {}: bind: {}", with_port(host, port), words(error)),
        None => format!("listen tcp: lookup {host}: no such host"),
    }
}

/// As in an address: IPv6 in brackets.
pub(crate) fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_like_go() {
        let missing = io::Error::from_raw_os_error(2);
        assert_eq!(words(&missing), "no such file or directory");
        let taken = io::Error::from_raw_os_error(98);
        assert_eq!(listening("::1", 80, &taken), "listen tcp [::1]:80: bind: address already in use");
        let lookup = io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(listening("nowhere", 80, &lookup), "listen tcp: lookup nowhere: no such host");
    }
}
