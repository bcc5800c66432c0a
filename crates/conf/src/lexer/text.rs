//! Strings: quoted, bare and in blocks, and the bare words that are something else.

use super::{Lexer, Scan, Token, TokenKind, is_blank};

impl Lexer<'_> {
    pub(super) fn single_quoted(&mut self) -> Scan<Token> {
        self.cursor.bump();
        self.cursor.mark();
        self.cursor.eat_while(|c| c != '\'');
        let token = self.token(TokenKind::Text);
        if self.cursor.eat('\'') { Ok(token) } else { self.fail("a quoted string is not closed") }
    }

    pub(super) fn double_quoted(&mut self) -> Scan<Token> {
        let mut text = Vec::new();
        loop {
            self.cursor.eat_while(|c| !matches!(c, '"' | '\\'));
            text.extend_from_slice(self.cursor.token());
            match self.cursor.peek() {
                Some('\\') => self.escape(&mut text)?,
                Some(_) => break,
                None => return self.fail("a quoted string is not closed"),
            }
        }
        let token = self.token_with(TokenKind::Text, &text);
        self.cursor.bump();
        Ok(token)
    }

    /// Text without quotes, a boolean or a variable; some of it may have been stepped over already.
    pub(super) fn bare_text(&mut self) -> Scan<Token> {
        let mut text = Vec::new();
        let mut has_escapes = false;
        loop {
            self.cursor.eat_while(|c| !ends_bare_text(c) && !matches!(c, '\\' | '\''));
            text.extend_from_slice(self.cursor.token());
            if self.cursor.peek() != Some('\\') {
                break;
            }
            has_escapes = true;
            self.escape(&mut text)?;
        }
        // Compat: a single quote ends bare text and vanishes.
        let is_quoted = self.cursor.peek() == Some('\'');
        let token = match text.strip_prefix(b"$") {
            _ if has_escapes || is_quoted => self.token_with(TokenKind::Text, &text),
            _ if boolean(&text).is_some() => self.token_with(TokenKind::Boolean, &text),
            Some(name) => self.token_with(TokenKind::Variable, name),
            None => self.token_with(TokenKind::Text, &text),
        };
        self.cursor.eat('\'');
        Ok(token)
    }

    /// Steps over one escape and marks what follows it.
    fn escape(&mut self, text: &mut Vec<u8>) -> Scan<()> {
        self.cursor.bump();
        let byte = match self.cursor.bump() {
            Some('t') => b'\t',
            Some('n') => b'\n',
            Some('r') => b'\r',
            Some(c @ ('"' | '\\')) => c as u8,
            Some('x') => self.hexadecimal()?,
            _ => return self.fail(r#"unknown escape; allowed are \t \n \r \" \\ and \xHH"#),
        };
        text.push(byte);
        self.cursor.mark();
        Ok(())
    }

    fn hexadecimal(&mut self) -> Scan<u8> {
        let digit = |c: Option<char>| c.and_then(|c| c.to_digit(16)).and_then(|d| u8::try_from(d).ok());
        match (digit(self.cursor.bump()), digit(self.cursor.bump())) {
            (Some(high), Some(low)) => Ok(high << 4 | low),
            _ => self.fail(r"expected two hexadecimal digits after \x"),
        }
    }

    /// `( … )` over several lines; only a `)` alone on its line closes it.
    pub(super) fn block_text(&mut self) -> Scan<Token> {
        self.cursor.bump();
        self.cursor.mark();
        loop {
            self.cursor.eat_while(|c| c != ')');
            let text = self.cursor.token();
            if self.cursor.bump().is_none() {
                return self.fail("a block of text is not closed, expected ')' alone on a line");
            }
            if !self.cursor.is_line_start(1) {
                continue;
            }
            match self.cursor.peek() {
                Some('\n') => return Ok(self.token_with(TokenKind::Text, text)),
                // Compat: at the end of the file the closing parenthesis stays in the text.
                None => return Ok(self.token(TokenKind::Text)),
                Some(_) => {}
            }
        }
    }
}

/// The boolean that a bare word stands for.
pub(crate) fn boolean(word: &[u8]) -> Option<bool> {
    let is = |name: &str| word.eq_ignore_ascii_case(name.as_bytes());
    if ["true", "yes", "on"].into_iter().any(is) {
        Some(true)
    } else if ["false", "no", "off"].into_iter().any(is) {
        Some(false)
    } else {
        None
    }
}

pub(super) fn ends_bare_text(c: char) -> bool {
    matches!(c, '\n' | '\r' | ';' | ',' | ']' | '}') || is_blank(c)
}
