//! Whether what lies in JetStream's store works, and whether what was asked for is there.
//!
//! Compat: only what lies in the store counts, where the server is alone. There a stream in memory,
//! and an account without streams in files, are not found.

use super::failure::{Failure, FailureKind};
use super::lost::LostMessages;
use crate::query::quoted;
use crate::snapshot::{ClusterAilment, SnapshotSource, Standing, StoredAccount, StoredStream, StreamFailure};

/// The names that were asked for; each may be empty for any.
pub(super) struct Assets<'a> {
    pub(super) account: &'a str,
    pub(super) stream: &'a str,
    pub(super) consumer: &'a str,
}

impl Assets<'_> {
    /// A name that another one cannot do without.
    pub(super) fn unnamed(&self) -> Option<Failure> {
        let (name, what) = if self.account.is_empty() && !self.stream.is_empty() {
            ("account", "stream")
        } else if self.stream.is_empty() && !self.consumer.is_empty() {
            ("stream", "consumer")
        } else {
            return None;
        };
        let text = format!("\"{name}\" must not be empty when checking {what} health");
        Some(Failure::new(FailureKind::Request, text))
    }

    /// Accounts in the store, or the one that was asked for.
    pub(super) fn stored(&self, source: &dyn SnapshotSource) -> Vec<StoredAccount> {
        source.stored_accounts(some(self.account))
    }

    /// Messages that what was asked for has lost.
    pub(super) fn lost(&self, stored: &[StoredAccount]) -> Vec<LostMessages> {
        let valid = stored.iter().filter(|account| account.standing == Standing::Valid);
        let streams = valid.flat_map(|account| self.wanted(account).map(move |stream| (account, stream)));
        streams.filter_map(|(account, stream)| LostMessages::of(&account.name, stream)).collect()
    }

    /// Failures of what was asked for.
    ///
    /// Compat: with details a missing asset hides everything else, without them it comes last.
    pub(super) fn check(
        &self,
        stored: &[StoredAccount],
        details: bool,
        source: &dyn SnapshotSource,
    ) -> Vec<Failure> {
        let missing = self.missing(stored, source);
        if details && missing.is_some() {
            return missing.into_iter().collect();
        }
        stored.iter().flat_map(|account| self.failures(account)).chain(missing).collect()
    }

    /// Failures in one account. An expired one matters only when it was asked for.
    fn failures(&self, account: &StoredAccount) -> Vec<Failure> {
        let unusable = |why| {
            let text = format!("JetStream account '{}' {why}", account.name);
            vec![Failure { account: account.name.clone(), ..Failure::new(FailureKind::Account, text) }]
        };
        match account.standing {
            Standing::Valid => {
                self.wanted(account).filter_map(|stream| broken(&account.name, stream)).collect()
            }
            Standing::Expired if self.account.is_empty() => Vec::new(),
            Standing::Expired => unusable("is expired"),
            Standing::Unknown => unusable("could not be resolved"),
        }
    }

    /// The streams of an account that were asked for.
    fn wanted<'s>(&'s self, account: &'s StoredAccount) -> impl Iterator<Item = &'s StoredStream> {
        account.streams.iter().filter(|stream| some(self.stream).is_none_or(|name| stream.name == name))
    }

    /// The first of the names that leads nowhere. What is in an expired account is not looked for.
    fn missing(&self, stored: &[StoredAccount], source: &dyn SnapshotSource) -> Option<Failure> {
        some(self.account)?;
        let Some(account) = stored.first() else {
            return Some(self.not_found(FailureKind::Account));
        };
        if account.standing == Standing::Expired {
            return None;
        }
        let name = some(self.stream)?;
        let usable = account.standing == Standing::Valid;
        let Some(stream) = account.streams.iter().find(|stream| usable && stream.name == name) else {
            return Some(self.not_found(FailureKind::Stream));
        };
        let name = some(self.consumer)?;
        // Compat: nobody looks for the consumers of a stream that does not work.
        let found = stream.failure.is_none() && source.has_consumer(self.account, self.stream, name);
        (!found).then(|| self.not_found(FailureKind::Consumer))
    }

    /// Failure of a replica that is not as its cluster has it, if it was asked for.
    pub(super) fn ailing(&self, ailment: ClusterAilment) -> Option<Failure> {
        let ClusterAilment { account, stream, reason } = ailment;
        let is_wanted = |wanted: &str, name: &str| wanted.is_empty() || wanted == name;
        if !is_wanted(self.account, &account) || !is_wanted(self.stream, &stream) {
            return None;
        }
        let text = format!("JetStream stream '{account} > {stream}' is not current: {reason}");
        Some(Failure { account, stream, ..Failure::new(FailureKind::Stream, text) })
    }

    fn not_found(&self, kind: FailureKind) -> Failure {
        let [account, stream, consumer] = [self.account, self.stream, self.consumer].map(quoted);
        let error = match kind {
            FailureKind::Consumer => {
                format!("JetStream consumer {consumer} not found for stream {stream} on account {account}")
            }
            FailureKind::Stream => format!("JetStream stream {stream} not found on account {account}"),
            _ => format!("JetStream account {account} not found"),
        };
        let shown = |name: &str, is_shown: bool| if is_shown { name.to_owned() } else { String::new() };
        Failure {
            account: self.account.to_owned(),
            stream: shown(self.stream, kind != FailureKind::Account),
            consumer: shown(self.consumer, kind == FailureKind::Consumer),
            missing: true,
            ..Failure::new(kind, error)
        }
    }
}

/// Failure of a stream in the store.
fn broken(account: &str, stream: &StoredStream) -> Option<Failure> {
    let why = match stream.failure.as_ref()? {
        StreamFailure::NotRecovered => "could not be recovered".to_owned(),
        StreamFailure::Write(reason) => format!("write error: {reason}"),
    };
    let text = format!("JetStream stream '{account} > {}' {why}", stream.name);
    Some(Failure {
        account: account.to_owned(),
        stream: stream.name.clone(),
        ..Failure::new(FailureKind::Stream, text)
    })
}

/// An option that was given.
fn some(name: &str) -> Option<&str> {
    (!name.is_empty()).then_some(name)
}
