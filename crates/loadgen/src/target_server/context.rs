//! Contexts of the `nats` command: connection settings by name, in `nats/context/NAME.json` of the
//! user's configuration.
//!
//! Owns where they are and what is in them. Never writes one: `nats context` does that.

use std::path::{Path, PathBuf};
use std::{fmt, fs};

use serde_json::Value;

use crate::error::BenchError;

/// The settings of one context; what it does not say is empty.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct NatsContext {
    pub(crate) url: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) creds: Option<String>,
    pub(crate) nkey: Option<String>,
    pub(crate) jwt: Option<String>,
    pub(crate) seed: Option<String>,
    pub(crate) cert: Option<String>,
    pub(crate) key: Option<String>,
    pub(crate) ca: Option<String>,
    pub(crate) tls_first: bool,
    pub(crate) domain: Option<String>,
    pub(crate) api_prefix: Option<String>,
    pub(crate) inbox_prefix: Option<String>,
    pub(crate) socks_proxy: Option<String>,
}

impl fmt::Debug for NatsContext {
    /// Half of it may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Context(…)")
    }
}

/// The directory that holds `context/` and `context.txt`, by the environment that `variable` reads.
pub(crate) fn directory(variable: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    match variable("XDG_CONFIG_HOME") {
        Some(config) => Some(PathBuf::from(config).join("nats")),
        None => Some(PathBuf::from(variable("HOME")?).join(".config/nats")),
    }
}

impl NatsContext {
    /// The context of this name, or of the file of this name if it ends in `.json`.
    pub(crate) fn load(directory: Option<&Path>, name: &str) -> Result<Self, BenchError> {
        let file = PathBuf::from(name);
        let unknown = || BenchError::Usage(format!("unknown context {name:?}"));
        let path = match name.ends_with(".json") && file.is_file() {
            true => file,
            false if name.contains(['/', '\\']) || name.starts_with('.') => return Err(unknown()),
            false => directory.ok_or_else(unknown)?.join("context").join(format!("{name}.json")),
        };
        let text = fs::read_to_string(&path).map_err(|_| unknown())?;
        let json = serde_json::from_str(&text)
            .map_err(|error| BenchError::Usage(format!("context {}: {error}", path.display())))?;
        Self::read(&json)
    }

    /// The context that is selected, if one is; a selected one that has gone is as none, with a
    /// note.
    pub(crate) fn selected(directory: Option<&Path>) -> Result<Self, BenchError> {
        let name = directory.and_then(|directory| fs::read_to_string(directory.join("context.txt")).ok());
        match name.as_deref().map(str::trim) {
            None | Some("") => Ok(Self::default()),
            Some(name) => match Self::load(directory, name) {
                Err(error) => {
                    eprintln!("myelin: the selected context is left out: {error}");
                    Ok(Self::default())
                }
                context => context,
            },
        }
    }

    fn read(json: &Value) -> Result<Self, BenchError> {
        let text = |name: &str| json[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        if text("nsc").is_some() {
            return Err(BenchError::Usage("contexts that ask nsc for credentials are not understood".into()));
        }
        Ok(Self {
            url: text("url"),
            user: text("user"),
            password: text("password"),
            token: text("token"),
            creds: text("creds"),
            nkey: text("nkey"),
            jwt: text("user_jwt"),
            seed: text("user_seed"),
            cert: text("cert"),
            key: text("key"),
            ca: text("ca"),
            tls_first: json["tls_first"] == true,
            domain: text("jetstream_domain"),
            api_prefix: text("jetstream_api_prefix"),
            inbox_prefix: text("inbox_prefix"),
            socks_proxy: text("socks_proxy"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"{"description":"x","url":"nats://h:1","user":"joe","password":"pw","token":"",
        "tls_first":true,"jetstream_domain":"hub","windows_ca_certs_match":null}"#;

    fn expected() -> NatsContext {
        NatsContext {
            url: Some("nats://h:1".into()),
            user: Some("joe".into()),
            password: Some("pw".into()),
            tls_first: true,
            domain: Some("hub".into()),
            ..NatsContext::default()
        }
    }

    #[test]
    fn contexts_are_found_by_name_by_file_and_by_selection() {
        let home = tempfile::tempdir().unwrap();
        let directory = home.path().join("nats");
        fs::create_dir_all(directory.join("context")).unwrap();
        let file = directory.join("context/one.json");
        fs::write(&file, FILE).unwrap();
        assert_eq!(NatsContext::selected(Some(&directory)).unwrap(), NatsContext::default());
        fs::write(directory.join("context.txt"), "one\n").unwrap();
        assert_eq!(NatsContext::selected(Some(&directory)).unwrap(), expected());
        assert_eq!(NatsContext::load(Some(&directory), "one").unwrap(), expected());
        assert_eq!(NatsContext::load(None, file.to_str().unwrap()).unwrap(), expected());
        fs::write(directory.join("context.txt"), "gone").unwrap();
        assert_eq!(NatsContext::selected(Some(&directory)).unwrap(), NatsContext::default());
        for wrong in ["two", "../context/one", ""] {
            let error = NatsContext::load(Some(&directory), wrong).unwrap_err().to_string();
            assert!(error.contains("unknown context"), "{error}");
        }
    }

    #[test]
    fn a_context_shows_no_secret() {
        assert_eq!(format!("{:?}", expected()), "Context(…)");
    }

    #[test]
    fn the_directory_is_that_of_the_nats_command() {
        let with = |name: &'static str| move |wanted: &str| (wanted == name).then(|| "/x".to_owned());
        assert_eq!(directory(with("XDG_CONFIG_HOME")), Some("/x/nats".into()));
        assert_eq!(directory(with("HOME")), Some("/x/.config/nats".into()));
        assert_eq!(directory(|_| None), None);
    }
}
