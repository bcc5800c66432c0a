//! `host:port` as Go's `net` takes it apart, with its complaints. Resolves nothing.

/// Takes `host:port` or `[ipv6]:port` apart; the host comes without brackets.
pub(crate) fn split_host_port(text: &str) -> Result<(&str, &str), String> {
    let fail = |reason: &str| match text {
        "" => Err(reason.to_owned()),
        _ => Err(format!("address {text}: {reason}")),
    };
    let Some(colon) = text.rfind(':') else { return fail(MISSING_PORT) };
    let (host, outside) = match text.strip_prefix('[') {
        None if text[..colon].contains(':') => return fail("too many colons in address"),
        None => (&text[..colon], text),
        Some(inner) => match inner.find(']') {
            None => return fail("missing ']' in address"),
            Some(end) if end + 2 == colon => (&inner[..end], inner),
            Some(end) if inner[end + 1..].starts_with(':') => return fail("too many colons in address"),
            Some(_) => return fail(MISSING_PORT),
        },
    };
    if outside.contains('[') {
        return fail("unexpected '[' in address");
    }
    let brackets = usize::from(text.starts_with('['));
    if text.matches(']').count() > brackets {
        return fail("unexpected ']' in address");
    }
    Ok((host, &text[colon + 1..]))
}

const MISSING_PORT: &str = "missing port in address";

/// Reads the value of an option that advertises an address: a host, or a host and a port. Without a
/// port, or with one of 0 or -1, it is `port`.
///
/// # Errors
/// In the words of Go, when it is neither.
pub fn advertised(text: &str, port: u16) -> Result<(String, u16), String> {
    let with_port = format!("{text}:{port}");
    let (host, written) = match split_host_port(text) {
        Err(error) if error.ends_with(MISSING_PORT) => split_host_port(&with_port)?,
        parts => parts?,
    };
    let written = written.trim();
    let fail = |reason: &str| format!("strconv.Atoi: parsing {written:?}: {reason}");
    let number: i64 = written.parse().map_err(|_| fail("invalid syntax"))?;
    let port = match number {
        0 | -1 => port,
        // The reference advertises any number; a port it is not.
        number => u16::try_from(number).map_err(|_| fail("value out of range"))?,
    };
    Ok((host.trim().to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_split_like_go() {
        for (text, parts) in [
            ("a:1", Ok(("a", "1"))),
            ("a:", Ok(("a", ""))),
            (":1", Ok(("", "1"))),
            ("[::1]:2", Ok(("::1", "2"))),
            (":", Ok(("", ""))),
            ("a:b:c", Err("address a:b:c: too many colons in address")),
            ("::1", Err("address ::1: too many colons in address")),
            ("[::1]", Err("address [::1]: missing port in address")),
            ("[::1", Err("address [::1: missing ']' in address")),
            ("[::1]:1:2", Err("address [::1]:1:2: too many colons in address")),
            ("a[b:1", Err("address a[b:1: unexpected '[' in address")),
            ("a]b:1", Err("address a]b:1: unexpected ']' in address")),
            ("a:[b", Err("address a:[b: unexpected '[' in address")),
            ("[a]:]", Err("address [a]:]: unexpected ']' in address")),
            ("[[a]:1", Err("address [[a]:1: unexpected '[' in address")),
            ("[a]b:1", Err("address [a]b:1: missing port in address")),
            ("[a:1]", Err("address [a:1]: missing port in address")),
            ("", Err("missing port in address")),
            ("a", Err("address a: missing port in address")),
        ] {
            assert_eq!(split_host_port(text), parts.map_err(str::to_owned), "{text}");
        }
    }

    #[test]
    fn what_is_advertised_may_lack_a_port() {
        for (text, address) in [
            ("me", Ok(("me", 4222))),
            ("me:1", Ok(("me", 1))),
            ("me: 1 ", Ok(("me", 1))),
            ("me:0", Ok(("me", 4222))),
            ("me:-1", Ok(("me", 4222))),
            (":7", Ok(("", 7))),
            ("[::1]", Ok(("::1", 4222))),
            ("[::1]:7", Ok(("::1", 7))),
            (":x", Err("strconv.Atoi: parsing \"x\": invalid syntax")),
            ("me:", Err("strconv.Atoi: parsing \"\": invalid syntax")),
            ("a:b:c", Err("address a:b:c: too many colons in address")),
            ("me:70000", Err("strconv.Atoi: parsing \"70000\": value out of range")),
        ] {
            let expected = address.map(|(host, port)| (host.to_owned(), port)).map_err(str::to_owned);
            assert_eq!(advertised(text, 4222), expected, "{text}");
        }
    }
}
