//! Answers about the certificates of clients, kept in memory and in a file (`ocsp_cache`).
//!
//! Compat: the file is the reference's, so that either server goes on with what the other has kept:
//! JSON by fingerprint of the certificate, with the answer compressed as an S2 stream.

use myelin_stdx::entropy::OsEntropy;
use myelin_stdx::sync::lock;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use jiff::{RoundMode, Timestamp, TimestampRound, Unit};
use myelin_conf::options::OcspCacheOptions;
use myelin_stdx::base64;
use myelin_wire::ocsp::CertStatus;
use serde::{Deserialize, Serialize};

use super::proof::Proof;
use crate::logging::Logger;

/// Answers that are kept at most. An authority has signed every certificate that has one, and that
/// may be a great many.
const MOST: usize = 65_536;

/// The longest answer that a file may hold.
const LONGEST: u64 = 64 * 1024;

const FILE: &str = "cache.json";

/// Cache of OCSP responses about the certificates of clients, in memory and in a file.
pub(crate) struct Cache {
    options: OcspCacheOptions,
    log: Arc<Logger>,
    state: Mutex<CacheState>,
}

#[derive(Default)]
struct CacheState {
    entries: BTreeMap<String, CacheEntry>,
    is_dirty: bool,
    hits: i64,
    misses: i64,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct CacheEntry {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    subject: String,
    cached_at: String,
    resp_status: String,
    resp_expires: String,
    resp: String,
}

/// Statistics for monitoring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stats {
    pub(crate) hits: i64,
    pub(crate) misses: i64,
    pub(crate) responses: i64,
    pub(crate) revokes: i64,
    pub(crate) goods: i64,
    pub(crate) unknowns: i64,
}

impl Cache {
    /// The cache that the options describe, with what its file holds.
    pub(crate) fn open(options: OcspCacheOptions, log: &Arc<Logger>) -> Arc<Self> {
        let cache = Self { options, log: Arc::clone(log), state: Mutex::default() };
        if cache.options.enabled {
            log.debug("Starting OCSP peer cache");
            cache.load();
        }
        let kind = if cache.options.enabled { "local" } else { "none" };
        log.info(format_args!("OCSP peer cache online, type [{kind}]"));
        Arc::new(cache)
    }

    /// An empty cache that is never written down.
    pub(super) fn in_memory(log: &Arc<Logger>) -> Arc<Self> {
        Arc::new(Self { options: OcspCacheOptions::default(), log: Arc::clone(log), state: Mutex::default() })
    }

    pub(super) fn options(&self) -> &OcspCacheOptions {
        &self.options
    }

    /// How often the file is written, if anything has changed; `None` when there is no file.
    pub(crate) fn save_interval(&self) -> Option<Duration> {
        self.options.enabled.then_some(self.options.save_interval)
    }

    /// `None` where nothing is kept.
    pub(crate) fn stats(&self) -> Option<Stats> {
        if !self.options.enabled {
            return None;
        }
        let state = self.state();
        let count =
            |status: &str| state.entries.values().filter(|entry| entry.resp_status == status).count() as i64;
        Some(Stats {
            hits: state.hits,
            misses: state.misses,
            responses: state.entries.len() as i64,
            revokes: count("revoked"),
            goods: count("good"),
            unknowns: count("unknown"),
        })
    }

    fn state(&self) -> MutexGuard<'_, CacheState> {
        lock(&self.state)
    }

    /// The answer about the certificate with this fingerprint.
    pub(super) fn get(&self, key: &str) -> Option<Vec<u8>> {
        if !self.options.enabled {
            return None;
        }
        let mut state = self.state();
        let packed = state.entries.get(key).map(|entry| entry.resp.clone());
        if packed.is_some() {
            state.hits += 1;
        } else {
            state.misses += 1;
        }
        drop(state);
        let what = if packed.is_some() { "hit" } else { "miss" };
        self.log.debug(format_args!("OCSP peer cache {what} for key [{key}]"));
        let unpacked = base64::decode(&packed?).and_then(|packed| unpack(&packed).ok());
        if unpacked.is_none() {
            self.log.error(format_args!("Unable to decompress OCSP response for key [{key}]: corrupt input"));
        }
        unpacked
    }

    /// Keeps an answer that was checked.
    pub(super) fn put(&self, key: &str, subject: &str, proof: &Proof) {
        if !self.options.enabled {
            return;
        }
        self.log.debug(format_args!("Caching OCSP response for [{subject}], key [{key}]"));
        let packed = match pack(&proof.raw) {
            Ok(packed) => packed,
            Err(error) => {
                self.log.error(format_args!("Unable to compress OCSP response for key [{key}]: {error}"));
                return;
            }
        };
        let rounding = TimestampRound::new().smallest(Unit::Second).mode(RoundMode::HalfExpand);
        let now = Timestamp::now();
        let entry = CacheEntry {
            subject: subject.to_owned(),
            cached_at: now.round(rounding).unwrap_or(now).to_string(),
            resp_status: proof.status.to_string(),
            // Compat: an answer that does not say until when it holds has Go's first moment here.
            resp_expires: proof
                .next_update
                .and_then(|seconds| Timestamp::from_second(seconds).ok())
                .map_or_else(|| "0001-01-01T00:00:00Z".to_owned(), |time| time.to_string()),
            resp: base64::encode(&packed),
        };
        let mut state = self.state();
        if state.entries.len() < MOST || state.entries.contains_key(key) {
            state.entries.insert(key.to_owned(), entry);
            state.is_dirty = true;
        }
    }

    /// Forgets an answer that was of no use, which counts as a miss. Revocations may be kept
    /// nevertheless.
    pub(super) fn delete(&self, key: &str) {
        let mut state = self.state();
        let Some(entry) = state.entries.get(key) else { return };
        let is_preserved =
            self.options.preserve_revoked && entry.resp_status == CertStatus::Revoked.to_string();
        state.hits -= 1;
        state.misses += 1;
        if !is_preserved {
            state.entries.remove(key);
            state.is_dirty = true;
        }
        drop(state);
        if is_preserved {
            let what = format_args!("Revoked OCSP response for key [{key}] preserved by cache policy");
            self.log.debug(what);
        } else {
            self.log.debug(format_args!("Deleting OCSP peer cached response for key [{key}]"));
        }
    }

    fn directory(&self) -> PathBuf {
        let directory = &self.options.local_store;
        PathBuf::from(if directory.is_empty() { "_rc_" } else { directory })
    }

    fn load(&self) {
        let path = self.directory().join(FILE);
        self.log.debug(format_args!("Loading OCSP peer cache [{}]", path.display()));
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.log.debug("No OCSP peer cache found, starting with empty cache");
                return;
            }
            Err(error) => {
                let error = crate::os_error::words(&error);
                self.log.warn(format_args!("Unable to load OCSP peer cache: {error}"));
                return;
            }
        };
        match serde_json::from_slice(&text) {
            Ok(entries) => self.state().entries = entries,
            Err(error) => {
                self.log.warn(format_args!("Unable to load OCSP peer cache: {error}"));
                self.state().is_dirty = true;
            }
        }
    }

    /// Writes the file if anything has changed since the last time.
    pub(crate) fn save(&self) {
        if !self.options.enabled || !self.state().is_dirty {
            return;
        }
        match self.try_save() {
            Ok(length) => {
                self.log.debug(format_args!("Saved OCSP peer cache successfully ({length} bytes)"));
            }
            Err(error) => {
                let error = crate::os_error::words(&error);
                self.log.error(format_args!("Unable to save OCSP peer cache: {error}"));
            }
        }
    }

    fn try_save(&self) -> io::Result<usize> {
        let directory = self.directory();
        self.log.debug(format_args!("Saving OCSP peer cache [{}]", directory.join(FILE).display()));
        if !directory.exists() {
            fs::create_dir(&directory)?;
        }
        let entries = {
            let mut state = self.state();
            state.is_dirty = false;
            state.entries.clone()
        };
        let text = to_json(&entries);
        let written = write_anew(&directory, FILE, &text);
        if written.is_err() {
            self.state().is_dirty = true;
        }
        written.map(|()| text.len())
    }
}

fn to_json(entries: &BTreeMap<String, CacheEntry>) -> Vec<u8> {
    let mut text = Vec::new();
    let format = serde_json::ser::PrettyFormatter::with_indent(b" ");
    let mut writer = serde_json::Serializer::with_formatter(&mut text, format);
    entries.serialize(&mut writer).expect("texts always serialise");
    text
}

/// Writes a file beside the one of that name and puts it in its place: whoever reads finds the old
/// one or the new.
pub(super) fn write_anew(directory: &std::path::Path, name: &str, bytes: &[u8]) -> io::Result<()> {
    let unique = myelin_stdx::id::unique(&OsEntropy, 8);
    let draft = directory.join(format!(".{name}-{unique}"));
    let written = fs::File::create_new(&draft).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, directory.join(name))
    });
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn pack(raw: &[u8]) -> io::Result<Vec<u8>> {
    let mut packed = Vec::new();
    let mut writer = minlz::Writer::new(&mut packed);
    writer.write_all(raw)?;
    writer.flush()?;
    drop(writer);
    Ok(packed)
}

fn unpack(packed: &[u8]) -> io::Result<Vec<u8>> {
    let mut raw = Vec::new();
    minlz::Reader::new(packed).take(LONGEST).read_to_end(&mut raw)?;
    Ok(raw)
}

/// The cache in use, for monitoring.
#[derive(Default)]
pub(crate) struct OcspCache(Mutex<Option<Arc<Cache>>>);

impl OcspCache {
    pub(crate) fn stats(&self) -> Option<Stats> {
        self.get()?.stats()
    }

    pub(super) fn get(&self) -> Option<Arc<Cache>> {
        lock(&self.0).clone()
    }

    pub(super) fn set(&self, cache: Option<Arc<Cache>>) {
        *lock(&self.0) = cache;
    }
}
