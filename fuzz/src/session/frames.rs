//! Frames that a strict client accepts from a server, and nothing else; and the comparison of those
//! that two clients have received.

use std::ops::Range;

/// Bytes that both clients received of one input.
pub(super) struct Heard {
    /// The one that sends anything.
    pub(super) hostile: Vec<u8>,
    /// The one that behaves.
    pub(super) witness: Vec<u8>,
}

/// Both are frames, and the same ones.
pub(super) fn assert_equal(whole: &Heard, split: &Heard) {
    assert_alike("", &whole.hostile, &split.hostile);
    assert_alike("beside, ", &whole.witness, &split.witness);
}

fn assert_alike(who: &str, whole: &[u8], split: &[u8]) {
    let first = read_sorted(whole);
    if whole == split {
        return;
    }
    let second = read_sorted(split);
    let alike = first.len() == second.len() && first.iter().zip(&second).all(|(a, b)| a.is_like(b));
    assert!(alike, "{who}whole:{}\nin pieces:{}", shown(&first), shown(&second));
}

/// Received frames. Which of a client's subscriptions gets a message first is left open, so
/// messages between two other frames are sorted by subscription.
fn read_sorted(bytes: &[u8]) -> Vec<Frame<'_>> {
    let mut frames = match read(bytes) {
        Ok(frames) => frames,
        Err(problem) => panic!("{problem} in what was received: {}", bytes.escape_ascii()),
    };
    for run in frames.chunk_by_mut(|a, b| a.sid.is_some() && b.sid.is_some()) {
        run.sort_by_key(|frame| frame.sid);
    }
    frames
}

fn shown(frames: &[Frame<'_>]) -> String {
    frames.iter().map(|frame| format!("\n{}", frame.bytes.escape_ascii())).collect()
}

/// One frame of a server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame<'a> {
    /// The subscription that a message is for; `None` for everything else.
    pub(super) sid: Option<&'a [u8]>,
    /// All of it, as it was received.
    pub(super) bytes: &'a [u8],
}

impl Frame<'_> {
    /// Equal but for the number of the connection, which no two have in common.
    fn is_like(&self, other: &Self) -> bool {
        if self.bytes == other.bytes {
            return true;
        }
        let (Some(own), Some(others)) = (number_in_info(self.bytes), number_in_info(other.bytes)) else {
            return false;
        };
        self.bytes[..own.start] == other.bytes[..others.start]
            && self.bytes[own.end..] == other.bytes[others.end..]
    }
}

/// Where INFO has the connection's number.
fn number_in_info(bytes: &[u8]) -> Option<Range<usize>> {
    const NAME: &[u8] = b"\"client_id\":";
    let start = position(bytes.strip_prefix(b"INFO ")?, NAME)? + b"INFO ".len() + NAME.len();
    let digits = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    Some(start..start + digits)
}

/// The frames of which `bytes` are made.
///
/// # Errors
/// What is wrong with the first that is none.
pub(super) fn read(bytes: &[u8]) -> Result<Vec<Frame<'_>>, String> {
    let mut frames = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let after = frame(rest)?;
        let bytes = &rest[..rest.len() - after.len()];
        let is_message = bytes.starts_with(b"MSG ") || bytes.starts_with(b"HMSG ");
        let sid = bytes.split(|byte| *byte == b' ').nth(2).filter(|_| is_message);
        frames.push(Frame { sid, bytes });
        rest = after;
    }
    Ok(frames)
}

/// The rest behind the frame at the front.
fn frame(bytes: &[u8]) -> Result<&[u8], String> {
    let end = position(bytes, b"\r\n").ok_or("a line without end")?;
    let (line, rest) = (&bytes[..end], &bytes[end + 2..]);
    let bad = |what: &str| Err(format!("{what}: {}", line.escape_ascii()));
    if memchr::memchr2(b'\r', b'\n', line).is_some() {
        return bad("a line end inside a line");
    }
    if let Some(json) = line.strip_prefix(b"INFO ") {
        let is_json = serde_json::from_slice::<serde::de::IgnoredAny>(json).is_ok();
        let is_object = is_json && json.first() == Some(&b'{');
        return if is_object { Ok(rest) } else { bad("INFO without an object") };
    }
    if let Some(arguments) = line.strip_prefix(b"MSG ") {
        return message(arguments, 0, rest);
    }
    if let Some(arguments) = line.strip_prefix(b"HMSG ") {
        return message(arguments, 1, rest);
    }
    let is_error = line.starts_with(b"-ERR '") && line.ends_with(b"'") && line.len() > 7;
    match line {
        b"PING" | b"PONG" | b"+OK" => Ok(rest),
        _ if is_error => Ok(rest),
        _ => bad("no verb of a server"),
    }
}

/// The rest of a MSG (`headers` 0) or HMSG (1) behind its verb.
fn message<'a>(arguments: &[u8], headers: usize, rest: &'a [u8]) -> Result<&'a [u8], String> {
    let bad = |what: &str| Err(format!("{what}: {}", arguments.escape_ascii()));
    let words: Vec<&[u8]> = arguments.split(|byte| *byte == b' ').collect();
    if words.iter().any(|word| word.is_empty() || word.contains(&b'\t')) {
        return bad("a message with odd spacing");
    }
    // Subject, sid, perhaps a reply, then the sizes.
    if !(3..=4).contains(&(words.len() - headers)) {
        return bad("a message with too few or too many words");
    }
    let sizes: Option<Vec<usize>> =
        words[words.len() - 1 - headers..].iter().map(|word| number(word)).collect();
    let Some(sizes) = sizes else { return bad("a message whose size is no number") };
    let (header, total) = (sizes[0], sizes[headers]);
    if header > total {
        return bad("headers longer than the message");
    }
    if rest.get(total..total + 2) != Some(b"\r\n") {
        return bad("a message that does not end where it says");
    }
    Ok(&rest[total + 2..])
}

fn number(word: &[u8]) -> Option<usize> {
    let digits = word.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(word).ok().filter(|_| digits)?.parse().ok()
}

fn position(bytes: &[u8], what: &[u8]) -> Option<usize> {
    memchr::memmem::find(bytes, what)
}

#[cfg(test)]
mod tests {
    use super::read;

    #[test]
    fn what_servers_say_passes() {
        for good in [
            "",
            "INFO {\"a\":1} \r\nPING\r\nPONG\r\n+OK\r\n-ERR 'x'\r\n",
            "MSG a 1 2\r\nhi\r\nMSG a 1 r 0\r\n\r\n",
            "HMSG a 1 r 12 14\r\nNATS/1.0\r\n\r\nhi\r\n",
        ] {
            assert!(read(good.as_bytes()).is_ok(), "{good}");
        }
    }

    #[test]
    fn messages_have_a_sid() {
        let frames = read(b"MSG a 1 r 0\r\n\r\nPING\r\nHMSG a s 2 2\r\nhi\r\n").expect("these are frames");
        let sids: Vec<_> = frames.iter().map(|frame| frame.sid).collect();
        assert_eq!(sids, [Some(&b"1"[..]), None, Some(b"s")]);
        assert_eq!(frames[1].bytes, b"PING\r\n");
    }

    #[test]
    fn only_the_number_of_a_connection_may_differ() {
        let info = |text: &'static str| read(text.as_bytes()).expect("this is a frame")[0];
        let first = info("INFO {\"a\":1,\"client_id\":9,\"b\":2} \r\n");
        assert!(first.is_like(&info("INFO {\"a\":1,\"client_id\":10,\"b\":2} \r\n")));
        assert!(!first.is_like(&info("INFO {\"a\":1,\"client_id\":9,\"b\":3} \r\n")));
        assert!(!first.is_like(&info("INFO {\"a\":2,\"client_id\":9,\"b\":2} \r\n")));
        assert!(!info("PING\r\n").is_like(&info("PONG\r\n")));
    }

    #[test]
    fn what_no_server_says_is_found() {
        for bad in [
            "PING",
            "PINGX\r\n",
            "PING\nPONG\r\n",
            "INFO []\r\n",
            "-ERR x\r\n",
            "MSG a 1\r\n\r\n",
            "MSG a  1 0\r\n\r\n",
            "MSG a\t1 0\r\n\r\n",
            "MSG a 1 3\r\nhi\r\n",
            "MSG a 1 b c 0\r\n\r\n",
            "HMSG a 1 3 2\r\nhi\r\n",
        ] {
            assert!(read(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
