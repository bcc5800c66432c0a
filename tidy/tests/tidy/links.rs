//! Links of documents lead somewhere, and the book has all pages.

use myelin_tidy::{documents, root};
use std::collections::BTreeMap;
use std::path::{Component, Path};

#[test]
fn links_lead_to_pages_and_headings_that_exist() {
    let documents = documents();
    let headings: BTreeMap<&str, Vec<String>> =
        documents.iter().map(|(path, text)| (path.as_str(), headings(text))).collect();
    let mut lost = Vec::new();
    for (path, text) in &documents {
        for link in links(text) {
            let (page, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if page.is_empty() { path.clone() } else { joined(path, page) };
            let has_heading = |all: &Vec<String>| heading.is_empty() || all.iter().any(|one| one == heading);
            if !root().join(&target).exists() || !headings.get(target.as_str()).is_none_or(has_heading) {
                lost.push(format!("{path}: {link}"));
            }
        }
    }
    assert!(lost.is_empty(), "links that lead nowhere:\n{}", lost.join("\n"));
}

#[test]
fn the_book_has_each_page_once() {
    let (summary, pages): (Vec<_>, Vec<_>) = documents()
        .into_iter()
        .filter(|(path, _)| path.starts_with("docs/"))
        .partition(|(path, _)| path == "docs/SUMMARY.md");
    let [(_, text)] = &summary[..] else { panic!("the book has a table of contents") };
    let mut listed: Vec<String> = links(text).map(|link| joined("docs/SUMMARY.md", link)).collect();
    listed.sort();
    let mut pages: Vec<String> = pages.into_iter().map(|(path, _)| path).collect();
    pages.sort();
    assert_eq!(listed, pages, "docs/SUMMARY.md beside the files of docs");
}

/// Targets of the links of a page to files of ours, outside of its blocks of code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = prose(text).flat_map(|line| line.split("](").skip(1));
    let targets = targets.filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    targets.filter(|target| !target.contains("://"))
}

/// Lines outside of blocks of code.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Headings as links name them.
fn headings(text: &str) -> Vec<String> {
    let lines = prose(text).filter(|line| line.starts_with('#'));
    lines.map(|line| name_of(line.trim_start_matches('#').trim())).collect()
}

/// A heading in small letters, with hyphens for spaces, and nothing of its punctuation.
fn name_of(heading: &str) -> String {
    // Of a link within it, only the text counts.
    let mut text = String::new();
    for (at, part) in heading.split("](").enumerate() {
        text += if at == 0 { part } else { part.split_once(')').map_or("", |(_, after)| after) };
    }
    let kept = text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// The path that a link of a page means, from the root.
fn joined(page: &str, link: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in Path::new(link).components() {
        match part {
            Component::ParentDir => drop(parts.pop()),
            Component::Normal(name) => parts.extend(name.to_str()),
            _ => {}
        }
    }
    parts.join("/")
}

#[test]
fn headings_are_named_as_links_name_them() {
    assert_eq!(name_of("Who `leads` surely: a [page](x.md), *twice*"), "who-leads-surely-a-page-twice");
    assert_eq!(headings("# A b\n```\n# no\n```\n## C_d-e"), ["a-b", "c_d-e"]);
    assert_eq!(joined("docs/security/tls.md", "../why.md"), "docs/why.md");
}
