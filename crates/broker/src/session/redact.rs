//! CONNECT for the log: everything but its secrets.
//!
//! `Compat:` what counts as a secret, and the way around in texts that are no JSON, is the
//! reference's: what follows a name that begins with `pass` or `auth_token`, or that is `sig`,
//! `proxy_sig` or `nkey`. Safer than the reference: a quoted secret ends at its closing quote, not
//! at the first comma, brace or escaped quote in it, behind which the reference shows the rest.

/// Text in a secret's place.
const REDACTED: &[u8] = b"[REDACTED]";

/// Names that may go on behind what is said here.
const BEGINNINGS: [&[u8]; 2] = [b"auth_token", b"pass"];
/// Names that may not, in either direction. The longer one of two comes first.
const WHOLE: [&[u8]; 3] = [b"proxy_sig", b"nkey", b"sig"];

/// `text` without the values of secrets.
pub(crate) fn secrets(text: &[u8]) -> Vec<u8> {
    let mut clean = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        match value_at(text, at) {
            Some((from, to)) => {
                clean.extend_from_slice(&text[at..from]);
                clean.extend_from_slice(REDACTED);
                at = to.max(at + 1);
            }
            None => {
                clean.push(text[at]);
                at += 1;
            }
        }
    }
    clean
}

/// Where the value stands whose secret name begins at `at`.
fn value_at(text: &[u8], at: usize) -> Option<(usize, usize)> {
    let rest = &text[at..];
    if let Some(name) = BEGINNINGS.iter().find(|name| rest.starts_with(name)) {
        // The name goes on up to the first place where a value could follow it.
        let word = rest[name.len()..].iter().take_while(|b| !is_space(**b)).count();
        return (at + name.len()..=at + name.len() + word).find_map(|end| value_behind(text, end));
    }
    let name = WHOLE.iter().find(|name| rest.starts_with(name))?;
    let is_inside = at > 0 && (text[at - 1].is_ascii_alphanumeric() || text[at - 1] == b'_');
    if is_inside { None } else { value_behind(text, at + name.len()) }
}

/// The value behind a name that ends at `end`: an optional quote, a colon or equals sign, an
/// optional quote.
fn value_behind(text: &[u8], end: usize) -> Option<(usize, usize)> {
    let at = end + usize::from(text.get(end) == Some(&b'"'));
    let at = skip_space(text, at);
    if !matches!(text.get(at), Some(b':' | b'=')) {
        return None;
    }
    let at = skip_space(text, at + 1);
    if text.get(at) == Some(&b'"') {
        return Some((at + 1, at + 1 + quoted_len(&text[at + 1..])));
    }
    let len = text[at..].iter().take_while(|b| !matches!(b, b'"' | b',' | b'\r' | b'\n' | b'}')).count();
    Some((at, at + len))
}

/// Bytes up to the quote that ends a JSON string.
fn quoted_len(text: &[u8]) -> usize {
    let mut escaped = false;
    let end = text.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    });
    end.unwrap_or(text.len())
}

fn skip_space(text: &[u8], at: usize) -> usize {
    at + text[at.min(text.len())..].iter().take_while(|b| is_space(**b)).count()
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r' | 0x0c)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clean(text: &str) -> String {
        String::from_utf8(secrets(text.as_bytes())).unwrap()
    }

    #[test]
    fn secrets_go_and_the_rest_stays() {
        // What nats-server 2.15.2 logs for the same.
        for (connect, logged) in [
            (r#"{"user":"a","pass":"b"}"#, r#"{"user":"a","pass":"[REDACTED]"}"#),
            (r#"{"auth_token":"t", "name":"n"}"#, r#"{"auth_token":"[REDACTED]", "name":"n"}"#),
            (r#"{"pass" : "p", "password":1}"#, r#"{"pass" : "[REDACTED]", "password":[REDACTED]}"#),
            (
                r#"{"nkey":"U","sig":"s","name":"sig"}"#,
                r#"{"nkey":"[REDACTED]","sig":"[REDACTED]","name":"sig"}"#,
            ),
            (r#"{"proxy_sig":"s","mysig":"x"}"#, r#"{"proxy_sig":"[REDACTED]","mysig":"x"}"#),
            (r#"{"jwt":"e"}"#, r#"{"jwt":"e"}"#),
            (r#"{"pass":""}"#, r#"{"pass":"[REDACTED]"}"#),
            ("pass=x,y", "pass=[REDACTED],y"),
            ("{}", "{}"),
        ] {
            assert_eq!(clean(connect), logged);
        }
    }

    #[test]
    fn nothing_of_a_quoted_secret_is_left() {
        assert_eq!(clean(r#"{"pass":"a\"b,c}d\\","user":"u"}"#), r#"{"pass":"[REDACTED]","user":"u"}"#);
        assert_eq!(clean(r#"{"pass":"never ends"#), r#"{"pass":"[REDACTED]"#);
    }
}
