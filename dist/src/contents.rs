//! Files of a package where they are installed.

use std::fs;
use std::path::Path;

use flate2::Compression;

use crate::archive::gzip;
use crate::error::DistError;
use crate::programs::Program;
use crate::tree::Tree;
use crate::version::Version;
use crate::{completion, manual};

/// Folder of the service's streams.
pub(crate) const DATA: &str = "var/lib/myelin";

/// Configuration of the service.
pub(crate) const CONFIGURATION: &str = "etc/myelin/myelin.conf";

/// Files of the repository that are installed as they are.
const INSTALLED: [(&str, &str); 6] = [
    ("packaging/myelin.conf", CONFIGURATION),
    ("packaging/systemd/myelin-server.service", "usr/lib/systemd/system/myelin-server.service"),
    ("packaging/systemd/sysusers.conf", "usr/lib/sysusers.d/myelin.conf"),
    ("packaging/systemd/tmpfiles.conf", "usr/lib/tmpfiles.d/myelin.conf"),
    ("packaging/grafana/myelin.json", "usr/share/myelin/grafana/myelin.json"),
    ("packaging/prometheus/myelin.rules.yml", "usr/share/myelin/prometheus/myelin.rules.yml"),
];

/// A text of the repository.
pub(crate) fn text(root: &Path, name: &str) -> Result<String, DistError> {
    let path = root.join(name);
    fs::read_to_string(&path).map_err(DistError::io(&path))
}

/// The programs and what comes with them. `licenses` are those of other people's code.
pub(crate) fn package(
    root: &Path,
    programs: &[Program],
    licenses: &str,
    version: &Version,
) -> Result<Tree, DistError> {
    let mut tree = Tree::default();
    add_programs(&mut tree, programs);
    for (from, to) in INSTALLED {
        tree.add(to, text(root, from)?);
    }
    manual::add(&mut tree, version)?;
    completion::add(&mut tree);
    let documents = [
        ("copyright", copyright(root)?),
        ("changelog.gz", text(root, "CHANGELOG.md")?),
        ("third-party-licenses.txt.gz", licenses.to_owned()),
    ];
    for (name, document) in documents {
        let path = format!("usr/share/doc/myelin/{name}");
        let bytes = if name.ends_with(".gz") {
            gzip(document.as_bytes(), Compression::best()).map_err(DistError::io(path.as_ref()))?
        } else {
            document.into_bytes()
        };
        tree.add(&path, bytes);
    }
    Ok(tree)
}

pub(crate) fn add_programs(tree: &mut Tree, programs: &[Program]) {
    for Program { name, stripped, .. } in programs {
        tree.add_program(&format!("usr/bin/{name}"), stripped.clone());
    }
}

/// Our licence, and where those of others stand.
pub(crate) fn copyright(root: &Path) -> Result<String, DistError> {
    let license = text(root, "LICENSE")?;
    Ok(format!(
        "Myelin, {}\nLicence: {}, below. Licences of other people's code in the programs: \
         third-party-licenses.txt.gz in this folder.\n\n{license}",
        env!("CARGO_PKG_REPOSITORY"),
        env!("CARGO_PKG_LICENSE"),
    ))
}
