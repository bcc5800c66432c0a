//! Rules for every file of the page, whatever it does.

use myelin_dashboard::{ASSETS, HEADERS, asset};
use std::collections::BTreeSet;
use std::path::Path;

fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
    ASSETS.iter().map(|asset| (asset.name, std::str::from_utf8(asset.body).expect("files are text")))
}

#[test]
fn all_files_together_are_below_500_kilobytes() {
    let size: usize = ASSETS.iter().map(|asset| asset.body.len()).sum();
    assert!(size < 500_000, "{size} bytes");
}

#[test]
fn every_file_of_the_folder_is_served_and_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
    let mut there = BTreeSet::new();
    for folder in ["", "views"] {
        for entry in std::fs::read_dir(root.join(folder)).expect("the folder is there") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                let name = path.strip_prefix(&root).expect("below it").to_str().expect("a name");
                there.insert(if name == "index.html" { String::new() } else { name.to_owned() });
            }
        }
    }
    let served: Vec<_> = ASSETS.iter().map(|asset| asset.name.to_owned()).collect();
    assert_eq!(served.iter().cloned().collect::<BTreeSet<_>>(), there);
    assert_eq!(served.len(), there.len());
    assert!(asset("../Cargo.toml").is_none() && asset("index.html").is_none());
}

/// Data reaches the page as text only, and nothing is made a program of.
#[test]
fn nothing_is_parsed_as_html_or_run_as_a_program() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "srcdoc",
        "DOMParser",
        "createContextualFragment",
        "javascript:",
        "setTimeout(\"",
        "importScripts",
    ];
    for (name, text) in texts() {
        for word in forbidden {
            assert!(!text.contains(word), "{name} has {word}");
        }
    }
}

#[test]
fn nothing_comes_from_elsewhere() {
    for (name, text) in texts() {
        // The name of a language is no address that anybody loads.
        let text = text.replace("http://www.w3.org/2000/svg", "");
        for scheme in ["http://", "https://", "//cdn", "@import", "url("] {
            assert!(!text.contains(scheme), "{name} has {scheme}");
        }
    }
}

#[test]
fn nothing_is_kept_in_the_browser() {
    for (name, text) in texts() {
        for place in ["localStorage", "sessionStorage", "document.cookie", "indexedDB"] {
            assert!(!text.contains(place), "{name} has {place}");
        }
    }
}

/// The policy admits no inline script or style, so there must be none.
#[test]
fn the_page_has_no_inline_script_or_style() {
    let page = std::str::from_utf8(asset("").expect("the page").body).expect("text");
    assert!(!page.contains("style=") && !page.contains("<style") && !page.contains("onload="), "{page}");
    let scripts = page.matches("<script").count();
    assert_eq!(page.matches("<script type=\"module\" src=\"app.js\"></script>").count(), scripts);
    let policy = HEADERS.iter().find(|(name, _)| *name == "content-security-policy").expect("there is one").1;
    assert!(!policy.contains("unsafe") && policy.starts_with("default-src 'none'"), "{policy}");
}

/// Modules import files that are served.
#[test]
fn imports_lead_to_files() {
    for (name, text) in texts().filter(|(name, _)| name.ends_with(".js")) {
        let folder = name.rsplit_once('/').map_or("", |(folder, _)| folder);
        for line in text.lines().filter(|line| line.starts_with("import ") || line.contains(" from \"")) {
            let Some(path) = line.split('"').nth(1) else { continue };
            let target = match path.strip_prefix("../") {
                Some(above) => above.to_owned(),
                None if folder.is_empty() => path.trim_start_matches("./").to_owned(),
                None => format!("{folder}/{}", path.trim_start_matches("./")),
            };
            assert!(asset(&target).is_some(), "{name}: {line}");
        }
    }
}
