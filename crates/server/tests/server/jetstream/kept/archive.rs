//! The form in which a store is kept: its files one after the other, without the zeros at their
//! ends.
//!
//! ```text
//! each file: a line "PATH LENGTH USED", then USED bytes, then a line feed
//! ```
//!
//! The path is below the store's directory, LENGTH is that of the file, and behind the USED bytes
//! it has zeros only. Files are in the order of their paths.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

/// All files below `folder`.
pub(crate) fn pack(folder: &Path) -> io::Result<Vec<u8>> {
    let mut paths = Vec::new();
    list(folder, &mut paths)?;
    paths.sort();
    let mut packed = Vec::new();
    for path in paths {
        let bytes = fs::read(folder.join(&path))?;
        let used = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        writeln!(packed, "{path} {} {used}", bytes.len())?;
        packed.extend_from_slice(&bytes[..used]);
        packed.push(b'\n');
    }
    Ok(packed)
}

fn list(folder: &Path, paths: &mut Vec<String>) -> io::Result<()> {
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let below = path.strip_prefix(folder).map_err(io::Error::other)?;
                paths.push(below.to_str().ok_or(io::ErrorKind::InvalidData)?.to_owned());
            }
        }
    }
    Ok(())
}

/// Writes the files of `packed` below `folder`. Their zeros take no room on the disk.
pub(crate) fn unpack(packed: &[u8], folder: &Path) -> io::Result<()> {
    let invalid = || io::Error::from(io::ErrorKind::InvalidData);
    let mut rest = packed;
    while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
        let line = std::str::from_utf8(&rest[..end]).map_err(|_| invalid())?;
        let [path, length, used] = line.split(' ').collect::<Vec<_>>()[..] else { return Err(invalid()) };
        let number = |text: &str| text.parse::<usize>().map_err(|_| invalid());
        let (length, used) = (number(length)?, number(used)?);
        let bytes = rest.get(end + 1..end + 1 + used).ok_or_else(invalid)?;
        let path = folder.join(path);
        fs::create_dir_all(path.parent().ok_or_else(invalid)?)?;
        let mut file = File::create(path)?;
        file.write_all(bytes)?;
        file.set_len(length as u64)?;
        rest = rest.get(end + 2 + used..).ok_or_else(invalid)?;
    }
    if rest.is_empty() { Ok(()) } else { Err(invalid()) }
}

#[test]
fn what_was_packed_is_unpacked() {
    let (from, to) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    fs::create_dir(from.path().join("below")).expect("a folder");
    let files: [(&str, &[u8]); 4] =
        [("a", b"x\0y\0\0"), ("below/b", b"\0\0\0"), ("below/c", b""), ("d", b"one\ntwo\n")];
    for (name, content) in files {
        fs::write(from.path().join(name), content).expect("a file");
    }
    unpack(&pack(from.path()).expect("files"), to.path()).expect("an archive");
    for (name, content) in files {
        assert_eq!(fs::read(to.path().join(name)).expect("a file"), content, "{name}");
    }
}
