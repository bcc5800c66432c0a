//! The key with which an encrypted store is opened: from a file, so that it stands in no list of
//! processes.

use std::io;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use myelin_store::cipher::CipherKind;
use myelin_store::keys::{Keys, MasterKey};

/// How to open what is encrypted.
#[derive(Debug, Args)]
pub(super) struct KeyArguments {
    /// File with the key of an encrypted store, as the server's configuration has it
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// File with the key before the last change, if some streams were not opened since
    #[arg(long, value_name = "FILE", requires = "key_file")]
    previous_key_file: Option<PathBuf>,
    /// Cipher in the server's configuration; what was written with the other one opens, too
    #[arg(long, value_enum, default_value = "chacha")]
    cipher: Cipher,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Cipher {
    /// ChaCha20-Poly1305
    Chacha,
    /// AES-256-GCM
    Aes,
}

impl KeyArguments {
    /// The keys, if there are any.
    pub(super) fn keys(&self) -> io::Result<Option<Keys>> {
        let Some(current) = &self.key_file else { return Ok(None) };
        let kind = match self.cipher {
            Cipher::Chacha => CipherKind::ChaCha20Poly1305,
            Cipher::Aes => CipherKind::Aes256Gcm,
        };
        let derive = |path: &PathBuf| text(path).map(|text| MasterKey::derive(&text));
        let previous = self.previous_key_file.as_ref().map(derive).transpose()?;
        Ok(Some(Keys { kind, current: derive(current)?, previous }))
    }

    /// The texts themselves, the one in force first.
    pub(super) fn texts(&self) -> io::Result<Vec<Vec<u8>>> {
        self.key_file.iter().chain(&self.previous_key_file).map(text).collect()
    }
}

fn text(path: &PathBuf) -> io::Result<Vec<u8>> {
    let text = std::fs::read(path)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
    // Editors end a file with a line end that is not part of the key.
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let text = text.strip_suffix(b"\r").unwrap_or(text);
    if text.is_empty() {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("{}: no key in it", path.display())));
    }
    Ok(text.to_vec())
}
