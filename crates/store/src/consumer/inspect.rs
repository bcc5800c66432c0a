//! Reads a consumer log for a tool that changes nothing.

use myelin_disk::File;

use super::entry::LogContext;
use super::header::{HeaderFault, LogHeader};
use super::open::load;
use super::replay;
use super::report::LogReport;
use crate::StreamId;
use crate::damage::Damage;
use crate::keys::StreamKey;

/// Contents of a log.
#[derive(Debug)]
pub(crate) struct Inspected {
    /// Faults of the log. Of an encrypted log without a key: only ranges that are no entries.
    pub(crate) report: LogReport,
    /// Whether it is as long as the states that it began with.
    pub(crate) is_complete: bool,
    /// How many consumers it has; `None` without its key.
    pub(crate) consumers: Option<usize>,
}

/// Why a log cannot be read at all.
#[derive(Debug)]
pub(crate) enum Unreadable {
    /// A name whose bytes were never written.
    Empty,
    /// The log is damaged, or not what its name says.
    Damaged(Damage),
}

const WHAT: &str = "consumer log";

/// Reads the log `number` of `stream`.
///
/// # Errors
/// Its header cannot be read.
pub(crate) fn inspect(
    file: &dyn File,
    stream: StreamId,
    number: u64,
    key: Option<&StreamKey>,
) -> Result<Inspected, Unreadable> {
    let io = |error: std::io::Error| Unreadable::Damaged(error.into());
    let length = file.len().map_err(io)?;
    let mut bytes = load(file, length).map_err(io)?;
    let (header, corrected) = LogHeader::decode_corrected(&mut bytes, stream, number);
    let header = header.map_err(|fault| match fault {
        HeaderFault::Empty => Unreadable::Empty,
        HeaderFault::Damaged => Unreadable::Damaged(Damage::Checksum(WHAT)),
        HeaderFault::Version(version) => Unreadable::Damaged(Damage::Version(WHAT, version)),
        HeaderFault::Elsewhere => Unreadable::Damaged(Damage::Content(WHAT)),
    })?;
    let is_complete = header.image_end <= length;
    let cipher =
        header.cipher.zip(key).map(|(kind, key)| key.file_cipher(kind, "consumers", number, &header.salt));
    let frame = LogContext::new(&header, cipher.clone());
    if header.cipher.is_some() && cipher.is_none() {
        let report = replay::structure(&bytes, &header, &frame);
        return Ok(Inspected { report, is_complete, consumers: None });
    }
    let mut read = replay::read(&mut bytes, &header, &frame);
    read.report.corrected.extend(corrected.map(|bit| bit as u64));
    Ok(Inspected { report: read.report, is_complete, consumers: Some(read.consumers.len()) })
}

#[cfg(test)]
mod tests {
    use myelin_disk::memory::MemoryFile;

    use super::*;
    use crate::consumer::HEADER_BYTES;

    #[test]
    fn a_name_without_bytes_is_told_from_damage() {
        let file = MemoryFile::new();
        let look = |file: &MemoryFile| inspect(file, StreamId(1), 1, None).unwrap_err();
        assert!(matches!(look(&file), Unreadable::Empty));
        file.write_at(&[1; HEADER_BYTES], 0).unwrap();
        assert!(matches!(look(&file), Unreadable::Damaged(Damage::Checksum(_))));
    }
}
