//! Floors of the crates: the table of ARCHITECTURE.md, as cargo sees it.

use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// Each crate with those of ours that it depends on, tests aside.
const FLOORS: [(&str, &[&str]); 29] = [
    ("auth", &["stdx", "subject", "wire"]),
    ("broker", &["auth", "mqtt", "stdx", "subject", "wire"]),
    ("cli", &["disk", "loadgen", "natsfiles", "stdx", "store", "streams"]),
    ("cluster-test", &["stdx"]),
    ("compat", &["auth", "stdx"]),
    ("conf", &["auth", "stdx", "subject", "wire"]),
    ("count", &["auth", "broker", "disk", "jetstream", "jsapi", "mesh", "stdx", "store", "streams", "wire"]),
    ("dashboard", &[]),
    ("disk", &["stdx"]),
    ("dist", &["cli", "conf", "stdx"]),
    (
        "fuzz",
        &[
            "auth",
            "broker",
            "conf",
            "disk",
            "jsapi",
            "mesh",
            "monitor",
            "mqtt",
            "natsfiles",
            "replica",
            "stdx",
            "store",
            "streams",
            "subject",
            "wire",
        ],
    ),
    ("jetstream", &["broker", "disk", "jsapi", "replica", "stdx", "store", "streams", "subject", "wire"]),
    ("jsapi", &["stdx", "subject", "wire"]),
    ("lab", &["disk", "loadgen", "stdx", "store"]),
    ("loadgen", &["auth", "mqtt", "stdx"]),
    ("mesh", &["auth", "broker", "stdx", "wire"]),
    ("monitor", &["stdx", "subject", "wire"]),
    ("mqtt", &["stdx", "wire"]),
    ("natsfiles", &["disk", "stdx", "wire"]),
    ("replica", &["stdx"]),
    (
        "server",
        &[
            "auth",
            "broker",
            "conf",
            "dashboard",
            "disk",
            "jetstream",
            "jsapi",
            "mesh",
            "monitor",
            "natsfiles",
            "replica",
            "stdx",
            "store",
            "streams",
            "subject",
            "wire",
        ],
    ),
    ("sim", &["auth", "broker", "disk", "jetstream", "jsapi", "replica", "stdx", "store", "streams", "wire"]),
    ("soak", &["stdx"]),
    ("stdx", &[]),
    ("store", &["disk", "stdx", "subject"]),
    ("streams", &["jsapi", "natsfiles", "replica", "stdx", "store", "subject", "wire"]),
    ("subject", &[]),
    ("tidy", &[]),
    ("wire", &["stdx"]),
];

#[test]
fn crates_depend_on_lower_floors_only() {
    let expected: BTreeMap<String, BTreeSet<String>> = FLOORS
        .iter()
        .map(|(name, uses)| ((*name).to_owned(), uses.iter().map(|one| (*one).to_owned()).collect()))
        .collect();
    assert_eq!(used(), expected, "as cargo has it, and as the table here");
}

/// Each crate of the workspace with those of ours that it uses, as cargo says.
fn used() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(myelin_tidy::root())
        .output()
        .expect("cargo is there, as it runs this");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo prints JSON");
    let packages = metadata["packages"].as_array().expect("there are packages");
    packages.iter().map(|package| (short(&package["name"]), uses(package))).collect()
}

fn uses(package: &Value) -> BTreeSet<String> {
    let all = package["dependencies"].as_array().expect("there is a list");
    let ours = |one: &&Value| one["name"].as_str().is_some_and(|name| name.starts_with("myelin"));
    // The kind is null for those that are neither for tests nor for the build.
    all.iter().filter(ours).filter(|one| one["kind"].is_null()).map(|one| short(&one["name"])).collect()
}

fn short(name: &Value) -> String {
    let name = name.as_str().expect("it has a name");
    name.strip_prefix("myelin-").unwrap_or(name).to_owned()
}
