//! `myelin backup --check DIRECTORY`: reads a backup to its last byte, without a server.

use myelin_loadgen::units::{binary, grouped};
use serde_json::json;

use crate::backup::arguments::BackupArguments;
use crate::backup::error::{BackupError, as_json, tell_failures};
use crate::backup::manifest::{Manifest, ManifestStream};
use crate::backup::place::BackupPlace;
use crate::backup::progress::TransferProgress;
use crate::backup::workers;
use crate::screen::{say, show_json};

/// Checks. Answers whether all is whole.
pub(super) fn run(arguments: &BackupArguments) -> Result<bool, BackupError> {
    let (place, manifest) = BackupPlace::open(&arguments.directory)?;
    let streams: Vec<&ManifestStream> = manifest.streams.iter().collect();
    let size = streams.iter().map(|stream| stream.size).sum();
    let progress = TransferProgress::new("Checking", (streams.len(), size), &arguments.progress);
    let failures = broken(&place, &streams, arguments.choice.parallel.into(), &progress)?;
    tell_failures(&failures);
    let extra: Vec<String> = place
        .streams()?
        .into_iter()
        .filter(|name| !streams.iter().any(|stream| stream.name == *name))
        .collect();
    if arguments.progress.json {
        let failures = as_json(&failures);
        show_json(
            &json!({ "whole": failures.is_empty(), "failures": failures, "backup": manifest, "extra": extra }),
        )?;
    } else {
        let verdict = if failures.is_empty() { "whole" } else { "damaged" };
        say(&format_args!("{}: {verdict}: {}", arguments.directory.display(), sentence(&manifest)));
        extra.iter().for_each(|name| say(&format_args!("streams/{name} is not in the manifest")));
    }
    Ok(failures.is_empty())
}

/// A backup in words.
pub(super) fn sentence(manifest: &Manifest) -> String {
    let messages = manifest.streams.iter().map(|stream| stream.messages).sum();
    let size: u64 = manifest.streams.iter().map(|stream| stream.size).sum();
    let account =
        manifest.account.as_deref().map_or_else(String::new, |account| format!(" of account {account}"));
    format!(
        "{} streams{account}, {} messages, {} in files, made from {} to {} of server {}",
        manifest.streams.len(),
        grouped(messages),
        binary(size as f64),
        manifest.began,
        manifest.ended,
        manifest.server.name
    )
}

/// Streams of the backup that are not as the manifest says, each with why.
pub(super) fn broken(
    place: &BackupPlace,
    streams: &[&ManifestStream],
    at_once: usize,
    progress: &TransferProgress,
) -> Result<Vec<(String, String)>, BackupError> {
    let names: Vec<String> = streams.iter().map(|stream| stream.name.clone()).collect();
    let work = |_: &mut (), name: &str| {
        let stream = streams.iter().find(|stream| stream.name == name);
        let why = stream.map_or(Ok(()), |stream| check(place, stream, progress)).err();
        // A file that cannot be read says nothing of the next one.
        Ok(why.map(|error| error.to_string()))
    };
    let outcomes = progress.during(|| workers::for_each(&names, at_once, &|| Ok(()), &work))?;
    let why = |(name, outcome): (String, Result<Option<String>, BackupError>)| match outcome {
        Ok(why) => why.map(|why| (name, why)),
        Err(error) => Some((name, error.to_string())),
    };
    Ok(outcomes.into_iter().filter_map(why).collect())
}

fn check(
    place: &BackupPlace,
    stream: &ManifestStream,
    progress: &TransferProgress,
) -> Result<(), BackupError> {
    let other = |what: &str| BackupError::Other(format!("{}: {what}", stream.file));
    let archive = place.read(&stream.name, &|bytes| progress.add(bytes as u64))?;
    if archive.size != stream.size {
        return Err(other(&format!("it has {} bytes, and had {}", archive.size, stream.size)));
    }
    if archive.sha256 != stream.sha256 {
        return Err(other("its SHA-256 is not that of the manifest"));
    }
    if !stream.tells_of(&archive.contents) {
        return Err(other("its messages are not those of the manifest"));
    }
    if place.description(&stream.name)?.1 != stream.description_sha256 {
        return Err(other("the SHA-256 of backup.json beside it is not that of the manifest"));
    }
    progress.tell(&format!("{}: whole, {} messages", stream.name, grouped(stream.messages)));
    Ok(())
}
