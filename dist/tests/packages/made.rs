//! The packages, made once for all tests, and readers of their formats.

use std::env;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use flate2::read::GzDecoder;
use myelin_dist::{PackageOrder, Programs, make};
use tempfile::TempDir;

/// Folder with everything that was made.
pub(crate) struct Made(TempDir);

impl Made {
    /// Makes the packages once more than before. `None`, with a line, where there are no programs.
    pub(crate) fn anew() -> Option<Self> {
        let programs = programs()?;
        let into = tempfile::tempdir().unwrap();
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let programs = Programs::Given(programs.path());
        let order = PackageOrder { root, target: root, programs, into: into.path(), is_quick: true };
        make(&order).unwrap();
        Some(Self(into))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// The one file that ends so.
    pub(crate) fn file(&self, end: &str) -> PathBuf {
        let files = fs::read_dir(self.path()).unwrap().map(|file| file.unwrap().path());
        let mut found: Vec<_> = files.filter(|path| path.to_string_lossy().ends_with(end)).collect();
        assert_eq!(found.len(), 1, "{end}: {found:?}");
        found.remove(0)
    }
}

/// The packages that all tests look at.
pub(crate) fn made() -> Option<&'static Made> {
    static MADE: OnceLock<Option<Made>> = OnceLock::new();
    MADE.get_or_init(Made::anew).as_ref()
}

/// A folder with both programs, of which cargo may have built none: then nothing can be packed.
fn programs() -> Option<TempDir> {
    let beside = env::current_exe().unwrap().ancestors().nth(2).unwrap().to_owned();
    let server = env::var_os("MYELIN_SERVER").map_or_else(|| beside.join("myelin-server"), PathBuf::from);
    let folder = tempfile::tempdir().unwrap();
    for (name, program) in [("myelin-server", server), ("myelin", beside.join("myelin"))] {
        if !program.is_file() {
            println!("nothing is packed: {} was not built", program.display());
            return None;
        }
        fs::copy(program, folder.path().join(name)).unwrap();
    }
    Some(folder)
}

/// Whether this machine has a program; says so where not.
pub(crate) fn has(program: &str) -> bool {
    let has = Command::new(program).arg("--version").output().is_ok();
    if !has {
        println!("not tried here: there is no {program}");
    }
    has
}

/// Whether the tests have the rights of root; says so where not.
pub(crate) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        println!("not tried here: that takes the rights of root");
    }
    is_root
}

pub(crate) fn unpacked(bytes: &[u8]) -> Vec<u8> {
    let mut plain = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut plain).unwrap();
    plain
}

/// Extracts a tar with its rights, and with its owners where the test may do that.
pub(crate) fn extract(tar: &[u8], into: &Path) {
    let mut archive = tar::Archive::new(tar);
    archive.set_preserve_permissions(true);
    archive.set_preserve_ownerships(rustix::process::geteuid().is_root());
    archive.unpack(into).unwrap();
}

/// A member of an `ar` archive.
pub(crate) fn member(archive: &[u8], wanted: &str) -> Vec<u8> {
    let mut rest = archive.strip_prefix(b"!<arch>\n").expect("an archive");
    while !rest.is_empty() {
        let (head, behind) = rest.split_at(60);
        let text = |range| std::str::from_utf8(&head[range]).unwrap().trim();
        let size: usize = text(48..58).parse().unwrap();
        if text(0..16) == wanted {
            return behind[..size].to_vec();
        }
        rest = &behind[size + size % 2..];
    }
    panic!("no {wanted}");
}

#[test]
fn what_is_packed_twice_is_the_same() {
    let (Some(one), Some(other)) = (made(), Made::anew()) else { return };
    let mut count = 0;
    for file in fs::read_dir(one.path()).unwrap() {
        let file = file.unwrap();
        let bytes = fs::read(file.path()).unwrap();
        assert!(bytes == fs::read(other.path().join(file.file_name())).unwrap(), "{:?}", file.file_name());
        count += 1;
    }
    assert_eq!(count, 7);
    if has("sha256sum") {
        let mut check = Command::new("sha256sum");
        check.args(["--check", "--quiet", "SHA256SUMS"]).current_dir(one.path());
        assert!(check.status().unwrap().success());
    }
}
