//! The reference's words for bytes that are no operation, as they stand in the log. Cold: a
//! connection says such a thing once and is closed.

use myelin_wire::error::Quoted;
use myelin_wire::parser::{self, ParseError};

/// How much of what could not be read is shown.
const SNIPPET: usize = 32;

/// The reference's numbers for the states of its parser, one for each byte of a verb.
const VERBS: [(&[u8], &[u8]); 10] = [
    (b"PUB", &[29, 30, 31]),
    (b"HPUB", &[18, 19, 20, 21]),
    (b"SUB", &[43, 44, 45]),
    (b"UNSUB", &[59, 60, 61, 62, 63]),
    (b"CONNECT", &[10, 11, 12, 13, 14, 15, 16]),
    (b"PING", &[29, 34, 35, 36]),
    (b"PONG", &[29, 37, 38, 39]),
    (b"INFO", &[71, 72, 73, 74]),
    (b"+OK", &[1, 2, 3]),
    (b"-ERR", &[4, 5, 6, 7]),
];

/// A payload's CR, then its LF, is expected.
const END_R: u8 = 41;
const END_N: u8 = 42;

/// A control line: the verb in capitals, and what follows it. `None` while its end has not come.
pub(super) fn control_line(rest: &[u8]) -> Option<(&'static [u8], &[u8])> {
    let verb = VERBS.iter().map(|(verb, _)| *verb).find(|verb| has_prefix(rest, verb))?;
    let line = &rest[verb.len()..];
    let line = &line[..line.iter().position(|b| *b == b'\n')?];
    let blanks = line.iter().take_while(|b| matches!(b, b' ' | b'\t')).count();
    let line = &line[blanks..];
    Some((verb, line.strip_suffix(b"\r").unwrap_or(line)))
}

fn has_prefix(bytes: &[u8], verb: &[u8]) -> bool {
    bytes.get(..verb.len()).is_some_and(|start| start.eq_ignore_ascii_case(verb))
}

/// Text for the log about bytes that the parser refused at `at` of `buf`.
pub(super) fn text(buf: &[u8], at: usize, error: ParseError) -> String {
    let rest = &buf[at..];
    match error {
        ParseError::UnknownOperation => {
            let (state, offset) = stumble(rest);
            let at = at + offset;
            format!("Client parser ERROR, state={state}, i={at}: proto='{}...'", snippet(buf, at))
        }
        ParseError::BadArguments => bad_arguments(rest),
        ParseError::ControlLineTooLong => "maximum control line exceeded".to_owned(),
        ParseError::PayloadTooLarge { size, limit } => format!("maximum payload exceeded: {size} vs {limit}"),
        ParseError::HeadersNotSupported => "message headers not supported".to_owned(),
    }
}

/// Compat: what reaches beyond the buffer loses its last byte.
fn snippet(buf: &[u8], at: usize) -> String {
    let end = if at + SNIPPET > buf.len() { buf.len().saturating_sub(1) } else { at + SNIPPET };
    Quoted(buf.get(at..end).unwrap_or_default()).to_string()
}

fn bad_arguments(rest: &[u8]) -> String {
    let Some((verb, line)) = control_line(rest) else { return String::new() };
    let words: Vec<_> = line.split(|b| matches!(b, b' ' | b'\t')).filter(|w| !w.is_empty()).collect();
    let size = |from_end: usize| words.len().checked_sub(from_end).and_then(|at| parser::size(words[at]));
    let what = match (verb, words.len()) {
        (b"PUB", 2 | 3) => "processPub Bad or Missing Size",
        (b"PUB", _) => "processPub Parse Error",
        (b"HPUB", 3 | 4) if size(2).is_none() => "processHeaderPub Bad or Missing Header Size",
        (b"HPUB", 3 | 4) if size(1).is_none() => "processHeaderPub Bad or Missing Total Size",
        (b"HPUB", 3 | 4) => "processHeaderPub Header Size larger then TotalSize",
        (b"HPUB", _) => "processHeaderPub Parse Error",
        (b"SUB", _) => "processSub Parse Error",
        _ => "processUnsub Parse Error",
    };
    format!("{what}: {}", Quoted(line))
}

/// The state in which the reference's parser would have met the byte that it cannot read, and where
/// it stands.
fn stumble(rest: &[u8]) -> (u8, usize) {
    let common = |verb: &[u8]| verb.iter().zip(rest).take_while(|(v, b)| v.eq_ignore_ascii_case(b)).count();
    let longest = VERBS.iter().map(|(verb, states)| (common(verb), *verb, *states)).max_by_key(|v| v.0);
    let Some((len @ 1.., verb, states)) = longest else { return (0, 0) };
    let needs_blank = matches!(verb, b"PUB" | b"HPUB" | b"SUB" | b"UNSUB" | b"-ERR");
    if len < verb.len() || (needs_blank && !matches!(rest.get(len), Some(b' ' | b'\t'))) {
        return (states[len - 1], len);
    }
    let stray_cr = rest.windows(2).position(|pair| pair[0] == b'\r' && pair[1] != b'\n');
    let lf = rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len());
    match stray_cr {
        // Safer than the reference, which goes on here: the state is that of arguments.
        Some(cr) if cr < lf => (states[len - 1] + if needs_blank { 2 } else { 1 }, cr),
        _ => trailer(rest, lf),
    }
}

/// Where the end of a payload is not what it should be.
fn trailer(rest: &[u8], lf: usize) -> (u8, usize) {
    let size = control_line(rest).and_then(|(_, line)| {
        line.rsplit(|b| matches!(b, b' ' | b'\t')).find(|w| !w.is_empty()).and_then(parser::size)
    });
    let end = lf + 1 + size.unwrap_or(0) as usize;
    if rest.get(end) == Some(&b'\r') { (END_N, end + 1) } else { (END_R, end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_read_as_the_references() {
        use ParseError::{BadArguments as Bad, UnknownOperation as Unknown};
        // What nats-server 2.15.2 logs for the same bytes.
        for (bytes, error, logged) in [
            ("GARBAGE\r\n", Unknown, r#"Client parser ERROR, state=0, i=0: proto='"GARBAGE\r"...'"#),
            ("UNSUB\r\n", Unknown, r#"Client parser ERROR, state=63, i=5: proto='"\r"...'"#),
            ("PUB foo 2\r\nhixx", Unknown, r#"Client parser ERROR, state=41, i=13: proto='"x"...'"#),
            ("PUB foo\r\n", Bad, r#"processPub Parse Error: "foo""#),
            ("pub foo x\r\n", Bad, r#"processPub Bad or Missing Size: "foo x""#),
            ("SUB a\r\n", Bad, r#"processSub Parse Error: "a""#),
            ("UNSUB 1 2 3\r\n", Bad, r#"processUnsub Parse Error: "1 2 3""#),
            ("HPUB a 3 2\r\n", Bad, r#"processHeaderPub Header Size larger then TotalSize: "a 3 2""#),
            ("HPUB a x 2\r\n", Bad, r#"processHeaderPub Bad or Missing Header Size: "a x 2""#),
        ] {
            assert_eq!(text(bytes.as_bytes(), 0, error), logged);
        }
    }

    #[test]
    fn a_position_counts_from_the_start_of_the_read() {
        let buf = b"PING\r\nPIXEL 1234567890123456789012345678901234567890\r\n";
        let expected = r#"Client parser ERROR, state=34, i=8: proto='"XEL 1234567890123456789012345678"...'"#;
        assert_eq!(text(buf, 6, ParseError::UnknownOperation), expected);
    }

    #[test]
    fn a_line_is_known_by_its_end() {
        assert_eq!(control_line(b"pub  a 1"), None);
        assert_eq!(control_line(b"pub  a\t 1\r\nx"), Some((&b"PUB"[..], &b"a\t 1"[..])));
        assert_eq!(control_line(b"PING\n"), Some((&b"PING"[..], &b""[..])));
    }
}
