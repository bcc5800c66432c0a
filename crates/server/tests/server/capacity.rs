//! How much JetStream may store where nobody has said so: three quarters of what is free in the
//! directory, which is made for that; and what is said where it cannot be made. Compared with
//! nats-server where there is one.

use crate::process::{PROGRAM, Server, Setup};
use myelin_compat::implementation::reference_program;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Ours, and the reference if there is one.
fn programs() -> Vec<PathBuf> {
    let ours = PathBuf::from(PROGRAM);
    std::iter::once(ours).chain(reference_program()).collect()
}

/// Bytes that the server may store, as `/jsz` says: in memory, on disk.
fn limits(server: &Server) -> (u64, u64) {
    let page = server.page("/jsz?config=1");
    let limit = |name: &str| page["config"][name].as_u64().expect("a number");
    (limit("max_memory"), limit("max_storage"))
}

/// Three quarters of what is free on the disk of `folder`.
fn usable(folder: &Path) -> u64 {
    let disk = rustix::fs::statvfs(folder).expect("a folder of a disk");
    disk.f_bavail * disk.f_frsize / 4 * 3
}

#[test]
fn a_directory_that_is_not_there_yet_has_what_its_disk_has() {
    let mut memory = Vec::new();
    for program in programs() {
        for store_dir in ["data", "./data", "a/b/../c", "@/x/y"] {
            let folder = tempfile::tempdir().unwrap();
            let store_dir = store_dir.replace('@', folder.path().to_str().unwrap());
            let config = format!("jetstream {{ store_dir: \"{store_dir}\" }}\n");
            let setup = Setup::default().program(&program).folder(folder.path()).config(&config);
            let server = setup.start();
            let (machine, disk) = limits(&server);
            // Others write to the disk meanwhile, but not the half of it.
            let there = usable(folder.path());
            assert!(disk > there / 2 && disk < there / 2 * 3, "{}: {disk} of {there}", program.display());
            memory.push(machine);
        }
    }
    assert!(memory.iter().all(|&other| other == memory[0]), "{memory:?}");
}

#[test]
fn what_is_configured_is_not_measured() {
    for program in programs() {
        for (given, expected) in [
            ("max_mem: 1M, max_file: 1G", (Some(1_000_000), Some(1_000_000_000))),
            ("max_mem: 1M", (Some(1_000_000), None)),
            ("max_file: 1G", (None, Some(1_000_000_000))),
            ("max_mem: 0, max_file: 0", (Some(0), Some(0))),
            ("max_mem: -1, max_file: -1", (None, None)),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let config = format!("jetstream {{ store_dir: data, {given} }}\n");
            let server = Setup::default().program(&program).folder(folder.path()).config(&config).start();
            let (memory, disk) = limits(&server);
            assert!(expected.0.is_none_or(|most| most == memory), "{given}: {memory}");
            assert!(expected.1.is_none_or(|most| most == disk), "{given}: {disk}");
            assert!(expected.0.is_some() || memory > 100_000_000, "{given}: {memory}");
        }
    }
}

/// The lines about JetStream of a start that ends, without their times.
fn refusal(program: &Path, folder: &Path) -> Vec<String> {
    refusal_of(program, folder, "jetstream { store_dir: data }\n")
}

fn refusal_of(program: &Path, folder: &Path, text: &str) -> Vec<String> {
    let config = folder.join("server.conf");
    fs::write(&config, text).expect("the folder is ours");
    let mut command = Command::new(program);
    command.args(["-a", "127.0.0.1", "-p", "-1", "-D", "-c"]).arg(&config).current_dir(folder);
    let output = command.stdin(Stdio::null()).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    let log = String::from_utf8(output.stderr).expect("a log is text");
    let told = log.lines().filter_map(|line| line.split_once(" [").map(|(_, told)| told));
    let told = told.filter(|told| {
        ["JetStream", "  Max ", "Store Directory"].iter().any(|word| told.contains(word))
            && !told.contains("Took ")
    });
    // How much memory and disk there is changes.
    let shown = |told: &str| match told.split_once(" configuration - ") {
        Some((before, sizes)) => {
            format!("{before}: {}", if sizes.contains("1.00 TB disk") { "a guess" } else { "measured" })
        }
        None => told.to_owned(),
    };
    told.map(shown).collect()
}

/// Makes a folder in which JetStream's directory cannot be.
type Prepare = fn(&Path);

#[test]
fn a_directory_that_cannot_be_is_said_before_anything_is_promised() {
    let cases: [(&str, Prepare, &str, &str); 3] = [
        (
            "a file is in its place",
            |folder| fs::write(folder.join("data"), "").unwrap(),
            "a guess",
            "storage directory is not a directory",
        ),
        (
            "a file is in the place of jetstream",
            |folder| {
                fs::create_dir(folder.join("data")).unwrap();
                fs::write(folder.join("data/jetstream"), "").unwrap();
            },
            "measured",
            "storage directory is not a directory",
        ),
        (
            "a link leads nowhere",
            |folder| symlink("nowhere", folder.join("data")).unwrap(),
            "a guess",
            "could not create storage directory - mkdir data: file exists",
        ),
    ];
    for (case, prepare, capacity, why) in cases {
        for program in programs() {
            let folder = tempfile::tempdir().unwrap();
            prepare(folder.path());
            let told = refusal(&program, folder.path());
            let expected = [
                "INF] Starting JetStream".to_owned(),
                format!("DBG] JetStream creating dynamic: {capacity}"),
                format!("FTL] Can't start JetStream: {why}"),
            ];
            assert_eq!(told, expected, "{case}: {}", program.display());
        }
    }
}

#[test]
fn a_directory_that_may_not_be_written_to_is_said() {
    for (inner, why) in [
        (None, "could not create storage directory - mkdir data/jetstream: permission denied"),
        (Some("jetstream"), "storage directory is not writable"),
    ] {
        for program in programs() {
            let folder = tempfile::tempdir().unwrap();
            let data = folder.path().join("data");
            fs::create_dir_all(inner.map_or_else(|| data.clone(), |inner| data.join(inner))).unwrap();
            let closed = inner.map_or_else(|| data.clone(), |inner| data.join(inner));
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
            if fs::write(closed.join("probe"), "").is_ok() {
                eprintln!("not tried: nothing is forbidden to this user");
                return;
            }
            let told = refusal(&program, folder.path());
            assert_eq!(told.last(), Some(&format!("FTL] Can't start JetStream: {why}")), "{told:?}");
        }
    }
}

#[test]
fn accounts_that_are_promised_more_than_there_is_keep_the_server_from_starting() {
    for (limits, why) in [
        ("max_mem: 6M, max_file: 1M", "insufficient memory resources available (10028)"),
        ("max_mem: 5M, max_file: 6M", "insufficient storage resources available (10047)"),
    ] {
        let config = format!(
            "jetstream {{ store_dir: data, max_mem: 10M, max_file: 10M }}\n\
             accounts {{ A {{ jetstream: {{ {limits} }} }}, B {{ jetstream: {{ {limits} }} }} }}\n"
        );
        for program in programs() {
            let folder = tempfile::tempdir().unwrap();
            let told = refusal_of(&program, folder.path(), &config);
            let expected =
                format!("FTL] Can't start JetStream: Error enabling jetstream on configured accounts: {why}");
            assert_eq!(told.last(), Some(&expected), "{told:?}");
        }
    }
}
