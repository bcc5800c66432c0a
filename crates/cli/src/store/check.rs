//! `myelin store check`: reads all of a store and says what is damaged.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use myelin_store::Disk;
use myelin_store::disk::real::RealDisk;
use myelin_store::verify::{self, Summary};

use super::json;
use super::keys::KeyArguments;

/// Arguments of `myelin store check`.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The store's directory
    directory: PathBuf,
    /// One JSON object per finding, and a summary
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    keys: KeyArguments,
}

/// Checks, and tells findings as they are made.
pub(super) fn run(arguments: &Arguments) -> io::Result<ExitCode> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let keys = arguments.keys.keys()?;
    let root = std::path::absolute(&arguments.directory)?;
    let summary = verify::check(&disk, &root, keys.as_ref(), &mut |finding| {
        if arguments.json { println!("{}", json::finding(finding)) } else { println!("{finding}") }
    })?;
    if arguments.json {
        println!("{}", json::summary(&summary))
    } else {
        println!("{}", sentence(&summary))
    }
    Ok(if summary.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn sentence(summary: &Summary) -> String {
    let Summary { streams, locked, segments, messages, damage, suspicious, notes } = summary;
    let verdict = if summary.is_sound() { "sound" } else { "damaged" };
    let encrypted =
        if *locked > 0 { format!(", {locked} of them encrypted and not opened") } else { String::new() };
    format!(
        "{verdict}: {streams} streams{encrypted}, {segments} segments, {messages} messages; {damage} damaged places, \
         {suspicious} suspicious, {notes} notes"
    )
}
