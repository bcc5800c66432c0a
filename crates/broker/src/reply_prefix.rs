//! Prefixes of reply subjects: acks and replies never repeat a subject, so a cached route for each
//! would be useless. All that have the same prefix share one.
//!
//! Clients acknowledge deliveries by `$JS.ACK.<stream>.<consumer>.<deliveries>.…` (or with two
//! tokens more in front of the stream) and answer flow control by `$JS.FC.…`: the prefix is five
//! tokens long. They answer requests from other accounts by `_R_.<account>.<request>`: two tokens.
//! Clients await answers, and acknowledgements of what they publish to streams, in an inbox:
//! `_INBOX.<client>.<request>` (clients may choose another first token that begins so, and put more
//! in between), of which all tokens but the last are the prefix. One route serves a prefix as long
//! as no subscription of the account inspects what follows it.
//!
//! Perf: on its way from the client's bytes to the service an acknowledgement takes 85 ns, and 240
//! with a look-up in the indexes (`examples/acknowledgements.rs`).

use foldhash::fast::FixedState;
use myelin_subject::{has_empty_token, has_wildcard};
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Kind of a reply's subject: what it is the reply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// Deliveries of consumers.
    Deliveries,
    /// Requests from other accounts.
    Requests,
    /// Requests of clients, and what they publish to streams.
    Inboxes,
}

impl ReplyKind {
    /// Kinds that a pattern may match, by what it begins with.
    ///
    /// Perf: for most patterns that is all that is asked (row `sub` of docs/count.md).
    #[inline]
    fn that_begin(pattern: &[u8]) -> &'static [Self] {
        match pattern.first() {
            Some(b'*') => &[Self::Deliveries, Self::Requests, Self::Inboxes],
            Some(b'$') => &[Self::Deliveries],
            Some(b'_') => &[Self::Requests, Self::Inboxes],
            _ => &[],
        }
    }
}

/// Tokens that answers to consumers have in common if they go the same way.
const TOKENS: usize = 5;

/// Beginning of the first token of an inbox.
const INBOX: &[u8] = b"_INBOX";

/// Counters that the prefixes of inboxes share.
const BREADTH: usize = 64;

/// Subscriptions and bindings of an account that [look behind](inspects_suffix) the prefix of
/// replies.
#[derive(Default)]
pub(crate) struct SuffixInspectors {
    /// Inspectors of each kind; of inboxes, those that look behind more than one prefix.
    kinds: [AtomicUsize; 3],
    /// Inspectors of one prefix of inboxes: clients that make a subscription for each request do no
    /// harm to others. All of them, and by hashes of the prefixes. Made for the first.
    inboxes: AtomicUsize,
    by_prefix: OnceLock<Box<[AtomicUsize; BREADTH]>>,
}

impl SuffixInspectors {
    /// Whether there are none of a prefix.
    #[inline]
    pub(crate) fn leave_alone(&self, prefix: &[u8], reply_kind: ReplyKind) -> bool {
        self.kinds[reply_kind as usize].load(Relaxed) == 0
            && (reply_kind != ReplyKind::Inboxes
                || self.inboxes.load(Relaxed) == 0
                || self.of(prefix).load(Relaxed) == 0)
    }

    /// Counts a pattern that comes. To be called before it is in an index, so that nobody who finds
    /// the index with it misses it here.
    pub(crate) fn comes(&self, pattern: &[u8]) {
        self.for_each_of(pattern, |counter| _ = counter.fetch_add(1, Relaxed));
    }

    /// Counts a pattern out that is in no index any more.
    pub(crate) fn has_gone(&self, pattern: &[u8]) {
        self.for_each_of(pattern, |counter| {
            let before = counter.fetch_sub(1, Relaxed);
            debug_assert!(before > 0, "what goes was counted when it came");
        });
    }

    fn for_each_of(&self, pattern: &[u8], mut f: impl FnMut(&AtomicUsize)) {
        for &reply_kind in ReplyKind::that_begin(pattern) {
            if !inspects_suffix(pattern, reply_kind) {
                continue;
            }
            match shared_prefix(pattern) {
                Some((prefix, ReplyKind::Inboxes)) if !has_wildcard(prefix) => {
                    f(&self.inboxes);
                    f(self.of(prefix));
                }
                _ => f(&self.kinds[reply_kind as usize]),
            }
        }
    }

    /// The counter of a prefix.
    #[inline(never)]
    fn of(&self, prefix: &[u8]) -> &AtomicUsize {
        let counters = self.by_prefix.get_or_init(|| Box::new([const { AtomicUsize::new(0) }; BREADTH]));
        &counters[FixedState::with_seed(0).hash_one(prefix) as usize % BREADTH]
    }

    /// Whether there are none at all.
    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        let mut by_prefix = self.by_prefix.get().into_iter().flat_map(|counters| counters.iter());
        self.kinds.iter().chain([&self.inboxes]).all(|counter| counter.load(Relaxed) == 0)
            && by_prefix.all(|counter| counter.load(Relaxed) == 0)
    }
}

/// Beginning of a reply's subject, up to the dot behind the last token that it shares with others.
/// `None`: the subject is no reply, or nobody's.
#[inline]
pub(crate) fn shared_prefix(subject: &[u8]) -> Option<(&[u8], ReplyKind)> {
    match subject {
        [b'$', b'J', b'S', b'.', ..] => Some((to_delivery(subject)?, ReplyKind::Deliveries)),
        [b'_', b'R', b'_', b'.', ..] => Some((to_request(subject)?, ReplyKind::Requests)),
        [b'_', b'I', b'N', b'B', b'O', b'X', ..] => Some((to_inbox(subject)?, ReplyKind::Inboxes)),
        _ => None,
    }
}

#[inline(never)]
fn to_delivery(subject: &[u8]) -> Option<&[u8]> {
    let rest = subject.strip_prefix(b"$JS.ACK.").or_else(|| subject.strip_prefix(b"$JS.FC."))?;
    // Two tokens are read.
    let behind = rest.splitn(TOKENS - 1, |byte| *byte == b'.').nth(TOKENS - 2)?;
    let (shared_prefix, _) = subject.split_at(subject.len() - behind.len());
    (!has_empty_token(subject)).then_some(shared_prefix)
}

#[inline(never)]
fn to_request(subject: &[u8]) -> Option<&[u8]> {
    let mut dots = subject.iter().enumerate().filter(|(_, byte)| **byte == b'.').map(|(at, _)| at);
    let (_, end) = (dots.next()?, dots.next()?);
    let has_three_tokens = dots.next().is_none() && !has_empty_token(subject);
    has_three_tokens.then_some(&subject[..=end])
}

/// An inbox of two tokens is one reply's, and shares nothing. Where a token of the prefix is empty,
/// nobody gets any of them.
#[inline(never)]
fn to_inbox(subject: &[u8]) -> Option<&[u8]> {
    let end = subject.iter().rposition(|byte| *byte == b'.')?;
    let is_shared = end + 1 < subject.len() && subject[INBOX.len()..end].contains(&b'.');
    is_shared.then_some(&subject[..=end])
}

/// Whether `pattern`, which is well formed, may match one answer and not another that begins alike.
pub(crate) fn inspects_suffix(pattern: &[u8], reply_kind: ReplyKind) -> bool {
    match reply_kind {
        ReplyKind::Deliveries => inspects_delivery_suffix(pattern),
        ReplyKind::Requests => inspects_request_suffix(pattern),
        ReplyKind::Inboxes => inspects_inbox_suffix(pattern),
    }
}

/// Inboxes with one prefix have as many tokens: only who names the last one looks at it.
fn inspects_inbox_suffix(pattern: &[u8]) -> bool {
    let may_match = pattern.starts_with(INBOX) || pattern.starts_with(b"*.");
    let has_three_tokens = || pattern.iter().filter(|byte| **byte == b'.').nth(1).is_some();
    may_match && !matches!(pattern, [.., b'.', b'*' | b'>']) && has_three_tokens()
}

/// Answers of this kind have three tokens: only who names the third one looks at it.
fn inspects_request_suffix(pattern: &[u8]) -> bool {
    if !pattern.starts_with(b"_R_.") && !pattern.starts_with(b"*.") {
        return false;
    }
    let mut tokens = pattern.split(|byte| *byte == b'.');
    let (first, second, third) = (tokens.next(), tokens.next(), tokens.next());
    let is_name = |token: Option<&[u8]>| token.is_some_and(|token| !matches!(token, b"*" | b">"));
    matches!(first, Some(b"_R_" | b"*")) && second.is_some() && is_name(third) && tokens.next().is_none()
}

fn inspects_delivery_suffix(pattern: &[u8]) -> bool {
    let mut count = 0;
    for (at, token) in pattern.split(|byte| *byte == b'.').enumerate() {
        match (at, token) {
            (_, b">") => return at > TOKENS,
            (_, b"*") | (0, b"$JS") | (1, b"ACK" | b"FC") | (2.., _) => count += 1,
            _ => return false,
        }
    }
    // What has fewer tokens matches no answer at all.
    count > TOKENS
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_subject::{is_well_formed, matches};
    use proptest::prelude::*;

    #[test]
    fn answers_begin_with_five_tokens() {
        let cases = [
            ("$JS.ACK.S.C.1.2.3.4.5", Some("$JS.ACK.S.C.1.")),
            ("$JS.ACK.domain.hash.S.C.1.2.3.4.5", Some("$JS.ACK.domain.hash.S.")),
            ("$JS.FC.S.C.1.abcd", Some("$JS.FC.S.C.1.")),
            ("$JS.FC.S.C.abcd", None),
            ("$JS.ACK.S.C.1", None),
            ("$JS.ACK.S.C.1.", None),
            ("$JS.ACK.S.C.1.2..3", None),
            ("$JS.ACK..C.1.2.3", None),
            ("$JS.API.S.C.1.2.3", None),
            ("$JS.ACKS.S.C.1.2.3", None),
            ("orders.a.b.c.d.e.f", None),
            ("", None),
        ];
        for (subject, expected) in cases {
            let expected = expected.map(|text| (text.as_bytes(), ReplyKind::Deliveries));
            assert_eq!(shared_prefix(subject.as_bytes()), expected, "{subject}");
        }
    }

    #[test]
    fn answers_to_requests_begin_with_two() {
        let cases = [
            ("_R_.abcdef.123456", Some("_R_.abcdef.")),
            ("_R_.abcdef.123456.T", None),
            ("_R_.abcdef", None),
            ("_R_.abcdef.", None),
            ("_R_..123456", None),
            ("_RR.abcdef.123456", None),
        ];
        for (subject, expected) in cases {
            let expected = expected.map(|text| (text.as_bytes(), ReplyKind::Requests));
            assert_eq!(shared_prefix(subject.as_bytes()), expected, "{subject}");
        }
        for pattern in ["_R_.>", "_R_.abcdef.>", ">", "*.*.*", "_R_.*", "a.*.x", "*.*.*.x"] {
            assert!(!inspects_suffix(pattern.as_bytes(), ReplyKind::Requests), "{pattern}");
        }
        for pattern in ["_R_.abcdef.123456", "*.*.x", "_R_.*.x"] {
            assert!(inspects_suffix(pattern.as_bytes(), ReplyKind::Requests), "{pattern}");
        }
    }

    #[test]
    fn replies_to_an_inbox_begin_with_all_but_the_last_token() {
        let cases = [
            ("_INBOX.abcdef.1", Some("_INBOX.abcdef.")),
            ("_INBOX.a.b.12", Some("_INBOX.a.b.")),
            ("_INBOX_ann.abcdef.1", Some("_INBOX_ann.abcdef.")),
            ("_INBOX.abcdef", None),
            ("_INBOX_ann.abcdef", None),
            ("_INBOX.abcdef.", None),
            ("_INBOX", None),
            ("_INBO.a.b", None),
        ];
        for (subject, expected) in cases {
            let expected = expected.map(|text| (text.as_bytes(), ReplyKind::Inboxes));
            assert_eq!(shared_prefix(subject.as_bytes()), expected, "{subject}");
        }
        for pattern in
            ["_INBOX.>", "_INBOX.a.*", ">", "*.a.>", "_INBOX.a", "*.a", "*.*.*", "a.b.c", "_R_.a.c"]
        {
            assert!(!inspects_suffix(pattern.as_bytes(), ReplyKind::Inboxes), "{pattern}");
        }
        for pattern in ["_INBOX.a.b", "*.*.b", "_INBOX.*.b", "*.a.*.b", "_INBOX_ann.a.b"] {
            assert!(inspects_suffix(pattern.as_bytes(), ReplyKind::Inboxes), "{pattern}");
        }
    }

    #[test]
    fn one_inbox_that_is_looked_behind_is_no_other() {
        let inspectors = SuffixInspectors::default();
        let leaves_alone = |prefix: &str| inspectors.leave_alone(prefix.as_bytes(), ReplyKind::Inboxes);
        let names = || (0..100).map(|n| format!("_INBOX.client{n}."));
        inspectors.comes(b"_INBOX.client5.x");
        assert!(!leaves_alone("_INBOX.client5."));
        assert!(names().filter(|name| leaves_alone(name)).count() > 80);
        inspectors.comes(b"_INBOX.*.x");
        assert!(!names().any(|name| leaves_alone(&name)));
        inspectors.has_gone(b"_INBOX.*.x");
        inspectors.has_gone(b"_INBOX.client5.x");
        assert!(names().all(|name| leaves_alone(&name)) && inspectors.is_empty());
    }

    #[test]
    fn what_consumers_bind_does_not_look_behind() {
        for pattern in
            ["$JS.ACK.S.>", "$JS.ACK.*.*.S.>", "$JS.FC.S.>", ">", "*.*.x", "_INBOX.a.*", "$JS.ACK.S.C.1.>"]
        {
            assert!(!inspects_suffix(pattern.as_bytes(), ReplyKind::Deliveries), "{pattern}");
        }
        for pattern in
            ["$JS.ACK.S.C.1.5.>", "$JS.ACK.S.C.1.*", "*.*.*.*.*.*.*.*.*", "$JS.FC.S.C.1.2", "*.*.*.*.*.7.>"]
        {
            assert!(inspects_suffix(pattern.as_bytes(), ReplyKind::Deliveries), "{pattern}");
        }
    }

    fn text(token: &'static str, tokens: std::ops::Range<usize>) -> impl Strategy<Value = String> {
        let first = prop_oneof![4 => Just("$JS".to_owned()), 1 => token];
        let second = prop_oneof![4 => "(ACK|FC)", 1 => token];
        (first, second, proptest::collection::vec(token, tokens))
            .prop_map(|(first, second, rest)| [vec![first, second], rest].concat().join("."))
    }

    proptest! {
        #[test]
        fn who_does_not_look_behind_receives_all_that_begin_alike_or_none(
            pattern in text("(a|\\*|>)", 0..6),
            begins in text("(a|b|\\*)", 3..4),
            ends in proptest::collection::vec(proptest::collection::vec("(a|b)", 1..4), 2),
        ) {
            let pattern = pattern.as_bytes();
            prop_assume!(is_well_formed(pattern) && !inspects_suffix(pattern, ReplyKind::Deliveries));
            let [one, other] = [0, 1].map(|at: usize| format!("{begins}.{}", ends[at].join(".")).into_bytes());
            if let (Some(first), Some(second)) = (shared_prefix(&one), shared_prefix(&other)) {
                prop_assert_eq!(first, second);
                prop_assert_eq!(matches(pattern, &one), matches(pattern, &other));
            }
        }

        #[test]
        fn the_same_holds_for_inboxes(
            pattern in proptest::collection::vec("(_INBOX|a|b|\\*|>)", 1..6),
            begins in "_INBOX(\\.a|\\.b|\\.)(\\.a|)",
            ends in proptest::collection::vec("(a|b|\\*)", 2),
        ) {
            let pattern = pattern.join(".").into_bytes();
            let looks = ReplyKind::that_begin(&pattern).contains(&ReplyKind::Inboxes)
                && inspects_suffix(&pattern, ReplyKind::Inboxes);
            prop_assume!(is_well_formed(&pattern) && !looks);
            let [one, other] = [0, 1].map(|at: usize| format!("{begins}.{}", ends[at]).into_bytes());
            prop_assert_eq!(shared_prefix(&one), shared_prefix(&other));
            // Of what has an empty token nobody gets anything.
            if shared_prefix(&one).is_some() && !has_empty_token(&one) {
                prop_assert_eq!(matches(&pattern, &one), matches(&pattern, &other));
            }
        }

        #[test]
        fn what_looks_behind_a_prefix_begins_as_such_do(
            pattern in proptest::collection::vec("(_R_|_INBOX|\\$JS|ACK|a|\\*|>)", 1..9),
        ) {
            let pattern = pattern.join(".").into_bytes();
            for kind in [ReplyKind::Deliveries, ReplyKind::Requests, ReplyKind::Inboxes] {
                let is_asked = ReplyKind::that_begin(&pattern).contains(&kind);
                prop_assert!(is_asked || !is_well_formed(&pattern) || !inspects_suffix(&pattern, kind));
            }
        }

        #[test]
        fn the_same_holds_for_answers_to_requests(
            pattern in proptest::collection::vec("(_R_|a|b|\\*|>)", 1..5),
            account in "(a|b)",
            ends in proptest::collection::vec("(a|b|_R_)", 2),
        ) {
            let pattern = pattern.join(".").into_bytes();
            prop_assume!(is_well_formed(&pattern) && !inspects_suffix(&pattern, ReplyKind::Requests));
            let [one, other] = [0, 1].map(|at: usize| format!("_R_.{account}.{}", ends[at]).into_bytes());
            prop_assert_eq!(shared_prefix(&one), shared_prefix(&other));
            prop_assert_eq!(matches(&pattern, &one), matches(&pattern, &other));
        }
    }
}
