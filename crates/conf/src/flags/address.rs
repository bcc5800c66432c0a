//! The URL that `-cluster` listens on, taken apart the way Go's `net/url` does, with its complaints.

use super::notation::quoted;
use crate::host_port::split_host_port;

/// Where routes are accepted, and who may connect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ClusterAddress {
    /// Without brackets; may be empty.
    pub(crate) host: String,
    /// As written, -1 for any free port.
    pub(crate) port: i64,
    pub(crate) login: Option<(String, String)>,
}

impl ClusterAddress {
    /// Reads `scheme://user:password@host:port`. Compat: a port of -1, which no URL can have, is taken.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let random = text.strip_suffix(":-1").map(|rest| format!("{rest}:0"));
        let url = random.as_deref().unwrap_or(text);
        let (user_info, authority) =
            authority(url).map_err(|reason| format!("parse {}: {reason}", quoted(url)))?;
        let (host, port) = split_host_port(authority)?;
        let port = if random.is_some() { -1 } else { scan_number(port)? };
        let login = user_info.map(login).transpose()?;
        Ok(Self { host: host.to_owned(), port, login })
    }
}

fn login(user_info: &str) -> Result<(String, String), String> {
    let (user, password) = user_info.split_once(':').ok_or("expected cluster password to be set")?;
    Ok((unescape(user), unescape(password)))
}

/// What stands between `//` and the path, as the part before `@` and the host with its port.
fn authority(url: &str) -> Result<(Option<&str>, &str), String> {
    if url.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
        return Err("net/url: invalid control character in URL".to_owned());
    }
    let (before_fragment, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (scheme, rest) = split_scheme(before_fragment)?;
    let rest = rest.split('?').next().unwrap_or_default();
    if !rest.starts_with('/') {
        // Compat: `host:port` is a scheme with something behind it, and has no host.
        if scheme.is_empty() && rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err("first path segment in URL cannot contain colon".to_owned());
        }
        if scheme.is_empty() {
            check_escapes(rest)?;
        }
        check_escapes(fragment)?;
        return Ok((None, ""));
    }
    let authority = match rest.strip_prefix("//") {
        Some(authority) if !scheme.is_empty() || !rest.starts_with("///") => authority,
        _ => "",
    };
    let (authority, path) = authority.split_at(authority.find('/').unwrap_or(authority.len()));
    let (user_info, host) =
        authority.rsplit_once('@').map_or((None, authority), |(user, host)| (Some(user), host));
    check_host(host)?;
    if let Some(user_info) = user_info {
        let is_valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
        if !user_info.chars().all(is_valid) {
            return Err("net/url: invalid userinfo".to_owned());
        }
        check_escapes(user_info)?;
    }
    check_escapes(path)?;
    check_escapes(fragment)?;
    Ok((user_info, host))
}

fn split_scheme(url: &str) -> Result<(&str, &str), String> {
    let end = url.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
    match end {
        Some(0) if url.starts_with(':') => Err("missing protocol scheme".to_owned()),
        Some(end) if url[end..].starts_with(':') && url.starts_with(|c: char| c.is_ascii_alphabetic()) => {
            Ok((&url[..end], &url[end + 1..]))
        }
        _ => Ok(("", url)),
    }
}

fn check_host(host: &str) -> Result<(), String> {
    let port = match (host.starts_with('['), host.rfind(']')) {
        (true, None) => return Err("missing ']' in host".to_owned()),
        (true, Some(end)) => &host[end + 1..],
        (false, _) => host.rfind(':').map_or("", |colon| &host[colon..]),
    };
    let is_port = port.is_empty()
        || port.strip_prefix(':').is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    if !is_port {
        return Err(format!("invalid port {} after host", quoted(port)));
    }
    check_host_escapes(host)?;
    let allowed =
        |c: char| !c.is_ascii() || c.is_ascii_alphanumeric() || "-_.~!$&'()*+,;=:[]<>\"%".contains(c);
    match host.chars().find(|&c| !allowed(c)) {
        Some(c) => Err(format!("invalid character {} in host name", quoted(&c.to_string()))),
        None => Ok(()),
    }
}

/// Compat: in a host only bytes beyond ASCII may be escaped.
fn check_host_escapes(host: &str) -> Result<(), String> {
    check_escapes(host)?;
    let codes = host.split('%').skip(1);
    let plain =
        codes.filter_map(|code| code.get(..2)).find(|code| code.as_bytes()[0] < b'8' && *code != "25");
    plain.map_or(Ok(()), |code| Err(format!("invalid URL escape {}", quoted(&format!("%{code}")))))
}

fn check_escapes(text: &str) -> Result<(), String> {
    for (at, _) in text.match_indices('%') {
        let code = text[at..].chars().take(3).collect::<String>();
        if code.len() != 3 || !code.bytes().skip(1).all(|byte| byte.is_ascii_hexdigit()) {
            return Err(format!("invalid URL escape {}", quoted(&code)));
        }
    }
    Ok(())
}

/// Replaces `%41` and the like, which [`check_escapes`] has found to be right.
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

/// Compat: no port at all is what reading a number from an empty text says.
fn scan_number(text: &str) -> Result<i64, String> {
    if text.is_empty() {
        return Err("EOF".to_owned());
    }
    text.parse().map_err(|_| format!("strconv.ParseInt: parsing {}: value out of range", quoted(text)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_host_port_and_login() {
        let parse = |text| ClusterAddress::parse(text).expect(text);
        let address = |host: &str, port, login: Option<(&str, &str)>| ClusterAddress {
            host: host.to_owned(),
            port,
            login: login.map(|(user, password)| (user.to_owned(), password.to_owned())),
        };
        assert_eq!(parse("nats://127.0.0.1:6222"), address("127.0.0.1", 6222, None));
        assert_eq!(parse("nats://:-1"), address("", -1, None));
        assert_eq!(parse("nats://[::1]:0"), address("::1", 0, None));
        assert_eq!(parse("//h:1/path?q#f"), address("h", 1, None));
        assert_eq!(parse("nats://u:p%41:@h:1"), address("h", 1, Some(("u", "pA:"))));
    }
}
