//! Answers of authorities about certificates.
//!
//! Promised: all that is said to stand in an answer does stand there, and each part that is a value
//! is one by itself.

use myelin_wire::der::DerReader;
use myelin_wire::ocsp;

/// Any bytes as an answer.
pub fn ocsp(data: &[u8]) {
    let mut values = DerReader::new(data);
    while values.any().is_some() {}
    let Ok(answer) = ocsp::read(data) else { return };
    let stands = |part: &[u8]| part.is_empty() || data.windows(part.len()).any(|window| window == part);
    assert!(is_value(answer.signed) && answer.certificates.iter().all(|cert| is_value(cert)));
    for single in &answer.singles {
        for part in [single.hash, single.name_hash, single.key_hash, single.serial] {
            assert!(stands(part));
        }
    }
    assert!(stands(answer.signed) && stands(answer.algorithm) && stands(answer.signature));
    // What was read is read again, and a byte more is one too many.
    assert_eq!(ocsp::read(data), Ok(answer));
    assert!(ocsp::read(&[data, &[0]].concat()).is_err());
}

fn is_value(bytes: &[u8]) -> bool {
    let mut reader = DerReader::new(bytes);
    reader.any().is_some_and(|value| value.whole == bytes) && reader.is_empty()
}
