//! Archives whose bytes depend on nothing but what is in them: tar, gzip, and the `ar` of a `.deb`.

use std::io::{self, Write as _};

use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

use crate::tree::{Node, Tree};

/// Bytes of a name in a header of tar. A longer one has an entry of its own in front, as with
/// GNU's.
const LONGEST_NAME: usize = 100;

/// A tar of the tree. Each name has `prefix` in front; all files have the same time.
pub(crate) fn tar(tree: &Tree, prefix: &str, seconds: u64) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, entry) in tree.entries() {
        let (kind, bytes) = match &entry.node {
            Node::Folder => (EntryType::Directory, &[][..]),
            Node::File(bytes) => (EntryType::Regular, &bytes[..]),
        };
        let slash = if entry.node == Node::Folder { "/" } else { "" };
        let name = format!("{prefix}{path}{slash}");
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(entry.mode);
        header.set_uid(u64::from(entry.owner));
        header.set_gid(u64::from(entry.owner));
        if entry.owner == 0 {
            header.set_username("root")?;
            header.set_groupname("root")?;
        }
        header.set_mtime(seconds);
        if name.len() > LONGEST_NAME {
            builder.append_data(&mut header, name, bytes)?;
            continue;
        }
        // As it is: the library would take the `./` away that dpkg wants in front.
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        builder.append(&header, bytes)?;
    }
    builder.into_inner()
}

/// Compresses without a name and a time.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> io::Result<Vec<u8>> {
    let mut writer = GzBuilder::new().mtime(0).write(Vec::new(), level);
    writer.write_all(bytes)?;
    writer.finish()
}

/// An `ar` archive of these members: a head of 60 bytes in text before each, which begin at even
/// places.
pub(crate) fn ar(members: &[(&str, &[u8])], seconds: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for (name, bytes) in members {
        let head = format!("{name:<16}{seconds:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, "100644", bytes.len());
        archive.extend_from_slice(head.as_bytes());
        archive.extend_from_slice(bytes);
        if bytes.len() % 2 == 1 {
            archive.push(b'\n');
        }
    }
    archive
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tar_repeats_and_keeps_names_rights_and_owners() {
        let mut tree = Tree::default();
        tree.add_program("bin/x", "program");
        tree.add_folder("data", 0o750, 65532);
        let bytes = tar(&tree, "./", 5).unwrap();
        assert_eq!(bytes, tar(&tree, "./", 5).unwrap());
        let mut archive = tar::Archive::new(&bytes[..]);
        let mut seen = Vec::new();
        for entry in archive.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            assert_eq!(header.mtime().unwrap(), 5);
            seen.push((name, header.mode().unwrap(), header.uid().unwrap(), header.size().unwrap()));
        }
        let expected = [("./bin/", 0o755, 0, 0), ("./bin/x", 0o755, 0, 7), ("./data/", 0o750, 65532, 0)];
        assert_eq!(seen, expected.map(|(name, mode, owner, size)| (name.to_owned(), mode, owner, size)));
    }

    #[test]
    fn a_long_name_is_kept() {
        let mut tree = Tree::default();
        let long = "x".repeat(LONGEST_NAME + 1);
        tree.add(&long, "y");
        let bytes = tar(&tree, "", 5).unwrap();
        let mut archive = tar::Archive::new(&bytes[..]);
        let entry = archive.entries().unwrap().next().unwrap().unwrap();
        assert_eq!(&*entry.path_bytes(), long.as_bytes());
    }

    #[test]
    fn members_of_an_ar_begin_at_even_places() {
        let archive = ar(&[("a", b"odd"), ("b", b"")], 7);
        assert_eq!(archive.len(), 8 + 60 + 4 + 60);
        assert_eq!(&archive[8..24], b"a               ");
        assert_eq!(&archive[66..68], b"`\n");
        assert_eq!(&archive[68..72], b"odd\n");
    }
}
