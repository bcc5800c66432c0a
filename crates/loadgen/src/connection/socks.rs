//! A SOCKS5 proxy that connects us to a server we cannot reach ourselves (RFC 1928, passwords by
//! RFC 1929).
//!
//! Owns the grammar of `--socks-proxy` and the few bytes before the proxy becomes the server. The
//! proxy finds the server's address; afterwards it only passes bytes on.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use crate::connection::address::{self, Credentials};
use crate::error::BenchError;

const DEFAULT_PORT: u16 = 1080;

const VERSION: u8 = 5;
const PASSWORD_VERSION: u8 = 1;
const NO_LOGIN: u8 = 0;
const PASSWORD: u8 = 2;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;

/// Where a proxy is, and who we are to it: `[socks5://][user:password@]host[:port]`.
#[derive(Clone, PartialEq, Eq)]
pub struct Proxy {
    pub(crate) host: String,
    pub(crate) port: u16,
    login: Option<(String, String)>,
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl FromStr for Proxy {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self, BenchError> {
        let rest = match text.split_once("://") {
            Some(("socks5" | "socks5h", rest)) => rest,
            Some(_) => {
                return Err(BenchError::Usage("only SOCKS5 proxies are understood (socks5://)".into()));
            }
            None => text,
        };
        let rest = rest.trim_end_matches('/');
        let (login, place) = match rest.rsplit_once('@') {
            Some((user_info, place)) => (Some(login(user_info)?), place),
            None => (None, rest),
        };
        let (host, port) = address::host_and_port(place, DEFAULT_PORT)?;
        Ok(Self { host, port, login })
    }
}

fn login(user_info: &str) -> Result<(String, String), BenchError> {
    let (user, password) = match address::credentials(user_info)? {
        Credentials::Password { user, password } => (user, password),
        Credentials::Token(user) => (user, String::new()),
        _ => (String::new(), String::new()),
    };
    match [&user, &password].iter().all(|text| text.len() <= usize::from(u8::MAX)) {
        true => Ok((user, password)),
        false => Err(BenchError::Usage("users and passwords of SOCKS have at most 255 bytes".into())),
    }
}

impl Proxy {
    /// Says on a connection to the proxy where we want to go; returns when the server is at its
    /// other end.
    pub(crate) fn ask(&self, mut socket: impl Read + Write, host: &str, port: u16) -> io::Result<()> {
        let methods: &[u8] =
            if self.login.is_some() { &[VERSION, 2, NO_LOGIN, PASSWORD] } else { &[VERSION, 1, NO_LOGIN] };
        socket.write_all(methods)?;
        match (read::<2>(&mut socket)?, &self.login) {
            ([VERSION, NO_LOGIN], _) => {}
            ([VERSION, PASSWORD], Some((user, password))) => {
                let mut line = vec![PASSWORD_VERSION];
                push(&mut line, user);
                push(&mut line, password);
                socket.write_all(&line)?;
                if read::<2>(&mut socket)?[1] != 0 {
                    return Err(io::Error::other("the SOCKS proxy refuses user and password"));
                }
            }
            ([VERSION, _], _) => return Err(io::Error::other("the SOCKS proxy wants another kind of login")),
            _ => return Err(io::Error::other("what answers is no SOCKS5 proxy")),
        }
        let host = host.get(..usize::from(u8::MAX)).unwrap_or(host);
        let mut request = vec![VERSION, CONNECT, 0, NAME];
        push(&mut request, host);
        request.extend_from_slice(&port.to_be_bytes());
        socket.write_all(&request)?;
        let [version, code, _, kind] = read::<4>(&mut socket)?;
        if version != VERSION || code != 0 {
            return Err(io::Error::other(format!("the SOCKS proxy cannot connect: {}", reason(code))));
        }
        // The address that it uses, and a port: of no interest.
        let length = match kind {
            IPV4 => 4,
            IPV6 => 16,
            NAME => usize::from(read::<1>(&mut socket)?[0]),
            _ => return Err(io::Error::other("the SOCKS proxy answers with an unknown kind of address")),
        };
        socket.read_exact(&mut vec![0; length + 2])
    }
}

fn read<const COUNT: usize>(socket: &mut impl Read) -> io::Result<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    socket.read_exact(&mut bytes).map(|()| bytes)
}

/// A text of at most 255 bytes with its length.
fn push(line: &mut Vec<u8>, text: &str) {
    line.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    line.extend_from_slice(text.as_bytes());
}

fn reason(code: u8) -> &'static str {
    match code {
        2 => "its rules forbid it",
        3 => "the network is unreachable",
        4 => "the host is unreachable",
        5 => "the connection was refused",
        6 => "the time to live expired",
        7 => "it does not know how",
        8 => "it does not know this kind of address",
        _ => "it failed",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    /// Double of the connection to a proxy: prepared answers, and the bytes that were written.
    struct Wire {
        said: Cursor<Vec<u8>>,
        told: Vec<u8>,
    }

    impl Read for &mut Wire {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.said.read(buffer)
        }
    }

    impl Write for &mut Wire {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.told.write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn asked(proxy: &str, said: &[u8]) -> (io::Result<()>, Wire) {
        let mut wire = Wire { said: Cursor::new(said.to_vec()), told: Vec::new() };
        let result = proxy.parse::<Proxy>().unwrap().ask(&mut wire, "h.x", 4222);
        (result, wire)
    }

    #[test]
    fn a_proxy_is_asked_by_name() {
        let (result, wire) =
            asked("socks5://p:1081", b"\x05\x00\x05\x00\x00\x01\x7f\x00\x00\x01\x10\x7eINFO");
        result.unwrap();
        assert_eq!(wire.told, b"\x05\x01\x00\x05\x01\x00\x03\x03h.x\x10\x7e");
        assert_eq!(&wire.said.get_ref()[wire.said.position() as usize..], b"INFO", "more was read");
    }

    #[test]
    fn a_proxy_may_ask_who_we_are() {
        let (result, wire) = asked("u:p%40@p", b"\x05\x02\x01\x00\x05\x00\x00\x03\x01a\x10\x7e");
        result.unwrap();
        assert!(wire.told.starts_with(b"\x05\x02\x00\x02\x01\x01u\x02p@\x05\x01"), "{:?}", wire.told);
    }

    #[test]
    fn what_goes_wrong_is_told() {
        for (proxy, said, text) in [
            ("p", &b"\x05\x00\x05\x05\x00\x01"[..], "was refused"),
            ("p", b"\x05\xff", "another kind of login"),
            ("u:p@p", b"\x05\x02\x01\x01", "refuses user"),
            ("p", b"HTTP/1.1 400", "no SOCKS5 proxy"),
        ] {
            let error = asked(proxy, said).0.unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        assert!(asked("p", b"\x05").0.is_err());
        for wrong in ["http://p:1", "p:x", "", &format!("{}:b@p", "a".repeat(256))] {
            assert!(wrong.parse::<Proxy>().is_err(), "{wrong}");
        }
        let proxy: Proxy = "socks5h://u:sEcret@[::1]".parse().unwrap();
        assert_eq!((proxy.host.as_str(), proxy.port), ("::1", 1080));
        assert!(!format!("{proxy:?}").contains("sEcret"));
    }
}
