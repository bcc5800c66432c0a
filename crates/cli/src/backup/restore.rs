//! `myelin restore DIRECTORY`: makes the streams of a backup, in an order in which each finds the
//! streams that it copies from, and compares them if that is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use myelin_loadgen::admin::{Admin, is_api_error};
use myelin_loadgen::target_server::Target;
use myelin_loadgen::units::{binary, grouped};
use serde_json::{Value, json};

use crate::backup::arguments::{ProgressFlags, RestoreArguments};
use crate::backup::compare::{Comparison, compare};
use crate::backup::error::{BackupError, as_json, tell_failures};
use crate::backup::manifest::{Manifest, ManifestStream};
use crate::backup::place::BackupPlace;
use crate::backup::progress::TransferProgress;
use crate::backup::snapshot::StreamTransfer;
use crate::backup::workers::StreamOutcomes;
use crate::backup::{check, workers};
use crate::screen::{say, show_json};

/// How long a stream that was just made in a cluster may have no leader.
const WAIT_FOR_LEADER: Duration = Duration::from_secs(30);
const BETWEEN_LOOKS: Duration = Duration::from_millis(200);

/// Numbers of errors of a stream that nobody leads yet: not available, no leader, not there yet.
const NOT_YET: [u64; 3] = [10008, 10009, 10059];

/// Streams to restore, and the way to do it.
struct RestoreOrder<'a> {
    place: &'a BackupPlace,
    streams: BTreeMap<&'a str, &'a ManifestStream>,
    descriptions: BTreeMap<String, Value>,
    arguments: &'a RestoreArguments,
}

/// Outcome for a stream.
enum Restored {
    /// The server has made it.
    Made(Option<Comparison>),
    /// The stream was there, and was compared.
    WasThere(Comparison),
}

/// Restores. Answers whether all streams are there, and equal if that was looked at.
pub(super) fn run(arguments: &RestoreArguments) -> Result<bool, BackupError> {
    let (place, manifest) = BackupPlace::open(&arguments.directory)?;
    let all = manifest.streams.iter().map(|stream| stream.name.clone()).collect();
    let names = arguments.choice.of(all, "the backup")?;
    let is_chosen = |stream: &&ManifestStream| names.contains(&stream.name);
    let streams: Vec<&ManifestStream> = manifest.streams.iter().filter(is_chosen).collect();
    let target = arguments.flags.target()?;
    let there = existing(&target, arguments, &names)?;
    let at_once = arguments.choice.parallel.into();
    let size: u64 = streams.iter().map(|stream| stream.size).sum();
    let quiet = ProgressFlags { json: true, no_progress: arguments.progress.no_progress };
    let checked = TransferProgress::new("Checking", (streams.len(), size), &quiet);
    let damaged = check::broken(&place, &streams, at_once, &checked)?;
    if !damaged.is_empty() {
        tell_failures(&damaged);
        let count = damaged.len();
        return Err(BackupError::Other(format!(
            "{count} streams of the backup are damaged, and nothing was restored: leave them out (--exclude NAME)"
        )));
    }
    let mut order = RestoreOrder {
        place: &place,
        streams: streams.iter().map(|stream| (stream.name.as_str(), *stream)).collect(),
        descriptions: BTreeMap::new(),
        arguments,
    };
    for name in &names {
        order.descriptions.insert(name.clone(), place.description(name)?.0);
    }
    tell_sources(&order.descriptions);
    let progress = TransferProgress::new("Restoring", (streams.len(), size), &arguments.progress);
    let open = || StreamTransfer::open(&target).map_err(BackupError::from);
    let work = |transfer: &mut StreamTransfer, name: &str| {
        let done = if there.contains(name) {
            order.compare(transfer, name)
        } else {
            order.restore(transfer, name, &progress)
        };
        done.inspect(|restored| progress.tell(&order.line(name, restored)))
    };
    let mut outcomes = Vec::new();
    progress.during(|| {
        for wave in waves(&order.descriptions) {
            outcomes.extend(workers::for_each(&wave, at_once, &open, &work)?);
        }
        Ok::<(), BackupError>(())
    })?;
    summary(&manifest, &order, outcomes)
}

/// Streams of the backup that are there already.
///
/// # Errors
/// There are some, and they are not to be looked at.
fn existing(
    target: &Target,
    arguments: &RestoreArguments,
    names: &[String],
) -> Result<BTreeSet<String>, BackupError> {
    let mut admin = Admin::open(target)?;
    let all = admin.streams("NAMES")?;
    let all: BTreeSet<&str> = all.iter().filter_map(Value::as_str).collect();
    let there: BTreeSet<String> = names.iter().filter(|name| all.contains(name.as_str())).cloned().collect();
    if !there.is_empty() && !arguments.resume {
        let named = there.into_iter().collect::<Vec<_>>().join(", ");
        return Err(BackupError::Other(format!(
            "these streams exist, and nothing was restored: {named}; remove them, leave them out (--exclude NAME), or \
             go on with a restore that was interrupted (--resume)"
        )));
    }
    Ok(there)
}

/// Streams in groups: each finds what it is a mirror of, and its sources, in a group before its
/// own, but for circles of sources.
fn waves(descriptions: &BTreeMap<String, Value>) -> Vec<Vec<String>> {
    let mut left: BTreeMap<&String, BTreeSet<&str>> =
        descriptions.iter().map(|(name, value)| (name, origins(&value["config"]))).collect();
    let mut waves = Vec::new();
    while !left.is_empty() {
        let is_free = |origins: &BTreeSet<&str>| !left.keys().any(|name| origins.contains(name.as_str()));
        let mut wave: Vec<String> =
            left.iter().filter(|(_, origins)| is_free(origins)).map(|(name, _)| (*name).clone()).collect();
        if wave.is_empty() {
            wave = left.keys().map(|name| (*name).clone()).collect();
        }
        left.retain(|name, _| !wave.contains(name));
        waves.push(wave);
    }
    waves
}

/// Streams of the same account that a stream copies from.
fn origins(config: &Value) -> BTreeSet<&str> {
    let mirror = std::iter::once(&config["mirror"]);
    let all = mirror.chain(config["sources"].as_array().into_iter().flatten());
    let own = config["name"].as_str();
    let near = all.filter(|origin| origin["external"].is_null()).filter_map(|origin| origin["name"].as_str());
    near.filter(|name| Some(*name) != own).collect()
}

/// Tells which streams will hold messages twice. To both servers a stream that was restored is
/// another one than before, and a source that was made anew is copied from its beginning.
fn tell_sources(descriptions: &BTreeMap<String, Value>) {
    for (name, description) in descriptions {
        let config = &description["config"];
        let origins = origins(config);
        let restored: Vec<&str> =
            origins.into_iter().filter(|origin| descriptions.contains_key(*origin)).collect();
        if !restored.is_empty() && config["mirror"].is_null() {
            eprintln!(
                "myelin: note: stream {name} has sources that are restored, too: {}. It copies them once more, from \
                 their beginning (docs/backup.md, \"Sources\")",
                restored.join(", ")
            );
        }
    }
}

impl RestoreOrder<'_> {
    fn config(&self, name: &str) -> &Value {
        self.descriptions.get(name).map_or(&Value::Null, |description| &description["config"])
    }

    fn restore(
        &self,
        transfer: &mut StreamTransfer,
        name: &str,
        progress: &TransferProgress,
    ) -> Result<Restored, BackupError> {
        let mut description = self.descriptions.get(name).cloned().unwrap_or_default();
        if let Some(replicas) = self.arguments.replicas {
            description["config"]["num_replicas"] = replicas.into();
        }
        if self.arguments.no_placement
            && let Some(config) = description["config"].as_object_mut()
        {
            config.remove("placement");
        }
        let archive = self.place.archive(name);
        let info = transfer.send(name, &description, &archive, &|bytes| progress.add(bytes as u64))?;
        if self.arguments.verify {
            return Ok(Restored::Made(Some(self.compared(transfer, name)?)));
        }
        let wanted = self.streams.get(name).map_or(0, |stream| stream.last_seq);
        match info["state"]["last_seq"].as_u64() {
            Some(last) if last >= wanted => Ok(Restored::Made(None)),
            last => Err(BackupError::Other(format!("its last sequence is {last:?}, and was {wanted}"))),
        }
    }

    fn compare(&self, transfer: &mut StreamTransfer, name: &str) -> Result<Restored, BackupError> {
        self.compared(transfer, name).map(Restored::WasThere)
    }

    /// Compares the stream, once somebody leads it.
    fn compared(&self, transfer: &mut StreamTransfer, name: &str) -> Result<Comparison, BackupError> {
        let (archive, end) =
            (self.place.archive(name), self.streams.get(name).map_or(0, |stream| stream.last_seq));
        let deadline = Instant::now() + WAIT_FOR_LEADER;
        loop {
            match compare(transfer, name, (&archive, end), self.config(name)) {
                Err(BackupError::Server(error))
                    if NOT_YET.iter().any(|number| is_api_error(&error, *number))
                        && Instant::now() < deadline =>
                {
                    std::thread::sleep(BETWEEN_LOOKS);
                }
                compared => return compared,
            }
        }
    }

    /// A line about a stream.
    fn line(&self, name: &str, restored: &Restored) -> String {
        let messages = self.streams.get(name).map_or(0, |stream| stream.messages);
        let (what, comparison) = match restored {
            Restored::Made(comparison) => {
                (format!("{} messages restored", grouped(messages)), comparison.as_ref())
            }
            Restored::WasThere(comparison) => ("was there".to_owned(), Some(comparison)),
        };
        let Some(comparison) = comparison else { return format!("{name}: {what}") };
        let verdict = if comparison.is_equal() { "equal to the backup" } else { "NOT equal to the backup" };
        let details = comparison.differences.iter().chain(&comparison.notes);
        let details: String = details.map(|detail| format!("; {detail}")).collect();
        format!("{name}: {what}, {verdict} (digest {:.16}…){details}", comparison.digest)
    }
}

/// Tells how it ended. Answers whether all is well.
fn summary(
    manifest: &Manifest,
    order: &RestoreOrder<'_>,
    outcomes: StreamOutcomes<Restored>,
) -> Result<bool, BackupError> {
    let (mut failures, mut rows, mut unequal, mut compared) = (Vec::new(), Vec::new(), 0, 0);
    for (name, outcome) in outcomes {
        let (made, comparison) = match outcome {
            Ok(Restored::Made(comparison)) => (true, comparison),
            Ok(Restored::WasThere(comparison)) => (false, Some(comparison)),
            Err(error) => {
                failures.push((name, error.to_string()));
                continue;
            }
        };
        let messages = order.streams.get(name.as_str()).map_or(0, |stream| stream.messages);
        let mut row = json!({ "name": name, "restored": made, "messages": messages });
        if let Some(comparison) = comparison {
            let Comparison { digest, differences, notes } = &comparison;
            compared += 1;
            unequal += usize::from(!comparison.is_equal());
            row["equal"] = comparison.is_equal().into();
            row["digest"] = digest.as_str().into();
            row["differences"] = differences.clone().into();
            row["notes"] = notes.clone().into();
        }
        rows.push(row);
    }
    tell_failures(&failures);
    let is_well = failures.is_empty() && unequal == 0;
    if order.arguments.progress.json {
        show_json(&json!({ "restored": is_well, "streams": rows, "failures": as_json(&failures) }))?;
        return Ok(is_well);
    }
    let size: u64 = order.streams.values().map(|stream| stream.size).sum();
    let from = &manifest.server.name;
    let count = order.streams.len();
    say(&format_args!(
        "{} of {count} streams of server {from} are here, {} in files",
        rows.len(),
        binary(size as f64)
    ));
    match (compared, unequal) {
        (0, _) => {}
        (compared, 0) => say(&format_args!("{compared} compared, all equal to the backup")),
        (compared, unequal) => say(&format_args!("{compared} compared, {unequal} NOT equal to the backup")),
    }
    Ok(is_well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_come_behind_those_that_they_copy_from() {
        let of = |text: &str| {
            let all: Vec<Value> = serde_json::from_str(text).unwrap();
            let named =
                |config: Value| (config["name"].as_str().unwrap().to_owned(), json!({ "config": config }));
            waves(&all.into_iter().map(named).collect())
        };
        let chain = r#"[{"name":"A","mirror":{"name":"B"}},{"name":"B","sources":[{"name":"C"},{"name":"elsewhere"}]},
            {"name":"C"},{"name":"D","mirror":{"name":"A","external":{"api":"x"}}}]"#;
        assert_eq!(of(chain), [vec!["C", "D"], vec!["B"], vec!["A"]]);
        let circle =
            r#"[{"name":"A","sources":[{"name":"B"}]},{"name":"B","sources":[{"name":"A"}]},{"name":"C"}]"#;
        assert_eq!(of(circle), [vec!["C"], vec!["A", "B"]]);
    }
}
