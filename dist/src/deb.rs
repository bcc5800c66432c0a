//! The package for Debian and what comes from it.

use std::path::Path;

use flate2::Compression;

use crate::archive::{ar, gzip, tar};
use crate::contents::{CONFIGURATION, DATA, text};
use crate::error::DistError;
use crate::tree::Tree;
use crate::version::Version;

/// Scripts that run when the package is installed or removed.
const SCRIPTS: [&str; 3] = ["postinst", "prerm", "postrm"];

/// Facts that depend on what was built.
pub(crate) struct Facts<'a> {
    pub(crate) version: &'a Version,
    /// Architecture in Debian's words.
    pub(crate) architecture: &'a str,
    /// Version of glibc that the programs need at least.
    pub(crate) glibc: &'a str,
}

/// The package: an `ar` archive of a format version, what dpkg has to know, and the files.
pub(crate) fn package(
    root: &Path,
    files: &Tree,
    facts: &Facts<'_>,
    level: Compression,
) -> Result<Vec<u8>, DistError> {
    let mut files = files.clone();
    files.add_folder(DATA, 0o750, 0);
    let mut control = Tree::default();
    control.add("control", described(&files, facts));
    control.add("conffiles", format!("/{CONFIGURATION}\n"));
    for script in SCRIPTS {
        control.add_program(script, text(root, &format!("packaging/debian/{script}"))?);
    }
    let seconds = facts.version.seconds();
    let packed = |tree: &Tree| {
        let tar = tar(tree, "./", seconds)?;
        gzip(&tar, level)
    };
    let both = packed(&control).and_then(|control| Ok((control, packed(&files)?)));
    let (control, files) = both.map_err(DistError::io(Path::new("the .deb")))?;
    let members =
        [("debian-binary", &b"2.0\n"[..]), ("control.tar.gz", &control[..]), ("data.tar.gz", &files[..])];
    Ok(ar(&members, seconds))
}

fn described(files: &Tree, facts: &Facts<'_>) -> String {
    let Facts { version, architecture, glibc } = facts;
    format!(
        "Package: myelin\n\
         Version: {version}\n\
         Architecture: {architecture}\n\
         Maintainer: The Myelin maintainers <maintainers@myelin.invalid>\n\
         Installed-Size: {size}\n\
         Depends: libc6 (>= {glibc}), libgcc-s1, systemd\n\
         Recommends: ca-certificates\n\
         Section: net\n\
         Priority: optional\n\
         Homepage: {homepage}\n\
         Description: messaging server that speaks NATS\n \
         A server for clients of NATS with streams, consumers, key-value buckets and\n \
         object stores, clusters, WebSocket and MQTT; and the command line to use and\n \
         to watch it.\n",
        version = version.debian(),
        size = files.size().div_ceil(1024),
        homepage = env!("CARGO_PKG_REPOSITORY"),
    )
}
