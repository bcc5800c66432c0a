//! `myelin backup DIRECTORY`: takes the streams, several at once, and writes the manifest when all
//! of them are there.

use std::collections::BTreeMap;

use myelin_loadgen::admin::{Admin, is_api_error};
use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use myelin_loadgen::units::{binary, grouped};
use serde_json::{Value, json};

use crate::backup::arguments::BackupArguments;
use crate::backup::compare::changed_settings;
use crate::backup::contents::{Contents, ContentsReader};
use crate::backup::error::{BackupError, as_json, tell_failures};
use crate::backup::manifest::{Manifest, ManifestStream, now};
use crate::backup::place::BackupPlace;
use crate::backup::progress::TransferProgress;
use crate::backup::snapshot::StreamTransfer;
use crate::backup::workers;
use crate::screen::{say, show_json};

/// Number of the error "stream not found".
const STREAM_NOT_FOUND: u64 = 10059;

/// Outcome for a stream.
enum Taken {
    Whole(Box<ManifestStream>),
    /// Somebody removed it meanwhile.
    Removed,
}

/// Backs up. Answers whether all streams are there.
pub(super) fn run(arguments: &BackupArguments) -> Result<bool, BackupError> {
    let target = arguments.flags.target()?;
    let mut admin = Admin::open(&target)?;
    is_supported(admin.info())?;
    let (all, sizes) = listed(&mut admin)?;
    let streams = arguments.choice.of(all, "the account")?;
    let place = BackupPlace::begin(&arguments.directory)?;
    let account = admin.account();
    let mut manifest = Manifest::new(admin.info(), account, now());
    let bytes = streams.iter().filter_map(|name| sizes.get(name)).sum();
    let progress = TransferProgress::new("Backing up", (streams.len(), bytes), &arguments.progress);
    let open = || StreamTransfer::open(&target).map_err(BackupError::from);
    let work = |transfer: &mut StreamTransfer, name: &str| take(transfer, &place, name, &progress);
    let at_once = arguments.choice.parallel.into();
    let outcomes = progress.during(|| workers::for_each(&streams, at_once, &open, &work))?;
    let mut failures = Vec::new();
    for (name, outcome) in outcomes {
        match outcome {
            Ok(Taken::Whole(stream)) => manifest.streams.push(*stream),
            Ok(Taken::Removed) => manifest.removed_meanwhile.push(name),
            Err(error) => failures.push((name, error.to_string())),
        }
    }
    add_removed_since(&place, &mut manifest, &streams, &failures)?;
    manifest.ended = now();
    tell_failures(&failures);
    let shown = arguments.directory.display();
    if failures.is_empty() {
        place.finish(&manifest)?;
    } else {
        eprintln!(
            "myelin: error: {} of {} streams are not backed up, and there is no manifest: run the same command again \
             when that is mended, or leave them out (--exclude NAME)",
            failures.len(),
            streams.len()
        );
    }
    let messages = manifest.streams.iter().map(|stream| stream.messages).sum();
    let size = manifest.streams.iter().map(|stream| stream.size).sum::<u64>();
    if arguments.progress.json {
        show_json(
            &json!({ "backup": manifest, "whole": failures.is_empty(), "failures": as_json(&failures) }),
        )?;
    } else if failures.is_empty() {
        let (count, size) = (manifest.streams.len(), binary(size as f64));
        say(&format_args!("{shown}: {count} streams, {} messages, {size} in files", grouped(messages)));
    }
    Ok(failures.is_empty())
}

/// Fails for servers whose backups are of another kind.
fn is_supported(info: &Value) -> Result<(), BackupError> {
    let version = info["version"].as_str().unwrap_or_default();
    let mut parts = version.split('.').map(|part| part.parse::<u32>().unwrap_or_default());
    match (parts.next().unwrap_or_default(), parts.next().unwrap_or_default()) {
        parts if parts < (2, 15) => Err(BackupError::Other(format!(
            "the server is nats-server {version}, whose backups are of an older kind: use `nats stream backup`"
        ))),
        _ => Ok(()),
    }
}

/// Names of all streams, and the bytes of those that say so: in a cluster some may be silent.
fn listed(admin: &mut Admin) -> Result<(Vec<String>, BTreeMap<String, u64>), BackupError> {
    let name = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let all: Vec<String> = admin.streams("NAMES")?.iter().map(name).collect();
    all.iter().try_for_each(|stream| names::stream(stream))?;
    let infos = admin.streams("LIST")?;
    let size =
        |info: &Value| (name(&info["config"]["name"]), info["state"]["bytes"].as_u64().unwrap_or_default());
    Ok((all, infos.iter().map(size).collect()))
}

/// Takes one stream, unless it is here already, as it is there.
fn take(
    transfer: &mut StreamTransfer,
    place: &BackupPlace,
    name: &str,
    progress: &TransferProgress,
) -> Result<Taken, BackupError> {
    if place.has(name)
        && let Some(stream) = unchanged(transfer, place, name)
    {
        progress.tell(&format!("{name}: is here already, and has not changed since"));
        return Ok(Taken::Whole(Box::new(stream)));
    }
    let mut made = place.new_archive(name)?;
    let mut reader = ContentsReader::default();
    let received = transfer.receive(name, &mut |bytes| {
        made.write(bytes)?;
        reader.feed(bytes, &mut |message| {
            progress.add(message.bytes);
            Ok(())
        })
    });
    let description = match received {
        Err(error) if !error.ends_all() && is_removed(&mut transfer.admin, name) => {
            progress.tell(&format!("{name}: was removed meanwhile, and is left out ({error})"));
            return Ok(Taken::Removed);
        }
        received => received?,
    };
    let contents = reader.finish()?;
    let text = serde_json::to_vec_pretty(&description)
        .map_err(|error| BackupError::Other(format!("its description: {error}")))?;
    let (size, sha256, description_sha256) = place.keep(name, made, &text)?;
    let stream = row(name, (size, sha256, description_sha256), &contents);
    let ManifestStream { messages, consumers, .. } = &stream;
    let (messages, size) = (grouped(*messages), binary(size as f64));
    progress.tell(&format!("{name}: {messages} messages, {} consumers, {size}", consumers.len()));
    Ok(Taken::Whole(Box::new(stream)))
}

fn is_removed(admin: &mut Admin, name: &str) -> bool {
    admin.stream(name).is_err_and(|error| is_api_error(&error, STREAM_NOT_FOUND))
}

fn row(
    name: &str,
    (size, sha256, description_sha256): (u64, String, String),
    contents: &Contents,
) -> ManifestStream {
    let taken = jiff::Timestamp::from_nanosecond(contents.taken.into()).unwrap_or_default();
    ManifestStream {
        name: name.to_owned(),
        file: BackupPlace::archive_name(name),
        size,
        sha256,
        description_sha256,
        taken: taken.to_string(),
        messages: contents.messages,
        first_seq: contents.first,
        last_seq: contents.last,
        digest: contents.digest.clone(),
        consumers: contents.consumers.keys().cloned().collect(),
    }
}

/// A stream that is here whole, if it is there as it is here.
fn unchanged(transfer: &mut StreamTransfer, place: &BackupPlace, name: &str) -> Option<ManifestStream> {
    let (description, sha256) = place.description(name).ok()?;
    let archive = place.read(name, &|_| {}).ok()?;
    let is_same = is_as_here(&mut transfer.admin, name, &description, &archive.contents).unwrap_or(false);
    is_same.then(|| row(name, (archive.size, archive.sha256, sha256), &archive.contents))
}

/// Whether the stream at the server has the state, the configuration and the consumers that it has
/// here.
fn is_as_here(
    admin: &mut Admin,
    name: &str,
    description: &Value,
    contents: &Contents,
) -> Result<bool, BenchError> {
    let info = admin.stream(name)?;
    let counts = ["messages", "bytes", "first_seq", "first_ts", "last_seq", "last_ts", "consumer_count"];
    let is_same_state = counts.iter().all(|count| info["state"][count] == description["state"][count]);
    if !is_same_state || !changed_settings(&info["config"], &description["config"]).is_empty() {
        return Ok(false);
    }
    let consumers = admin.consumers("LIST", name)?;
    let is_same = |info: &Value| {
        let pair = |name: &str| {
            let number = |part: &str| info[name][part].as_u64().unwrap_or_default();
            (number("consumer_seq"), number("stream_seq"))
        };
        contents.consumers.get(info["name"].as_str().unwrap_or_default()).is_some_and(|was| {
            was.delivered == pair("delivered")
                && was.ack_floor == pair("ack_floor")
                && Some(was.pending) == info["num_ack_pending"].as_u64()
                && changed_settings(&was.config, &info["config"]).is_empty()
        })
    };
    Ok(consumers.len() == contents.consumers.len() && consumers.iter().all(is_same))
}

/// Adds streams that were backed up before an interruption, and that the account has no longer:
/// they are whole, and were there.
fn add_removed_since(
    place: &BackupPlace,
    manifest: &mut Manifest,
    taken: &[String],
    failures: &[(String, String)],
) -> Result<(), BackupError> {
    for name in place.streams()? {
        if taken.contains(&name) && !manifest.removed_meanwhile.contains(&name)
            || failures.iter().any(|(failed, _)| *failed == name)
        {
            continue;
        }
        let ((_, sha256), archive) = (place.description(&name)?, place.read(&name, &|_| {})?);
        manifest.streams.push(row(&name, (archive.size, archive.sha256, sha256), &archive.contents));
        manifest.removed_meanwhile.retain(|removed| *removed != name);
    }
    manifest.streams.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_of_another_kind_are_told_by_their_version() {
        let is_well = |version: &str| is_supported(&json!({ "version": version })).is_ok();
        assert!(is_well("2.15.0") && is_well("2.16.0-dev") && is_well("3.0.0"));
        assert!(!is_well("2.14.3") && !is_well("1.4.1") && !is_well(""));
    }
}
