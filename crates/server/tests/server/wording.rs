//! Texts for operators and clients are in plain words: no structure is printed as Rust prints it.
//!
//! Found in the sources, because no test meets every line. `{:?}` is how texts are put between
//! quotation marks, so it is allowed for what is known to be a text: by its name, or in files that
//! were looked through. A new name that is printed that way is added here if it stands for a text,
//! a number or a time; anything else gets a `Display`.

use std::fs;
use std::path::{Path, PathBuf};

/// The rooms whose words reach a log, a page or a client.
const ROOMS: [&str; 14] = [
    "auth",
    "broker",
    "conf",
    "disk",
    "jetstream",
    "jsapi",
    "monitor",
    "natsfiles",
    "server",
    "stdx",
    "store",
    "streams",
    "subject",
    "wire",
];

/// Names that stand for a text, a number or a time, wherever they are printed.
const TEXTS: &[&str] = &[
    "account",
    "address",
    "backup",
    "by",
    "command",
    "cookie",
    "destination",
    "domain",
    "expected",
    "float",
    "found",
    "from",
    "given",
    "key",
    "location",
    "mode",
    "name",
    "number",
    "of",
    "origin",
    "own",
    "place",
    "port",
    "queue",
    "results",
    "said",
    "scheme",
    "second",
    "shown",
    "subject",
    "target",
    "text",
    "to",
    "took",
    "twice",
    "unit",
    "url",
    "value",
    "written",
    "wrong",
];

/// Files in which `{:?}` without a name, or with one that says less, stands for texts, numbers and
/// times only, and how often.
const LOOKED_THROUGH: &[(&str, usize)] = &[
    ("auth/src/callout/answer.rs", 10),
    ("auth/src/certificate.rs", 1),
    ("auth/src/jwt/token.rs", 2),
    ("auth/src/operator/mod.rs", 1),
    ("broker/src/session/handshake.rs", 5),
    ("conf/src/options/accounts/exchange.rs", 3),
    ("conf/src/options/accounts/imports.rs", 3),
    ("conf/src/options/accounts/jetstream.rs", 2),
    ("conf/src/options/compression.rs", 1),
    ("conf/src/options/field.rs", 2),
    ("conf/src/options/gateway.rs", 1),
    ("conf/src/options/jetstream/size.rs", 3),
    ("conf/src/options/leaf/authorization.rs", 1),
    ("conf/src/options/leaf/remote.rs", 8),
    ("conf/src/reload/leaf_nodes.rs", 1),
    ("conf/src/options/link.rs", 1),
    ("conf/src/options/tls/read.rs", 1),
    ("conf/src/parser.rs", 1),
    ("streams/src/backup/import.rs", 1),
    ("wire/src/s2/mode.rs", 1),
    ("jetstream/src/engine/account/lifecycle.rs", 1),
    ("server/src/cluster/dial.rs", 2),
    ("server/src/leaf/proxy.rs", 1),
    ("server/src/lifecycle.rs", 1),
    ("server/src/resolver/mod.rs", 2),
    ("server/src/setup.rs", 1),
    // Numbers of metrics: 1.0, not 1.
    ("monitor/src/metrics/exposition.rs", 2),
    // An alert whose name nobody knows.
    ("server/src/tls/clients.rs", 1),
    // The first line of an answer, as it came.
    ("wire/src/http_status.rs", 1),
    // For tests and `Debug` only.
    ("disk/src/faulty/step.rs", 1),
    ("natsfiles/src/keys.rs", 1),
];

/// Files that are not part of what runs.
fn is_for_tests(path: &str) -> bool {
    let ends = ["/tests.rs", "/twin.rs", "sourcing/power_loss.rs"];
    path.contains("/tests/") || ends.iter().any(|end| path.ends_with(end))
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("a readable entry").path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => found.push(path),
            false => {}
        }
    }
}

/// Names that a line of code prints by `{:?}`.
fn printed(line: &str) -> impl Iterator<Item = &str> {
    let ends = line.match_indices(":?}").chain(line.match_indices(":#?}")).map(|(at, _)| at);
    ends.filter_map(|end| line[..end].rfind('{').map(|begin| &line[begin + 1..end]))
}

/// Whether a line prints to nobody but people who test or mend the program.
fn is_silent(line: &str) -> bool {
    let line = line.trim_start();
    line.starts_with("//") || ["assert", "panic!(", "unreachable!("].iter().any(|word| line.contains(word))
}

/// Names that a file prints by `{:?}` and that are not in `TEXTS`, each with its line.
fn unknown(text: &str) -> Vec<(usize, String)> {
    // Tests stand at the end.
    let code = text.split("\nmod tests {").next().unwrap_or_default().lines();
    let lines = code.enumerate().filter(|(_, line)| !is_silent(line));
    let found = lines.flat_map(|(at, line)| printed(line).map(move |what| (at + 1, what.to_owned())));
    found.filter(|(_, what)| !TEXTS.contains(&what.as_str())).collect()
}

#[test]
fn no_structure_is_printed_as_rust_prints_it() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a folder of crates");
    let mut files = Vec::new();
    ROOMS.iter().for_each(|room| sources(&crates.join(room).join("src"), &mut files));
    let mut wrong = Vec::new();
    for file in files {
        let name = file.strip_prefix(crates).expect("a file in it").to_str().expect("a plain name");
        let found = unknown(&fs::read_to_string(&file).expect("a text"));
        let known = LOOKED_THROUGH.iter().find(|(known, _)| *known == name).map_or(0, |(_, count)| *count);
        if !is_for_tests(name) && found.len() != known {
            wrong.push(format!("{name}: {known} are known, there are {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_printed_is_found() {
    let text = "let a = format!(\"{name:?} {report:?} {:?} {x:#?}\");\n// {b:?}\nassert!(ok, \"{c:?}\");\n\
        #[cfg(test)]\nmod tests { \"{d:?}\" }\n";
    let found: Vec<_> = unknown(text).into_iter().map(|(line, what)| format!("{line} {what}")).collect();
    assert_eq!(found, ["1 report", "1 ", "1 x"]);
}
