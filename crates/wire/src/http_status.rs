//! First line of an HTTP answer, as Go reads it, whose words are in the reference's log.

use std::fmt;

/// Status of an answer: `404 Not Found`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HttpStatus {
    /// The number.
    pub code: u16,
    /// The number and the words behind it.
    pub text: String,
}

/// A first line that is none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoHttp {
    what: &'static str,
    text: String,
}

impl fmt::Display for NoHttp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "malformed HTTP {} {:?}", self.what, self.text)
    }
}

impl HttpStatus {
    /// Reads the first line of an answer.
    ///
    /// # Errors
    /// When it is none.
    pub fn of(head: &[u8]) -> Result<Self, NoHttp> {
        let line = String::from_utf8_lossy(head.split(|byte| *byte == b'\n').next().unwrap_or_default());
        let line = line.trim_end_matches('\r');
        let malformed = |what, text: &str| Err(NoHttp { what, text: text.to_owned() });
        let Some((version, text)) = line.split_once(' ') else { return malformed("response", line) };
        let text = text.trim_start_matches(' ');
        let number = text.split(' ').next().unwrap_or_default();
        let code = number.parse().ok().filter(|_| number.len() == 3 && !number.starts_with('+'));
        let Some(code) = code else { return malformed("status code", number) };
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return malformed("version", version);
        }
        Ok(Self { code, text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::HttpStatus;

    #[test]
    fn lines_are_read_as_the_reference_does() {
        let status = HttpStatus::of(b"HTTP/1.0 407 Proxy Authentication Required\r\nA: b\r\n\r\n");
        let status = status.expect("it is one");
        assert_eq!((status.code, &*status.text), (407, "407 Proxy Authentication Required"));
        for (line, expected) in [
            ("garbage\r\n", "malformed HTTP response \"garbage\""),
            ("INFO {\"a\":1} \r\n", "malformed HTTP status code \"{\\\"a\\\":1}\""),
            ("HTTP/1.1 20 x\r\n", "malformed HTTP status code \"20\""),
            ("HTTP/1.1 +20 x\r\n", "malformed HTTP status code \"+20\""),
            ("SSH/2 200 x\r\n", "malformed HTTP version \"SSH/2\""),
            ("", "malformed HTTP response \"\""),
        ] {
            assert_eq!(HttpStatus::of(line.as_bytes()).expect_err("it is none").to_string(), expected);
        }
    }
}
