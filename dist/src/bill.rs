//! The bill of materials: every crate that is in the programs, in CycloneDX 1.6.
//!
//! Cargo says what is in the workspace; what is reached from the programs counts, tests aside.
//! Crates that only a build runs are in it, too, and marked so.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::error::DistError;
use crate::libraries::SystemFile;
use crate::tool;
use crate::version::Version;

/// Packages whose programs are shipped.
const SHIPPED: [&str; 2] = ["myelin-server", "myelin-cli"];

/// A crate of somebody else.
#[derive(Debug)]
pub(crate) struct Crate {
    id: String,
    pub(crate) name: String,
    pub(crate) version: String,
    /// Licence in SPDX's words.
    pub(crate) license: String,
    /// Folder of its sources.
    pub(crate) folder: PathBuf,
    /// SHA-256 of what the registry has.
    checksum: Option<String>,
    /// The crate runs when something is built, and none of it is in the programs.
    is_for_builds: bool,
    uses: BTreeSet<String>,
}

/// Everything that is in the programs and not ours, by name and version.
#[derive(Debug)]
pub(crate) struct Bill {
    crates: Vec<Crate>,
    /// Crates that our own use directly.
    direct: BTreeSet<String>,
}

impl Bill {
    /// Asks cargo about the workspace in `root`.
    pub(crate) fn of(root: &Path) -> Result<Self, DistError> {
        let host = host()?;
        let text = tool::output(
            tool::cargo()
                .args(["metadata", "--format-version", "1", "--locked", "--filter-platform", &host])
                .current_dir(root),
        )?;
        let lock = root.join("Cargo.lock");
        let lock = fs::read_to_string(&lock).map_err(DistError::io(&lock))?;
        let unreadable = |error: &dyn std::fmt::Display| DistError::Unexpected(format!("cargo: {error}"));
        let metadata: Value = serde_json::from_str(&text).map_err(|error| unreadable(&error))?;
        let lock: toml::Table = lock.parse().map_err(|error: toml::de::Error| unreadable(&error))?;
        Ok(Self::read(&metadata, &lock))
    }

    fn read(metadata: &Value, lock: &toml::Table) -> Self {
        let nodes: BTreeMap<&str, &Value> =
            list(&metadata["resolve"]["nodes"]).map(|node| (text(&node["id"]), node)).collect();
        let packages: BTreeMap<&str, &Value> =
            list(&metadata["packages"]).map(|package| (text(&package["id"]), package)).collect();
        let is_ours = |id: &str| packages.get(id).is_some_and(|package| package["source"].is_null());
        let shipped = packages.iter().filter(|(_, package)| SHIPPED.contains(&text(&package["name"])));
        let shipped: Vec<&str> = shipped.map(|(id, _)| *id).collect();
        let in_programs = reached(&nodes, &shipped, false);
        let all = reached(&nodes, &shipped, true);
        let sums = checksums(lock);
        let mut direct = BTreeSet::new();
        let mut crates = Vec::new();
        for id in &all {
            let Some(package) = packages.get(id) else { continue };
            let used = used(&nodes, id, true).filter(|id| !is_ours(id));
            if is_ours(id) {
                direct.extend(used.map(str::to_owned));
                continue;
            }
            let (name, version) = (text(&package["name"]).to_owned(), text(&package["version"]).to_owned());
            crates.push(Crate {
                id: (*id).to_owned(),
                license: text(&package["license"]).replace('/', " OR "),
                folder: Path::new(text(&package["manifest_path"]))
                    .parent()
                    .unwrap_or(Path::new(""))
                    .to_owned(),
                checksum: sums.get(&(name.clone(), version.clone())).cloned(),
                is_for_builds: !in_programs.contains(id),
                uses: used.map(str::to_owned).collect(),
                name,
                version,
            });
        }
        crates.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
        Self { crates, direct }
    }

    /// Crates of which something is in the programs.
    pub(crate) fn in_programs(&self) -> impl Iterator<Item = &Crate> {
        self.crates.iter().filter(|one| !one.is_for_builds)
    }

    /// The bill as CycloneDX; with files of the system where an image has them.
    pub(crate) fn cyclone_dx(&self, version: &Version, files: &[SystemFile]) -> String {
        let references: BTreeMap<&str, String> =
            self.crates.iter().map(|one| (&*one.id, one.url())).collect();
        let named = |ids: &BTreeSet<String>| {
            let mut names: Vec<_> = ids.iter().filter_map(|id| references.get(&**id)).collect();
            names.sort();
            json!(names)
        };
        let own = format!("pkg:generic/myelin@{}", version.text());
        let mut components: Vec<Value> = self.crates.iter().map(Crate::component).collect();
        components.extend(files.iter().map(component));
        let mut dependencies = vec![json!({"ref": own, "dependsOn": named(&self.direct)})];
        dependencies
            .extend(self.crates.iter().map(|one| json!({"ref": one.url(), "dependsOn": named(&one.uses)})));
        let bill = json!({
            "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {
                "timestamp": version.time(),
                "component": {
                    "type": "application",
                    "bom-ref": own,
                    "name": "myelin",
                    "version": version.text(),
                    "licenses": [{"expression": env!("CARGO_PKG_LICENSE")}],
                    "purl": own,
                },
            },
            "components": components,
            "dependencies": dependencies,
        });
        format!("{bill:#}\n")
    }
}

impl Crate {
    /// Address of the crate as package URLs have it.
    fn url(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }

    fn component(&self) -> Value {
        let hashes = self.checksum.iter().map(|sum| json!({"alg": "SHA-256", "content": sum}));
        json!({
            "type": "library",
            "bom-ref": self.url(),
            "name": self.name,
            "version": self.version,
            "scope": if self.is_for_builds { "excluded" } else { "required" },
            "hashes": hashes.collect::<Vec<_>>(),
            "licenses": [{"expression": self.license}],
            "purl": self.url(),
        })
    }
}

fn component(file: &SystemFile) -> Value {
    let mut component = json!({
        "type": "file",
        "bom-ref": format!("file:{}", file.path),
        "name": file.path,
        "hashes": [{"alg": "SHA-256", "content": file.digest()}],
    });
    if let Some((package, version)) = &file.package {
        component["version"] = json!(version);
        component["purl"] = json!(format!("pkg:deb/debian/{package}@{}", version.replace('+', "%2B")));
    }
    component
}

/// Everything that is used from these on.
fn reached<'a>(
    nodes: &BTreeMap<&'a str, &'a Value>,
    from: &[&'a str],
    for_builds: bool,
) -> BTreeSet<&'a str> {
    let (mut seen, mut open) = (BTreeSet::new(), from.to_vec());
    while let Some(id) = open.pop() {
        if seen.insert(id) {
            open.extend(used(nodes, id, for_builds));
        }
    }
    seen
}

/// Crates that one uses itself, without those that its tests need.
fn used<'a>(
    nodes: &BTreeMap<&'a str, &'a Value>,
    id: &str,
    for_builds: bool,
) -> impl Iterator<Item = &'a str> {
    let is_meant = move |kind: &Value| match kind["kind"].as_str() {
        None => true,
        Some(kind) => for_builds && kind == "build",
    };
    let all = nodes.get(id).map(|node| list(&node["deps"])).into_iter().flatten();
    all.filter(move |one| list(&one["dep_kinds"]).any(is_meant)).map(|one| text(&one["pkg"]))
}

/// Digests of what the registry has, by name and version.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let sum = |package: &toml::Value| {
        let text = |key| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
        Some(((text("name")?, text("version")?), text("checksum")?))
    };
    packages.filter_map(sum).collect()
}

/// The platform that cargo builds for.
fn host() -> Result<String, DistError> {
    let text = tool::output(std::process::Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| DistError::Unexpected("rustc says no host".into()))
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill() -> Bill {
        let package = |id: &str, source: Value| {
            json!({"id": id, "name": id, "version": "1.0.0", "source": source, "license": "MIT/Apache-2.0",
                "manifest_path": format!("/registry/{id}/Cargo.toml")})
        };
        let uses = |id: &str, kind: Value| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("myelin-server", Value::Null), package("lib", json!("r")),
                package("under", json!("r")), package("tested", json!("r")), package("builder", json!("r"))],
            "resolve": {"nodes": [
                {"id": "myelin-server", "deps": [uses("lib", Value::Null), uses("tested", json!("dev"))]},
                {"id": "lib", "deps": [uses("under", Value::Null), uses("builder", json!("build"))]},
            ]},
        });
        let lock = "[[package]]\nname = \"lib\"\nversion = \"1.0.0\"\nchecksum = \"abc\"\n";
        Bill::read(&metadata, &lock.parse().unwrap())
    }

    #[test]
    fn crates_of_tests_are_not_in_it_and_those_of_builds_are_marked() {
        let bill = bill();
        let names: Vec<_> = bill.crates.iter().map(|one| (&*one.name, one.is_for_builds)).collect();
        assert_eq!(names, [("builder", true), ("lib", false), ("under", false)]);
        assert_eq!(bill.in_programs().map(|one| &*one.name).collect::<Vec<_>>(), ["lib", "under"]);
    }

    #[test]
    fn the_text_names_who_uses_what_and_files_of_the_system() {
        let file = SystemFile {
            path: "/lib/libc.so.6".into(),
            bytes: b"x".to_vec(),
            package: Some(("libc6".into(), "2.36-9+deb12u1".into())),
        };
        let bill: Value = serde_json::from_str(&bill().cyclone_dx(&Version::of_test(), &[file])).unwrap();
        let components: Vec<_> = list(&bill["components"]).collect();
        assert_eq!(components[1]["purl"], "pkg:cargo/lib@1.0.0");
        assert_eq!(components[1]["hashes"][0]["content"], "abc");
        assert_eq!(components[1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(components[3]["purl"], "pkg:deb/debian/libc6@2.36-9%2Bdeb12u1");
        assert_eq!(bill["dependencies"][0]["dependsOn"], json!(["pkg:cargo/lib@1.0.0"]));
        let lib = ["pkg:cargo/builder@1.0.0", "pkg:cargo/under@1.0.0"];
        assert_eq!(bill["dependencies"][2]["dependsOn"], json!(lib));
    }
}
