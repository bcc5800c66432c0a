//! URLs of other servers, as permissive and as strict as Go's, which the reference reads them with.
//!
//! Owns which texts are URLs and how one is shown without its password. Resolves and connects
//! nothing.

use std::fmt;

use crate::secret::Secret;
use myelin_wire::error::Quoted;

/// A URL whose parts were checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Url {
    /// In lower case; empty when the text has none.
    pub scheme: String,
    /// As written; `None` when the text has no `user@`.
    pub user: Option<String>,
    /// As written, percent signs included.
    pub password: Option<Secret>,
    /// Host and port as written, brackets included; empty for a text like `localhost:4222`, of
    /// which the beginning is taken for a scheme.
    pub authority: String,
    /// Text behind the host, or, without one, the scheme.
    pub rest: String,
}

impl Url {
    /// Reads `text` without the blanks around it; `None` when it is no URL.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        Self::read(text.trim()).ok()
    }

    /// Reads `text` as it stands.
    ///
    /// # Errors
    /// Why it is no URL, in Go's words.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".to_owned());
        }
        let (before_fragment, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, after_scheme) = split_scheme(before_fragment)?;
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), ..Self::default() };
        let hierarchy = after_scheme.split('?').next().unwrap_or_default();
        let (authority, path) = split_authority(scheme, hierarchy)?;
        if let Some(authority) = authority {
            url.read_authority(authority)?;
        }
        // What follows a scheme without a slash is not looked at.
        if scheme.is_empty() || hierarchy.starts_with('/') {
            check_escapes(path)?;
        }
        check_escapes(fragment)?;
        let slashes = authority.map_or(0, |authority| "//".len() + authority.len());
        let rest = before_fragment.len() - after_scheme.len() + slashes;
        text[rest..].clone_into(&mut url.rest);
        Ok(url)
    }

    fn read_authority(&mut self, text: &str) -> Result<(), String> {
        let (user_info, host) = match text.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, text),
        };
        check_host(&self.scheme, host)?;
        host.clone_into(&mut self.authority);
        let Some(user_info) = user_info else { return Ok(()) };
        if !user_info.chars().all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c)) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        check_escapes(user_info)?;
        let (user, password) = match user_info.split_once(':') {
            Some((user, password)) => (user, Some(Secret::new(password))),
            None => (user_info, None),
        };
        (self.user, self.password) = (Some(user.to_owned()), password);
        Ok(())
    }

    /// The host without brackets and port.
    pub fn host(&self) -> &str {
        let (host, _) = self.host_and_port();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port as written, which may be too large; `None` when there is none.
    pub fn port(&self) -> Option<&str> {
        self.host_and_port().1.filter(|port| !port.is_empty())
    }

    fn host_and_port(&self) -> (&str, Option<&str>) {
        match self.authority.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host, Some(port)),
            _ => (&self.authority, None),
        }
    }

    /// Copies the URL, with `port` if it has none.
    #[must_use]
    pub fn or_port(&self, port: u16) -> Self {
        let mut url = self.clone();
        if self.port().is_none() {
            url.authority = format!("{}:{port}", self.authority.trim_end_matches(':'));
        }
        url
    }

    /// User and password as they are meant, if there is a user.
    pub fn login(&self) -> Option<(String, Option<Secret>)> {
        let user = self.user.as_deref()?;
        Some((
            unescape(user),
            self.password.as_ref().map(|password| Secret::new(unescape(password.reveal()))),
        ))
    }

    /// Whether the scheme says WebSocket.
    pub fn is_web_socket(&self) -> bool {
        self.scheme.starts_with("ws")
    }

    /// The URL in full. Never to be logged.
    pub fn reveal(&self) -> String {
        self.shown_with(self.password.as_ref().map(Secret::reveal))
    }

    fn shown_with(&self, password: Option<&str>) -> String {
        let scheme = if self.scheme.is_empty() { String::new() } else { format!("{}:", self.scheme) };
        let user = match (&self.user, password) {
            (Some(user), Some(password)) => format!("{user}:{password}@"),
            (Some(user), None) => format!("{user}@"),
            (None, _) => String::new(),
        };
        let slashes = if self.authority.is_empty() && user.is_empty() { "" } else { "//" };
        format!("{scheme}{slashes}{user}{}{}", self.authority, self.rest)
    }
}

impl fmt::Display for Url {
    /// With `xxxxx` for the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown_with(self.password.as_ref().map(|_| "xxxxx")))
    }
}

/// The scheme, empty if there is none, and what follows it.
fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
    match end {
        Some(0) if text.starts_with(':') => Err("missing protocol scheme".to_owned()),
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok((&text[..end], &text[end + 1..]))
        }
        _ => Ok(("", text)),
    }
}

/// Splits off the authority, which stands between `//` and the path, if there is such a thing.
fn split_authority<'t>(scheme: &str, text: &'t str) -> Result<(Option<&'t str>, &'t str), String> {
    let has_colon = || text.split('/').next().is_some_and(|segment| segment.contains(':'));
    if scheme.is_empty() && !text.starts_with('/') && has_colon() {
        return Err("first path segment in URL cannot contain colon".to_owned());
    }
    match text.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !text.starts_with("///") => {
            let (authority, path) = after.split_at(after.find('/').unwrap_or(after.len()));
            Ok((Some(authority), path))
        }
        _ => Ok((None, text)),
    }
}

fn check_host(scheme: &str, host: &str) -> Result<(), String> {
    let port = match host.rfind('[') {
        Some(0) => {
            let end = host.rfind(']').ok_or("missing ']' in host")?;
            &host[end + 1..]
        }
        Some(_) => return Err("invalid IP-literal".to_owned()),
        // Compat: more than one colon is an error for these two only.
        None if scheme == "http" || scheme == "https" => host.find(':').map_or("", |colon| &host[colon..]),
        None => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", Quoted(port.as_bytes())));
    }
    check_host_escapes(host)?;
    let is_allowed =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match host.chars().find(|&c| !is_allowed(c)) {
        Some(c) => Err(format!("invalid character {} in host name", Quoted(c.to_string().as_bytes()))),
        None => Ok(()),
    }
}

/// In a host, only bytes beyond ASCII may be written with a percent sign, and `%25` before a zone.
fn check_host_escapes(host: &str) -> Result<(), String> {
    check_escapes(host)?;
    let mut codes = host.split('%').skip(1).filter_map(|code| code.get(..2));
    let plain = codes.find(|code| code.as_bytes()[0] < b'8' && *code != "25");
    plain.map_or(Ok(()), |code| Err(format!("invalid URL escape {}", Quoted(format!("%{code}").as_bytes()))))
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let code = text[at..].chars().take(3).collect::<String>();
        if code.len() != 3 || !code.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {}", Quoted(code.as_bytes())));
        }
    }
    Ok(())
}

/// Replaces `%41` and the like.
fn unescape(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) if *first == b'%' => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            _ => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_takes_for_a_url_is_one() {
        for (text, shown) in [
            ("nats://127.0.0.1:6222", Some("nats://127.0.0.1:6222")),
            (" nats-route://ruser:T0pS3cr3t@h:1 ", Some("nats-route://ruser:xxxxx@h:1")),
            ("NATS://a@b", Some("nats://a@b")),
            ("localhost:4222", Some("localhost:4222")),
            ("localhost", Some("localhost")),
            ("", Some("")),
            ("//h:1/p", Some("//h:1/p")),
            ("wss://[::1]:443/a?b=c#d", Some("wss://[::1]:443/a?b=c#d")),
            ("nats://%41@h", Some("nats://%41@h")),
            ("127.0.0.1:4222", None),
            (":4222", None),
            ("nats://h:-1", None),
            ("nats://h:x", None),
            ("nats://[::1", None),
            ("nats://a b:1", None),
            ("nats://u^@h", None),
            ("nats://%zz@h", None),
            ("nats://%41", None),
            ("nats://h/%z", None),
            ("nats://h\u{7f}", None),
            ("http://::1", None),
            ("nats://::1", Some("nats://::1")),
            ("https://a:1:2/", None),
            ("http://a]/", Some("http://a]/")),
            ("http://a[", None),
        ] {
            assert_eq!(Url::parse(text).map(|url| url.to_string()).as_deref(), shown, "{text:?}");
        }
    }

    #[test]
    fn a_url_has_a_host_and_a_port() {
        let url = Url::parse("tls://u:p@[::1]:7422").expect("a url");
        assert_eq!((url.host(), url.port()), ("::1", Some("7422")));
        assert_eq!(url.reveal(), "tls://u:p@[::1]:7422");
        let url = Url::parse("nats://h").expect("a url");
        assert_eq!((url.host(), url.port()), ("h", None));
        let url = Url::parse("nats://[::1]").expect("a url");
        assert_eq!((url.host(), url.port()), ("::1", None));
    }
}
