//! All packages of one version, in one folder.

use std::env::consts::ARCH;
use std::fs;
use std::path::{Path, PathBuf};

use flate2::Compression;

use crate::archive::{gzip, tar};
use crate::bill::Bill;
use crate::digest::sha256;
use crate::error::DistError;
use crate::programs::{self, Program};
use crate::tree::Tree;
use crate::version::Version;
use crate::{contents, deb, image, libraries, licenses};

/// List of the digests of all packages, as `sha256sum --check` reads it.
pub(crate) const SUMS: &str = "SHA256SUMS";

/// Where programs come from.
#[derive(Debug, Clone, Copy)]
pub enum Programs<'a> {
    /// From a build, in this profile of `Cargo.toml`.
    Built(&'a str),
    /// From this folder, as they are.
    Given(&'a Path),
}

/// Packages that are to be made.
#[derive(Debug)]
pub struct PackageOrder<'a> {
    /// Folder of the workspace.
    pub root: &'a Path,
    /// Folder that cargo builds in.
    pub target: &'a Path,
    /// Where programs come from.
    pub programs: Programs<'a>,
    /// Folder that receives the packages. What is in it is removed.
    pub into: &'a Path,
    /// Compress little, for tests.
    pub is_quick: bool,
}

/// Makes every package and answers the files.
///
/// # Errors
///
/// Something does not build, a tool is not there, or a file cannot be written.
pub fn make(order: &PackageOrder<'_>) -> Result<Vec<PathBuf>, DistError> {
    let version = Version::of(order.root)?;
    let folder = match order.programs {
        Programs::Given(folder) => folder.to_owned(),
        Programs::Built(profile) => programs::build(order.root, order.target, profile, &version)?,
    };
    let programs = programs::parted(&folder)?;
    let paths: Vec<PathBuf> = programs.iter().map(|program| folder.join(program.name)).collect();
    let paths: Vec<&Path> = paths.iter().map(PathBuf::as_path).collect();
    let system = libraries::needed(&paths)?;
    let bill = Bill::of(order.root)?;
    let licenses = licenses::of_others(&bill)?;
    let level = if order.is_quick { Compression::fast() } else { Compression::best() };
    let package = contents::package(order.root, &programs, &licenses, &version)?;
    let of_image = image::files(order.root, &programs, &system, &licenses)?;
    let glibc = libraries::least_glibc(&paths)?;
    let debian = match ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    let facts = deb::Facts { version: &version, architecture: debian, glibc: &glibc };
    let (text, release) = (version.text(), format!("myelin-{}-linux-{ARCH}", version.text()));
    let packages = [
        (format!("{release}.tar.gz"), tarball(&package, &release, &version, level)?),
        (format!("{release}-symbols.tar.gz"), tarball(&symbols(&programs), &release, &version, level)?),
        (
            format!("myelin_{}_{debian}.deb", version.debian()),
            deb::package(order.root, &package, &facts, level)?,
        ),
        (format!("myelin-{text}-image-{debian}.tar"), image::archive(&of_image, &version, debian, level)?),
        (format!("myelin-{text}.cdx.json"), bill.cyclone_dx(&version, &[]).into_bytes()),
        (format!("myelin-{text}-image-{debian}.cdx.json"), bill.cyclone_dx(&version, &system).into_bytes()),
    ];
    written(order.into, packages.into())
}

/// Files below one folder, for machines without a package manager that we know: `usr/bin` is `bin`.
fn tarball(tree: &Tree, folder: &str, version: &Version, level: Compression) -> Result<Vec<u8>, DistError> {
    let tree = tree.moved(|path| match path.strip_prefix("usr") {
        Some("") => None,
        Some(rest) => Some(format!("{folder}{rest}")),
        None => Some(format!("{folder}/{path}")),
    });
    let packed = tar(&tree, "", version.seconds()).and_then(|tar| gzip(&tar, level));
    packed.map_err(DistError::io(Path::new(folder)))
}

/// Symbols where debuggers look for those of installed programs.
fn symbols(programs: &[Program]) -> Tree {
    let mut tree = Tree::default();
    for Program { name, symbols, .. } in programs {
        tree.add(&format!("usr/lib/debug/usr/bin/{name}.debug"), symbols.clone());
    }
    tree
}

fn written(into: &Path, packages: Vec<(String, Vec<u8>)>) -> Result<Vec<PathBuf>, DistError> {
    if into.exists() {
        fs::remove_dir_all(into).map_err(DistError::io(into))?;
    }
    fs::create_dir_all(into).map_err(DistError::io(into))?;
    let lines = packages.iter().map(|(name, bytes)| format!("{}  {name}\n", sha256(bytes)));
    let sums = (SUMS.to_owned(), lines.collect::<String>().into_bytes());
    let mut paths = Vec::new();
    for (name, bytes) in packages.into_iter().chain([sums]) {
        let path = into.join(name);
        fs::write(&path, bytes).map_err(DistError::io(&path))?;
        paths.push(path);
    }
    Ok(paths)
}
