//! `myelin store repair`: says what it would do to a damaged store, and does it with `--apply`.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use myelin_store::repair::{self, Given, RepairOptions, Summary};
use myelin_store::verify;
use myelin_streams::backup::stream_description;

use crate::screen::{say, say_json};
use crate::store::check::sentence;
use crate::store::entropy::{SystemEntropy, now};
use crate::store::json;
use crate::store::place::{PlaceArguments, StorePlace};

/// Arguments of `myelin store repair`.
#[derive(Debug, Args)]
pub(super) struct RepairArguments {
    #[command(flatten)]
    place: PlaceArguments,
    /// Do it. Without this nothing is changed
    #[arg(long)]
    apply: bool,
    /// Configuration of a stream that has lost its name: as it was created, or what
    /// `nats stream info --json` printed. With the stream's directory in front if several have lost
    /// theirs. May be repeated
    #[arg(long, value_name = "[DIRECTORY=]FILE.json")]
    config: Vec<String>,
    /// Account of the streams in --config that do not name theirs as "account"
    #[arg(long, value_name = "NAME", default_value = "$G")]
    account: String,
    /// One JSON object per thing that is wrong, and a summary
    #[arg(long)]
    json: bool,
}

/// Repairs, or says what would be done.
pub(super) fn run(arguments: &RepairArguments) -> io::Result<ExitCode> {
    let StorePlace { disk, root, keys } = arguments.place.place()?;
    let given = arguments.config.iter().map(|text| given(text, &arguments.account));
    let options = RepairOptions {
        apply: arguments.apply,
        keys: keys.clone(),
        given: given.collect::<io::Result<_>>()?,
        shape: &stream_description::storage_config,
        entropy: Arc::new(SystemEntropy),
        now: now(),
    };
    let summary = repair::repair(&disk, &root, &options, &mut |action| {
        if arguments.json { say_json(&json::action(action)) } else { say(action) }
    });
    let summary = summary.map_err(|error| in_use(error, &root))?;
    if arguments.json {
        say_json(&json::repaired(&summary, arguments.apply));
    } else {
        say(&verdict(&summary, arguments.apply));
    }
    if !arguments.apply {
        return Ok(if summary.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let checked = verify::check(&disk, &root, keys.as_ref(), &mut |finding| {
        let is_note = finding.severity == verify::Severity::Note;
        if arguments.json {
            say_json(&json::finding(finding));
        } else if !is_note {
            say(finding);
        }
    })?;
    if arguments.json {
        say_json(&json::summary(&checked));
    } else {
        say(&format_args!("checked afterwards: {}", sentence(&checked)));
    }
    let is_whole = summary.is_whole() && checked.is_sound();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn in_use(error: io::Error, root: &std::path::Path) -> io::Error {
    if error.kind() == io::ErrorKind::ResourceBusy {
        let what = format!("{}: a server uses this store: stop it first", root.display());
        return io::Error::new(error.kind(), what);
    }
    error
}

fn verdict(summary: &Summary, is_applied: bool) -> String {
    let Summary { repaired, lost, left } = summary;
    if summary.is_empty() {
        return "nothing to repair".to_owned();
    }
    let counts = format!("{repaired} repaired, {lost} lost, {left} left to you");
    if is_applied { counts } else { format!("with --apply: {counts}; nothing was changed") }
}

/// `FILE` or `DIRECTORY=FILE`.
fn given(text: &str, account: &str) -> io::Result<Given> {
    let named_directory =
        text.split_once('=').and_then(|(before, file)| Some((stream_description::directory(before)?, file)));
    let (directory, file) = named_directory.map_or((None, text), |(id, file)| (Some(id), file));
    let path = PathBuf::from(file);
    let about =
        |error: String| io::Error::new(io::ErrorKind::InvalidData, format!("{}: {error}", path.display()));
    let bytes = std::fs::read(&path).map_err(|error| about(error.to_string()))?;
    let named = stream_description::read(&bytes, now()).map_err(about)?;
    Ok(Given {
        directory: directory.or(named.directory),
        account: named.account.unwrap_or_else(|| account.to_owned()),
        name: named.name,
        config: named.blob,
        created: named.created,
    })
}
