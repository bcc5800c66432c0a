//! `jetstream{}`, `store_dir` and `default_js_domain`: streams, where they are stored, and their
//! limits.

mod limits;
mod size;

pub use limits::{BatchLimits, JetStreamLimits};

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use super::field::{Diagnostics, Field, Read, read_block};
use super::table::BlockKind;
use super::{DEFAULT_SYSTEM_ACCOUNT, GLOBAL_ACCOUNT, Options};
use crate::secret::Secret;
use crate::value::{Map, Value};
use myelin_stdx::nkey::Role;

/// How often stores are synced to the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SyncInterval {
    /// Before every acknowledgement (`always`).
    Always,
    /// Now and then; zero leaves it to the system.
    Every(Duration),
}

/// Cipher that encrypts stored messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StoreCipher {
    /// ChaCha20-Poly1305.
    #[default]
    ChaCha,
    /// AES-GCM.
    Aes,
}

/// The key of stored messages, sealed by a TPM. There is none without `keys_file`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TpmOptions {
    /// File that the TPM's blobs are kept in.
    pub keys_file: Option<PathBuf>,
    /// Password of the key.
    pub encryption_password: Option<Secret>,
    /// Password of the storage root.
    pub srk_password: Option<Secret>,
    /// Register that the key is bound to. Default 22.
    pub pcr: i64,
}

impl Default for TpmOptions {
    fn default() -> Self {
        Self { keys_file: None, encryption_password: None, srk_password: None, pcr: 22 }
    }
}

/// Options of JetStream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JetStreamOptions {
    /// `jetstream: true`, a `jetstream` block, or `-js`.
    pub enabled: bool,
    /// Storage directory, without the `jetstream` subdirectory; `None` is `nats` in the system's
    /// directory for temporary files.
    pub store_dir: Option<PathBuf>,
    /// Refuse requests with unknown fields. Default true.
    pub strict: bool,
    /// Default 2 minutes.
    pub sync_interval: SyncInterval,
    /// Bytes of all memory streams; `None` is 75 % of the memory, or 256 MB when that is unknown.
    pub max_memory_store: Option<u64>,
    /// Bytes of all file streams; `None` is 75 % of what is free on the disk, or 1 TB when that is
    /// unknown.
    pub max_file_store: Option<u64>,
    /// Domain, one token of a subject.
    pub domain: Option<String>,
    /// Key for stored messages; `None` stores them in the clear.
    pub encryption_key: Option<Secret>,
    /// The key before, for messages that were stored with it.
    pub prev_encryption_key: Option<Secret>,
    /// With which the key is used.
    pub cipher: StoreCipher,
    /// A key in a TPM, instead of `encryption_key`.
    pub tpm: TpmOptions,
    /// `no_extend`, `will_extend` or nothing. Compat: without a cluster anything else counts as
    /// nothing, also in capitals.
    pub extension_hint: String,
    /// Limits of what clients may ask for.
    pub limits: JetStreamLimits,
    /// Replicas are not put on servers that share a tag with this prefix. Lower case, without
    /// blanks.
    pub unique_tag: Option<String>,
    /// Bytes on their way to lagging replicas. Default 64 MiB.
    pub max_outstanding_catchup: u64,
    /// Bytes that may wait for a stream. Default 128 MiB.
    pub max_buffered_size: u64,
    /// Messages that may wait for a stream. Default 100,000.
    pub max_buffered_msgs: u64,
    /// Requests that may wait. Default 10,000.
    pub request_queue_limit: u64,
    /// Info requests that may wait; `None` is `request_queue_limit`.
    pub info_queue_limit: Option<u64>,
    /// Entries of the meta log after which it is compacted; 0 with `meta_compact_size` 0 is always.
    pub meta_compact: u64,
    /// Bytes of the meta log after which it is compacted.
    pub meta_compact_size: u64,
    /// Compact it while everything else waits.
    pub meta_compact_sync: bool,
    /// File operations at once, from 4 to 8192. Default 4096.
    pub max_concurrent_io: u16,
    /// The domain that accounts without JetStream use, by account.
    pub default_domains: BTreeMap<String, String>,
}

impl JetStreamOptions {
    /// How often stores are synced where nothing is said, as the reference has it.
    pub const DEFAULT_SYNC: Duration = Duration::from_secs(120);
    /// Bytes on their way to lagging replicas where nothing is said.
    pub const DEFAULT_CATCHUP: u64 = 64 << 20;
}

impl Default for JetStreamOptions {
    fn default() -> Self {
        Self {
            enabled: false,
            store_dir: None,
            strict: true,
            sync_interval: SyncInterval::Every(Self::DEFAULT_SYNC),
            max_memory_store: None,
            max_file_store: None,
            domain: None,
            encryption_key: None,
            prev_encryption_key: None,
            cipher: StoreCipher::ChaCha,
            tpm: TpmOptions::default(),
            extension_hint: String::new(),
            limits: JetStreamLimits::default(),
            unique_tag: None,
            max_outstanding_catchup: Self::DEFAULT_CATCHUP,
            max_buffered_size: 128 << 20,
            max_buffered_msgs: 100_000,
            request_queue_limit: 10_000,
            info_queue_limit: None,
            meta_compact: 0,
            meta_compact_size: 0,
            meta_compact_sync: false,
            max_concurrent_io: 4096,
            default_domains: BTreeMap::new(),
        }
    }
}

impl JetStreamOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "store_dir" | "storedir" => self.set_store_dir(field)?,
            "jetstream" => self.set_block(field, report)?,
            "default_js_domain" => self.set_default_domains(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_block(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<()> {
        match field.value() {
            Value::Boolean(enabled) => self.enabled = *enabled,
            Value::Text(text) => match text.to_ascii_lowercase().as_str() {
                "enabled" | "enable" => self.enabled = true,
                "disabled" | "disable" => self.enabled = false,
                _ => {
                    let expected = "Expected 'enabled' or 'disabled' for string value";
                    return Err(field.diagnostic(format!("{expected}, got '{text}'")));
                }
            },
            Value::Map(map) => self.set_map(map, report),
            other => {
                let expected = "Expected map, bool or string to define JetStream";
                return Err(field.diagnostic(format!("{expected}, got {}", other.go_type())));
            }
        }
        Ok(())
    }

    fn set_map(&mut self, map: &Map, report: &mut Diagnostics) {
        let mut enabled = true;
        read_block(map, BlockKind::JetStream, report, |inner, report| {
            if matches!(inner.name(), "enable" | "enabled") {
                enabled = inner.boolean()?;
                return Ok(true);
            }
            Ok(self.set_storage(inner, report)?
                || self.set_encryption(inner, report)?
                || self.set_cluster(inner)?
                || self.set_queue(inner, report)?)
        });
        self.enabled = enabled;
    }

    fn set_storage(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "store" | "store_dir" | "storedir" => self.set_store_dir(field)?,
            "strict" => {
                let fail = |_| {
                    let found = field.value().shown();
                    field.diagnostic(format!("Expected 'true' or 'false' for bool value, got '{found}'"))
                };
                self.strict = field.boolean().map_err(fail)?;
            }
            "sync" | "sync_interval" => self.sync_interval = SyncInterval::read(field, report)?,
            "max_memory_store" | "max_mem_store" | "max_mem" => {
                self.max_memory_store = size::limit(field, "max_mem_store")?;
            }
            "max_file_store" | "max_file" => self.max_file_store = size::limit(field, "max_file_store")?,
            "max_concurrent_io" => self.max_concurrent_io = size::concurrent_io(field)?,
            "limits" => self.limits = JetStreamLimits::read(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_encryption(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        let secret = || Ok(field.optional_text()?.map(Secret::new));
        match field.name() {
            "key" | "ek" | "encryption_key" => self.encryption_key = secret()?,
            "prev_key" | "prev_ek" | "prev_encryption_key" => self.prev_encryption_key = secret()?,
            "cipher" => self.cipher = StoreCipher::read(field)?,
            "tpm" => self.set_tpm(field, report)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_cluster(&mut self, field: &Field<'_>) -> Read<bool> {
        let name = field.name();
        match name {
            "domain" => self.domain = field.optional_text()?,
            "extension_hint" => self.extension_hint = field.text()?.to_owned(),
            "unique_tag" => {
                let tag = field.text()?.trim().to_lowercase();
                self.unique_tag = (!tag.is_empty()).then_some(tag);
            }
            "max_outstanding_catchup" => {
                let default = Self::default().max_outstanding_catchup;
                self.max_outstanding_catchup = size::chosen(field, name)?.unwrap_or(default);
            }
            "meta_compact" => self.meta_compact = size::absolute(field, field.value())?,
            "meta_compact_size" => {
                let bytes = Value::Integer(size::bytes(field, name)?);
                self.meta_compact_size = size::absolute(field, &bytes)?;
            }
            "meta_compact_sync" => self.meta_compact_sync = field.boolean()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_queue(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        let default = Self::default();
        let name = field.name();
        match name {
            "max_buffered_size" => {
                let chosen = size::chosen(field, name)?;
                self.max_buffered_size = chosen.unwrap_or(default.max_buffered_size);
            }
            "max_buffered_msgs" => {
                let messages = size::parseable(field)?;
                if messages < 0 {
                    report.refuse_start(field.diagnostic("max_buffered_msgs value can not be negative"));
                }
                self.max_buffered_msgs = positive_or(messages, default.max_buffered_msgs);
            }
            "request_queue_limit" => {
                self.request_queue_limit = positive_or(size::parseable(field)?, default.request_queue_limit);
            }
            "info_queue_limit" => {
                self.info_queue_limit =
                    Some(positive_or(size::parseable(field)?, 0)).filter(|&limit| limit > 0);
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Compat: the cipher of a TPM is the cipher of the store.
    fn set_tpm(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<()> {
        let map = field.block("Expected a map to define JetStreamLimits")?;
        let mut tpm = TpmOptions::default();
        read_block(map, BlockKind::JetStreamTpm, report, |inner, _| {
            match inner.name() {
                "keys_file" => tpm.keys_file = inner.optional_path()?,
                "encryption_password" => tpm.encryption_password = inner.optional_text()?.map(Secret::new),
                "srk_password" => tpm.srk_password = inner.optional_text()?.map(Secret::new),
                "pcr" => tpm.pcr = Some(inner.integer()?).filter(|&pcr| pcr != 0).unwrap_or(tpm.pcr),
                "cipher" => self.cipher = StoreCipher::read(inner)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        self.tpm = tpm;
        Ok(())
    }

    /// Compat: a directory given by a flag counts as the first of two.
    fn set_store_dir(&mut self, field: &Field<'_>) -> Read<()> {
        if self.store_dir.is_some() {
            return Err(field.diagnostic("Duplicate 'store_dir' configuration"));
        }
        self.store_dir = field.optional_path()?;
        Ok(())
    }

    fn set_default_domains(&mut self, field: &Field<'_>) -> Read<()> {
        let map = match field.value() {
            Value::Map(map) => map,
            other => {
                let found = other.go_type();
                return Err(
                    field.diagnostic(format!("error default_js_domain config: unsupported type {found}"))
                );
            }
        };
        self.default_domains.clear();
        for (account, node) in map.iter() {
            let domain = Field::new(account, node).text()?;
            self.default_domains.insert(account.to_owned(), domain.to_owned());
        }
        Ok(())
    }

    /// The first reason why these options cannot run with the others.
    pub(super) fn check(&self, options: &Options) -> Result<(), String> {
        self.check_default_domains(options)?;
        if let Some(domain) = &self.domain {
            let subject = domain_subject(domain);
            if !myelin_subject::is_valid_pattern(subject.as_bytes()) {
                return Err(format!("invalid domain name: derived {subject:?} is not a valid subject"));
            }
            if domain.contains(['.', '*', '>', ' ', '\t', '\r', '\n', '\x0c']) {
                return Err("invalid domain name: may not contain ., * or >".to_owned());
            }
        }
        if self.enabled && options.cluster.listener.port.is_some() {
            self.check_cluster(options)?;
        }
        Ok(())
    }

    fn check_cluster(&self, options: &Options) -> Result<(), String> {
        if options.server.name.is_none() {
            return Err("jetstream cluster requires `server_name` to be set".to_owned());
        }
        if options.cluster.name.is_none() && options.gateway.name.is_none() {
            return Err("jetstream cluster requires `cluster.name` to be set".to_owned());
        }
        match self.extension_hint.to_lowercase().as_str() {
            "" | "no_extend" | "will_extend" => Ok(()),
            hint => Err(format!("expected 'no_extend' for string value, got '{hint}'")),
        }
    }

    /// Accounts that a domain is chosen for have to exist and must not be the system account.
    fn check_default_domains(&self, options: &Options) -> Result<(), String> {
        let is_operated = options.trusts_operators();
        let key = |name: &&String| !Role::Account.owns(name);
        if let Some(account) = self.default_domains.keys().find(key).filter(|_| is_operated) {
            return Err(format!(
                "default_js_domain contains account name {account:?}, which is not a valid public account nkey"
            ));
        }
        let exists = |name: &str| {
            is_operated
                || name == GLOBAL_ACCOUNT
                || options.accounts.list.iter().any(|account| account.name == name)
        };
        let system = options.accounts.configured_system_account.as_deref().unwrap_or(DEFAULT_SYSTEM_ACCOUNT);
        if let Some(account) = self.default_domains.keys().find(|account| !exists(account)) {
            return Err(format!(
                "in non operator mode, `default_js_domain` references non existing account {account:?}"
            ));
        }
        let has_streams = |name: &str| {
            let account = options.accounts.list.iter().find(|account| account.name == name);
            account.is_some_and(|account| account.jetstream.is_some())
        };
        let served =
            self.default_domains.iter().find(|(name, domain)| !domain.is_empty() && has_streams(name));
        if let Some((account, _)) = served.filter(|_| !is_operated) {
            return Err(format!(
                "default_js_domain contains account name {account:?} with enabled JetStream"
            ));
        }
        for (account, domain) in &self.default_domains {
            if account == system {
                return Err(format!("system account {account:?} can not be in default_js_domain"));
            }
            if !domain.is_empty() && !myelin_subject::is_valid_pattern(domain_subject(domain).as_bytes()) {
                return Err(format!(
                    "default_js_domain contains account {account:?} with invalid domain name {domain:?}"
                ));
            }
        }
        Ok(())
    }
}

fn domain_subject(domain: &str) -> String {
    format!("$JS.{domain}.API.>")
}

fn positive_or(number: i64, default: u64) -> u64 {
    u64::try_from(number).ok().filter(|&number| number > 0).unwrap_or(default)
}

impl SyncInterval {
    fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Self> {
        if let Value::Text(text) = field.value()
            && text.eq_ignore_ascii_case("always")
        {
            return Ok(SyncInterval::Always);
        }
        let chosen = field.chosen_duration(field.written(), report)?;
        Ok(SyncInterval::Every(chosen.unwrap_or_default()))
    }
}

impl StoreCipher {
    fn read(field: &Field<'_>) -> Read<Self> {
        let text = field.text()?;
        match text.to_lowercase().as_str() {
            "chacha" | "chachapoly" => Ok(StoreCipher::ChaCha),
            "aes" => Ok(StoreCipher::Aes),
            _ => Err(field.diagnostic(format!("Unknown cipher type: {text:?}"))),
        }
    }
}
