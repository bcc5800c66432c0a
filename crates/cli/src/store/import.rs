//! `myelin store import`: takes streams out of a store directory of nats-server.
//!
//! Works without a server: nats-server must have been stopped, and ours not started. Nothing in the
//! old directory is written to, renamed or removed.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use clap::Args;
use myelin_disk::Disk;
use myelin_disk::real::RealDisk;
use myelin_natsfiles::directory::NatsDirectory;
use myelin_natsfiles::keys::Keys;
use myelin_store::{Reserve, Store, StoreOptions};
use myelin_streams::backup::import::{Imported, Importer, NotImported};

use crate::screen::{one_line, say};
use crate::store::entropy::{SystemEntropy, now};
use crate::store::keys::KeyArguments;

/// Where the server has its store inside of its `store_dir`.
pub(super) const INSIDE: &str = "jetstream/myelin";

/// Arguments of `myelin store import`.
#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// The store directory of nats-server: its store_dir, or the folder `jetstream` inside
    directory: PathBuf,
    /// The store_dir that myelin-server will use. The same one is allowed: the two stores do not
    /// touch
    #[arg(long, value_name = "DIR")]
    into: PathBuf,
    /// Only streams of this account; may be repeated
    #[arg(long, value_name = "NAME")]
    account: Vec<String>,
    /// Only this stream; may be repeated
    #[arg(long, value_name = "NAME")]
    stream: Vec<String>,
    /// List the streams that would be imported, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// The keys open what nats-server encrypted, and encrypt the new store.
    #[command(flatten)]
    keys: KeyArguments,
}

/// Imports, and says of each stream what became of it.
pub(super) fn run(arguments: &ImportArguments) -> io::Result<ExitCode> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    let root = std::path::absolute(&arguments.directory)?;
    let keys = Keys::new(arguments.keys.texts()?);
    let from = NatsDirectory::open(Arc::clone(&disk), &root, keys)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", root.display())))?;
    let is_wanted = |list: &[String], name: &String| list.is_empty() || list.contains(name);
    let mut streams = from.streams()?;
    streams.retain(|(account, stream)| {
        is_wanted(&arguments.account, account) && is_wanted(&arguments.stream, stream)
    });
    if streams.is_empty() {
        let what = format!("{}: there is no stream of nats-server to import", root.display());
        return Err(io::Error::new(io::ErrorKind::NotFound, what));
    }
    if arguments.dry_run {
        streams.iter().for_each(|(account, stream)| say(&format!("{account} > {stream}")));
        return Ok(ExitCode::SUCCESS);
    }
    let into = std::path::absolute(&arguments.into)?.join(INSIDE);
    // Nobody is told of a message before all of them are synced.
    let options =
        StoreOptions { keys: arguments.keys.keys()?, reserve: Reserve::Nothing, ..StoreOptions::new(&into) };
    disk.make_directory(&into)?;
    let (store, report) = Store::open(disk, options, Arc::new(SystemEntropy)).map_err(|error| {
        io::Error::other(format!("{}: {error}; is the server still running?", into.display()))
    })?;
    let (mut importer, unfinished) =
        Importer::new(&from, &store, &report, now()).map_err(io::Error::other)?;
    if unfinished > 0 {
        say(&format!("{unfinished} streams of an import that was interrupted were removed"));
    }
    let mut is_all = true;
    for (account, stream) in &streams {
        is_all &= import(&mut importer, account, stream);
        let round = store.journal().round_now(&|| now().unsigned_abs());
        round.map_err(|error| io::Error::other(error.to_string()))?;
    }
    drop(importer);
    store.journal().close(&|| now().unsigned_abs()).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(if is_all { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Answers whether all of it was taken.
fn import(importer: &mut Importer<'_>, account: &str, stream: &str) -> bool {
    let began = Instant::now();
    let shows_progress = io::stderr().is_terminal();
    let mut read = 0;
    let done = importer.import(account, stream, now(), &mut |bytes| {
        read += bytes;
        if shows_progress {
            eprint!("\r{}: {} MiB ", one_line(&format!("{account} > {stream}")), read >> 20);
        }
    });
    if shows_progress {
        eprint!("\r\x1b[K");
    }
    match done {
        Ok(Imported { messages, bytes, consumers, left }) => {
            let seconds = began.elapsed().as_secs_f64();
            let rate = read as f64 / seconds.max(1e-6) / 1e6;
            say(&format!(
                "{account} > {stream}: {messages} messages ({bytes} bytes), {consumers} consumers, in {seconds:.1} s \
                 ({rate:.0} MB/s)"
            ));
            left.iter().for_each(|what| say(&format!("{account} > {stream}: not taken: {what}")));
            left.is_empty()
        }
        Err(NotImported::IsThere) => {
            say(&format!("{account} > {stream}: is there already, and was left as it is"));
            true
        }
        Err(NotImported::Failed(why)) => {
            say(&format!("{account} > {stream}: not imported: {why}"));
            false
        }
    }
}
