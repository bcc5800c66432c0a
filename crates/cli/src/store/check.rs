//! `myelin store check`: reads all of a store and says what is damaged.

use std::io;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};

use clap::Args;
use myelin_disk::Disk;
use myelin_store::verify::{self, Summary};

use crate::progress_bar::{ProgressBar, is_seen};
use crate::screen::{say, say_json};
use crate::store::json;
use crate::store::place::{PlaceArguments, StorePlace};
use crate::store::watched::{WatchedDisk, bytes_below, clear};

/// Arguments of `myelin store check`.
#[derive(Debug, Args)]
pub(super) struct CheckArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// One JSON object per finding, and a summary
    #[arg(long)]
    json: bool,
    /// Show no bar
    #[arg(long)]
    no_progress: bool,
}

/// Checks, and tells findings as they are made.
pub(super) fn run(arguments: &CheckArguments) -> io::Result<ExitCode> {
    let StorePlace { disk, root, keys } = arguments.place.place()?;
    let is_wanted = !arguments.no_progress;
    // Without a bar nobody goes through all the files for their sizes.
    let total = is_seen(is_wanted).then(|| bytes_below(&root));
    let bar = Arc::new(Mutex::new(ProgressBar::new(total, is_wanted)));
    let disk: Arc<dyn Disk> = Arc::new(WatchedDisk { disk, bar: Arc::clone(&bar) });
    let summary = verify::check(&disk, &root, keys.as_ref(), &mut |finding| {
        clear(&bar);
        if arguments.json { say_json(&json::finding(finding)) } else { say(finding) }
    })?;
    clear(&bar);
    if arguments.json {
        say_json(&json::summary(&summary))
    } else {
        say(&sentence(&summary));
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
