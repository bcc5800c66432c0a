//! `myelin store info`: what streams a store has.

use std::io;
use std::process::ExitCode;

use clap::Args;
use myelin_store::verify::{self, StoreInfo, StreamDetails};

use crate::screen::{say, say_json};
use crate::store::json;
use crate::store::place::{PlaceArguments, StorePlace};

/// Arguments of `myelin store info`.
#[derive(Debug, Args)]
pub(super) struct InfoArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// One JSON object for the store, and one per stream
    #[arg(long)]
    json: bool,
}

/// Looks, and prints.
pub(super) fn run(arguments: &InfoArguments) -> io::Result<ExitCode> {
    let StorePlace { disk, root, keys } = arguments.place.place()?;
    let info = verify::info(&disk, &root, keys.as_ref())?;
    if arguments.json {
        say_json(&json::store(&info));
        info.streams.iter().for_each(|stream| say_json(&json::stream(stream)));
    } else {
        print(&info);
    }
    Ok(ExitCode::SUCCESS)
}

fn print(info: &StoreInfo) {
    let StoreInfo { journal_files, journal_bytes, last_round, .. } = info;
    say(&format!(
        "{} streams; journal: {journal_files} files, {journal_bytes} bytes, last round {last_round}",
        info.streams.len()
    ));
    info.streams.iter().for_each(|stream| say(&line(stream)));
}

fn line(stream: &StreamDetails) -> String {
    let StreamDetails { id, account, name, segments, file_bytes, subjects, .. } = stream;
    let name = if name.is_empty() { format!("{:016x}", id.0) } else { format!("{account} {name}") };
    let files = format!("{segments} segments, {file_bytes} bytes in files");
    match &stream.totals {
        Ok(totals) => format!(
            "{name}: {} messages, {} bytes, {} to {}, {subjects} subjects; {files}",
            totals.messages, totals.bytes, totals.first_seq, totals.last_seq
        ),
        Err(why) => format!("{name}: {why}; {files}"),
    }
}
