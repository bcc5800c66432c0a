//! A position in the text of a configuration file.
//!
//! Walks characters and knows line and column. Knows nothing of the grammar.

/// Where the scan is, and where the token it is in began.
pub(crate) struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
    /// Line of `at`, counted from 1.
    line: u32,
    /// Offset of the newline that began the current line, 0 on the first line.
    ///
    /// Compat: because the newline itself is column 0, columns start at 1 on every line but the
    /// first.
    line_start: usize,
    token_start: usize,
    token_line_start: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, line: 1, line_start: 0, token_start: 0, token_line_start: 0 }
    }

    /// The character here, or `None` at the end of the text. A byte that is no UTF-8 is U+FFFD.
    pub(crate) fn peek(&self) -> Option<char> {
        self.decode().map(|(c, _)| c)
    }

    /// Steps over one character and returns it.
    pub(crate) fn bump(&mut self) -> Option<char> {
        let (c, width) = self.decode()?;
        if c == '\n' {
            self.line += 1;
            self.line_start = self.at;
        }
        self.at += width;
        Some(c)
    }

    /// Steps over `c` when it is next.
    pub(crate) fn eat(&mut self, c: char) -> bool {
        let found = self.peek() == Some(c);
        if found {
            self.bump();
        }
        found
    }

    /// Steps over characters as long as they satisfy `wanted`.
    pub(crate) fn eat_while(&mut self, wanted: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.bump();
        }
    }

    /// Whether the bytes here are exactly `bytes`.
    pub(crate) fn looking_at(&self, bytes: &[u8]) -> bool {
        self.text[self.at..].starts_with(bytes)
    }

    /// Whether a newline precedes the character that was stepped over last.
    pub(crate) fn is_line_start(&self, width: usize) -> bool {
        self.at > width && self.text[self.at - width - 1] == b'\n'
    }

    /// Begins a token here.
    pub(crate) fn mark(&mut self) {
        self.token_start = self.at;
        self.token_line_start = self.line_start;
    }

    /// The bytes from the mark to here.
    pub(crate) fn token(&self) -> &'a [u8] {
        &self.text[self.token_start..self.at]
    }

    /// Line and column of a token of `length` bytes that ends here.
    ///
    /// Compat: the column is counted back from the end, on the line where the token began, so
    /// escapes move it to the right. That is where the reference points to.
    pub(crate) fn token_position(&self, length: usize) -> (u32, u32) {
        (self.line, column(self.at.saturating_sub(self.token_line_start + length)))
    }

    /// Line and column of the end of what was stepped over.
    pub(crate) fn position(&self) -> (u32, u32) {
        (self.line, column(self.at - self.line_start))
    }

    fn decode(&self) -> Option<(char, usize)> {
        let rest = &self.text[self.at..];
        let first = *rest.first()?;
        if first.is_ascii() {
            return Some((char::from(first), 1));
        }
        let valid =
            rest[..rest.len().min(4)].utf8_chunks().next().and_then(|chunk| chunk.valid().chars().next());
        Some(valid.map_or((char::REPLACEMENT_CHARACTER, 1), |c| (c, c.len_utf8())))
    }
}

fn column(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// Text for a value. Each byte that is not UTF-8 is replaced, as the reference's JSON does when it
/// shows one.
pub(crate) fn to_text(bytes: &[u8]) -> String {
    bytes.utf8_chunks().fold(String::with_capacity(bytes.len()), |mut text, chunk| {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_byte_that_is_no_text_counts() {
        assert_eq!(to_text("aé\u{2028}".as_bytes()), "aé\u{2028}");
        assert_eq!(to_text(b"a\xe2\x80#\xff\xc3"), "a\u{fffd}\u{fffd}#\u{fffd}\u{fffd}");
    }
}
