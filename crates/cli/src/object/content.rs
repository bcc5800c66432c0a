//! Contents of objects, which go in and out in pieces: none is ever whole in memory.
//!
//! Owns the digest: what was read is compared with it before a file gets its name.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use myelin_loadgen::admin::{Admin, answered};
use myelin_loadgen::connection::write_message;
use myelin_loadgen::error::BenchError;
use myelin_stdx::base_n::{self, BASE64_URL};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::object::bucket::{ObjectBucket, ObjectRecord, padded};
use crate::progress_bar::ProgressBar;
use crate::pull::ConsumerReader;
use crate::table::text;

/// Pieces that may await their acknowledgement, or that one request asks for.
const WINDOW: u64 = 16;

/// Facts of a stored content.
pub(super) struct StoredContent {
    pub(super) size: u64,
    pub(super) chunks: u64,
    /// As records have it.
    pub(super) digest: String,
}

/// Stores what `input` has, in pieces of this many bytes.
pub(super) fn store(
    admin: &mut Admin,
    subject: &str,
    input: &mut dyn Read,
    chunk: usize,
    bar: &mut ProgressBar,
) -> Result<StoredContent, BenchError> {
    let mut answers = Acknowledgements::subscribe(admin)?;
    let mut digest = Sha256::new();
    let (mut size, mut chunks) = (0, 0);
    let mut piece = Vec::with_capacity(chunk);
    loop {
        piece.clear();
        input.take(chunk as u64).read_to_end(&mut piece).map_err(BenchError::io("reading the object"))?;
        if piece.is_empty() {
            break;
        }
        digest.update(&piece);
        answers.publish(admin, subject, &piece)?;
        (size, chunks) = (size + piece.len() as u64, chunks + 1);
        bar.advance(piece.len() as u64);
    }
    answers.wait(admin, 0)?;
    answers.end(admin)?;
    Ok(StoredContent { size, chunks, digest: format!("SHA-256={}", padded(&digest.finalize())) })
}

/// Acknowledgements of published pieces.
struct Acknowledgements {
    inbox: String,
    outstanding: u64,
}

impl Acknowledgements {
    fn subscribe(admin: &mut Admin) -> Result<Self, BenchError> {
        let inbox = admin.connection().new_inbox();
        admin.connection().begin(format!("SUB {inbox} 3\r\n").as_bytes())?;
        Ok(Self { inbox, outstanding: 0 })
    }

    fn publish(&mut self, admin: &mut Admin, subject: &str, piece: &[u8]) -> Result<(), BenchError> {
        let mut frame = Vec::with_capacity(piece.len() + 256);
        write_message(&mut frame, subject, Some(&self.inbox), "", piece);
        admin.connection().send(&frame)?;
        self.outstanding += 1;
        self.wait(admin, WINDOW - 1)
    }

    /// Waits until no more than so many are missing.
    fn wait(&mut self, admin: &mut Admin, left: u64) -> Result<(), BenchError> {
        let deadline = Instant::now() + admin.timeout();
        while self.outstanding > left {
            let Some(message) = admin.connection().receive_until(Some(deadline))? else {
                return Err(BenchError::Lost("a piece of the object is not acknowledged".into()));
            };
            if message.is_from_nobody() {
                return Err(BenchError::NoResponder);
            }
            answered("a piece of the object", &message.payload)?;
            self.outstanding -= 1;
        }
        Ok(())
    }

    fn end(self, admin: &mut Admin) -> Result<(), BenchError> {
        admin.connection().begin(b"UNSUB 3\r\n")
    }
}

/// Writes the content of an object to `output`, and fails where it is not what was stored.
pub(super) fn read(
    admin: &mut Admin,
    bucket: &ObjectBucket,
    record: &ObjectRecord,
    output: &mut dyn Write,
    bar: &mut ProgressBar,
) -> Result<u64, BenchError> {
    let number = |name: &str| record.value[name].as_u64().unwrap_or_default();
    let (expected, mut digest, mut size) = (text(&record.value["digest"]), Sha256::new(), 0);
    let damaged = |what: String| BenchError::Lost(format!("object {:?}: {what}", record.name()));
    if number("chunks") > 0 {
        let config = json!({ "deliver_policy": "all", "filter_subject": bucket.content(record.id()?) });
        let reader = ConsumerReader::looking(admin, &bucket.stream, &config, WINDOW)?;
        if reader.pending != number("chunks") {
            return Err(damaged(format!("{} of its {} pieces are there", reader.pending, number("chunks"))));
        }
        reader.each(|pulled| {
            let piece = pulled.message.payload;
            digest.update(&piece);
            size += piece.len() as u64;
            bar.advance(piece.len() as u64);
            output.write_all(&piece).map_err(BenchError::io("writing the object"))
        })?;
    }
    let found = digest.finalize();
    let stored = expected.strip_prefix("SHA-256=").map(|digest| digest.trim_end_matches('='));
    if size != number("size")
        || stored.and_then(|digest| base_n::decode(digest, BASE64_URL)).as_deref() != Some(&found[..])
    {
        return Err(damaged("its bytes are not those that were stored".into()));
    }
    Ok(size)
}

/// A file that gets its name when all of it is there.
pub(super) struct NewFile {
    part: PathBuf,
    file: File,
}

impl NewFile {
    pub(super) fn beside(path: &Path) -> Result<Self, BenchError> {
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(format!(".{}.part", std::process::id()));
        let part = path.with_file_name(name);
        let file = File::create_new(&part).map_err(BenchError::io("making the file"))?;
        Ok(Self { part, file })
    }

    pub(super) fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Gives the file its name.
    pub(super) fn keep(self, path: &Path) -> Result<(), BenchError> {
        std::fs::rename(&self.part, path).map_err(BenchError::io("naming the file"))
    }
}

/// Removes a file that was not kept.
impl Drop for NewFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.part);
    }
}

/// The file that an object without another name becomes: one in this folder, wherever its name
/// would lead.
pub(super) fn file_name(object: &str) -> Result<PathBuf, BenchError> {
    match Path::new(object).file_name() {
        Some(name) => Ok(name.into()),
        None => Err(BenchError::Usage(format!("{object:?} is no name of a file: use --output"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_objects_do_not_lead_out_of_the_folder() {
        assert_eq!(file_name("../../etc/x").unwrap(), Path::new("x"));
        assert_eq!(file_name("/etc/x").unwrap(), Path::new("x"));
        assert!(file_name("..").is_err() && file_name("/").is_err());
    }
}
