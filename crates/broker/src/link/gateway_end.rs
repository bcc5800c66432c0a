//! The part of a link that only gateways have: the cluster at its other end, and what has been said
//! of accounts.

use myelin_stdx::sync::lock;
use myelin_subject::{is_literal, is_subset, matches};
use myelin_wire::peer::gateway::{self, ShortName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Accounts of which a link knows at most how far they are: a peer can name as many as it likes.
pub(super) const MOST_ACCOUNTS: usize = 64 * 1024;

/// Memory that one link may take for what an older server says that nobody wants, in bytes: more is
/// sent.
const MOST_KEPT: usize = 16 * 1024 * 1024;

/// Memory that one subject or account takes beside its text, about.
const EACH_KEPT: usize = 96;

/// Subjects of an account at most that an older server says nobody wants: more are sent. Compat: it
/// begins to tell what it wants after a thousand.
const MOST_UNWANTED: usize = 2048;

/// Direction of a link with another cluster: messages go one way only, and interest the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GatewaySide {
    /// The other side has dialled: it sends messages, and hears what is wanted here.
    Inbound,
    /// This server has dialled: it sends messages, and hears what is wanted there.
    Outbound,
}

/// Terms of a link with another cluster, known when its handshake is over.
#[derive(Debug, Clone)]
pub struct GatewayTerms {
    /// Name of the other cluster's gateway.
    pub name: String,
    /// Which of both sends messages.
    pub side: GatewaySide,
    /// The other side tells all of its interest from the first moment.
    pub tells_all: bool,
}

/// How far an account is, of whose interest one side tells the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InterestMode {
    /// Messages are sent unless it was said that nobody wants them.
    Optimistic,
    /// The other side is telling everything.
    Transitioning,
    /// Everything was told: what is not wanted is not sent.
    InterestOnly,
}

/// An account of whose interest one side tells the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GatewayAccount {
    /// Its name.
    pub name: String,
    /// How far it is.
    pub mode: InterestMode,
    /// Subjects of which an older server has said that nobody wants them.
    pub unwanted: usize,
}

impl InterestMode {
    /// The mode as monitoring calls it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Optimistic => "Optimistic",
            Self::Transitioning => "Transitioning",
            Self::InterestOnly => "Interest-Only",
        }
    }
}

/// How far an account is over there, which an older server tells of.
#[derive(Default)]
pub(super) struct OptimisticAccount {
    /// Nobody over there has that account.
    pub(super) is_unwanted: bool,
    /// Subjects that nobody over there wants.
    pub(super) unwanted: BTreeSet<Box<[u8]>>,
    pub(super) mode: Option<InterestMode>,
}

impl OptimisticAccount {
    fn mode(&self) -> InterestMode {
        self.mode.unwrap_or(InterestMode::Optimistic)
    }

    fn sends_some(&self) -> bool {
        !self.is_unwanted && self.mode() != InterestMode::InterestOnly
    }

    fn sends(&self, subject: &[u8]) -> bool {
        self.sends_some() && !self.unwanted.contains(subject)
    }
}

/// The part of a link that only gateways have.
pub(crate) struct GatewayEnd {
    pub(crate) name: Box<str>,
    pub(crate) short: ShortName,
    pub(crate) side: GatewaySide,
    /// The other side tells all of its interest from the first moment.
    pub(crate) tells_all: bool,
    /// The last round trip in microseconds: the nearest cluster is asked first.
    round_trip: AtomicU64,
    /// Inbound: how far accounts are of whose interest the other side is told. Whoever has this
    /// lock may take those of the link's control bytes and of its outbox, and no other.
    pub(super) told: Mutex<BTreeMap<Box<str>, InterestMode>>,
    /// Outbound: how far accounts are of whose interest the other side tells.
    optimistic: Mutex<OptimisticAccounts>,
}

/// How far accounts are over there, and the memory that takes.
#[derive(Default)]
struct OptimisticAccounts {
    by_name: BTreeMap<Box<str>, OptimisticAccount>,
    kept: usize,
}

/// A change of what is known of an account over there.
pub(super) enum OptimisticChange<'a> {
    /// Nobody over there has the account, or somebody does.
    Account { is_unwanted: bool },
    /// All of its interest is being told, or has been.
    AllTold { is_complete: bool },
    /// Nobody over there wants a subject.
    Unwanted(&'a [u8]),
    /// Somebody over there wants a subject.
    Wanted(&'a [u8]),
}

impl OptimisticAccounts {
    fn change(&mut self, name: &str, change: &OptimisticChange<'_>) {
        if !self.by_name.contains_key(name) {
            let cost = name.len() + EACH_KEPT;
            let is_room = self.by_name.len() < MOST_ACCOUNTS && self.kept + cost <= MOST_KEPT;
            if !is_room || matches!(change, OptimisticChange::Wanted(_)) {
                return;
            }
            self.kept += cost;
            self.by_name.insert(name.into(), OptimisticAccount::default());
        }
        let Some(account) = self.by_name.get_mut(name) else { return };
        let freed = match *change {
            OptimisticChange::Account { is_unwanted } => {
                account.is_unwanted = is_unwanted;
                account.want_all()
            }
            OptimisticChange::AllTold { is_complete: false } => {
                account.is_unwanted = false;
                account.mode = Some(InterestMode::Transitioning);
                0
            }
            OptimisticChange::AllTold { is_complete: true } => {
                account.is_unwanted = false;
                account.mode = Some(InterestMode::InterestOnly);
                account.want_all()
            }
            OptimisticChange::Wanted(subject) => account.want(subject),
            OptimisticChange::Unwanted(subject) => {
                let cost = subject.len() + EACH_KEPT;
                let is_room = account.unwanted.len() < MOST_UNWANTED && self.kept + cost <= MOST_KEPT;
                if is_room && account.unwanted.insert(subject.into()) {
                    self.kept += cost;
                }
                0
            }
        };
        self.kept = self.kept.saturating_sub(freed);
    }
}

impl OptimisticAccount {
    /// All subjects are wanted as far as is known. Answers the memory that this gives back.
    fn want_all(&mut self) -> usize {
        let unwanted = std::mem::take(&mut self.unwanted);
        unwanted.iter().map(|subject| subject.len() + EACH_KEPT).sum()
    }

    /// The subject, or all that it stands for, is wanted. Answers the memory that this gives back.
    fn want(&mut self, subject: &[u8]) -> usize {
        if is_literal(subject) {
            let is_plain = self.unwanted.remove(subject);
            return if is_plain { subject.len() + EACH_KEPT } else { 0 };
        }
        let mut freed = 0;
        self.unwanted.retain(|known| {
            let is_wanted = matches(subject, known) || is_subset(known, subject);
            freed += if is_wanted { known.len() + EACH_KEPT } else { 0 };
            !is_wanted
        });
        freed
    }
}

impl GatewayEnd {
    pub(super) fn new(terms: GatewayTerms) -> Self {
        let GatewayTerms { name, side, tells_all } = terms;
        Self {
            short: gateway::short_name(&name),
            name: name.into(),
            side,
            tells_all,
            round_trip: AtomicU64::new(u64::MAX),
            told: Mutex::default(),
            optimistic: Mutex::default(),
        }
    }

    pub(crate) fn is_outbound(&self) -> bool {
        self.side == GatewaySide::Outbound
    }

    pub(crate) fn round_trip(&self) -> u64 {
        self.round_trip.load(Relaxed)
    }

    pub(super) fn set_round_trip(&self, rtt: Duration) {
        self.round_trip.store(u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX), Relaxed);
    }

    /// How far each account is of whose interest the other side is told.
    pub(super) fn told_accounts(&self) -> Vec<GatewayAccount> {
        let told = lock(&self.told);
        let accounts = told.iter().map(|(name, mode)| GatewayAccount {
            name: name.to_string(),
            mode: *mode,
            unwanted: 0,
        });
        accounts.collect()
    }
}

impl GatewayEnd {
    /// Whether a message goes there although nobody has said that it is wanted.
    pub(crate) fn sends_anyway(&self, account: &str, subject: &[u8]) -> bool {
        if self.tells_all || !self.is_outbound() {
            return false;
        }
        lock(&self.optimistic).by_name.get(account).is_none_or(|account| account.sends(subject))
    }

    /// Whether messages of any subject go there although nobody has said that they are wanted.
    pub(crate) fn sends_some_anyway(&self, account: &str) -> bool {
        let sends_some = |accounts: &OptimisticAccounts| {
            accounts.by_name.get(account).is_none_or(OptimisticAccount::sends_some)
        };
        !self.tells_all && self.is_outbound() && sends_some(&lock(&self.optimistic))
    }

    /// How far accounts are whose interest the other side tells.
    pub(super) fn heard_accounts(&self) -> Vec<GatewayAccount> {
        let optimistic = lock(&self.optimistic);
        let accounts = optimistic.by_name.iter().map(|(name, account)| GatewayAccount {
            name: name.to_string(),
            mode: account.mode(),
            unwanted: account.unwanted.len(),
        });
        accounts.collect()
    }

    /// Changes what is known of an account, if it is one of those that are kept.
    pub(super) fn change(&self, account: &str, change: &OptimisticChange<'_>) {
        lock(&self.optimistic).change(account, change);
    }

    pub(super) fn mode(&self, account: &str) -> Option<InterestMode> {
        lock(&self.optimistic).by_name.get(account).map(OptimisticAccount::mode)
    }

    /// Forgets an account of whose interest the other side was told: it is there no more.
    pub(super) fn forget_told(&self, account: &str) {
        lock(&self.told).remove(account);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn optimistic(end: &GatewayEnd) -> (usize, usize) {
        let accounts = lock(&end.optimistic);
        (accounts.kept, accounts.by_name.values().map(|account| account.unwanted.len()).sum())
    }

    fn end() -> GatewayEnd {
        let (name, side) = ("B".to_owned(), GatewaySide::Outbound);
        GatewayEnd::new(GatewayTerms { name, side, tells_all: false })
    }

    #[test]
    fn an_older_server_has_a_bounded_memory_of_ours() {
        let end = end();
        for at in 0..3 * MOST_UNWANTED {
            end.change("A", &OptimisticChange::Unwanted(format!("a.{at}").as_bytes()));
        }
        assert_eq!(optimistic(&end).1, MOST_UNWANTED);
        assert!(!end.sends_anyway("A", b"a.0") && end.sends_anyway("A", b"a.5000"));
        let long = vec![b'x'; 1024 * 1024];
        for at in 0..100 {
            let name = format!("B{at}");
            end.change(&name, &OptimisticChange::Unwanted(&long));
            end.change(&String::from_utf8_lossy(&long), &OptimisticChange::Account { is_unwanted: true });
        }
        let (kept, subjects) = optimistic(&end);
        assert!(kept <= MOST_KEPT && subjects < MOST_UNWANTED + 16, "{kept} {subjects}");
    }

    #[test]
    fn what_is_wanted_again_gives_its_memory_back() {
        let end = end();
        end.change("A", &OptimisticChange::Account { is_unwanted: false });
        let (before, _) = optimistic(&end);
        for subject in [&b"a.1"[..], b"a.2", b"b.1", b"a.*"] {
            end.change("A", &OptimisticChange::Unwanted(subject));
        }
        end.change("A", &OptimisticChange::Wanted(b"b.1"));
        assert!(end.sends_anyway("A", b"b.1") && !end.sends_anyway("A", b"a.1"));
        end.change("A", &OptimisticChange::Wanted(b"a.>"));
        assert_eq!(optimistic(&end), (before, 0));
        end.change("A", &OptimisticChange::Unwanted(b"c"));
        end.change("A", &OptimisticChange::AllTold { is_complete: true });
        assert_eq!(optimistic(&end), (before, 0));
    }
}
