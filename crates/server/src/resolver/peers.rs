//! Tokens and the other servers of a cluster: what is not here is asked for there, and servers that
//! keep all tokens give each other what they lack.
//!
//! How that travels is the system account's (`system/tokens.rs`); which tokens are believed is
//! decided here: those that an operator has signed who is trusted.

use super::directory::TokenDirectory;
use super::{TokenSource, Tokens};
use myelin_auth::operator::TrustedAccount;
use myelin_broker::Broker;
use std::sync::Weak;
use std::time::{Duration, SystemTime};

/// The way to the other servers.
pub(crate) trait TokenPeers: Send + Sync {
    /// The token of an account. Waits for so long: not on threads of a runtime.
    ///
    /// # Errors
    /// Nobody has it, or nobody has said so in time.
    fn look_up(&self, key: &str, timeout: Duration) -> Result<String, String>;
}

impl Tokens {
    /// From now on other servers are asked.
    pub(crate) fn set_peers(&self, peers: Weak<dyn TokenPeers>) {
        let _ = self.peers.set(peers);
    }

    /// How often it is compared with other servers what is kept here; `None` where not all tokens
    /// are.
    pub(crate) fn comparison_interval(&self) -> Option<Duration> {
        self.terms.comparison
    }

    /// Tells one set of tokens from another.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        match &self.source {
            TokenSource::TokenDirectory(directory) => Some(directory.digest()),
            _ => None,
        }
    }

    /// Asks other servers for a token that is not here, and keeps it if it is to be believed: what
    /// is kept is not asked for again.
    pub(super) fn ask_peers(&self, directory: &TokenDirectory, key: &str) -> Result<String, String> {
        let peers = self.peers.get().and_then(Weak::upgrade);
        let peers = peers.ok_or_else(|| "account jwt not found".to_owned())?;
        let token = peers.look_up(key, self.terms.timeout)?;
        let read = TrustedAccount::read(key, &token, &self.trust, SystemTime::now());
        read.map_err(|fault| fault.to_string())?;
        directory.save_if_newer(key, &token)?;
        Ok(token)
    }

    /// Takes tokens that another server has and this one may lack: lines `KEY|TOKEN`. Answers how
    /// many were taken.
    pub(crate) fn merge(&self, broker: &Broker, message: &str) -> Result<usize, String> {
        let TokenSource::TokenDirectory(directory) = &self.source else { return Ok(0) };
        let mut taken = 0;
        for line in message.lines().filter(|line| !line.is_empty()) {
            let (key, token) = line.split_once('|').ok_or("line in package didn't contain 2 entries")?;
            taken += usize::from(self.merge_one(directory, broker, key, token)?);
        }
        Ok(taken)
    }

    fn merge_one(
        &self,
        directory: &TokenDirectory,
        broker: &Broker,
        key: &str,
        token: &str,
    ) -> Result<bool, String> {
        let now = SystemTime::now();
        if let Some(trusted) = broker.trusted() {
            TrustedAccount::read(key, token, trusted.trust(), now).map_err(|fault| fault.to_string())?;
        }
        let is_new = directory.save_if_newer(key, token)?;
        let is_known = broker.trusted().is_some_and(|trusted| trusted.get(key).is_some());
        if is_new && is_known {
            broker.update_account(key, token, now)?;
        }
        Ok(is_new)
    }
}
