//! Arguments of `myelin backup` and `restore`.

use std::path::PathBuf;

use clap::Args;
use myelin_loadgen::target_server::ConnectionFlags;

use crate::backup::error::BackupError;

const BACKUP_HELP: &str = "\
Examples:
  myelin backup monday                    all streams of the context's account
  myelin backup --check monday            is what is on the disk whole?
  myelin restore monday --verify          into another account or server, and compare

The servers are at work meanwhile: each stream is as it was at one moment. Run an interrupted backup again, and it goes \
on. Exit code 0: all is there, 1: not all, 2: could not begin or go on.";

const RESTORE_HELP: &str = "\
Nothing is overwritten: a stream that exists is named, and nothing is restored; --resume takes up a restore that was \
interrupted. Exit code 0: all was restored, and is equal if that was looked at, 1: not all, 2: could not begin or go on.";

/// `myelin backup …`
#[derive(Args, Debug)]
#[command(after_help = BACKUP_HELP)]
pub(crate) struct BackupArguments {
    /// A new directory, or that of a backup that was interrupted
    pub(super) directory: PathBuf,
    /// Look whether the backup in the directory is whole; asks no server
    #[arg(long, conflicts_with_all = ["stream", "exclude"])]
    pub(super) check: bool,
    #[command(flatten)]
    pub(super) choice: StreamChoice,
    #[command(flatten)]
    pub(super) progress: ProgressFlags,
    #[command(flatten)]
    pub(super) flags: ConnectionFlags,
}

/// `myelin restore …`
#[derive(Args, Debug)]
#[command(after_help = RESTORE_HELP)]
pub(crate) struct RestoreArguments {
    /// Directory of a backup
    pub(super) directory: PathBuf,
    /// Read each stream when it is restored, and compare it with the backup
    #[arg(long)]
    pub(super) verify: bool,
    /// Leave streams that exist and are equal to the backup
    #[arg(long)]
    pub(super) resume: bool,
    /// Give streams so many replicas, instead of as many as they had
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..=5))]
    pub(super) replicas: Option<u8>,
    /// Leave it to the cluster on which servers streams are
    #[arg(long)]
    pub(super) no_placement: bool,
    #[command(flatten)]
    pub(super) choice: StreamChoice,
    #[command(flatten)]
    pub(super) progress: ProgressFlags,
    #[command(flatten)]
    pub(super) flags: ConnectionFlags,
}

/// Streams that are meant.
#[derive(Args, Debug)]
pub(super) struct StreamChoice {
    /// Only this stream; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) stream: Vec<String>,
    /// Not this stream; may be repeated
    #[arg(long, value_name = "NAME")]
    pub(super) exclude: Vec<String>,
    /// Streams at the same time
    #[arg(long, value_name = "NUMBER", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub(super) parallel: u8,
}

/// Output that is wanted.
#[derive(Args, Debug)]
pub(super) struct ProgressFlags {
    /// No bar, and no lines but one for each stream
    #[arg(long)]
    pub(super) no_progress: bool,
    /// One JSON object at the end, and nothing else
    #[arg(short, long)]
    pub(super) json: bool,
}

impl StreamChoice {
    /// Names out of `all` that are meant.
    ///
    /// # Errors
    /// One is meant that is not there, or none is left.
    pub(super) fn of(&self, all: Vec<String>, place: &str) -> Result<Vec<String>, BackupError> {
        let named = self.stream.iter().chain(&self.exclude);
        let unknown: Vec<&str> = named.filter(|name| !all.contains(name)).map(String::as_str).collect();
        if !unknown.is_empty() {
            return Err(BackupError::Other(format!("{place} has no stream {}", unknown.join(", "))));
        }
        let is_meant = |name: &String| self.stream.is_empty() || self.stream.contains(name);
        let chosen: Vec<String> =
            all.into_iter().filter(|name| is_meant(name) && !self.exclude.contains(name)).collect();
        match chosen.is_empty() {
            true => Err(BackupError::Other(format!("{place} has no streams that are meant"))),
            false => Ok(chosen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_chosen_by_name() {
        let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let choose = |stream: &[&str], exclude: &[&str]| {
            StreamChoice { stream: names(stream), exclude: names(exclude), parallel: 1 }
                .of(names(&["A", "B", "C"]), "the account")
                .map_err(|error| error.to_string())
        };
        assert_eq!(choose(&[], &[]), Ok(names(&["A", "B", "C"])));
        assert_eq!(choose(&["B", "A"], &["A"]), Ok(names(&["B"])));
        assert_eq!(choose(&["D"], &["E"]), Err("the account has no stream D, E".into()));
        assert_eq!(choose(&["A"], &["A"]), Err("the account has no streams that are meant".into()));
    }
}
