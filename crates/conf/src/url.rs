//! URLs of other servers, as permissive and as strict as Go's, which the reference reads them with.
//!
//! Owns which texts are URLs and how one is shown without its password. Resolves and connects nothing.

use std::fmt;

use crate::secret::Secret;

/// A URL whose parts were checked.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Url {
    /// In lower case; empty when the text has none.
    pub scheme: String,
    /// As written; `None` when the text has no `user@`.
    pub user: Option<String>,
    /// As written, percent signs included.
    pub password: Option<Secret>,
    /// Host and port as written, brackets included; empty for a text like `localhost:4222`, of which
    /// the beginning is taken for a scheme.
    pub authority: String,
    /// What follows the host, or, without one, the scheme.
    pub rest: String,
}

impl Url {
    /// Reads `text` without the blanks around it; `None` when it is no URL.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return None;
        }
        let (before_fragment, fragment) = text.split_once('#').unwrap_or((text, ""));
        let (scheme, rest) = split_scheme(before_fragment)?;
        let path = rest.split('?').next().unwrap_or_default();
        if !is_percent_encoded(fragment) {
            return None;
        }
        let mut url = Self { scheme: scheme.to_ascii_lowercase(), ..Self::default() };
        let after_scheme = &text[before_fragment.len() - rest.len()..];
        if !path.starts_with('/') {
            let first_segment = path.split('/').next().unwrap_or_default();
            if scheme.is_empty() && first_segment.contains(':') {
                return None;
            }
            after_scheme.clone_into(&mut url.rest);
            return (!scheme.is_empty() || is_percent_encoded(path)).then_some(url);
        }
        let Some(authority) =
            path.strip_prefix("//").filter(|_| !scheme.is_empty() || !path.starts_with("///"))
        else {
            after_scheme.clone_into(&mut url.rest);
            return is_percent_encoded(path).then_some(url);
        };
        let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
        url.read_authority(authority)?;
        after_scheme[2 + authority.len()..].clone_into(&mut url.rest);
        is_percent_encoded(path).then_some(url)
    }

    fn read_authority(&mut self, text: &str) -> Option<()> {
        let (user_info, host) = match text.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, text),
        };
        if !is_host(host) {
            return None;
        }
        host.clone_into(&mut self.authority);
        let Some(user_info) = user_info else { return Some(()) };
        if !user_info.chars().all(|c| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c))
            || !is_percent_encoded(user_info)
        {
            return None;
        }
        let (user, password) = match user_info.split_once(':') {
            Some((user, password)) => (user, Some(Secret::new(password))),
            None => (user_info, None),
        };
        (self.user, self.password) = (Some(user.to_owned()), password);
        Some(())
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

    /// The same URL with a port, `port` if it has none.
    #[must_use]
    pub fn or_port(&self, port: u16) -> Self {
        let mut url = self.clone();
        if self.port().is_none() {
            url.authority = format!("{}:{port}", self.authority.trim_end_matches(':'));
        }
        url
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
fn split_scheme(text: &str) -> Option<(&str, &str)> {
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
    match end {
        Some(0) if text.starts_with(':') => None,
        Some(end) if text[end..].starts_with(':') && text.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Some((&text[..end], &text[end + 1..]))
        }
        _ => Some(("", text)),
    }
}

fn is_host(host: &str) -> bool {
    let port = match (host.rfind('['), host.rfind(']')) {
        (Some(0), Some(end)) => &host[end + 1..],
        (None, None) => match host.rfind(':') {
            Some(colon) => &host[colon..],
            None => "",
        },
        _ => return false,
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|port| port.bytes().all(|byte| byte.is_ascii_digit()));
    let is_name =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    is_port && host.chars().all(is_name) && has_no_plain_escape(host)
}

/// In a host, only bytes beyond ASCII may be written with a percent sign, and `%25` before a zone.
fn has_no_plain_escape(host: &str) -> bool {
    let is_fine = |code: &str| {
        code.starts_with("25") && host.starts_with('[')
            || code
                .get(..2)
                .and_then(|code| u8::from_str_radix(code, 16).ok())
                .is_some_and(|byte| byte >= 0x80)
    };
    host.split('%').skip(1).all(is_fine)
}

fn is_percent_encoded(text: &str) -> bool {
    let is_code = |code: &str| code.get(..2).is_some_and(|code| code.bytes().all(|b| b.is_ascii_hexdigit()));
    text.split('%').skip(1).all(is_code)
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
