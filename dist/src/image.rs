//! The image for containers: an archive of the Open Container Initiative, with the programs, the
//! libraries that they need, and nothing else; no shell, no package manager.

use std::path::Path;

use flate2::Compression;
use serde_json::{Value, json};

use crate::archive::{gzip, tar};
use crate::contents::{self, CONFIGURATION, DATA};
use crate::digest::sha256;
use crate::error::DistError;
use crate::libraries::SystemFile;
use crate::programs::Program;
use crate::tree::Tree;
use crate::version::Version;

/// User and group of the server: the number that images without a distribution use for one without
/// rights.
const USER: u32 = 65532;

/// Users, groups, and where names of hosts are looked for.
const NAMES: [(&str, &str); 3] = [
    ("etc/passwd", "root:x:0:0::/:/sbin/nologin\nmyelin:x:65532:65532::/var/lib/myelin:/sbin/nologin\n"),
    ("etc/group", "root:x:0:\nmyelin:x:65532:\n"),
    ("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n"),
];

const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";
const LAYER: &str = "application/vnd.oci.image.layer.v1.tar+gzip";

/// Files of the image.
pub(crate) fn files(
    root: &Path,
    programs: &[Program],
    system: &[SystemFile],
    licenses: &str,
) -> Result<Tree, DistError> {
    let mut tree = Tree::default();
    contents::add_programs(&mut tree, programs);
    for file in system {
        let path = file.path.trim_start_matches('/');
        // The kernel runs the loader.
        if path.contains(".so") {
            tree.add_program(path, file.bytes.clone());
        } else {
            tree.add(path, file.bytes.clone());
        }
    }
    for (path, text) in NAMES {
        tree.add(path, text);
    }
    tree.add(CONFIGURATION, contents::text(root, "packaging/image/myelin.conf")?);
    tree.add("usr/share/doc/myelin/copyright", contents::copyright(root)?);
    tree.add("usr/share/doc/myelin/third-party-licenses.txt", licenses);
    tree.add_folder(DATA, 0o750, USER);
    Ok(tree)
}

/// The archive: each part under its digest, and an index that names the first.
pub(crate) fn archive(
    files: &Tree,
    version: &Version,
    architecture: &str,
    level: Compression,
) -> Result<Vec<u8>, DistError> {
    let wrap = DistError::io(Path::new("the image"));
    let packed = tar(files, "", version.seconds()).and_then(|tar| Ok((sha256(&tar), gzip(&tar, level)?)));
    let (difference, layer) = packed.map_err(wrap)?;
    let config = to_bytes(&configuration(version, architecture, &difference));
    let manifest = to_bytes(&json!({
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": part(CONFIG, &config),
        "layers": [part(LAYER, &layer)],
        "annotations": annotations(version),
    }));
    let mut first = part(MANIFEST, &manifest);
    first["annotations"] = json!({
        "org.opencontainers.image.ref.name": version.image_tag(),
        "io.containerd.image.name": format!("localhost/myelin:{}", version.image_tag()),
    });
    first["platform"] = json!({"architecture": architecture, "os": "linux"});
    let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": [first]});
    let mut archive = Tree::default();
    archive.add("oci-layout", to_bytes(&json!({"imageLayoutVersion": "1.0.0"})));
    archive.add("index.json", to_bytes(&index));
    for bytes in [layer, config, manifest] {
        archive.add(&format!("blobs/sha256/{}", sha256(&bytes)), bytes);
    }
    tar(&archive, "", version.seconds()).map_err(DistError::io(Path::new("the image")))
}

/// How the image is run. `Healthcheck` is not of the specification: Docker and Podman read it, and
/// orchestrators that do not know it ask the probes by themselves.
fn configuration(version: &Version, architecture: &str, difference: &str) -> Value {
    json!({
        "created": version.time(),
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": format!("{USER}:{USER}"),
            "ExposedPorts": {"4222/tcp": {}, "6222/tcp": {}, "7422/tcp": {}, "8222/tcp": {}},
            "Env": ["PATH=/usr/bin"],
            "Entrypoint": ["/usr/bin/myelin-server"],
            "Cmd": ["-c", format!("/{CONFIGURATION}")],
            "Volumes": {format!("/{DATA}"): {}},
            "WorkingDir": format!("/{DATA}"),
            "Labels": annotations(version),
            "StopSignal": "SIGTERM",
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/myelin", "server", "check", "ready"],
                "Interval": 10_000_000_000_u64,
                "Timeout": 6_000_000_000_u64,
                "StartPeriod": 60_000_000_000_u64,
                "Retries": 3,
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{difference}")]},
        "history": [{"created": version.time(), "created_by": "myelin-dist"}],
    })
}

fn annotations(version: &Version) -> Value {
    json!({
        "org.opencontainers.image.title": "myelin",
        "org.opencontainers.image.version": version.text(),
        "org.opencontainers.image.revision": version.commit(),
        "org.opencontainers.image.created": version.time(),
        "org.opencontainers.image.source": env!("CARGO_PKG_REPOSITORY"),
        "org.opencontainers.image.licenses": env!("CARGO_PKG_LICENSE"),
    })
}

fn part(kind: &str, bytes: &[u8]) -> Value {
    json!({"mediaType": kind, "digest": format!("sha256:{}", sha256(bytes)), "size": bytes.len()})
}

fn to_bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}
