//! Streams of which no copy of `meta` can be read: from one that has a single wrong bit, or from
//! what the operator gives.
//!
//! What a damaged copy still says of account and name is used to find out which of the given ones
//! it is, and told; the key of an encrypted stream is looked for in it byte by byte, because nobody
//! else has it.

use std::io;
use std::path::PathBuf;

use crate::StreamId;
use crate::damage::Damage;
use crate::flipped;
use crate::keys::{SEALED_KEY_BYTES, StreamKey};
use crate::meta::{META_COPIES, Meta, names_in, read_copies};
use crate::recovery::stream_directory;
use crate::segment::SegmentHeader;
use crate::stream::segment_number;

use super::{Given, RepairAction, RepairOutcome, Repairing, hex, whole};

/// A directory without a name.
struct Nameless {
    id: StreamId,
    directory: PathBuf,
    /// Fault of both copies.
    why: String,
    /// Bytes that are left of them.
    remains: Vec<Vec<u8>>,
    /// Account and name that they seem to say.
    hint: Option<(String, String)>,
}

pub(super) fn repair(repairing: &mut Repairing<'_>) -> io::Result<()> {
    let mut nameless = Vec::new();
    for id in repairing.streams()? {
        let directory = stream_directory(repairing.root, id);
        let copies = read_copies(&*repairing.disk, &directory, id);
        match &copies.best {
            Ok(_) => {}
            Err(damage @ Damage::Version(..)) => {
                let what = format!("{damage}: use a server of that version");
                repairing.emit(RepairAction::new(RepairOutcome::Left, directory.join(META_COPIES[0]), what));
            }
            Err(_) => nameless.extend(correct_copy(repairing, id, directory, copies.words())?),
        }
    }
    let mut taken = vec![false; repairing.options.given.len()];
    let given = &repairing.options.given;
    let is_claimed = |one: &&Nameless| given.iter().any(|given| given.directory == Some(one.id));
    let only = nameless.iter().filter(|one| !is_claimed(one)).count() == 1;
    for one in nameless {
        let chosen = choose(&repairing.options.given, &taken, &one, only);
        match chosen {
            Some(at) => {
                taken[at] = true;
                give(repairing, &one, &repairing.options.given[at].clone())?;
            }
            None => repairing.emit(RepairAction::new(RepairOutcome::Left, &one.directory, ask(&one))),
        }
    }
    let unused: Vec<Given> = repairing
        .options
        .given
        .iter()
        .zip(&taken)
        .filter(|(_, taken)| !**taken)
        .map(|(given, _)| given.clone())
        .collect();
    for given in unused {
        let what = format!(
            "the configuration given for stream {} of account {} was not used: no directory without a name is its own",
            given.name, given.account
        );
        repairing.emit(RepairAction::new(RepairOutcome::Left, "streams", what));
    }
    Ok(())
}

fn ask(one: &Nameless) -> String {
    let hint = one.hint.as_ref().map_or(String::new(), |(account, name)| {
        format!(" (it seems to be stream {name} of account {account})")
    });
    format!(
        "{}{hint}: give the stream's configuration, --config {}=FILE.json --account NAME, and it can be opened again",
        one.why,
        hex(one.id)
    )
}

/// Corrects one of the copies if that can be done; what is left otherwise.
fn correct_copy(
    repairing: &mut Repairing<'_>,
    id: StreamId,
    directory: PathBuf,
    why: String,
) -> io::Result<Option<Nameless>> {
    let mut remains = Vec::new();
    for name in META_COPIES {
        let Ok(file) = repairing.disk.open_read_only(&directory.join(name)) else { continue };
        remains.push(whole(&*file)?);
    }
    let corrected = remains.iter().filter_map(|bytes| {
        let mut bytes = bytes.clone();
        flipped::correct(&mut bytes, 0)?;
        Meta::decode(&bytes).ok().filter(|meta| meta.stream == id)
    });
    if let Some(meta) = corrected.max_by_key(|meta| meta.generation) {
        write(repairing, &directory, &meta)?;
        let what = format!("{why}; one bit was not what was written, and was corrected");
        let action = RepairAction::new(RepairOutcome::Repaired, directory.join(META_COPIES[0]), what);
        repairing.emit(action.of(id, &meta.account, &meta.name));
        return Ok(None);
    }
    let hint = remains.iter().find_map(|bytes| names_in(bytes));
    Ok(Some(Nameless { id, directory, why, remains, hint }))
}

/// Which of the given ones belongs to the directory.
fn choose(given: &[Given], taken: &[bool], one: &Nameless, only: bool) -> Option<usize> {
    let free = || given.iter().enumerate().filter(|(at, _)| !taken[*at]);
    let named = free().find(|(_, given)| given.directory == Some(one.id));
    let alike = || {
        let (account, name) = one.hint.as_ref()?;
        free()
            .find(|(_, given)| given.directory.is_none() && given.account == *account && given.name == *name)
    };
    let last = || {
        // With one of each there is nothing to choose.
        let mut open = free().filter(|(_, given)| given.directory.is_none());
        open.next().filter(|_| only && open.next().is_none())
    };
    named.or_else(alike).or_else(last).map(|(at, _)| at)
}

fn give(repairing: &mut Repairing<'_>, one: &Nameless, given: &Given) -> io::Result<()> {
    let path = one.directory.join(META_COPIES[0]);
    let about = |action: RepairAction| action.of(one.id, &given.account, &given.name);
    if is_taken(repairing, given)? {
        let what = format!("{}; the account has a stream of the given name already", one.why);
        repairing.emit(about(RepairAction::new(RepairOutcome::Left, path, what)));
        return Ok(());
    }
    let sealed_keys = sealed_key(repairing, one);
    let is_encrypted = is_encrypted(repairing, one)?;
    if is_encrypted && sealed_keys.is_none() {
        let what = if repairing.options.keys.is_none() {
            "it is encrypted: its own key is looked for in what is left of meta, and for that the store's key is needed (--key-file)"
        } else {
            "it is encrypted, and nothing is left of its key: its messages cannot be read"
        };
        let outcome =
            if repairing.options.keys.is_none() { RepairOutcome::Left } else { RepairOutcome::Lost };
        repairing.emit(about(RepairAction::new(outcome, path, format!("{}; {what}", one.why))));
        return Ok(());
    }
    let meta = Meta {
        stream: one.id,
        created: given.created,
        account: given.account.clone(),
        name: given.name.clone(),
        config: given.config.clone(),
        sealed_keys: sealed_keys.unwrap_or_default(),
        generation: 1,
    };
    write(repairing, &one.directory, &meta)?;
    let what = format!("{}; written again from the given configuration", one.why);
    repairing.emit(about(RepairAction::new(RepairOutcome::Repaired, path, what)));
    Ok(())
}

/// Writes both copies; what was there is in quarantine before.
fn write(repairing: &Repairing<'_>, directory: &std::path::Path, meta: &Meta) -> io::Result<()> {
    for name in META_COPIES {
        let path = directory.join(name);
        if repairing.disk.open_read_only(&path).is_ok() {
            repairing.copy_aside(&path, &hex(meta.stream))?;
        }
    }
    meta.write(&*repairing.disk, directory)
}

fn is_taken(repairing: &Repairing<'_>, given: &Given) -> io::Result<bool> {
    let mut others = repairing.streams()?.into_iter().filter_map(|id| {
        let directory = stream_directory(repairing.root, id);
        read_copies(&*repairing.disk, &directory, id).best.ok()
    });
    Ok(others.any(|meta| meta.account == given.account && meta.name == given.name))
}

/// The stream's sealed key in what is left of its `meta`: the bytes that open.
fn sealed_key(repairing: &Repairing<'_>, one: &Nameless) -> Option<Vec<u8>> {
    let keys = repairing.options.keys.as_ref()?;
    let opens = |window: &&[u8]| StreamKey::open(window, one.id, keys).is_ok();
    let found = one.remains.iter().find_map(|bytes| bytes.windows(SEALED_KEY_BYTES).find(opens));
    found.map(<[u8]>::to_vec)
}

fn is_encrypted(repairing: &Repairing<'_>, one: &Nameless) -> io::Result<bool> {
    for entry in repairing.disk.list(&one.directory)? {
        if segment_number(&entry.name).is_none() {
            continue;
        }
        let file = repairing.disk.open_read_only(&one.directory.join(&entry.name))?;
        if SegmentHeader::read(&*file).is_ok_and(|header| header.encryption.is_some()) {
            return Ok(true);
        }
    }
    Ok(false)
}
