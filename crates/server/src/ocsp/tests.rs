//! Proofs of authorities: which are believed, and which clients they let in.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use myelin_conf::options::{OcspCacheOptions, OcspPeerOptions};
use myelin_wire::ocsp::CertStatus;
use rustls::pki_types::CertificateDer;

use super::cache::Cache;
use super::certificate::{fingerprint, hex_fingerprint, must_staple, paths, responders};
use super::peer::{OcspFinding, PeerCheck, PeerKind, now};
use super::proof;
use super::responder::{Authority, Responder, Says};
use crate::logging::{Config, Destination, LogClock, Logger};

#[test]
fn certificates_say_whom_to_ask_and_what_must_come_with_them() {
    let authority = Authority::new("one");
    let plain = authority.sign("a", 7, None, false);
    assert_eq!((responders(plain.cert.der()).len(), must_staple(plain.cert.der())), (0, false));
    let full = authority.sign("b", 8, Some("http://127.0.0.1:1/x"), true);
    assert_eq!(responders(full.cert.der()), ["http://127.0.0.1:1/x"]);
    assert!(must_staple(full.cert.der()));
    assert_eq!(responders(authority.sign("c", 9, Some("ldap://x"), false).cert.der()), Vec::<String>::new());
    assert_eq!((fingerprint(b"").len(), hex_fingerprint(b"").len()), (44, 64));
}

#[test]
fn every_way_to_an_authority_is_found() {
    let (one, other) = (Authority::new("one"), Authority::new("two"));
    let leaf = one.sign("a", 7, None, false).cert.der().clone();
    let (root, stranger) = (one.cert.der().clone(), other.cert.der().clone());
    // One that bears the issuer's name and is another.
    let double = Authority::new("one").cert.der().clone();
    let trusted = [stranger.clone(), double, root.clone()];
    let alone = std::slice::from_ref(&leaf);
    assert_eq!(paths(alone, &trusted), [[leaf.clone(), root.clone()]]);
    // Nobody is trusted for being shown.
    assert_eq!(paths(&[leaf.clone(), root.clone()], &[]), Vec::<Vec<_>>::new());
    assert_eq!(paths(alone, &[stranger]), Vec::<Vec<_>>::new());
    assert_eq!(paths(alone, alone), [[leaf.clone()]]);
    assert!(paths(&[], &trusted).is_empty());
    // An authority with two certificates, by two others, shows both.
    let middle = Authority::new("middle");
    let (by_one, by_other) = (one.vouch(&middle, None), other.vouch(&middle, None));
    let leaf = middle.sign("b", 8, None, false).cert.der().clone();
    let chain = [leaf.clone(), by_one.clone(), by_other.clone()];
    let both = [root.clone(), other.cert.der().clone()];
    let first = vec![leaf.clone(), by_one, both[0].clone()];
    let second = vec![leaf, by_other, both[1].clone()];
    assert_eq!(paths(&chain, &both), [first.clone(), second.clone()]);
    assert_eq!(paths(&chain, &both[1..]), [second]);
    // Those that vouch for each other lead nowhere, and not for ever.
    let round = [chain[0].clone(), middle.vouch(&one, None), one.vouch(&middle, None)];
    assert_eq!(paths(&round, &both[1..]), Vec::<Vec<_>>::new());
    let crowd: Vec<_> = (0..60).flat_map(|_| [one.vouch(&middle, None), middle.vouch(&one, None)]).collect();
    assert_eq!(paths(&[vec![first[0].clone()], crowd].concat(), &both[1..]), Vec::<Vec<_>>::new());
}

#[test]
fn one_good_way_is_enough() {
    let (one, other) = (Responder::start("one"), Responder::start("two"));
    let middle = Authority::new("middle");
    let chain = [
        middle.sign("a", 8, None, false).cert.der().clone(),
        one.authority.vouch(&middle, Some((21, &one.url))),
        other.authority.vouch(&middle, Some((22, &other.url))),
    ];
    let bench = || {
        let mut bench = Bench::new(&one, strict(), false);
        bench.check.trusted.push(other.authority.cert.der().clone());
        bench
    };
    assert_eq!((bench().verify_chain(&chain), one.asked(), other.asked()), (Ok(()), 1, 0));
    one.say(21, Says::Revoked);
    let revoked = "Invalid OCSP response status: revoked";
    let second = bench();
    assert_eq!((second.verify_chain(&chain), one.asked(), other.asked()), (Ok(()), 2, 1));
    assert_eq!(second.reasons(), [revoked]);
    other.say(22, Says::Revoked);
    let none = bench();
    assert_eq!(none.verify_chain(&chain), Err(REJECTED.to_owned()));
    assert_eq!(none.reasons(), [revoked, revoked, REJECTED]);
}

#[test]
fn only_the_issuer_and_whom_it_allows_are_believed() {
    let (authority, other) = (Authority::new("one"), Authority::new("one"));
    let cert = authority.sign("a", 0x1234, None, false).cert;
    let (leaf, issuer) = (cert.der(), authority.cert.der());
    let serial = [0x12, 0x34];
    let read = |raw: &[u8]| proof::read(raw, leaf, issuer, now()).map(|proof| proof.status);
    for (says, status) in [
        (Says::Good, CertStatus::Good),
        (Says::Revoked, CertStatus::Revoked),
        (Says::Unknown, CertStatus::Unknown),
    ] {
        assert_eq!(read(&authority.answer(&serial, says, now())), Ok(status));
    }
    let refused = |raw: &[u8], why: &str| assert_eq!(read(raw), Err(why.to_owned()));
    refused(&authority.answer(&serial, Says::Forged, now()), "bad OCSP signature");
    refused(&authority.answer(&serial, Says::Nonsense, now()), "ocsp: malformed response");
    // About another certificate, and about one with this serial number of another issuer.
    let nothing = "no response matching the supplied certificate";
    refused(&authority.answer(&[0x12, 0x35], Says::Good, now()), nothing);
    refused(&other.answer(&serial, Says::Good, now()), nothing);
    // By others for the authority.
    let by = |delegate: &super::responder::Signed| {
        authority.answer_by(&delegate.key, &[delegate.cert.der()], &serial, Says::Good, now())
    };
    assert_eq!(read(&by(&authority.delegate(true))), Ok(CertStatus::Good));
    refused(&by(&authority.delegate(false)), proof::NO_DELEGATE);
    refused(&by(&other.delegate(true)), "bad signature on embedded certificate");
    refused(&by(&authority.sign("b", 5, None, false)), proof::NO_DELEGATE);
    // Whose certificate is shown has to have signed.
    let (shown, signer) = (authority.delegate(true), authority.delegate(true));
    let mixed = authority.answer_by(&signer.key, &[shown.cert.der()], &serial, Says::Good, now());
    refused(&mixed, "bad OCSP signature");
    // Anything that was changed on the way.
    let good = authority.answer(&serial, Says::Good, now());
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1;
        assert_ne!(read(&bad), Ok(CertStatus::Revoked), "{at}");
        if read(&bad) == Ok(CertStatus::Good) {
            // What says who answers, or how long a part is that nobody reads, is signed too.
            panic!("a change at {at} was not noticed");
        }
    }
}

fn log() -> Arc<Logger> {
    let config =
        Config { destination: Destination::Stderr, clock: LogClock::Off, debug: false, trace: false };
    Arc::new(Logger::open(&config).expect("a log"))
}

/// A check by these options, with a cache in a folder of its own, and what is advised.
struct Bench {
    check: PeerCheck,
    found: Arc<Mutex<Vec<OcspFinding>>>,
    _directory: tempfile::TempDir,
}

impl Bench {
    fn new(responder: &Responder, options: OcspPeerOptions, keeps_revoked: bool) -> Self {
        let directory = tempfile::tempdir().expect("a folder");
        let cache = OcspCacheOptions {
            local_store: directory.path().join("cache").display().to_string(),
            preserve_revoked: keeps_revoked,
            ..OcspCacheOptions::default()
        };
        let (log, found) = (log(), Arc::<Mutex<Vec<OcspFinding>>>::default());
        let seen = Arc::clone(&found);
        let check = PeerCheck {
            options,
            kind: PeerKind::Client,
            responder: None,
            trusted: vec![responder.authority.cert.der().clone()],
            cache: Cache::open(cache, &log),
            log,
            advise: Arc::new(move |finding| seen.lock().expect("nobody panics").push(finding.clone())),
        };
        Self { check, found, _directory: directory }
    }

    fn verify(&self, cert: &CertificateDer<'static>) -> Result<(), String> {
        self.verify_chain(std::slice::from_ref(cert))
    }

    fn verify_chain(&self, shown: &[CertificateDer<'static>]) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(self.check.verify(shown))
    }

    fn reasons(&self) -> Vec<String> {
        let reason = |finding: &OcspFinding| match finding {
            OcspFinding::Rejected(_, _, why) | OcspFinding::LinkInvalid(_, _, why) => why.clone(),
        };
        std::mem::take(&mut *self.found.lock().expect("nobody panics")).iter().map(reason).collect()
    }
}

fn strict() -> OcspPeerOptions {
    OcspPeerOptions { verify: true, ca_timeout: Duration::from_secs(20), ..OcspPeerOptions::default() }
}

const REJECTED: &str = "client not OCSP valid";

#[test]
fn clients_are_as_good_as_their_authority_says() {
    let responder = Responder::start("peers");
    let sign = |serial| responder.authority.sign("c", serial, Some(&responder.url), false).cert.der().clone();
    let bench = Bench::new(&responder, strict(), false);
    assert_eq!(bench.verify(&sign(1)), Ok(()));
    for (serial, says, reason) in [
        (2, Says::Revoked, "Invalid OCSP response status: revoked"),
        (3, Says::Unknown, "Invalid OCSP response status: unknown"),
        (4, Says::Nonsense, "Failed OCSP response parse"),
        (5, Says::Outdated, "OCSP response not in effectivity window"),
        (6, Says::Forged, "Failed OCSP response parse"),
    ] {
        responder.say(serial, says);
        assert_eq!(bench.verify(&sign(serial)), Err(REJECTED.to_owned()), "{says:?}");
        assert_eq!(bench.reasons(), [reason, REJECTED]);
        let warned = Bench::new(&responder, OcspPeerOptions { warn_only: true, ..strict() }, false);
        assert_eq!(warned.verify(&sign(serial)), Ok(()), "{says:?}");
    }
    let lenient = OcspPeerOptions { unknown_is_good: true, ..strict() };
    assert_eq!(Bench::new(&responder, lenient, false).verify(&sign(3)), Ok(()));
    // Whoever cannot be asked about is good, and so is who is trusted itself.
    let asked = responder.asked();
    let silent = responder.authority.sign("c", 2, None, false).cert.der().clone();
    assert_eq!(bench.verify(&silent), Ok(()));
    assert_eq!(bench.verify(responder.authority.cert.der()), Ok(()));
    assert_eq!(responder.asked(), asked);
    // And who was signed by others is none of ours.
    assert!(bench.verify(Authority::new("x").sign("c", 1, None, false).cert.der()).is_err());
}

#[test]
fn answers_are_kept_as_long_as_they_hold() {
    let responder = Responder::start("cache");
    let cert = responder.authority.sign("c", 1, Some(&responder.url), false).cert.der().clone();
    let bench = Bench::new(&responder, strict(), false);
    assert_eq!((bench.verify(&cert), bench.verify(&cert), responder.asked()), (Ok(()), Ok(()), 1));
    let stats = bench.check.cache.stats().expect("a cache");
    assert_eq!((stats.hits, stats.misses, stats.responses, stats.goods), (1, 1, 1, 1));
    // A file brings it to the next server.
    bench.check.cache.save();
    let again = Cache::open(bench.check.cache.options().clone(), &log());
    assert_eq!(again.stats().map(|stats| stats.goods), Some(1));
    assert_eq!(again.get(&fingerprint(&cert)), bench.check.cache.get(&fingerprint(&cert)));
    // What is in it is not believed for being there.
    let path = std::path::Path::new(&bench.check.cache.options().local_store).join("cache.json");
    let text = std::fs::read_to_string(&path).expect("a file");
    assert!(text.starts_with("{\n \"") && text.contains("\n  \"resp_status\": \"good\",\n"), "{text}");
    let other = responder.authority.sign("d", 2, Some(&responder.url), false).cert.der().clone();
    std::fs::write(&path, text.replace(&fingerprint(&cert), &fingerprint(&other))).expect("a file");
    responder.say(2, Says::Revoked);
    let cache = Cache::open(bench.check.cache.options().clone(), &log());
    let tricked = Bench { check: PeerCheck { cache, ..bench.check }, ..bench };
    assert!(tricked.verify(&other).is_err());
    assert_eq!(responder.asked(), 2);
}

#[test]
fn a_file_that_is_damaged_is_an_empty_one() {
    let directory = tempfile::tempdir().expect("a folder");
    std::fs::write(directory.path().join("cache.json"), "{ \"a\": 5").expect("a file");
    let local_store = directory.path().display().to_string();
    let cache = Cache::open(OcspCacheOptions { local_store, ..OcspCacheOptions::default() }, &log());
    assert_eq!(cache.stats().map(|stats| stats.responses), Some(0));
    cache.save();
    assert_eq!(std::fs::read_to_string(directory.path().join("cache.json")).expect("a file"), "{}");
    let none = Cache::open(OcspCacheOptions { enabled: false, ..OcspCacheOptions::default() }, &log());
    assert_eq!(none.stats(), None);
}

#[test]
fn an_authority_that_is_silent_may_be_overlooked_but_not_what_it_has_said() {
    let responder = Responder::start("silence");
    let url = "http://127.0.0.1:1";
    let cert = responder.authority.sign("c", 1, Some(url), false).cert.der().clone();
    let bench = Bench::new(&responder, strict(), true);
    assert!(bench.verify(&cert).is_err());
    assert_eq!(bench.reasons(), ["Failed OCSP response fetch", REJECTED]);
    let lenient = OcspPeerOptions { allow_when_ca_unreachable: true, ..strict() };
    let bench = Bench::new(&responder, lenient, true);
    assert_eq!(bench.verify(&cert), Ok(()));
    // It was revoked once; that this is long ago does not make it good.
    let raw = responder.authority.answer(&[1], Says::Revoked, now() - 90_000);
    let proof = proof::read(&raw, &cert, responder.authority.cert.der(), now()).expect("an answer");
    bench.check.cache.put(&fingerprint(&cert), "c", &proof);
    assert!(bench.verify(&cert).is_err());
    assert_eq!(bench.check.cache.stats().map(|stats| stats.revokes), Some(1), "it is kept");
}
