//! The table as a page of Markdown: `docs/configuration.md`.

use std::fmt::Write;

use super::{OptionEntry, blocks};

const HEAD: &str = "\
# Configuration

The options of the configuration file, which are those of nats-server 2.15.2, and `metrics`, `otlp` and `dashboard`, which are Myelin's own. This
page is printed from the table in
`crates/conf/src/options/table/` (`MYELIN_RECORD=1 cargo test -p myelin-conf --test suite page`).

- **works**: does what it does in nats-server. Inside a block that is missing or accepted with a warning: read and
  checked.
- **no meaning here**: accepted with one warning, since Myelin has nothing that the option could change.
- **accepted with a warning**: the server starts without it, and says so when it is asked for.
- **missing**: read and checked, but the feature does not exist yet. `-t` says so and calls the file valid; a start
  ends with a message that names the option, its place and the feature. Switched off (`false`, empty) it is accepted.

*Reload* says whether `--signal reload` may change the option in a running server. Inside a block that is missing or
accepted with a warning nothing depends on it yet.
";

/// The page.
pub fn page() -> String {
    let mut page = HEAD.to_owned();
    for block in blocks() {
        // Writing to a String cannot fail.
        let _ = write!(page, "\n## {}\n\n", block.title);
        page.push_str("| option | takes | default | | reload | |\n|---|---|---|---|---|---|\n");
        block.entries.iter().for_each(|entry| row(&mut page, entry));
    }
    page
}

fn row(page: &mut String, entry: &OptionEntry) {
    let names: Vec<_> = entry.names.iter().map(|name| format!("`{name}`")).collect();
    let default = if entry.default.is_empty() { String::new() } else { format!("`{}`", entry.default) };
    let reload = if entry.reloads { "yes" } else { "no" };
    let _ = writeln!(
        page,
        "| {} | {} | {default} | {} | {reload} | {} |",
        names.join(", "),
        entry.takes.replace('|', "\\|"),
        entry.about,
        entry.class
    );
}
