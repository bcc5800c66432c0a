//! `myelin store check`: reads all of a store and says what is damaged.

use std::io;
use std::process::ExitCode;

use clap::Args;
use myelin_store::verify::{self, Summary};

use crate::screen::{say, say_json};
use crate::store::json;
use crate::store::place::{PlaceArguments, StorePlace};

/// Arguments of `myelin store check`.
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// One JSON object per finding, and a summary
    #[arg(long)]
    json: bool,
}

/// Checks, and tells findings as they are made.
pub(super) fn run(arguments: &CheckArguments) -> io::Result<ExitCode> {
    let StorePlace { disk, root, keys } = arguments.place.place()?;
    let summary = verify::check(&disk, &root, keys.as_ref(), &mut |finding| {
        if arguments.json { say_json(&json::finding(finding)) } else { say(finding) }
    })?;
    if arguments.json {
        say_json(&json::summary(&summary))
    } else {
        println!("{}", sentence(&summary))
    }
    Ok(if summary.is_sound() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A summary in words.
pub(super) fn sentence(summary: &Summary) -> String {
    let Summary { streams, locked, segments, messages, damage, suspicious, notes } = summary;
    let verdict = if summary.is_sound() { "sound" } else { "damaged" };
    let encrypted =
        if *locked > 0 { format!(", {locked} of them encrypted and not opened") } else { String::new() };
    format!(
        "{verdict}: {streams} streams{encrypted}, {segments} segments, {messages} messages; {damage} damaged places, \
         {suspicious} suspicious, {notes} notes"
    )
}
