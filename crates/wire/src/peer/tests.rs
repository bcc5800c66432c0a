//! Tests of the protocol between servers.

use super::info::{PeerConnect, PeerInfo};
use super::parser::{
    Parsed, PeerError, PeerInterest, PeerLimits, PeerOp, next, next_of_any_form, plain_message,
};
use super::{account_hash, encode, leaf, pool_index};
use proptest::prelude::*;

const LIMITS: PeerLimits =
    PeerLimits { max_line: 200, max_payload: 100, is_dedicated: false, names_origin: true, is_leaf: false };
const DEDICATED: PeerLimits = PeerLimits { is_dedicated: true, ..LIMITS };
const LEAF: PeerLimits = PeerLimits { is_leaf: true, ..DEDICATED };

fn one<'a>(bytes: &'a [u8], limits: &PeerLimits) -> PeerOp<'a> {
    match next(bytes, limits) {
        Ok(Parsed::Op(op, used)) => {
            assert_eq!(used, bytes.len());
            op
        }
        other => panic!("{other:?} for {:?}", String::from_utf8_lossy(bytes)),
    }
}

/// Checks that the quick way through the parser says what the long one says; answers whether it
/// said anything.
fn is_plain(bytes: &[u8], limits: &PeerLimits) -> bool {
    let Some((message, len)) = plain_message(bytes, limits) else { return false };
    assert_eq!(next(bytes, limits), Ok(Parsed::Op(PeerOp::Message(message), len)));
    true
}

/// Checks that the quick way for interest says what the long one says.
fn is_the_same_interest(bytes: &[u8], limits: &PeerLimits) {
    assert_eq!(next(bytes, limits), next_of_any_form(bytes, limits));
}

/// Parts of a message: account, subject, reply, queues, length of headers, body, tail.
fn said(bytes: &str, limits: &PeerLimits) -> String {
    let PeerOp::Message(message) = one(bytes.as_bytes(), limits) else { panic!("no message: {bytes:?}") };
    let queues: Vec<_> = message.queues.iter().map(String::from_utf8_lossy).collect();
    let text = String::from_utf8_lossy;
    format!(
        "{}|{}|{}|{}|{}|{}|{}|{}",
        text(message.origin),
        text(message.account),
        text(message.subject),
        text(message.reply),
        queues.join(","),
        message.header_len,
        text(message.body),
        text(message.tail)
    )
}

#[test]
fn messages_of_leaf_nodes_have_one_account_and_no_origin() {
    let cases = [
        ("LMSG foo 2\r\nhi\r\n", "||foo|||0|hi|2\r\nhi\r\n"),
        ("LMSG foo rep 2\r\nhi\r\n", "||foo|rep||0|hi|rep 2\r\nhi\r\n"),
        ("LMSG foo | q r 2\r\nhi\r\n", "||foo||q,r|0|hi|2\r\nhi\r\n"),
        ("LMSG foo + rep q 2\r\nhi\r\n", "||foo|rep|q|0|hi|"),
        ("HMSG foo rep 3 5\r\nabchi\r\n", "||foo|rep||3|abchi|rep 3 5\r\nabchi\r\n"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(said(bytes, &LEAF), expected, "{bytes}");
    }
    assert!(is_plain(b"LMSG foo rep 2\r\nhi\r\n", &LEAF));
    assert!(!is_plain(b"LMSG foo rep 2\r\nhi\r\n", &DEDICATED), "over a route that names an origin");
}

#[test]
fn what_is_written_of_leaf_nodes_is_what_is_read() {
    let wish = |subject, queue, weight, leaf| PeerInterest { account: b"", subject, queue, weight, leaf };
    let mut out = Vec::new();
    leaf::interest(&mut out, b"a.>", Some((b"q", 3)));
    assert_eq!(out, b"LS+ a.> q 3\r\n");
    assert_eq!(one(&out, &LEAF), PeerOp::Interest(wish(b"a.>", Some(b"q"), 3, None)));
    out.clear();
    leaf::no_interest(&mut out, b"a", Some(b"q"));
    assert_eq!(out, b"LS- a q\r\n");
    assert_eq!(one(&out, &LEAF), PeerOp::NoInterest(wish(b"a", Some(b"q"), 1, None)));
    out.clear();
    leaf::routed_interest(&mut out, (b"EDGE", Some(b"A")), b"a", Some((b"q", 2)));
    assert_eq!(out, b"LS+ EDGE A a q 2\r\n");
    let routed = PeerInterest { account: b"A", ..wish(b"a", Some(b"q"), 2, Some(b"EDGE")) };
    assert_eq!(one(&out, &LIMITS), PeerOp::Interest(routed));
    out.clear();
    leaf::no_routed_interest(&mut out, (b"EDGE", Some(b"A")), b"a", None);
    let gone = PeerInterest { account: b"A", ..wish(b"a", None, 1, Some(b"EDGE")) };
    assert_eq!(one(&out, &LIMITS), PeerOp::NoInterest(gone));
}

#[test]
fn messages_in_all_their_forms() {
    let cases = [
        ("RMSG $G foo 2\r\nhi\r\n", "|$G|foo|||0|hi|2\r\nhi\r\n"),
        ("RMSG $G foo rep 2\r\nhi\r\n", "|$G|foo|rep||0|hi|rep 2\r\nhi\r\n"),
        ("RMSG $G foo | q 2\r\nhi\r\n", "|$G|foo||q|0|hi|2\r\nhi\r\n"),
        ("RMSG $G foo + rep q r 2\r\nhi\r\n", "|$G|foo|rep|q,r|0|hi|"),
        ("RMSG $G foo + rep 2\r\nhi\r\n", "|$G|foo|rep||0|hi|"),
        ("HMSG $G foo 3 5\r\nabchi\r\n", "|$G|foo|||3|abchi|3 5\r\nabchi\r\n"),
        ("HMSG $G foo rep 3 5\r\nabchi\r\n", "|$G|foo|rep||3|abchi|rep 3 5\r\nabchi\r\n"),
        ("HMSG $G foo | q 3 5\r\nabchi\r\n", "|$G|foo||q|3|abchi|3 5\r\nabchi\r\n"),
        ("HMSG $G foo + rep q 0 2\r\nhi\r\n", "|$G|foo|rep|q|0|hi|"),
        ("LMSG HUB $G foo 3 5\r\nabchi\r\n", "HUB|$G|foo|||3|abchi|3 5\r\nabchi\r\n"),
        ("LMSG HUB $G foo | a b 0 2\r\nhi\r\n", "HUB|$G|foo||a,b|0|hi|"),
        ("RMSG  $G\tfoo  rep 2 \r\nhi\r\n", "|$G|foo|rep||0|hi|"),
        ("rmsg $G foo 2\nhi\r\n", "|$G|foo|||0|hi|"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(said(bytes, &LIMITS), expected, "{bytes:?}");
    }
    let cases = [
        ("RMSG foo 2\r\nhi\r\n", "||foo|||0|hi|2\r\nhi\r\n"),
        ("RMSG foo + rep q 2\r\nhi\r\n", "||foo|rep|q|0|hi|"),
        ("LMSG HUB foo rep 0 2\r\nhi\r\n", "HUB||foo|rep||0|hi|"),
    ];
    for (bytes, expected) in cases {
        assert_eq!(said(bytes, &DEDICATED), expected, "{bytes:?}");
    }
}

#[test]
fn messages_as_servers_write_them_take_the_quick_way() {
    let plain = [
        "RMSG $G foo 2\r\nhi\r\n",
        "RMSG $G foo rep 0\r\n\r\n",
        "RMSG $G foo 7 2\r\nhi\r\n",
        "HMSG $G foo 3 5\r\nabchi\r\n",
        "HMSG $G foo 3 3 5\r\nabchi\r\n",
        "HMSG $G foo rep 5 5\r\nabchi\r\n",
    ];
    for bytes in plain {
        assert!(is_plain(bytes.as_bytes(), &LIMITS), "{bytes:?}");
        let without = bytes.replace(" $G", "");
        assert!(is_plain(without.as_bytes(), &DEDICATED), "{without:?}");
    }
    let long = format!("RMSG $G {} 2\r\nhi\r\n", "s".repeat(200));
    let others = [
        "RMSG $G foo | q 2\r\nhi\r\n",
        "RMSG $G foo + rep q 2\r\nhi\r\n",
        "RMSG $G foo 2\r\nhi\r",
        "RMSG $G foo 2\r\nhi!\n",
        "RMSG $G foo 101\r\n",
        "RMSG $G foo\r\n2 2\r\n",
        "RMSG $G  foo 2\r\nhi\r\n",
        "RMSG $G foo  2\r\nhi\r\n",
        "RMSG $G foo\t2\r\nhi\r\n",
        "RMSG $G foo 2\nhi\r\n",
        "HMSG $G foo 0 2\r\nhi\r\n",
        "HMSG $G foo 6 5\r\nabchi\r\n",
        "rmsg $G foo 2\r\nhi\r\n",
        &long,
    ];
    for bytes in others {
        assert!(!is_plain(bytes.as_bytes(), &LIMITS), "{bytes:?}");
    }
}

#[test]
fn interest_in_all_its_forms() {
    let plain = PeerInterest { account: b"$G", subject: b"foo", queue: None, weight: 1, leaf: None };
    assert_eq!(one(b"RS+ $G foo\r\n", &LIMITS), PeerOp::Interest(plain));
    assert_eq!(one(b"RS- $G foo\r\n", &LIMITS), PeerOp::NoInterest(plain));
    let queue = PeerInterest { queue: Some(b"q"), weight: 7, ..plain };
    assert_eq!(one(b"RS+ $G foo q 7\r\n", &LIMITS), PeerOp::Interest(queue));
    assert_eq!(one(b"RS+ $G foo q x\r\n", &LIMITS), PeerOp::Interest(PeerInterest { weight: 1, ..queue }));
    assert_eq!(one(b"RS- $G foo q\r\n", &LIMITS), PeerOp::NoInterest(PeerInterest { weight: 1, ..queue }));
    // Nine digits at most, as the reference reads and writes them.
    let most = PeerInterest { weight: 999_999_999, ..queue };
    assert_eq!(one(b"RS+ $G foo q 999999999\r\n", &LIMITS), PeerOp::Interest(most));
    let one_more = PeerInterest { weight: 1, ..queue };
    assert_eq!(one(b"RS+ $G foo q 1000000000\r\n", &LIMITS), PeerOp::Interest(one_more));
    for weight in [999_999_999, 1_000_000_000, u32::MAX] {
        let (mut of_route, mut of_leaf) = (Vec::new(), Vec::new());
        encode::interest(&mut of_route, Some(b"$G"), b"foo", Some((b"q", weight)));
        assert_eq!(one(&of_route, &LIMITS), PeerOp::Interest(most));
        leaf::interest(&mut of_leaf, b"foo", Some((b"q", weight)));
        assert_eq!(of_leaf, b"LS+ foo q 999999999\r\n");
    }
    assert_eq!(one(b"RS+ foo\r\n", &DEDICATED), PeerOp::Interest(PeerInterest { account: b"", ..plain }));
    let leaf = PeerInterest { leaf: Some(b"HUB"), ..plain };
    assert_eq!(one(b"LS+ HUB $G foo\r\n", &LIMITS), PeerOp::Interest(leaf));
    assert_eq!(one(b"LS- HUB $G foo\r\n", &LIMITS), PeerOp::NoInterest(leaf));
    let old = PeerLimits { names_origin: false, ..LIMITS };
    assert_eq!(one(b"LS- $G foo\r\n", &old), PeerOp::NoInterest(PeerInterest { leaf: Some(b""), ..plain }));
}

#[test]
fn what_is_no_operation_is_refused() {
    let refused = |bytes: &[u8]| next(bytes, &LIMITS).unwrap_err();
    for bytes in ["PUB a 1\r\n", "SUB a 1\r\n", "X", "RS*", "RS+x y\r\n", "RMSG $G a 2\r\nhixx"] {
        assert_eq!(refused(bytes.as_bytes()), PeerError::UnknownOperation, "{bytes}");
    }
    for bytes in [
        "RS+ \r\n",
        "RS+ $G\r\n",
        "RS+ $G a q\r\n",
        "RS+ $G a q 1 2 3 4 5\r\n",
        "RS- $G a b c\r\n",
        "RMSG $G 1\r\n",
        "RMSG $G a x\r\n",
        "RMSG $G a -1\r\n",
        "RMSG $G a ? q 1\r\n",
        "RMSG $G a ++ r q 1\r\n",
        "HMSG $G a 1\r\n",
        "HMSG $G a 3 2\r\n",
        "LMSG o $G a 1\r\n",
    ] {
        assert_eq!(refused(bytes.as_bytes()), PeerError::BadArguments, "{bytes}");
    }
    assert_eq!(refused(b"RMSG $G a 101\r\n"), PeerError::PayloadTooLarge);
    assert_eq!(refused(format!("RS+ $G {}", "a".repeat(300)).as_bytes()), PeerError::LineTooLong);
    assert_eq!(refused(format!("INFO {}\r\n", "a".repeat(300)).as_bytes()), PeerError::LineTooLong);
}

#[test]
fn lines_of_the_handshake() {
    assert_eq!(one(b"INFO {\"a\":1} \r\n", &LIMITS), PeerOp::Info(b"{\"a\":1}"));
    assert_eq!(one(b"CONNECT {}\r\n", &LIMITS), PeerOp::Connect(b"{}"));
    assert_eq!(one(b"-ERR 'x'\r\n", &LIMITS), PeerOp::PeerError(b"'x'"));
    assert_eq!(one(b"PING\r\n", &LIMITS), PeerOp::Ping);
    assert_eq!(one(b"PONG\r\n", &LIMITS), PeerOp::Pong);
    assert_eq!(one(b"+OK\r\n", &LIMITS), PeerOp::Ok);
    assert_eq!(one(b"A+ acc\r\n", &LIMITS), PeerOp::Account(b"acc", true));
}

#[test]
fn encoded_lines_are_the_references() {
    let mut out = Vec::new();
    encode::interest(&mut out, Some(b"$G"), b"foo", None);
    encode::interest(&mut out, Some(b"$G"), b"bar", Some((b"q", 2)));
    encode::no_interest(&mut out, None, b"bar", Some(b"q"));
    encode::message_head(&mut out, Some(b"$G"), b"foo");
    encode::queue_words(&mut out, b"rep", [&b"a"[..], b"b"].into_iter());
    encode::queue_words(&mut out, b"", [&b"a"[..]].into_iter());
    assert_eq!(
        String::from_utf8_lossy(&out),
        "RS+ $G foo\r\nRS+ $G bar q 2\r\nRS- bar q\r\nRMSG $G foo + rep a b | a "
    );
}

/// Lines of nats-server 2.15.2, read and written again.
#[test]
fn documents_of_the_reference() {
    let info = br#"{"server_id":"NA","server_name":"A","version":"2.15.2","proto":3,"go":"go1.26.8","host":"127.0.0.1","port":17011,"headers":true,"max_payload":1048576,"nonce":"mqv8stH1qjBUi3U","cluster":"C","connect_urls":["192.0.2.2:17001","[fd00::2]:17001"],"compression":"accept","lnoc":true,"lnocu":true,"ln":true,"route_pool_size":3,"route_pool_idx":2}"#;
    let parsed = PeerInfo::parse(info).unwrap();
    assert_eq!((parsed.route_pool_size, parsed.route_pool_idx, parsed.proto), (3, 2, 3));
    assert_eq!(parsed.line(), [b"INFO ", &info[..], b" \r\n"].concat());
    let connect = br#"{"echo":true,"verbose":false,"pedantic":false,"tls_required":false,"headers":true,"name":"NC","cluster":"C","lnoc":true,"ln":true}"#;
    let parsed = PeerConnect::parse(connect).unwrap();
    assert_eq!(parsed.line(), [b"CONNECT ", &connect[..], b"\r\n"].concat());
    assert!(PeerInfo::parse(br#"{"server_id":1}"#).is_err());
    assert_eq!(PeerInfo::parse(br#"{"connect_urls":null,"new":[1]}"#).unwrap(), PeerInfo::default());
}

#[test]
fn accounts_are_spread_as_by_the_reference() {
    assert_eq!(account_hash(""), 0x811c_9dc5);
    assert_eq!(account_hash("a"), 0xe40c_292c);
    assert_eq!(account_hash("foobar"), 0xbf9c_f968);
    // As seen between two servers: $G goes by the last of three connections.
    assert_eq!(pool_index(3, "$G"), 2);
    assert_eq!((pool_index(1, "$G"), pool_index(0, "$G")), (0, 0));
}

/// Everything the parser says of a byte string that arrives in pieces ending at `cuts`.
fn replay(bytes: &[u8], cuts: &[usize], limits: &PeerLimits) -> Vec<String> {
    let (mut said, mut held, mut from) = (Vec::new(), Vec::new(), 0);
    for cut in cuts.iter().copied().chain([bytes.len()]) {
        let cut = cut.clamp(from, bytes.len());
        held.extend_from_slice(&bytes[from..cut]);
        from = cut;
        loop {
            is_plain(&held, limits);
            is_the_same_interest(&held, limits);
            match next(&held, limits) {
                Ok(Parsed::Op(op, used)) => {
                    said.push(format!("{op:?}"));
                    held.drain(..used);
                }
                Ok(Parsed::Need(n)) => {
                    assert!(n > held.len(), "must ask for more than it has");
                    break;
                }
                Err(error) => {
                    said.push(format!("{error:?}"));
                    return said;
                }
            }
        }
    }
    said
}

fn fragment() -> impl Strategy<Value = Vec<u8>> {
    let whole = [
        "RMSG $G a.b 3\r\nxyz\r\n",
        "RMSG a.b + r q w 3\r\nxyz\r\n",
        "HMSG $G a r 3 5\r\nabchi\r\n",
        "LMSG o $G a | q 0 2\r\nhi\r\n",
        "RS+ $G a q 2\r\n",
        "RS+ $G a.b\r\n",
        "RS- $G a\r\n",
        "LS- o $G a q\n",
        "PING\r\n",
        "INFO {} \r\n",
        "A- x\r\n",
    ];
    prop_oneof![
        (0..whole.len()).prop_map(move |at| whole[at].as_bytes().to_vec()),
        proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b' '), any::<u8>()], 0..12),
        (150usize..250).prop_map(|n| format!("RS+ $G {}\r\n", "s".repeat(n)).into_bytes()),
    ]
}

proptest! {
    #[test]
    fn both_ways_through_the_parser_say_the_same(
        verb in "[RHL]MSG", words in "[ab+|35 \t]{1,12}", end in "\r?\n", body in "[x\r\n]{0,8}",
        is_dedicated: bool, is_leaf: bool,
    ) {
        let bytes = format!("{verb} {words}{end}{body}\r\n").into_bytes();
        is_plain(&bytes, &PeerLimits { is_dedicated: is_dedicated || is_leaf, is_leaf, ..LIMITS });
    }

    #[test]
    fn both_ways_to_interest_say_the_same(
        verb in "([RL]S[+-]|[rl]s\\+)", words in "[ab.*> \t\x01]{1,12}", end in "\r?\n", max_line in 1usize..20,
        is_dedicated: bool, is_leaf: bool,
    ) {
        let limits = PeerLimits { is_dedicated: is_dedicated || is_leaf, is_leaf, max_line, ..LIMITS };
        let bytes = format!("{verb} {words}{end}PING\r\n").into_bytes();
        is_the_same_interest(&bytes, &limits);
        (0..bytes.len()).for_each(|len| is_the_same_interest(&bytes[..len], &limits));
    }

    #[test]
    fn the_split_never_changes_the_result(
        parts in proptest::collection::vec(fragment(), 0..6),
        mut cuts in proptest::collection::vec(0usize..200, 0..8),
        is_dedicated: bool, names_origin: bool, is_leaf: bool,
    ) {
        let limits =
            PeerLimits { is_dedicated: is_dedicated || is_leaf, names_origin, is_leaf, ..LIMITS };
        let bytes = parts.concat();
        cuts.sort_unstable();
        let every: Vec<usize> = (0..bytes.len()).collect();
        let whole = replay(&bytes, &[], &limits);
        prop_assert_eq!(&whole, &replay(&bytes, &cuts, &limits));
        prop_assert_eq!(&whole, &replay(&bytes, &every, &limits));
    }

    #[test]
    fn a_tail_is_what_would_be_rendered(
        reply in "( [a-c]{1,3})?", header in 0usize..3, body in "[xy\r\n]{3,12}", has_header: bool,
    ) {
        let sizes = if has_header { format!("{header} {}", body.len()) } else { body.len().to_string() };
        let verb = if has_header { "HMSG" } else { "RMSG" };
        let bytes = format!("{verb} $G s{reply} {sizes}\r\n{body}\r\n").into_bytes();
        let PeerOp::Message(message) = one(&bytes, &LIMITS) else { panic!() };
        let mut tail = Vec::new();
        crate::encode::tail(&mut tail, message.reply, message.digits.0, message.digits.1, message.body);
        if message.tail.is_empty() {
            prop_assert!(has_header && header == 0);
        } else {
            prop_assert_eq!(message.tail, &tail[..]);
        }
    }
}
