//! Files of the system that programs need to run: in the image all of them, in a package the least
//! version of the C library.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::digest::sha256;
use crate::error::DistError;
use crate::tool;

/// Authorities that certificates of others are checked against, where Debian keeps them.
const AUTHORITIES: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A file that is taken from the machine on which the image is made.
#[derive(Debug)]
pub(crate) struct SystemFile {
    /// Path, also in the image.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    /// Package and version that it belongs to, where dpkg knows.
    pub(crate) package: Option<(String, String)>,
}

impl SystemFile {
    fn read(path: &str) -> Result<Self, DistError> {
        let bytes = fs::read(path).map_err(DistError::io(Path::new(path)))?;
        Ok(Self { path: path.to_owned(), bytes, package: package(path) })
    }

    pub(crate) fn digest(&self) -> String {
        sha256(&self.bytes)
    }
}

/// Libraries of these programs with the loader, and the certificates of authorities if the machine
/// has them.
pub(crate) fn needed(programs: &[&Path]) -> Result<Vec<SystemFile>, DistError> {
    let mut paths = Vec::new();
    for program in programs {
        paths.extend(linked(&tool::output(Command::new("ldd").arg(program))?));
    }
    if Path::new(AUTHORITIES).exists() {
        paths.push(AUTHORITIES.to_owned());
    }
    paths.sort();
    paths.dedup();
    paths.iter().map(|path| SystemFile::read(path)).collect()
}

/// Paths in what `ldd` prints: `name => /path (0x…)`, and `/path (0x…)` for the loader.
fn linked(text: &str) -> Vec<String> {
    let path = |line: &str| {
        let right = line.split_once("=>").map_or(line, |(_, right)| right);
        let path = right.trim().split(" (").next().unwrap_or_default();
        path.starts_with('/').then(|| path.to_owned())
    };
    text.lines().filter_map(path).collect()
}

/// The package that a file belongs to. Its name may have been linked to another place since.
fn package(path: &str) -> Option<(String, String)> {
    let ask = |arguments: &[&str]| {
        let done = Command::new("dpkg-query").args(arguments).output().ok()?;
        String::from_utf8(done.stdout).ok().filter(|_| done.status.success())
    };
    let merged = format!("/usr{path}");
    let owner = ask(&["--search", path]).or_else(|| ask(&["--search", &merged]));
    let name = owner?.split(": ").next()?.to_owned();
    let version = ask(&["--show", "--showformat=${Version}", &name])?;
    let name = name.split(':').next().unwrap_or(&name).to_owned();
    Some((name, version))
}

/// Version of glibc from which on all symbols are there that these programs use: `2.34`.
pub(crate) fn least_glibc(programs: &[&Path]) -> Result<String, DistError> {
    let mut least = Vec::new();
    for program in programs {
        let text = tool::output(Command::new("readelf").args(["--version-info", "--wide"]).arg(program))?;
        least.extend(versions(&text).max());
    }
    least.sort();
    match least.pop() {
        Some((major, minor)) => Ok(format!("{major}.{minor}")),
        None => Err(DistError::Unexpected("the programs use no glibc".into())),
    }
}

/// Versions that stand in a text as `GLIBC_2.34`.
fn versions(text: &str) -> impl Iterator<Item = (u32, u32)> {
    text.split("GLIBC_").skip(1).filter_map(|rest| {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (major, minor) = rest[..end].split_once('.')?;
        let minor = minor.split('.').next().unwrap_or(minor);
        Some((major.parse().ok()?, minor.parse().ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_found_in_what_ldd_prints() {
        let text = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld.so.2 (0x3)\n";
        assert_eq!(linked(text), ["/lib/x/libc.so.6", "/lib64/ld.so.2"]);
        assert_eq!(linked("\tstatically linked\n"), Vec::<String>::new());
    }

    #[test]
    fn the_newest_version_counts_by_its_numbers() {
        let text = "Name: GLIBC_2.4  Flags\nName: GLIBC_2.34\nName: GLIBC_2.2.5\nGLIBC_PRIVATE";
        assert_eq!(versions(text).collect::<Vec<_>>(), [(2, 4), (2, 34), (2, 2)]);
    }
}
