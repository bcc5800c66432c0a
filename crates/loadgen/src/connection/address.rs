//! Where the server is and who we are to it: `nats://[user:pass@|token@]host[:port]`.
//!
//! Owns the grammar of `--server`; other ways to say who we are come from `target_server`. Never
//! opens a socket.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::connection::nkey::Seed;
use crate::connection::socks::Proxy;
use crate::connection::tls::Tls;
use crate::error::BenchError;

const DEFAULT_PORT: u16 = 4222;

/// A server's address with the credentials to present in CONNECT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Name or address, without brackets.
    pub host: String,
    /// TCP port.
    pub port: u16,
    /// Credentials for CONNECT.
    pub credentials: Credentials,
    /// How the connection is encrypted when it is, and whether it must be.
    pub tls: Arc<Tls>,
    /// Whether the protocol goes through a WebSocket, and whether that compresses.
    pub web: Option<bool>,
    /// Name of the connection, as the server shows it.
    pub name: Arc<str>,
    /// SOCKS5 proxy of the connection, where it does not go to the server directly.
    pub proxy: Option<Arc<Proxy>>,
}

/// The name of connections that nobody has named.
const NAME: &str = "myelin";

/// User of a connection, as CONNECT presents it. `Debug` shows the kind, and never a secret.
#[derive(Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing.
    Anonymous,
    /// A token.
    Token(String),
    /// A user with a password.
    Password {
        /// Name of the user.
        user: String,
        /// The password in clear.
        password: String,
    },
    /// A key that signs the server's nonce.
    Nkey(Seed),
    /// A signed user, with the key that belongs to it unless the token is a bearer token.
    Jwt {
        /// The JWT.
        token: String,
        /// The key of the user.
        seed: Option<Seed>,
    },
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Anonymous => "Anonymous",
            Self::Token(_) => "Token(…)",
            Self::Password { .. } => "Password(…)",
            Self::Nkey(_) => "Nkey(…)",
            Self::Jwt { .. } => "Jwt(…)",
        })
    }
}

impl Address {
    /// A loopback address without credentials.
    pub fn loopback(port: u16) -> Self {
        Self::of("127.0.0.1".into(), port, Credentials::Anonymous, Tls::default())
    }

    fn of(host: String, port: u16, credentials: Credentials, tls: Tls) -> Self {
        Self { host, port, credentials, tls: Arc::new(tls), web: None, name: NAME.into(), proxy: None }
    }
}

impl FromStr for Address {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let (rest, tls) = match text.split_once("://") {
            Some(("nats", rest)) => (rest, Tls::default()),
            Some(("tls", rest)) => (rest, Tls::required()),
            Some(_) => return Err(BenchError::Address("the scheme is neither \"nats\" nor \"tls\"".into())),
            None => (text, Tls::default()),
        };
        let rest = rest.trim_end_matches('/');
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((user_info, place)) => (credentials(user_info)?, place),
            None => (Credentials::Anonymous, rest),
        };
        let (host, port) = host_and_port(place, DEFAULT_PORT)?;
        Ok(Self::of(host, port, credentials, tls))
    }
}

/// Credentials in front of the `@` of a URL, percent-encoded: `user:password`, or a token.
pub fn credentials(user_info: &str) -> Result<Credentials, BenchError> {
    match user_info.split_once(':') {
        Some((user, password)) => {
            Ok(Credentials::Password { user: percent_decoded(user)?, password: percent_decoded(password)? })
        }
        None => Ok(Credentials::Token(percent_decoded(user_info)?)),
    }
}

/// A host, in brackets if it is a version 6 address, and its port.
pub(crate) fn host_and_port(place: &str, default: u16) -> Result<(String, u16), BenchError> {
    // The text may be a piece of a password that has a comma in it, so it is not shown.
    let bad = || BenchError::Address("not host:port (in passwords, a comma is %2C and an @ is %40)".into());
    let (host, port) = match place.strip_prefix('[') {
        Some(v6) => {
            let (host, tail) = v6.split_once(']').ok_or_else(bad)?;
            (host, tail.strip_prefix(':'))
        }
        None => match place.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        },
    };
    if host.is_empty() {
        return Err(bad());
    }
    let port = port.map_or(Ok(default), |port| port.parse().map_err(|_| bad()))?;
    Ok((host.to_owned(), port))
}

fn percent_decoded(text: &str) -> Result<String, BenchError> {
    let bad = || BenchError::Address("broken %-escape in the credentials".into());
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        rest = tail;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, tail) = rest.split_at_checked(2).ok_or_else(bad)?;
        let digits = std::str::from_utf8(digits).map_err(|_| bad())?;
        bytes.push(u8::from_str_radix(digits, 16).map_err(|_| bad())?);
        rest = tail;
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_an_address_is_understood() {
        let password = |user: &str, password: &str| Credentials::Password {
            user: user.into(),
            password: password.into(),
        };
        let cases = [
            ("nats://127.0.0.1:4333", "127.0.0.1", 4333, Credentials::Anonymous),
            ("localhost", "localhost", 4222, Credentials::Anonymous),
            ("nats://joe:s3cret@h:1/", "h", 1, password("joe", "s3cret")),
            ("nats://joe:p%40ss%3a@h", "h", 4222, password("joe", "p@ss:")),
            ("nats://joe:p@ss@h", "h", 4222, password("joe", "p@ss")),
            ("nats://t0ken@h:9", "h", 9, Credentials::Token("t0ken".into())),
            ("nats://[::1]:4223", "::1", 4223, Credentials::Anonymous),
        ];
        for (text, host, port, credentials) in cases {
            let expected = Address::of(host.into(), port, credentials, Tls::default());
            assert_eq!(text.parse::<Address>().unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn addresses_show_no_secret() {
        let jwt = Credentials::Jwt { token: "sEcret".into(), seed: None };
        for text in ["nats://sEcret@h", "nats://sEcret:sEcret@h"] {
            let address: Address = text.parse().unwrap();
            let shown = format!("{address:?} {jwt:?}");
            assert!(shown.contains("(…)") && !shown.contains("sEcret"), "{shown}");
        }
    }

    #[test]
    fn a_scheme_can_ask_for_encryption() {
        assert!(!"nats://h".parse::<Address>().unwrap().tls.is_required());
        assert!("tls://h".parse::<Address>().unwrap().tls.is_required());
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["http://h:1", "h:notaport", "", "nats://u:%4@h", "[::1", "h:70000"] {
            assert!(matches!(text.parse::<Address>(), Err(BenchError::Address(_))), "{text}");
        }
    }

    #[test]
    fn an_error_does_not_show_what_may_be_a_secret() {
        for text in
            ["nats://u:sEcret", "u:sEcret://h", "sEcret://h", "u:sEcret%4@h", "u:p@sEcret:x", "[sEcret"]
        {
            let error = text.parse::<Address>().unwrap_err().to_string();
            assert!(!error.contains("sEcret"), "{error}");
        }
    }
}
