//! Manual pages: of `myelin` and each of its verbs, of `myelin-server`, and of the configuration
//! file, all from the tables that programs read.

use clap::Command;
use clap_mangen::Man;
use flate2::Compression;
use myelin_conf::options::{BlockTable, OptionEntry, blocks};
use myelin_conf::{DescribedFlag, flag_groups};
use roff::{Inline, Roff, bold, italic, roman};

use crate::archive::gzip;
use crate::error::DistError;
use crate::tree::Tree;
use crate::version::Version;

/// Signals that the server hears.
const SIGNALS: [(&str, &str); 5] = [
    ("SIGHUP", "Read the configuration again: all of it or nothing (--signal reload)."),
    (
        "SIGTERM, SIGINT",
        "End: replicas are handed over, and what is acknowledged is durable (--signal stop).",
    ),
    ("SIGUSR1", "Open the log file anew (--signal reopen)."),
    ("SIGUSR2", "Lame duck mode: let clients leave slowly, then end (--signal ldm)."),
    ("SIGKILL", "Nothing that was acknowledged as durable is lost (--signal quit)."),
];

/// Files of a package.
const FILES: [(&str, &str); 2] = [
    ("/etc/myelin/myelin.conf", "Configuration of the service, see myelin.conf(5)."),
    ("/var/lib/myelin", "Streams and consumers of the service."),
];

/// Adds every page, compressed.
pub(crate) fn add(tree: &mut Tree, version: &Version) -> Result<(), DistError> {
    let mut pages = Vec::new();
    let mut command = myelin_cli::command().disable_help_subcommand(true);
    command.build();
    verbs(&command, version, &mut pages)?;
    pages.push(("myelin-server.8".to_owned(), server(version).into_bytes()));
    pages.push(("myelin.conf.5".to_owned(), configuration(version).into_bytes()));
    for (name, page) in pages {
        let section = name.rsplit('.').next().unwrap_or_default();
        let page = gzip(&page, Compression::best()).map_err(DistError::io(name.as_ref()))?;
        tree.add(&format!("usr/share/man/man{section}/{name}.gz"), page);
    }
    Ok(())
}

/// The page of a command and those of its verbs.
fn verbs(command: &Command, version: &Version, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), DistError> {
    let source = format!("Myelin {}", version.text());
    let man = Man::new(command.clone()).date(version.day()).source(source).manual("Myelin");
    let name = man.get_filename();
    let mut page = Vec::new();
    man.render(&mut page).map_err(DistError::io(name.as_ref()))?;
    pages.push((name, page));
    let mut shown = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    shown.try_for_each(|verb| verbs(verb, version, pages))
}

/// A page with its head, and the section NAME.
fn begun(name: &str, section: &str, about: &str, version: &Version) -> Roff {
    let source = format!("Myelin {}", version.text());
    let mut page = Roff::new();
    page.control("TH", [name, section, &version.day(), &source, "Myelin"]);
    page.control("SH", ["NAME"]);
    page.text([roman(format!("{name} - {about}"))]);
    page
}

/// A term with its explanation below.
fn term(page: &mut Roff, term: Vec<Inline>, about: Vec<Inline>) {
    page.control("TP", []);
    page.text(term);
    page.text(about);
}

fn server(version: &Version) -> String {
    let mut page = begun("myelin-server", "8", "a messaging server for NATS clients", version);
    page.control("SH", ["SYNOPSIS"]);
    page.text([bold("myelin-server"), roman(" ["), italic("options"), roman("]")]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "Serves clients that speak NATS, WebSocket or MQTT, with streams in files or memory. Flags and \
         configuration are those of nats-server; a flag wins over the configuration file. Flags may have \
         one dash or two, and a value after a blank or an equals sign.",
    )]);
    for group in flag_groups() {
        page.control("SH", [group.title.to_uppercase().as_str()]);
        group.flags.iter().for_each(|flag| described(&mut page, flag));
    }
    for (title, terms) in [("SIGNALS", &SIGNALS[..]), ("FILES", &FILES[..])] {
        page.control("SH", [title]);
        terms.iter().for_each(|(name, about)| term(&mut page, vec![bold(*name)], vec![roman(*about)]));
    }
    page.control("SH", ["EXIT STATUS"]);
    page.text([roman(
        "0 after an orderly end, 1 where the server could not start. With --check-reload as above.",
    )]);
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("myelin"), roman("(1), "), bold("myelin.conf"), roman("(5)")]);
    page.to_roff()
}

fn described(page: &mut Roff, flag: &DescribedFlag) {
    let mut names = Vec::new();
    for name in &flag.names {
        if !names.is_empty() {
            names.push(roman(", "));
        }
        names.push(bold(*name));
    }
    if !flag.takes.is_empty() {
        names.extend([roman(" "), italic(flag.takes)]);
    }
    term(page, names, vec![roman(flag.about.clone())]);
}

fn configuration(version: &Version) -> String {
    let mut page = begun("myelin.conf", "5", "configuration of myelin-server", version);
    page.control("SH", ["DESCRIPTION"]);
    page.text([roman(
        "The language and the options are those of nats-server's configuration files. An option stands as \
         name: value, a block as name { ... }, a comment behind # or //. Blocks are listed below by where they \
         stand. Whether a file is valid says ",
    ), bold("myelin-server -t -c FILE"), roman("; what a reload of it would change, --check-reload.")]);
    blocks().for_each(|block| options(&mut page, block));
    page.control("SH", ["SEE ALSO"]);
    page.text([bold("myelin-server"), roman("(8)")]);
    page.to_roff()
}

fn options(page: &mut Roff, block: &BlockTable) {
    page.control("SH", [block.title]);
    for OptionEntry { names, takes, default, about, class, reloads } in block.entries {
        let mut facts = vec![(*takes).to_owned()];
        if !default.is_empty() {
            facts.push(format!("default {default}"));
        }
        if *reloads {
            facts.push("a reload may change it".to_owned());
        }
        let class = class.to_string();
        if class != "works" {
            facts.push(class);
        }
        let about = format!("{about} ({})", facts.join("; "));
        term(page, vec![bold(names.join(", "))], vec![roman(about)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_every_flag_option_and_verb() {
        let version = Version::of_test();
        let plain = |page: String| page.replace("\\-", "-").replace("\\&", "");
        let page = plain(server(&version));
        for name in flag_groups().iter().flat_map(|group| &group.flags).flat_map(|flag| &flag.names) {
            assert!(page.contains(name), "{name}");
        }
        let page = plain(configuration(&version));
        for block in blocks() {
            for name in block.entries.iter().flat_map(|entry| entry.names) {
                assert!(page.contains(name), "{}: {name}", block.title);
            }
        }
        let mut tree = Tree::default();
        add(&mut tree, &version).unwrap();
        let names: Vec<_> = tree.entries().map(|(path, _)| path.rsplit('/').next().unwrap()).collect();
        for name in
            ["myelin.1.gz", "myelin-server-check.1.gz", "myelin-bench-js-pub.1.gz", "myelin.conf.5.gz"]
        {
            assert!(names.contains(&name), "{name} in {names:?}");
        }
    }
}
