//! Known answers, and everything that must not open.

use super::*;

const BOTH: [CipherKind; 2] = [CipherKind::ChaCha20Poly1305, CipherKind::Aes256Gcm];

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pairs = digits.chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

fn array<const N: usize>(hex: &str) -> [u8; N] {
    bytes(hex).try_into().unwrap()
}

/// Seals `text` and expects `sealed`; then opens that again.
fn known_answer(cipher: &Cipher, nonce: Nonce, aad: &[u8], text: &[u8], sealed: &str) {
    let mut buffer = [b"before", text].concat();
    cipher.seal(nonce, aad, &mut buffer, 6);
    assert_eq!(&buffer[..6], b"before");
    assert_eq!(&buffer[6..], bytes(sealed));
    let length = cipher.open(nonce, aad, &mut buffer[6..]).unwrap();
    assert_eq!(&buffer[6..6 + length], text);
}

#[test]
fn chacha20_poly1305_of_rfc_8439() {
    let key: Vec<u8> = (0x80..=0x9f).collect();
    let cipher = Cipher::new(CipherKind::ChaCha20Poly1305, &key.try_into().unwrap());
    known_answer(
        &cipher,
        Nonce::random(array("070000004041424344454647")),
        &bytes("50515253c0c1c2c3c4c5c6c7"),
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, \
          sunscreen would be it.",
        "d31a8d34648e60db7b86afbc53ef7ec2 a4aded51296e08fea9e2b5a736ee62d6 3dbea45e8ca9671282fafb69da92728b
         1a71de0a9e060b2905d6a5b67ecd3b36 92ddbd7f2d778b8c9803aee328091b58 fab324e4fad675945585808b4831d7bc
         3ff4def08e4b7a9de576d26586cec64b 6116 1ae10b594f09e26a7e902ecbd0600691",
    );
}

#[test]
fn aes_256_gcm_of_the_gcm_specification() {
    let zeros = Cipher::new(CipherKind::Aes256Gcm, &[0; 32]);
    let nonce = Nonce::random([0; 12]);
    known_answer(&zeros, nonce, b"", b"", "530f8afbc74536b9a963b4f1c4cb738b");
    let sealed = "cea7403d4d606b6e074ec5d3baf39d18 d0d1c8a799996bf0265b98b5d48ab919";
    known_answer(&zeros, nonce, b"", &[0; 16], sealed);

    let key = array("feffe9928665731c6d6a8f9467308308 feffe9928665731c6d6a8f9467308308");
    known_answer(
        &Cipher::new(CipherKind::Aes256Gcm, &key),
        Nonce::random(array("cafebabefacedbaddecaf888")),
        &bytes("feedfacedeadbeeffeedfacedeadbeefabaddad2"),
        &bytes(
            "d9313225f88406e5a55909c5aff5269a 86a7a9531534f7da2e4c303d8a318a72 1c3c0c95956809532fcf0e2449a6b525
             b16aedf5aa0de657ba637b39",
        ),
        "522dc1f099567d07f47f37a32a84427d 643a8cdcbfe5c0c97598a2bd2555d1aa 8cb08e48590dbb3da7b08b1056828838
         c5f61e6393ba7a0abcc9f662 76fc6ece0f4e1768cddf8853bb2d551b",
    );
}

#[test]
fn nonces_are_the_places_they_name() {
    assert_eq!(Nonce::entry(0x0102_0304_0506_0708).0, [8, 7, 6, 5, 4, 3, 2, 1, 0, 0, 0, 0]);
    assert_eq!(Nonce::section_at(u32::from_le_bytes(*b"pack"), 128).0, *b"\x80\0\0\0\0\0\0\0pack");
}

#[test]
#[should_panic(expected = "share its nonce")]
fn a_section_has_a_tag() {
    let _ = Nonce::section_at(0, 128);
}

#[test]
fn nothing_but_what_was_sealed_opens() {
    for kind in BOTH {
        let cipher = Cipher::new(kind, &[7; 32]);
        let mut sealed = b"a message".to_vec();
        cipher.seal(Nonce::entry(128), b"seq 1", &mut sealed, 0);
        let open = |cipher: &Cipher, nonce, aad: &[u8], bytes: &[u8]| {
            let mut body = bytes.to_vec();
            cipher.open(nonce, aad, &mut body).map(|length| body[..length].to_vec())
        };

        assert_eq!(open(&cipher, Nonce::entry(128), b"seq 1", &sealed).unwrap(), b"a message");
        assert_eq!(open(&cipher, Nonce::entry(129), b"seq 1", &sealed), Err(Unauthentic));
        assert_eq!(open(&cipher, Nonce::section_at(1, 128), b"seq 1", &sealed), Err(Unauthentic));
        assert_eq!(open(&cipher, Nonce::entry(128), b"seq 2", &sealed), Err(Unauthentic));
        assert_eq!(
            open(&Cipher::new(kind, &[8; 32]), Nonce::entry(128), b"seq 1", &sealed),
            Err(Unauthentic)
        );
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(open(&cipher, Nonce::entry(128), b"seq 1", &flipped), Err(Unauthentic), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert_eq!(open(&cipher, Nonce::entry(128), b"seq 1", &sealed[..length]), Err(Unauthentic));
        }
    }
}

#[test]
fn the_two_ciphers_do_not_open_each_other() {
    let [one, other] = BOTH.map(|kind| Cipher::new(kind, &[7; 32]));
    let mut sealed = b"a message".to_vec();
    one.seal(Nonce::entry(0), b"", &mut sealed, 0);
    assert_eq!(other.open(Nonce::entry(0), b"", &mut sealed), Err(Unauthentic));
}

#[test]
fn sealing_grows_no_buffer_that_has_room() {
    let cipher = Cipher::new(CipherKind::Aes256Gcm, &[7; 32]);
    let mut buffer = Vec::with_capacity(1000 + TAG_BYTES);
    buffer.resize(1000, 1);
    let before = buffer.as_ptr();
    cipher.seal(Nonce::entry(0), b"", &mut buffer, 0);
    assert_eq!((buffer.as_ptr(), buffer.len()), (before, 1000 + TAG_BYTES));
}

#[test]
fn codes_are_those_of_the_header() {
    for (code, kind) in
        [(0, None), (1, Some(CipherKind::ChaCha20Poly1305)), (2, Some(CipherKind::Aes256Gcm)), (3, None)]
    {
        assert_eq!(CipherKind::from_code(code), kind);
        assert!(kind.is_none_or(|kind| kind.code() == code));
    }
}

#[test]
fn debug_shows_no_key() {
    let cipher = Cipher::new(CipherKind::Aes256Gcm, &[0xab; 32]);
    assert_eq!(format!("{cipher:?}"), "Cipher { kind: Aes256Gcm, .. }");
}
