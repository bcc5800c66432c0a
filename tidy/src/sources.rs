//! The files of the workspace.

use crate::lexer::{Token, lex};
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold sources of ours.
const FOLDERS: [&str; 9] = ["cluster", "crates", "compat", "count", "dist", "fuzz", "sim", "soak", "tidy"];
/// Folders with what others have written, or what is made.
const PASSED_OVER: [&str; 4] = ["target", "corpus", "artifacts", ".git"];

/// The folder of the workspace.
#[must_use]
pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// A Rust file.
#[derive(Debug)]
pub struct Source {
    /// Path from the root, with slashes.
    pub path: String,
    /// Contents of the file.
    pub text: String,
}

impl Source {
    /// The crate it belongs to, by its folder: `broker`, `soak`.
    #[must_use]
    pub fn room(&self) -> &str {
        let inner = self.path.strip_prefix("crates/").unwrap_or(&self.path);
        inner.split('/').next().unwrap_or_default()
    }

    /// Whether it is compiled for tests, examples and benchmarks only, as its path tells.
    #[must_use]
    pub fn is_test(&self) -> bool {
        let is_one = |part: &str| matches!(part, "tests" | "tests.rs" | "benches" | "examples");
        self.path.split('/').any(is_one)
            || matches!(self.room(), "cluster" | "fuzz" | "compat" | "sim" | "soak" | "tidy")
    }

    /// Tokens of the file without those of `#[cfg(test)]` modules, which stand at the end of a file
    /// here.
    #[must_use]
    pub fn tokens(&self) -> Vec<Token<'_>> {
        let end = self.text.find("\n#[cfg(test)]\nmod tests {").unwrap_or(self.text.len());
        lex(&self.text[..end])
    }
}

/// All Rust files, in order.
#[must_use]
pub fn sources() -> Vec<Source> {
    let files = FOLDERS.iter().flat_map(|folder| files(&root().join(folder), "rs"));
    let mut all: Vec<Source> =
        files.map(|path| Source { text: read(&path), path: relative(&path) }).collect();
    all.sort_by(|a, b| a.path.cmp(&b.path));
    all
}

/// All documents for people, with their texts.
#[must_use]
pub fn documents() -> Vec<(String, String)> {
    let mut all: Vec<PathBuf> = ["docs", "crates", "compat", "conformance", "fuzz", "bench"]
        .iter()
        .flat_map(|folder| files(&root().join(folder), "md"))
        .collect();
    let entries = fs::read_dir(root()).expect("the root can be read");
    let here = entries.map(|entry| entry.expect("it can be read").path());
    all.extend(here.filter(|path| path.extension().is_some_and(|is| is == "md")));
    all.sort();
    all.into_iter().map(|path| (relative(&path), read(&path))).collect()
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn relative(path: &Path) -> String {
    let inner = path.strip_prefix(root()).expect("it is below the root");
    inner.to_string_lossy().replace('\\', "/")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.expect("it can be read").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() && !PASSED_OVER.contains(&&*name) {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|is| is == extension) {
            found.push(path);
        }
    }
    found
}
