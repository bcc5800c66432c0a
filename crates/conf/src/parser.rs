//! Builds the tree of a configuration file from its tokens.
//!
//! Owns what crosses tokens: maps and arrays, variables, includes, and the bounds that keep a
//! hostile file from using up memory. Reads files and variables through a [`Sources`]; knows no
//! option.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::diagnostic::{Diagnostic, Position};
use crate::lexer::{LexError, Lexer, MAX_DEPTH, Token, TokenKind};
use crate::path;
use crate::scalar::scalar;
use crate::value::{Map, Node, Value};
use myelin_stdx::os_error::words;

/// Bytes of all files of one configuration together.
const MAX_BYTES: usize = 64 << 20;
/// Bytes that references to variables may copy, so that a few lines cannot multiply without end.
const MAX_COPIES: usize = 64 << 20;
/// How deep files may include each other, and environment variables refer to each other.
const MAX_SOURCES: usize = 64;
/// Compat: what follows `$` in a bcrypt hash, which therefore needs no quotes.
const BCRYPT: &str = "2a$";

type Parse<T> = Result<T, Diagnostic>;

/// Where the text of a configuration comes from, and what has been taken from there.
pub(crate) struct Sources<'e> {
    env: &'e dyn Fn(&str) -> Option<String>,
    /// Files that are being read, the outermost first.
    open_files: Vec<PathBuf>,
    /// Environment variables that are being read, the outermost first.
    open_variables: Vec<String>,
    bytes_left: usize,
    copies_left: usize,
}

impl<'e> Sources<'e> {
    pub(crate) fn new(env: &'e dyn Fn(&str) -> Option<String>) -> Self {
        Self {
            env,
            open_files: Vec::new(),
            open_variables: Vec::new(),
            bytes_left: MAX_BYTES,
            copies_left: MAX_COPIES,
        }
    }

    /// Parses a file and what it includes. Stops at the first error.
    pub(crate) fn parse_file(&mut self, name: &str) -> Parse<Map> {
        let text = self.read(name).map_err(|message| Diagnostic { position: None, message })?;
        let identity = Path::new(name).canonicalize().unwrap_or_else(|_| PathBuf::from(name));
        if self.open_files.contains(&identity) {
            return Err(Diagnostic { position: None, message: format!("{name} includes itself") });
        }
        if self.open_files.len() > MAX_SOURCES {
            return Err(Diagnostic { position: None, message: format!("{name} is included too deep") });
        }
        self.open_files.push(identity);
        let parsed = self.parse_text(&text, name);
        self.open_files.pop();
        parsed
    }

    /// Parses text that stands in the file `name`; includes are relative to the directory of that.
    pub(crate) fn parse_text(&mut self, text: &[u8], name: &str) -> Parse<Map> {
        let file: Arc<str> = name.into();
        if let Some(at) = text.iter().position(|&byte| byte == 0) {
            return Err(nul_byte(text, at, file));
        }
        Parser {
            lexer: Lexer::new(text),
            file,
            frames: vec![OpenContainer::Map(Map::default(), None)],
            sources: self,
        }
        .run()
    }

    fn read(&mut self, name: &str) -> Result<Vec<u8>, String> {
        let mut text = Vec::new();
        let limit = u64::try_from(self.bytes_left).unwrap_or(u64::MAX);
        let file = File::open(name).map_err(|error| format!("open {name}: {}", words(&error)))?;
        file.take(limit.saturating_add(1))
            .read_to_end(&mut text)
            .map_err(|error| format!("read {name}: {}", words(&error)))?;
        match self.bytes_left.checked_sub(text.len()) {
            Some(left) => self.bytes_left = left,
            None => return Err(format!("{name}: the configuration is larger than {} MiB", MAX_BYTES >> 20)),
        }
        Ok(text)
    }
}

/// The reference takes a NUL for the end of something, sometimes; here it is never right.
fn nul_byte(text: &[u8], at: usize, file: Arc<str>) -> Diagnostic {
    let before = &text[..at];
    let newlines = before.iter().filter(|&&byte| byte == b'\n').count();
    let line_start = before.iter().rposition(|&byte| byte == b'\n').unwrap_or(0);
    let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    let position = Position { file, line: number(newlines + 1), column: number(at - line_start) };
    let message = grammar_text(position.line, "unexpected NUL byte");
    Diagnostic { position: Some(position), message }
}

/// A map or array that is not complete yet.
enum OpenContainer {
    /// With the key that waits for its value.
    Map(Map, Option<Token>),
    Array(Vec<Node>),
}

struct Parser<'a, 's, 'e> {
    lexer: Lexer<'a>,
    file: Arc<str>,
    /// From the root map to the innermost; never empty.
    frames: Vec<OpenContainer>,
    sources: &'s mut Sources<'e>,
}

impl Parser<'_, '_, '_> {
    fn run(mut self) -> Parse<Map> {
        loop {
            let token = self.lexer.next_token().map_err(|error| self.lex_error(error))?;
            match token.kind {
                TokenKind::Key => self.key(token),
                TokenKind::MapStart => self.frames.push(OpenContainer::Map(Map::default(), None)),
                TokenKind::ArrayStart => self.frames.push(OpenContainer::Array(Vec::new())),
                TokenKind::MapEnd | TokenKind::ArrayEnd => self.close(&token),
                TokenKind::Variable => self.variable(&token)?,
                TokenKind::Include => self.include(&token)?,
                TokenKind::End => return self.end(&token),
                kind => {
                    let value = scalar(kind, &token.text).map_err(|message| self.error(&token, message))?;
                    self.place(value, &token);
                }
            }
        }
    }

    fn key(&mut self, token: Token) {
        if let Some(OpenContainer::Map(_, pending)) = self.frames.last_mut() {
            *pending = Some(token);
        }
    }

    fn close(&mut self, token: &Token) {
        match self.frames.pop() {
            Some(OpenContainer::Map(map, _)) => self.place(Value::Map(map), token),
            Some(OpenContainer::Array(items)) => self.place(Value::Array(items), token),
            None => {}
        }
    }

    /// Puts a value where the next value belongs; `token` is where it was written.
    fn place(&mut self, value: Value, token: &Token) {
        let place = |token: &Token| position(&self.file, token.line, token.column);
        match self.frames.last_mut() {
            Some(OpenContainer::Array(items)) => items.push(Node::new(value, place(token))),
            Some(OpenContainer::Map(map, key)) => {
                let key = key.take().expect("the lexer gives a key before each value of a map");
                let node = Node::new(value, place(&key));
                map.insert(key.text, node);
            }
            None => unreachable!("the root map is closed by the end of the text alone"),
        }
    }

    fn end(mut self, token: &Token) -> Parse<Map> {
        match self.frames.pop() {
            // Compat: a last lone brace is forgiven.
            Some(OpenContainer::Map(_, Some(key))) if key.text != "}" => {
                Err(self.error(token, format!("config is invalid: {:?} has no value", key.text)))
            }
            Some(OpenContainer::Map(map, _)) => Ok(map),
            _ => unreachable!("the lexer reports what is still open"),
        }
    }

    // Variables.

    fn variable(&mut self, token: &Token) -> Parse<()> {
        let name = &token.text;
        let value = if name.starts_with(BCRYPT) {
            Value::Text(format!("${name}"))
        } else if let Some(value) = self.enclosing_value(name) {
            value
        } else {
            self.environment_value(token)?
        };
        let (depth, bytes) = value.measure();
        self.check_depth(depth, token)?;
        let copies_left = self.sources.copies_left.checked_sub(bytes);
        self.sources.copies_left =
            copies_left.ok_or_else(|| self.error(token, "variables copy too much".to_owned()))?;
        self.place(value, token);
        Ok(())
    }

    /// Looks through the maps around this place, innermost first.
    fn enclosing_value(&mut self, name: &str) -> Option<Value> {
        self.frames.iter_mut().rev().find_map(|frame| {
            let OpenContainer::Map(map, _) = frame else { return None };
            let node = map.get_mut(name)?;
            node.is_used_variable = true;
            Some(node.value.clone())
        })
    }

    /// Reads an environment variable as if its text stood in the file.
    fn environment_value(&mut self, token: &Token) -> Parse<Value> {
        const KEY: &str = "pk";
        let name = &token.text;
        let complain =
            |problem: String| format!("variable reference for '{name}' on line {} {problem}", token.line);
        let missing = || self.error(token, complain("can not be found".to_owned()));
        if self.sources.open_variables.contains(name) || self.sources.open_variables.len() > MAX_SOURCES {
            let problem = format!("could not be parsed: variable reference cycle for '{name}'");
            return Err(self.error(token, complain(problem)));
        }
        let text = (self.sources.env)(name).ok_or_else(missing)?;
        self.sources.open_variables.push(name.clone());
        let parsed = self.sources.parse_text(format!("{KEY}={text}").as_bytes(), "");
        self.sources.open_variables.pop();
        let parsed = parsed.map_err(|inner| {
            self.error(token, complain(format!("could not be parsed: {}", inner.message)))
        })?;
        let found = parsed.into_entries().find(|(key, _)| key == KEY);
        let (_, mut node) =
            found.ok_or_else(|| self.error(token, complain("can not be found".to_owned())))?;
        node.relocate(&position(&self.file, token.line, token.column));
        Ok(node.value)
    }

    // Includes.

    /// Merges the keys of another file into the innermost map. That file sees no variable of this
    /// one.
    fn include(&mut self, token: &Token) -> Parse<()> {
        let name = path::join(&path::directory(&self.file), &token.text);
        let included = self.sources.parse_file(&name).map_err(|inner| match inner.position {
            Some(_) => inner,
            None => {
                self.error(token, format!("error parsing include file '{}', {}", token.text, inner.message))
            }
        })?;
        let included = Value::Map(included);
        self.check_depth(included.measure().0.saturating_sub(1), token)?;
        if let (Some(OpenContainer::Map(map, _)), Value::Map(included)) = (self.frames.last_mut(), included) {
            included.into_entries().for_each(|(key, node)| map.insert(key, node));
        }
        Ok(())
    }

    /// A value taken from elsewhere brings its own depth with it.
    fn check_depth(&self, depth: usize, token: &Token) -> Parse<()> {
        if self.frames.len() + depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(self.error(token, format!("maps and arrays are nested deeper than {MAX_DEPTH}")))
    }

    fn error(&self, token: &Token, message: String) -> Diagnostic {
        Diagnostic { position: Some(position(&self.file, token.line, token.column)), message }
    }

    fn lex_error(&self, error: LexError) -> Diagnostic {
        let position = position(&self.file, error.line, error.column);
        Diagnostic { position: Some(position), message: grammar_text(error.line, &error.message) }
    }
}

/// Compat: tools look for these words. What is wrong is in our own, for it also says what would be
/// right.
fn grammar_text(line: u32, message: &str) -> String {
    format!("Parse error on line {line}: '{message}'")
}

fn position(file: &Arc<str>, line: u32, column: u32) -> Position {
    Position { file: Arc::clone(file), line, column }
}
