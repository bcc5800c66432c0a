//! The licences of other people's code in the programs, which have to go with them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::bill::{Bill, Crate};
use crate::error::DistError;

/// Beginnings of the names under which licences and notices stand.
const NAMES: [&str; 4] = ["LICENSE", "LICENCE", "COPYING", "NOTICE"];

const HEAD: &str = "\
Myelin contains code of other people. Each text below holds for the crates above it.
";

/// One text for all crates that have it word by word.
pub(crate) fn of_others(bill: &Bill) -> Result<String, DistError> {
    let mut by_text: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for one in bill.in_programs() {
        let title = format!("{} {} ({})", one.name, one.version, one.license);
        let texts = texts(one)?;
        if texts.is_empty() {
            by_text.entry("(without a text of its own)\n".into()).or_default().push(title.clone());
        }
        for text in texts {
            let crates = by_text.entry(text).or_default();
            if !crates.contains(&title) {
                crates.push(title.clone());
            }
        }
    }
    let mut groups: Vec<_> = by_text.into_iter().collect();
    groups.sort_by(|a, b| a.1.cmp(&b.1));
    let line = "=".repeat(80);
    let group = |(text, crates): (String, Vec<String>)| {
        format!("\n{line}\n{}\n{line}\n\n{}\n", crates.join("\n"), text.trim_end())
    };
    Ok(groups.into_iter().map(group).fold(HEAD.to_owned(), |all, one| all + &one))
}

/// Texts of a crate in the order of their names.
fn texts(one: &Crate) -> Result<Vec<String>, DistError> {
    let folder = &one.folder;
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(DistError::io(folder))? {
        let path = entry.map_err(DistError::io(folder))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if path.is_file() && NAMES.iter().any(|begin| name.starts_with(begin)) {
            names.push(path);
        }
    }
    names.sort();
    let read = |path: &Path| fs::read(path).map_err(DistError::io(path));
    names.iter().map(|path| Ok(String::from_utf8_lossy(&read(path)?).replace("\r\n", "\n"))).collect()
}
