//! The `.deb` and the tarball: what is in them, their installation in a root of its own, and the
//! server that they bring.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::made::{extract, has, is_root, made, member, unpacked};
use crate::running::{Running, any_ports, succeed};

/// Files of the package in a folder.
fn installed() -> Option<TempDir> {
    let package = fs::read(made()?.file(".deb")).unwrap();
    let root = tempfile::tempdir().unwrap();
    extract(&unpacked(&member(&package, "data.tar.gz")), root.path());
    Some(root)
}

/// Paths of all files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}

#[test]
fn the_package_says_what_it_is_and_needs() {
    let Some(made) = made() else { return };
    let path = made.file(".deb");
    let package = fs::read(&path).unwrap();
    assert_eq!(member(&package, "debian-binary"), b"2.0\n");
    let control = tempfile::tempdir().unwrap();
    extract(&unpacked(&member(&package, "control.tar.gz")), control.path());
    let said = fs::read_to_string(control.path().join("control")).unwrap();
    let version = format!("\nVersion: {}", env!("CARGO_PKG_VERSION"));
    assert!(said.starts_with("Package: myelin\n") && said.contains(&version), "{said}");
    assert!(said.contains("\nDepends: libc6 (>= 2."), "{said}");
    for script in ["postinst", "prerm", "postrm"] {
        let script = control.path().join(script);
        assert_eq!(fs::metadata(&script).unwrap().permissions().mode() & 0o777, 0o755);
        succeed(Command::new("sh").arg("-n").arg(script));
    }
    if has("dpkg-deb") {
        let listed = succeed(Command::new("dpkg-deb").arg("--contents").arg(&path));
        assert!(
            listed.contains("-rwxr-xr-x root/root") && listed.contains("./usr/bin/myelin-server"),
            "{listed}"
        );
        let info = succeed(Command::new("dpkg-deb").arg("--info").arg(&path));
        assert!(info.contains("/etc/myelin/myelin.conf") || info.contains("conffiles"), "{info}");
    }
}

#[test]
fn the_server_of_the_package_runs_with_its_configuration() {
    let Some(root) = installed() else { return };
    let at = |path: &str| root.path().join(path);
    let configuration = at("etc/myelin/myelin.conf");
    succeed(Command::new(at("usr/bin/myelin-server")).arg("-t").arg("-c").arg(&configuration));
    // As it is, but for where the root is.
    let text = fs::read_to_string(&configuration).unwrap();
    let data = at("var/lib/myelin").display().to_string();
    assert_eq!(text.matches("/var/lib/myelin").count(), 1);
    fs::write(&configuration, text.replace("/var/lib/myelin", &data)).unwrap();
    let ports = tempfile::tempdir().unwrap();
    let mut command = Command::new(at("usr/bin/myelin-server"));
    command.arg("-c").arg(&configuration).args(any_ports(&ports.path().display().to_string()));
    let server = Running::start(&mut command, ports.path());
    assert!(server.client.starts_with("127.0.0.1:"), "only this machine: {}", server.client);
    let myelin = || Command::new(at("usr/bin/myelin"));
    let check = ["server", "check", "ready", "--monitor", &server.monitoring];
    let said = succeed(myelin().args(check));
    assert!(said.starts_with("OK {"), "{said}");
    succeed(myelin().args(["pub", "x", "y", "-s", &server.client]));
    assert_eq!(succeed(myelin().args(["stream", "ls", "-s", &server.client])), "No streams\n");
    let monitoring = server.monitoring.clone();
    assert!(at("var/lib/myelin/jetstream").is_dir());
    assert_eq!(server.terminated().code(), Some(0));
    let gone = myelin().args(["server", "check", "live", "--monitor", &monitoring]).output().unwrap();
    assert_eq!(gone.status.code(), Some(2));
}

/// `dpkg` itself installs into a folder, runs the scripts there, upgrades, removes and purges.
#[test]
fn dpkg_installs_upgrades_and_purges() {
    let Some(made) = made() else { return };
    if !has("dpkg") || !has("systemd-sysusers") || !has("systemd-tmpfiles") || !is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let at = |path: &str| root.path().join(path);
    for folder in ["var/lib/dpkg/info", "var/lib/dpkg/updates", "var/log"] {
        fs::create_dir_all(at(folder)).unwrap();
    }
    fs::write(at("var/lib/dpkg/status"), "").unwrap();
    let dpkg = |arguments: &[&str]| {
        let mut command = Command::new("dpkg");
        command.arg("--root").arg(root.path()).args([
            "--force-depends",
            "--force-script-chrootless",
            "--force-confold",
        ]);
        succeed(command.args(arguments))
    };
    let package = made.file(".deb").display().to_string();
    dpkg(&["--install", &package]);
    let users = fs::read_to_string(at("etc/passwd")).unwrap();
    let user = users.lines().find(|line| line.starts_with("myelin:")).expect("the user is there");
    let id: u32 = user.split(':').nth(2).unwrap().parse().unwrap();
    let data = fs::metadata(at("var/lib/myelin")).unwrap();
    assert_eq!((data.uid(), data.permissions().mode() & 0o777), (id, 0o750));
    let configuration = fs::metadata(at("etc/myelin/myelin.conf")).unwrap();
    assert_eq!((configuration.uid(), configuration.permissions().mode() & 0o777), (0, 0o640));
    assert_ne!(configuration.gid(), 0);
    // What an operator has changed, and what the server has stored, stays.
    fs::write(at("etc/myelin/myelin.conf"), "# mine\n").unwrap();
    fs::write(at("var/lib/myelin/message"), "stored").unwrap();
    dpkg(&["--install", &package]);
    assert_eq!(fs::read_to_string(at("etc/myelin/myelin.conf")).unwrap(), "# mine\n");
    dpkg(&["--remove", "myelin"]);
    assert!(!at("usr/bin/myelin-server").exists() && at("etc/myelin/myelin.conf").exists());
    dpkg(&["--purge", "myelin"]);
    assert!(!at("etc/myelin/myelin.conf").exists() && at("var/lib/myelin/message").exists());
}

#[test]
fn systemd_finds_nothing_wrong_with_what_is_installed() {
    let Some(root) = installed() else { return };
    if !has("systemd-analyze") {
        return;
    }
    let at = |path: &str| root.path().join(path);
    let unit = at("usr/lib/systemd/system/myelin-server.service");
    let text = fs::read_to_string(&unit).unwrap();
    let program = at("usr/bin/myelin-server").display().to_string();
    fs::write(&unit, text.replace("/usr/bin/myelin-server", &program)).unwrap();
    let checked = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(&unit).output().unwrap();
    let complaints = String::from_utf8_lossy(&checked.stderr).into_owned();
    let of_ours: Vec<_> = complaints.lines().filter(|line| line.contains("myelin")).collect();
    assert_eq!(of_ours, Vec::<&str>::new());
    assert!(text.contains("Documentation=man:myelin-server(8)"));
    assert!(at("usr/share/man/man8/myelin-server.8.gz").exists());
}

#[test]
fn the_tarball_has_the_same_files_in_one_folder() {
    let (Some(made), Some(root)) = (made(), installed()) else { return };
    let folder = tempfile::tempdir().unwrap();
    let end = format!("-linux-{}.tar.gz", std::env::consts::ARCH);
    extract(&unpacked(&fs::read(made.file(&end)).unwrap()), folder.path());
    let top = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let of_package = files(root.path());
    assert_eq!(files(&top).len(), of_package.len());
    for file in of_package {
        let path = file.strip_prefix(root.path()).unwrap();
        let path = path.strip_prefix("usr").unwrap_or(path);
        assert_eq!(fs::read(top.join(path)).unwrap(), fs::read(&file).unwrap(), "{}", path.display());
    }
    let said = succeed(Command::new(top.join("bin/myelin")).arg("--version"));
    assert!(said.starts_with("myelin "), "{said}");
}

/// Symbols are where gdb looks, and belong to the programs: binutils compares the checksum.
#[test]
fn symbols_are_apart_and_found() {
    let (Some(made), Some(root)) = (made(), installed()) else { return };
    let folder = tempfile::tempdir().unwrap();
    extract(&unpacked(&fs::read(made.file("-symbols.tar.gz")).unwrap()), folder.path());
    let top = fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    for name in ["myelin", "myelin-server"] {
        let symbols = top.join(format!("lib/debug/usr/bin/{name}.debug"));
        let program = root.path().join("usr/bin").join(name);
        let count = |path: &Path| succeed(Command::new("nm").arg(path)).lines().count();
        assert!(count(&symbols) > 1000);
        assert_eq!(succeed(Command::new("nm").arg(&program)), "");
        // Beside the program, as for a debugger.
        fs::copy(&symbols, program.with_file_name(format!("{name}.debug"))).unwrap();
        let mut follow = Command::new("objdump");
        let symbols = succeed(follow.args(["--dwarf=follow-links", "--syms"]).arg(&program));
        assert!(symbols.lines().count() > 1000, "{name}: binutils does not follow the link");
    }
}
