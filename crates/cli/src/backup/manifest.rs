//! `manifest.json`, the last file of a backup: whoever finds it has a whole backup before him.
//!
//! Owns its format, which docs/backup.md describes. Files are named by the names of their streams,
//! never by what a manifest says.

use myelin_loadgen::error::BenchError;
use myelin_loadgen::names;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backup::contents::Contents;
use crate::backup::error::BackupError;

/// Name of this format.
const KIND: &str = "io.myelin.backup";
/// The version of the format that is written, and the only one that is read.
const FORMAT: u32 = 1;

/// Description of a whole backup.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Manifest {
    #[serde(rename = "type")]
    kind: String,
    format: u32,
    /// Name, version and cluster of the server that was asked.
    pub(super) server: ManifestServer,
    /// `null` where the server did not say it.
    pub(super) account: Option<String>,
    /// When the first stream was asked for, and when the last one was whole.
    pub(super) began: String,
    pub(super) ended: String,
    pub(super) streams: Vec<ManifestStream>,
    /// Streams that were removed before they were backed up whole.
    #[serde(default)]
    pub(super) removed_meanwhile: Vec<String>,
}

/// Server from which a backup was made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ManifestServer {
    pub(super) name: String,
    pub(super) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cluster: Option<String>,
}

/// One stream of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ManifestStream {
    pub(super) name: String,
    /// The archive, as the server sent it: where it is, its bytes and their SHA-256.
    pub(super) file: String,
    pub(super) size: u64,
    pub(super) sha256: String,
    /// SHA-256 of `backup.json` beside it, which has configuration and state.
    pub(super) description_sha256: String,
    /// When the stream was as it is here.
    pub(super) taken: String,
    pub(super) messages: u64,
    pub(super) first_seq: u64,
    pub(super) last_seq: u64,
    /// Digest of the messages.
    pub(super) digest: String,
    pub(super) consumers: Vec<String>,
}

impl ManifestStream {
    /// Whether these contents are the ones that it tells of.
    pub(super) fn tells_of(&self, contents: &Contents) -> bool {
        let consumers: Vec<&String> = contents.consumers.keys().collect();
        (self.messages, self.first_seq, self.last_seq) == (contents.messages, contents.first, contents.last)
            && self.digest == contents.digest
            && self.consumers.iter().collect::<Vec<_>>() == consumers
    }
}

impl Manifest {
    /// Makes one of a backup that began at this time and ends now.
    pub(super) fn new(info: &Value, account: Option<String>, began: String) -> Self {
        let text = |name: &str| info[name].as_str().map(str::to_owned);
        let server = ManifestServer {
            name: text("server_name").unwrap_or_default(),
            version: text("go")
                .filter(|go| go.starts_with("myelin "))
                .or(text("version"))
                .unwrap_or_default(),
            cluster: text("cluster"),
        };
        let ended = now();
        let (streams, removed_meanwhile) = (Vec::new(), Vec::new());
        Self { kind: KIND.into(), format: FORMAT, server, account, began, ended, streams, removed_meanwhile }
    }

    /// Reads a manifest.
    ///
    /// # Errors
    /// It is none, or of a version that this program does not know.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, BackupError> {
        let other = |why: &str| BackupError::Other(format!("manifest.json: {why}"));
        let value: Value = serde_json::from_slice(bytes).map_err(|error| other(&error.to_string()))?;
        if value["type"] != KIND {
            return Err(other("it is not that of a backup by myelin"));
        }
        if value["format"] != FORMAT {
            let why = format!("format {} was made by a later myelin: use that", value["format"]);
            return Err(other(&why));
        }
        let manifest: Self = serde_json::from_value(value).map_err(|error| other(&error.to_string()))?;
        let named = manifest.streams.iter().try_for_each(|stream| names::stream(&stream.name));
        named.map_err(|error: BenchError| other(&error.to_string()))?;
        Ok(manifest)
    }
}

/// The time, as it stands in manifests.
pub(super) fn now() -> String {
    jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_manifest_comes_back_and_what_is_none_is_refused() {
        let info = json!({"server_name": "n1", "version": "2.15.2", "go": "go1.26", "cluster": "C"});
        let mut manifest = Manifest::new(&info, None, now());
        let bytes = |manifest: &Manifest| serde_json::to_vec(manifest).unwrap();
        let read = Manifest::read(&bytes(&manifest)).unwrap();
        assert_eq!((read.server.version, read.server.cluster), ("2.15.2".into(), Some("C".into())));
        let told = |bytes: &[u8]| Manifest::read(bytes).unwrap_err().to_string();
        assert!(told(br#"{"type":"x"}"#).contains("not that of a backup"));
        let later = String::from_utf8(bytes(&manifest)).unwrap().replace("\"format\":1", "\"format\":2");
        assert!(told(later.as_bytes()).contains("a later myelin"));
        // No file outside of the directory is named by a manifest.
        manifest.streams.push(ManifestStream {
            name: "../../etc".into(),
            file: String::new(),
            size: 0,
            sha256: String::new(),
            description_sha256: String::new(),
            taken: String::new(),
            messages: 0,
            first_seq: 0,
            last_seq: 0,
            digest: String::new(),
            consumers: Vec::new(),
        });
        assert!(told(&bytes(&manifest)).contains("must not hold"));
    }
}
