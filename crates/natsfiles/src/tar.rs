//! The archive of a backup before nats-server 2.15: files in a tar, compressed.
//!
//! Only what such backups hold is read: ordinary files, with extended headers for long names. A
//! file is given whole, and held while it comes; it grows with what has come.

use super::frames::{FrameError, FrameReader};
use std::fmt;

const BLOCK: usize = 512;
/// Bytes of a file, at most: a block of messages, which the largest message may be beyond.
const LARGEST: usize = 128 << 20;
/// Bytes of an extended header, at most.
const LARGEST_HEADER: usize = 64 << 10;

/// Why it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TarError {
    /// The stream around it.
    Frames(FrameError),
    /// A header is none.
    Header,
    /// An entry is no ordinary file.
    Kind,
    /// A file is larger than files of a backup are.
    TooLarge,
}

impl fmt::Display for TarError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Frames(error) => error.fmt(f),
            Self::Header => f.write_str("archive/tar: invalid tar header"),
            Self::Kind => f.write_str("unexpected content"),
            Self::TooLarge => f.write_str("a file in the backup is too large"),
        }
    }
}

impl std::error::Error for TarError {}

impl From<FrameError> for TarError {
    fn from(error: FrameError) -> Self {
        Self::Frames(error)
    }
}

/// A file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TarFile<'a> {
    /// Its path, as it is written.
    pub name: &'a str,
    /// Contents of the file.
    pub data: &'a [u8],
}

/// Reader of a backup made before nats-server 2.15: takes bytes in pieces and returns whole files.
#[derive(Debug)]
pub struct TarReader {
    frames: FrameReader,
    /// Bytes that were gathered of the next section.
    bytes: Vec<u8>,
    next: TarSection,
    name: String,
    /// From an extended header, for the file behind it.
    long_name: Option<String>,
    long_size: Option<usize>,
}

/// Section that comes next.
#[derive(Clone, Copy, Debug)]
enum TarSection {
    Header,
    /// Data of so many bytes, and what fills the last block.
    Data {
        size: usize,
        is_extension: bool,
    },
    /// A file was given.
    Given,
    End,
}

impl TarReader {
    /// Reads out of `frames`.
    #[must_use]
    pub fn new(frames: FrameReader) -> Self {
        let (name, bytes) = (String::new(), Vec::new());
        Self { frames, bytes, next: TarSection::Header, name, long_name: None, long_size: None }
    }

    /// Takes the next compressed bytes. All files should be read before more are given.
    pub fn feed(&mut self, bytes: &[u8]) {
        self.frames.feed(bytes);
    }

    /// Bytes that it holds.
    #[must_use]
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.frames.held()
    }

    /// Whether the end was read.
    #[must_use]
    pub fn is_over(&self) -> bool {
        matches!(self.next, TarSection::End)
    }

    /// The next file, or `None`: more has to come first, or the end was read. `budget` is taken
    /// down by the bytes that were looked at, and when it is used up `None` is answered as well.
    ///
    /// # Errors
    /// It cannot be gone on with.
    pub fn next(&mut self, budget: &mut usize) -> Result<Option<TarFile<'_>>, TarError> {
        loop {
            match self.next {
                TarSection::End => return Ok(None),
                TarSection::Given => {
                    self.bytes.clear();
                    self.bytes.shrink_to(1 << 20);
                    self.next = TarSection::Header;
                }
                TarSection::Header => {
                    if !self.gather(BLOCK, budget)? {
                        return Ok(None);
                    }
                    self.read_header()?;
                    self.bytes.clear();
                }
                TarSection::Data { size, is_extension } => {
                    if !self.gather(size.next_multiple_of(BLOCK), budget)? {
                        return Ok(None);
                    }
                    if is_extension {
                        self.read_extension(size);
                        self.bytes.clear();
                        self.next = TarSection::Header;
                        continue;
                    }
                    self.next = TarSection::Given;
                    return Ok(Some(TarFile { name: &self.name, data: &self.bytes[..size] }));
                }
            }
        }
    }

    fn gather(&mut self, wanted: usize, budget: &mut usize) -> Result<bool, TarError> {
        while self.bytes.len() < wanted {
            let more = self.frames.fill()?;
            if more.is_empty() || *budget == 0 {
                return Ok(false);
            }
            let now = more.len().min(wanted - self.bytes.len());
            self.bytes.extend_from_slice(&more[..now]);
            self.frames.consume(now);
            *budget = budget.saturating_sub(now);
        }
        Ok(true)
    }

    fn read_header(&mut self) -> Result<(), TarError> {
        let header = &self.bytes[..BLOCK];
        if header.iter().all(|byte| *byte == 0) {
            self.next = TarSection::End;
            return Ok(());
        }
        let sum: u64 = header
            .iter()
            .enumerate()
            .map(|(at, byte)| u64::from(if (148..156).contains(&at) { b' ' } else { *byte }))
            .sum();
        if octal(&header[148..156]) != Some(sum) {
            return Err(TarError::Header);
        }
        let size = octal(&header[124..136]).ok_or(TarError::Header)?;
        let size = usize::try_from(size).map_err(|_| TarError::TooLarge)?;
        let size = self.long_size.take().unwrap_or(size);
        let is_extension = match header[156] {
            b'x' => true,
            b'0' | 0 => false,
            _ => return Err(TarError::Kind),
        };
        if size > if is_extension { LARGEST_HEADER } else { LARGEST } {
            return Err(TarError::TooLarge);
        }
        if !is_extension {
            let (name, prefix) = (text(&header[..100])?, text(&header[345..500])?);
            let short = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            self.name = self.long_name.take().unwrap_or(short);
        }
        self.next = TarSection::Data { size, is_extension };
        Ok(())
    }

    /// Records of the form `LENGTH KEY=VALUE` and a line feed.
    fn read_extension(&mut self, size: usize) {
        let mut rest = &self.bytes[..size];
        while let Some(space) = rest.iter().position(|byte| *byte == b' ') {
            let length = std::str::from_utf8(&rest[..space]).ok().and_then(|text| text.parse::<usize>().ok());
            let Some(record) = length.and_then(|length| rest.get(space + 1..length)) else { return };
            let record = String::from_utf8_lossy(record);
            match record.trim_end_matches('\n').split_once('=') {
                Some(("path", path)) => self.long_name = Some(path.to_owned()),
                Some(("size", size)) => self.long_size = size.parse().ok(),
                _ => {}
            }
            rest = &rest[length.unwrap_or(rest.len())..];
        }
    }
}

fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?.trim_matches(['\0', ' ']);
    if text.is_empty() { Some(0) } else { u64::from_str_radix(text, 8).ok() }
}

fn text(field: &[u8]) -> Result<String, TarError> {
    let end = field.iter().position(|byte| *byte == 0).unwrap_or(field.len());
    String::from_utf8(field[..end].to_vec()).map_err(|_| TarError::Header)
}
