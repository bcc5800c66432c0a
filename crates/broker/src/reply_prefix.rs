//! Prefixes of reply subjects: acks and replies never repeat a subject, so a cached route for each
//! would be useless. All that have the same prefix share one.
//!
//! Clients acknowledge deliveries by `$JS.ACK.<stream>.<consumer>.<deliveries>.…` (or with two
//! tokens more in front of the stream) and answer flow control by `$JS.FC.…`: the prefix is five
//! tokens long. They answer requests from other accounts by `_R_.<account>.<request>`: two tokens.
//! One route serves a prefix as long as no subscription of the account inspects what follows it.
//!
//! Perf: on its way from the client's bytes to the service an acknowledgement takes 85 ns, and 240
//! with a look-up in the indexes (`examples/acknowledgements.rs`).

use myelin_subject::has_empty_token;

/// Kind of a reply's subject: what it is the reply to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReplyKind {
    /// Deliveries of consumers.
    Deliveries,
    /// Requests from other accounts.
    Requests,
}

impl ReplyKind {
    pub(crate) const ALL: [Self; 2] = [Self::Deliveries, Self::Requests];
}

/// Tokens that answers to consumers have in common if they go the same way.
const TOKENS: usize = 5;

/// Beginning of a reply's subject, up to the dot behind the last token that it shares with others.
/// `None`: the subject is no reply, or nobody's.
#[inline]
pub(crate) fn shared_prefix(subject: &[u8]) -> Option<(&[u8], ReplyKind)> {
    match subject {
        [b'$', b'J', b'S', b'.', ..] => Some((to_delivery(subject)?, ReplyKind::Deliveries)),
        [b'_', b'R', b'_', b'.', ..] => Some((to_request(subject)?, ReplyKind::Requests)),
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

/// Whether `pattern`, which is well formed, may match one answer and not another that begins alike.
pub(crate) fn inspects_suffix(pattern: &[u8], reply_kind: ReplyKind) -> bool {
    match reply_kind {
        ReplyKind::Deliveries => inspects_delivery_suffix(pattern),
        ReplyKind::Requests => inspects_request_suffix(pattern),
    }
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
