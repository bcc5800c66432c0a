//! Expectations of a transcript on the bytes that come from the server, and the judgement of them.
//!
//! Pure: works on bytes that somebody else read. One file so that the whole matching language fits
//! in view.

use myelin_auth::is_signed;
use myelin_stdx::base_n::{self, BASE64_URL};
use serde_json::Value;
use std::collections::BTreeMap;

/// Values that a conversation has learnt from the server, by name.
pub(crate) type Remembered = BTreeMap<String, String>;

/// Whether `bytes` fit a pattern in which `*` stands for any bytes and `?` for exactly one.
pub(crate) fn glob(pattern: &[u8], bytes: &[u8]) -> bool {
    let (mut p, mut b) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while b < bytes.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, b));
                p += 1;
            }
            Some(&c) if c == b'?' || c == bytes[b] => {
                p += 1;
                b += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    p = after;
                    b = from + 1;
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

/// Whether `bytes` fit a pattern with names: `%name%` is what was remembered under this name, or,
/// when nothing was, a word without blanks that is remembered now if all fits.
pub(crate) fn glob_remembering(pattern: &[u8], bytes: &[u8], remembered: &mut Remembered) -> bool {
    let pattern = recalled(pattern, remembered);
    let Some((before, name, after)) = first_name(&pattern) else { return glob(&pattern, bytes) };
    for start in (0..bytes.len()).filter(|&start| glob(before, &bytes[..start])) {
        let word = bytes[start..].iter().take_while(|b| b.is_ascii_graphic()).count();
        for end in (start + 1..=start + word).rev() {
            let mut more = remembered.clone();
            more.insert(name.clone(), String::from_utf8_lossy(&bytes[start..end]).into_owned());
            if glob_remembering(after, &bytes[end..], &mut more) {
                *remembered = more;
                return true;
            }
        }
    }
    false
}

/// `bytes` with what was remembered in the place of each `%name%`.
pub(crate) fn recalled(bytes: &[u8], remembered: &Remembered) -> Vec<u8> {
    let mut recalled = bytes.to_vec();
    for (name, value) in remembered {
        let mark = format!("%{name}%");
        while let Some(at) = recalled.windows(mark.len()).position(|window| window == mark.as_bytes()) {
            recalled.splice(at..at + mark.len(), value.bytes());
        }
    }
    recalled
}

/// Whether there is a `%name%` in `pattern`.
pub(crate) fn has_name(pattern: &[u8]) -> bool {
    first_name(pattern).is_some()
}

/// The first `%name%` in `pattern`, with what stands before and after it.
fn first_name(pattern: &[u8]) -> Option<(&[u8], String, &[u8])> {
    let length = |opens: usize| pattern[opens + 1..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
    let is_name = |&opens: &usize| {
        pattern[opens] == b'%' && length(opens) > 0 && pattern.get(opens + 1 + length(opens)) == Some(&b'%')
    };
    let opens = (0..pattern.len()).find(is_name)?;
    let length = length(opens);
    let (name, after) = pattern[opens + 1..].split_at(length);
    Some((&pattern[..opens], String::from_utf8_lossy(name).into_owned(), &after[1..]))
}

/// Where `actual` falls short of `expected`, as a sentence, or `None` when it has everything asked
/// for.
///
/// Objects may hold more than is asked. An expected `null` means that the field must be absent, an
/// expected `"*"` that it must be there with whatever value.
pub(crate) fn lacking(expected: &Value, actual: &Value) -> Option<String> {
    let (Value::Object(expected), Value::Object(actual)) = (expected, actual) else {
        return (expected != actual && expected != "*").then(|| format!("expected {expected}, got {actual}"));
    };
    for (name, wanted) in expected {
        let shortfall = match actual.get(name) {
            None if wanted.is_null() => None,
            None => Some("is missing".to_owned()),
            Some(found) if wanted.is_null() => Some(format!("must be absent, is {found}")),
            Some(found) => lacking(wanted, found),
        };
        if let Some(shortfall) = shortfall {
            return Some(format!("{name}: {shortfall}"));
        }
    }
    None
}

/// Where `actual` is not `expected`, as a sentence, or `None` when they are the same: no name more,
/// no name less, all in the same order. An expected `"*"` is any value; a word after the star is
/// the name under which the value is put into `remembered`.
pub(crate) fn differing(expected: &Value, actual: &Value, remembered: &mut Remembered) -> Option<String> {
    match (expected, actual) {
        (Value::String(star), found) if star == "*" || name_to_remember(star).is_some() => {
            if let Some(name) = name_to_remember(star) {
                let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
                remembered.insert(name.to_owned(), text);
            }
            None
        }
        (Value::Object(wanted), Value::Object(found)) => {
            if !wanted.keys().eq(found.keys()) {
                let names =
                    |of: &serde_json::Map<String, Value>| of.keys().cloned().collect::<Vec<_>>().join(" ");
                return Some(format!("expected the names {}, got {}", names(wanted), names(found)));
            }
            wanted.iter().find_map(|(name, wanted)| {
                differing(wanted, &found[name], remembered).map(|why| format!("{name}: {why}"))
            })
        }
        (Value::Array(wanted), Value::Array(found)) if wanted.len() == found.len() => {
            wanted.iter().zip(found).enumerate().find_map(|(at, (wanted, found))| {
                differing(wanted, found, remembered).map(|why| format!("{at}: {why}"))
            })
        }
        _ => (expected != actual).then(|| format!("expected {expected}, got {actual}")),
    }
}

fn name_to_remember(star: &str) -> Option<&str> {
    let name = star.strip_prefix('*')?;
    (!name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric())).then_some(name)
}

/// The parts of a whole `MSG` frame: subject, sid and body.
pub(crate) fn message(frame: &[u8]) -> Option<(&str, &str, &[u8])> {
    let line = line(frame)?;
    let mut words = std::str::from_utf8(&frame[..line]).ok()?.split_ascii_whitespace();
    let (verb, subject, sid) = (words.next()?, words.next()?, words.next()?);
    let body = frame[line..].strip_suffix(b"\r\n")?;
    (verb == "MSG").then_some((subject, sid, body))
}

/// The question of auth callout in a whole frame: where the answer goes, and the claims. Its
/// signature must be that of the server that it names.
///
/// # Errors
/// Why it is none.
pub(crate) fn question(frame: &[u8], sid: &str) -> Result<(String, Value), String> {
    let (_, found, token) = message(frame).ok_or("no message without headers")?;
    let reply = String::from_utf8_lossy(frame).split_ascii_whitespace().nth(3).unwrap_or_default().to_owned();
    if found != sid {
        return Err("another sid".into());
    }
    let token = std::str::from_utf8(token).map_err(|_| "not UTF-8".to_owned())?;
    let (signed, signature) = token.rsplit_once('.').ok_or("no token")?;
    let (_, body) = signed.split_once('.').ok_or("no token")?;
    let part = |text: &str| base_n::decode(text, BASE64_URL).ok_or("no base64");
    let claims: Value = serde_json::from_slice(&part(body)?).map_err(|e| format!("not JSON: {e}"))?;
    let server = claims["iss"].as_str().unwrap_or_default();
    if !is_signed(server, signed.as_bytes(), &part(signature)?) || claims["nats"]["server_id"]["id"] != server
    {
        return Err("not signed by the server".into());
    }
    Ok((reply, claims))
}

/// The length of the first whole protocol frame in `bytes`: a line, with its payload if it is a
/// message. `None` while more bytes are needed.
pub(crate) fn frame(bytes: &[u8]) -> Option<usize> {
    let line = line(bytes)?;
    let text = &bytes[..line];
    let verbs = [&b"MSG "[..], b"HMSG ", b"LMSG "];
    if !verbs.iter().any(|verb| text.starts_with(verb)) {
        return Some(line);
    }
    let size = text.trim_ascii_end().rsplit(|&b| b == b' ').next()?;
    let size: usize = std::str::from_utf8(size).ok()?.parse().ok()?;
    let whole = line + size + b"\r\n".len();
    (bytes.len() >= whole).then_some(whole)
}

/// The length of the first whole line in `bytes`, its end included.
pub(crate) fn line(bytes: &[u8]) -> Option<usize> {
    bytes.iter().position(|&b| b == b'\n').map(|end| end + 1)
}

/// Splits a protocol line such as `INFO {…}` into its verb and its JSON.
///
/// # Errors
/// A sentence when there is no JSON after the verb.
pub(crate) fn json_line(line: &[u8]) -> Result<(&str, Value), String> {
    let text = std::str::from_utf8(line).map_err(|_| "not UTF-8".to_owned())?;
    let (verb, json) = text.split_once(' ').ok_or("no JSON after the verb")?;
    serde_json::from_str(json).map(|value| (verb, value)).map_err(|e| format!("not JSON: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_star_takes_any_run_and_a_question_mark_one_byte() {
        assert!(glob(b"MSG a ? 0\r\n*", b"MSG a 2 0\r\n\r\n"));
        assert!(glob(b"*b*d", b"abcbd"));
        assert!(glob(b"", b""));
        assert!(!glob(b"*b*d", b"abc"));
        assert!(!glob(b"a?", b"a"));
        assert!(!glob(b"a", b"ab"));
    }

    #[test]
    fn a_name_takes_a_word_and_then_stands_for_it() {
        let mut remembered = Remembered::new();
        let mut fits = |pattern: &[u8], bytes: &[u8]| glob_remembering(pattern, bytes, &mut remembered);
        assert!(!fits(b"MSG d 1 %fc% 2\r\n*", b"MSG d 1 2\r\nhi\r\n"));
        assert!(fits(b"MSG d 1 %fc% ?\r\n*", b"MSG d 1 $JS.FC.x 2\r\nhi\r\n"));
        assert!(fits(b"Stalled: %fc%\r\n", b"Stalled: $JS.FC.x\r\n"));
        assert!(!fits(b"Stalled: %fc%\r\n", b"Stalled: $JS.FC.y\r\n"));
        assert!(fits(b"100%, 50% of %a% and %b%", b"100%, 50% of one and two"));
        let found: Vec<_> = remembered.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(found, ["a=one", "b=two", "fc=$JS.FC.x"]);
    }

    #[test]
    fn json_may_hold_more_but_not_less() {
        let info = json!({"proto": 1, "headers": true, "limits": {"a": 1}});
        assert_eq!(lacking(&json!({"proto": 1, "limits": {"a": "*"}, "nonce": null}), &info), None);
        assert_eq!(lacking(&json!({"proto": 2}), &info).unwrap(), "proto: expected 2, got 1");
        assert_eq!(lacking(&json!({"nonce": "*"}), &info).unwrap(), "nonce: is missing");
        assert_eq!(lacking(&json!({"headers": null}), &info).unwrap(), "headers: must be absent, is true");
        assert_eq!(lacking(&json!({"limits": {"a": 2}}), &info).unwrap(), "limits: a: expected 2, got 1");
    }

    #[test]
    fn the_same_json_has_the_same_names_in_the_same_order() {
        let text = r#"{"b":1,"a":[{"t":"now"}]}"#;
        let actual: Value = serde_json::from_str(text).unwrap();
        let mut remembered = Remembered::new();
        let mut why = |expected: &str| {
            differing(&serde_json::from_str(expected).unwrap(), &actual, &mut remembered).unwrap_or_default()
        };
        assert_eq!(why(text), "");
        assert_eq!(why(r#"{"b":1,"a":[{"t":"*t1"}]}"#), "");
        assert_eq!(why(r#"{"b":"*","a":"*"}"#), "");
        assert_eq!(why(r#"{"a":"*","b":"*"}"#), "expected the names a b, got b a");
        assert_eq!(why(r#"{"b":1}"#), "expected the names b, got b a");
        assert_eq!(why(r#"{"b":1,"a":[{"t":"then"}]}"#), r#"a: 0: t: expected "then", got "now""#);
        assert_eq!(why(r#"{"b":1,"a":[]}"#), r#"a: expected [], got [{"t":"now"}]"#);
        assert_eq!(remembered.get("t1").map(String::as_str), Some("now"));
    }

    #[test]
    fn a_message_is_taken_apart() {
        assert_eq!(message(b"MSG a 1  2\r\nhi\r\n"), Some(("a", "1", &b"hi"[..])));
        assert_eq!(message(b"MSG a 1 r 0\r\n\r\n"), Some(("a", "1", &b""[..])));
        assert_eq!(message(b"HMSG a 1 0 2\r\nhi\r\n"), None);
        assert_eq!(message(b"PONG\r\n"), None);
    }

    #[test]
    fn a_frame_is_a_line_and_the_payload_it_announces() {
        assert_eq!(frame(b"PONG\r\nMSG"), Some(6));
        assert_eq!(frame(b"MSG a 1 2\r\nhi\r\nPONG\r\n"), Some(15));
        assert_eq!(frame(b"MSG a 1 2\r\nhi\r"), None);
        assert_eq!(frame(b"PON"), None);
    }
}
