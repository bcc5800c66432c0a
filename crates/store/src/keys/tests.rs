//! The chain of keys: what opens, what does not, and the change of the operator's key.

use super::*;
use crate::entropy::SeededEntropy;

const STREAM: StreamId = StreamId(0x1234);
const CHACHA: CipherKind = CipherKind::ChaCha20Poly1305;
const AES: CipherKind = CipherKind::Aes256Gcm;

fn keys(kind: CipherKind, current: &str, previous: Option<&str>) -> Keys {
    let master = |text: &str| MasterKey::derive(text.as_bytes());
    Keys { kind, current: master(current), previous: previous.map(master) }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

struct Sealed {
    key: StreamKey,
    blob: Vec<u8>,
}

fn sealed(kind: CipherKind, master: &str) -> Sealed {
    let entropy = SeededEntropy::new(1);
    let key = StreamKey::generate(&entropy);
    let blob = key.seal(kind, &MasterKey::derive(master.as_bytes()), STREAM, &entropy);
    Sealed { key, blob }
}

#[test]
fn a_sealed_key_opens_with_the_key_that_sealed_it() {
    for kind in [CHACHA, AES] {
        let Sealed { key, blob } = sealed(kind, "secret");
        assert_eq!(blob.len(), SEALED_KEY_BYTES);
        let (opened, reseal) = StreamKey::open(&blob, STREAM, &keys(kind, "secret", None)).unwrap();
        assert_eq!((opened.0.0, reseal), (key.0.0, NeedsReseal::No));
        let (opened, reseal) = StreamKey::open(&blob, STREAM, &keys(kind, "secret", Some("old"))).unwrap();
        assert_eq!((opened.0.0, reseal), (key.0.0, NeedsReseal::No));
    }
}

#[test]
fn a_change_of_the_key_seals_anew_and_then_needs_no_previous_key() {
    let Sealed { key, blob } = sealed(CHACHA, "old");
    let changed = keys(AES, "new", Some("old"));
    let (opened, reseal) = StreamKey::open(&blob, STREAM, &changed).unwrap();
    assert_eq!((opened.0.0, reseal), (key.0.0, NeedsReseal::Yes));

    let again = opened.seal(changed.kind, &changed.current, STREAM, &SeededEntropy::new(2));
    let (opened, reseal) = StreamKey::open(&again, STREAM, &keys(AES, "new", None)).unwrap();
    assert_eq!((opened.0.0, reseal), (key.0.0, NeedsReseal::No));
    assert_eq!(
        StreamKey::open(&again, STREAM, &keys(AES, "old", None)).unwrap_err(),
        KeyError::Wrong { stream: STREAM }
    );
}

#[test]
fn another_cipher_is_sealed_anew() {
    let Sealed { key, blob } = sealed(CHACHA, "secret");
    let (opened, reseal) = StreamKey::open(&blob, STREAM, &keys(AES, "secret", None)).unwrap();
    assert_eq!((opened.0.0, reseal), (key.0.0, NeedsReseal::Yes));
}

#[test]
fn wrong_keys_say_so() {
    let Sealed { blob, .. } = sealed(AES, "secret");
    let error = StreamKey::open(&blob, STREAM, &keys(AES, "other", Some("older"))).unwrap_err();
    assert_eq!(error, KeyError::Wrong { stream: STREAM });
    assert_eq!(
        error.to_string(),
        "encryption key is wrong or missing: stream 0000000000001234 was written with another key; configure \
         that one as the key or as the previous key"
    );
}

#[test]
fn a_sealed_key_is_of_one_stream() {
    let Sealed { blob, .. } = sealed(AES, "secret");
    let other = StreamId(0x1235);
    let error = StreamKey::open(&blob, other, &keys(AES, "secret", None)).unwrap_err();
    assert_eq!(error, KeyError::Damaged { stream: other });
}

#[test]
fn damaged_and_cut_blobs_do_not_open() {
    for kind in [CHACHA, AES] {
        let Sealed { blob, .. } = sealed(kind, "secret");
        let keys = keys(kind, "secret", Some("old"));
        for bit in 0..blob.len() * 8 {
            let mut flipped = blob.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(StreamKey::open(&flipped, STREAM, &keys).is_err(), "bit {bit}");
        }
        for length in 0..blob.len() {
            assert!(StreamKey::open(&blob[..length], STREAM, &keys).is_err(), "length {length}");
        }
        let longer = [blob.as_slice(), &[0]].concat();
        assert_eq!(
            StreamKey::open(&longer, STREAM, &keys).unwrap_err(),
            KeyError::Damaged { stream: STREAM }
        );
    }
}

#[test]
fn a_later_version_is_named() {
    let Sealed { mut blob, .. } = sealed(AES, "secret");
    blob[0] = 2;
    let error = StreamKey::open(&blob, STREAM, &keys(AES, "secret", None)).unwrap_err();
    assert_eq!(error, KeyError::Version { stream: STREAM, version: 2 });
}

#[test]
fn a_key_is_never_sealed_with_the_same_nonce() {
    let entropy = SeededEntropy::new(3);
    let (key, master) = (StreamKey::generate(&entropy), MasterKey::derive(b"secret"));
    let (one, other) = (key.seal(AES, &master, STREAM, &entropy), key.seal(AES, &master, STREAM, &entropy));
    assert_ne!(one[12..24], other[12..24]);
    assert_ne!(one[24..], other[24..]);
}

/// Whether two ciphers have the same key: only then do they open each other's.
fn same(one: &Cipher, other: &Cipher) -> bool {
    let mut sealed = b"text".to_vec();
    one.seal(Nonce::entry(0), b"", &mut sealed, 0);
    other.open(Nonce::entry(0), b"", &mut sealed).is_ok()
}

#[test]
fn each_file_has_a_key_of_its_own() {
    let key = sealed(AES, "secret").key;
    let other_key = StreamKey::generate(&SeededEntropy::new(9));
    let file = key.file_cipher(AES, "segment", 1, &[1; 16]);
    assert!(same(&file, &key.clone().file_cipher(AES, "segment", 1, &[1; 16])));
    assert!(!same(&file, &key.file_cipher(AES, "segment", 2, &[1; 16])));
    assert!(!same(&file, &key.file_cipher(AES, "segment", 1, &[2; 16])));
    assert!(!same(&file, &key.file_cipher(AES, "consumers", 1, &[1; 16])));
    assert!(!same(&file, &key.file_cipher(CHACHA, "segment", 1, &[1; 16])));
    assert!(!same(&file, &other_key.file_cipher(AES, "segment", 1, &[1; 16])));
}

/// Files that exist must stay readable: a change of these bytes is a change of the format. The
/// bytes were computed with Python (hmac, hashlib, cryptography) from `docs/formats/encryption.md`,
/// not by this code.
#[test]
fn derivations_are_pinned() {
    let master = MasterKey::derive(b"secret");
    assert_eq!(hex(&master.0.0), "677933c2b69962ec18513be080cbe05e31d20e41086955142a6dca1e83cbff77");
    let Sealed { key, blob } = sealed(CHACHA, "secret");
    assert_eq!(
        hex(&blob),
        "01010000be8581fd3fc850ceb9b501d1d854bb71800215904313459564015f57473bf13d\
         1c3f30c15ea9bfaa433dfd01c5dabe5e9eb99deb025b93c813114fb8ed694ad1bc3d7c58"
    );
    let mut text = b"text".to_vec();
    key.file_cipher(AES, "segment", 1, &[1; 16]).seal(Nonce::entry(128), b"aad", &mut text, 0);
    assert_eq!(hex(&text), "92f75e8fd7c9561d2390823c99f9e61df240edfa");
}

#[test]
fn debug_shows_no_key() {
    let Sealed { key, .. } = sealed(AES, "secret");
    assert_eq!(format!("{key:?}"), "StreamKey(..)");
    let keys = format!("{:?}", keys(AES, "secret", Some("old")));
    assert_eq!(keys, "Keys { kind: Aes256Gcm, current: MasterKey(..), previous: Some(MasterKey(..)) }");
}
