//! The image: every part has its digest, and its own entry point starts it, without rights and on a
//! root that cannot be written.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use crate::made::{extract, is_root, made, unpacked};
use crate::running::{Running, any_ports, succeed};

/// An unpacked image.
struct Image {
    parts: TempDir,
    root: TempDir,
    config: Value,
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

impl Image {
    fn unpack() -> Option<Self> {
        let end = "-image-amd64.tar";
        if std::env::consts::ARCH != "x86_64" {
            println!("not tried here: the image is not for amd64");
            return None;
        }
        let archive = fs::read(made()?.file(end)).unwrap();
        let (parts, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        extract(&archive, parts.path());
        let blob = |part: &Value| {
            let digest = part["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap().to_owned();
            parts.path().join("blobs/sha256").join(digest)
        };
        let index = json(&parts.path().join("index.json"));
        let manifest = json(&blob(&index["manifests"][0]));
        let config = json(&blob(&manifest["config"]));
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), 1);
        let layer = unpacked(&fs::read(blob(&layers[0])).unwrap());
        extract(&layer, root.path());
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Some(Self { parts, root, config })
    }

    fn words(&self, key: &str) -> Vec<String> {
        let words = self.config["config"][key].as_array().unwrap();
        words.iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    }

    /// A command within the root, as the image's user, with a file system that cannot be written
    /// but for `data` at the volume, and with `/proc`: what a container with a read-only root is.
    fn command(&self, data: &Path, words: &[String]) -> Command {
        let user = self.config["config"]["User"].as_str().unwrap();
        let script = "set -e; mount --bind \"$1\" \"$1\"; mount --bind \"$2\" \"$1/var/lib/myelin\"; \
            mkdir -p \"$1/proc\"; mount --rbind /proc \"$1/proc\"; mount -o remount,bind,ro \"$1\"; user=$3 root=$1; shift 3; cd /; \
            exec chroot --userspec=\"$user\" --groups= \"$root\" \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--", "sh", "-c", script, "sh"]);
        command
            .arg(self.root.path())
            .arg(data)
            .arg(user)
            .args(words)
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }
}

#[test]
fn every_part_of_the_image_has_its_digest() {
    let Some(image) = Image::unpack() else { return };
    let folder = image.parts.path().join("blobs/sha256");
    let mut count = 0;
    for part in fs::read_dir(folder).unwrap() {
        let path = part.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let digest = succeed(Command::new("sha256sum").arg(&path));
        assert!(digest.starts_with(&name), "{digest}");
        count += 1;
    }
    assert_eq!(count, 3);
    assert_eq!(json(&image.parts.path().join("oci-layout"))["imageLayoutVersion"], "1.0.0");
}

#[test]
fn the_image_runs_without_rights_on_a_root_that_cannot_be_written() {
    let Some(image) = Image::unpack() else { return };
    if !is_root() {
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let owner = image.config["config"]["User"].as_str().unwrap();
    assert_eq!(owner, "65532:65532");
    let mine = fs::metadata(image.root.path().join("var/lib/myelin")).unwrap();
    assert_eq!(mine.uid(), 65532);
    chown(data.path(), Some(65532), Some(65532)).unwrap();
    let probe = image.command(data.path(), &["/usr/bin/myelin-server".to_owned(), "-v".to_owned()]);
    if !{ probe }.stdout(Stdio::null()).status().is_ok_and(|status| status.success()) {
        println!("not tried here: no mounts, as within a container without rights");
        return;
    }
    let mut words = image.words("Entrypoint");
    words.extend(image.words("Cmd"));
    words.extend(any_ports("/var/lib/myelin"));
    let server = Running::start(&mut image.command(data.path(), &words), data.path());
    // The check that runs in a container, with the port that this one has.
    let check = &image.config["config"]["Healthcheck"]["Test"];
    let check: Vec<String> =
        check.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect();
    assert_eq!(check[0], "CMD");
    let monitor = ["--monitor".to_owned(), server.monitoring.clone()];
    let said = succeed(&mut image.command(data.path(), &[&check[1..], &monitor[..]].concat()));
    assert!(said.starts_with("OK {"), "{said}");
    let publish = ["/usr/bin/myelin", "pub", "x", "y", "-s", &server.client].map(str::to_owned);
    succeed(&mut image.command(data.path(), &publish));
    assert!(data.path().join("jetstream").is_dir());
    assert_eq!(image.config["config"]["StopSignal"], "SIGTERM");
    assert_eq!(server.terminated().code(), Some(0));
}

/// The bill beside the image lists what the image has and the programs have not.
#[test]
fn the_bill_lists_crates_and_libraries() {
    let (Some(made), Some(image)) = (made(), Image::unpack()) else { return };
    let bill = json(&made.file("-image-amd64.cdx.json"));
    let components = bill["components"].as_array().unwrap();
    let named = |name: &str| components.iter().find(|one| one["name"] == name);
    assert_eq!(named("rustls").expect("it is in the server")["scope"], "required");
    assert!(named("rustls").unwrap()["hashes"][0]["content"].as_str().unwrap().len() == 64);
    assert!(named("proptest").is_none(), "what tests need is not shipped");
    let system: Vec<_> = components.iter().filter(|one| one["type"] == "file").collect();
    assert!(system.len() >= 3, "{system:?}");
    for file in system {
        let path = file["name"].as_str().unwrap().trim_start_matches('/');
        assert!(image.root.path().join(path).is_file(), "{path}");
    }
    let licenses =
        fs::read_to_string(image.root.path().join("usr/share/doc/myelin/third-party-licenses.txt")).unwrap();
    assert!(licenses.contains("rustls 0.23") && licenses.contains("Permission is hereby granted"));
}
