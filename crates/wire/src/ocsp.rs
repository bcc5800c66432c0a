//! OCSP (RFC 6960): questions to an authority whether certificates were revoked, and its answers.
//!
//! Knows the format and nothing else: no clock, no cryptography. An [`OcspResponse`] that was read
//! here is worth nothing before its signature was checked over [`signed`](OcspResponse::signed).

use std::fmt;

use crate::der::{DerReader, DerValue, bits, seconds, tag, write};

/// SHA-1, by which questions name the issuer: every responder knows it.
pub const SHA1: &[u8] = &[0x2b, 0x0e, 0x03, 0x02, 0x1a];

/// `id-pkix-ocsp-basic`, the one kind of answer there is.
const BASIC: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x30, 0x01, 0x01];

/// A question about one certificate: digests by SHA-1 of its issuer's name and key, and its serial
/// number as it stands there.
pub fn question(name_hash: &[u8], key_hash: &[u8], serial: &[u8]) -> Vec<u8> {
    let algorithm = write(tag::SEQUENCE, &[&write(tag::OID, &[SHA1]), &write(tag::NULL, &[])]);
    let (name, key) = (write(tag::OCTET_STRING, &[name_hash]), write(tag::OCTET_STRING, &[key_hash]));
    let id = write(tag::SEQUENCE, &[&algorithm, &name, &key, &write(tag::INTEGER, &[serial])]);
    // The question, the list of them, what could be signed, and the whole.
    (0..4).fold(id, |inner, _| write(tag::SEQUENCE, &[&inner]))
}

/// Status of a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CertStatus {
    /// The certificate was not revoked.
    Good,
    /// The certificate was revoked.
    Revoked,
    /// The authority does not know it.
    Unknown,
}

impl fmt::Display for CertStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Good => "good",
            Self::Revoked => "revoked",
            Self::Unknown => "unknown",
        })
    }
}

/// The answer about one certificate. Times are in seconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Single<'a> {
    /// By which algorithm the digests were made, as an object identifier.
    pub hash: &'a [u8],
    /// Digest of its issuer's name.
    pub name_hash: &'a [u8],
    /// Digest of its issuer's key.
    pub key_hash: &'a [u8],
    /// Its serial number.
    pub serial: &'a [u8],
    /// Status of the certificate.
    pub status: CertStatus,
    /// From when on that is known.
    pub this_update: i64,
    /// Until when.
    pub next_update: Option<i64>,
    /// There is something in it that must be understood, and nothing of the kind is understood
    /// here.
    pub has_critical_extension: bool,
}

/// An answer, unchecked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OcspResponse<'a> {
    /// Bytes that were signed.
    pub signed: &'a [u8],
    /// By which algorithm: the inside of an AlgorithmIdentifier.
    pub algorithm: &'a [u8],
    /// The signature.
    pub signature: &'a [u8],
    /// Certificates that may help to check it, whole; whose they are is not known.
    pub certificates: Vec<&'a [u8]>,
    /// About which certificates it is.
    pub singles: Vec<Single<'a>>,
}

/// Why there is no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OcspError {
    /// The bytes are no answer.
    Malformed,
    /// The authority does not answer the question.
    Refused(u8),
    /// The answer is of another kind than the one there is.
    Kind,
}

impl fmt::Display for OcspError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("ocsp: malformed response"),
            Self::Kind => f.write_str("bad OCSP response type"),
            Self::Refused(status) => {
                let name = match status {
                    1 => "malformed",
                    2 => "internal error",
                    3 => "try later",
                    5 => "signature required",
                    6 => "unauthorized",
                    _ => return write!(f, "ocsp: error from server: unknown OCSP status: {status}"),
                };
                write!(f, "ocsp: error from server: {name}")
            }
        }
    }
}

impl std::error::Error for OcspError {}

/// Reads an answer.
///
/// # Errors
/// When it is none.
pub fn read(bytes: &[u8]) -> Result<OcspResponse<'_>, OcspError> {
    use OcspError::Malformed;
    let mut response = DerReader::new(DerReader::new(bytes).only(tag::SEQUENCE).ok_or(Malformed)?.content);
    let status = response.next(tag::ENUMERATED).ok_or(Malformed)?;
    match status.content {
        [0] => {}
        [refusal] => return Err(OcspError::Refused(*refusal)),
        _ => return Err(Malformed),
    }
    let wrapped = response.only(tag::wrapped(0)).ok_or(Malformed)?;
    let mut typed =
        DerReader::new(DerReader::new(wrapped.content).only(tag::SEQUENCE).ok_or(Malformed)?.content);
    if typed.next(tag::OID).ok_or(Malformed)?.content != BASIC {
        return Err(OcspError::Kind);
    }
    let basic = typed.only(tag::OCTET_STRING).ok_or(Malformed)?;
    basic_answer(basic.content).ok_or(Malformed)
}

fn basic_answer(bytes: &[u8]) -> Option<OcspResponse<'_>> {
    let mut basic = DerReader::new(DerReader::new(bytes).only(tag::SEQUENCE)?.content);
    let signed = basic.next(tag::SEQUENCE)?;
    let algorithm = basic.next(tag::SEQUENCE)?.content;
    let signature = bits(basic.next(tag::BIT_STRING)?.content)?;
    let mut certificates = Vec::new();
    if !basic.is_empty() {
        let mut list =
            DerReader::new(DerReader::new(basic.only(tag::wrapped(0))?.content).only(tag::SEQUENCE)?.content);
        while !list.is_empty() {
            certificates.push(list.next(tag::SEQUENCE)?.whole);
        }
    }
    let singles = singles(signed)?;
    Some(OcspResponse { signed: signed.whole, algorithm, signature, certificates, singles })
}

fn singles(signed: DerValue<'_>) -> Option<Vec<Single<'_>>> {
    let mut data = DerReader::new(signed.content);
    let _version = data.next(tag::wrapped(0));
    // Who answers: by name or by key.
    data.next(tag::wrapped(1)).or_else(|| data.next(tag::wrapped(2)))?;
    seconds(data.next(tag::GENERALIZED_TIME)?.content)?;
    let mut list = data.within(tag::SEQUENCE)?;
    let mut singles = Vec::new();
    while !list.is_empty() {
        singles.push(single(list.within(tag::SEQUENCE)?)?);
    }
    Some(singles)
}

fn single(mut reader: DerReader<'_>) -> Option<Single<'_>> {
    let mut id = reader.within(tag::SEQUENCE)?;
    let hash = id.within(tag::SEQUENCE)?.next(tag::OID)?.content;
    let name_hash = id.next(tag::OCTET_STRING)?.content;
    let key_hash = id.next(tag::OCTET_STRING)?.content;
    let serial = id.only(tag::INTEGER)?.content;
    let status = reader.any()?;
    let status = match status.tag {
        0x80 => CertStatus::Good,
        0xa1 => CertStatus::Revoked,
        0x82 => CertStatus::Unknown,
        _ => return None,
    };
    let this_update = seconds(reader.next(tag::GENERALIZED_TIME)?.content)?;
    let next_update = match reader.within(tag::wrapped(0)) {
        Some(time) => Some(seconds(time.only(tag::GENERALIZED_TIME)?.content)?),
        None => None,
    };
    let has_critical_extension = match reader.within(tag::wrapped(1)) {
        Some(extensions) => has_critical(DerReader::new(extensions.only(tag::SEQUENCE)?.content))?,
        None => false,
    };
    let end = Single {
        hash,
        name_hash,
        key_hash,
        serial,
        status,
        this_update,
        next_update,
        has_critical_extension,
    };
    reader.is_empty().then_some(end)
}

fn has_critical(mut extensions: DerReader<'_>) -> Option<bool> {
    let mut is_critical = false;
    while !extensions.is_empty() {
        let mut extension = extensions.within(tag::SEQUENCE)?;
        extension.next(tag::OID)?;
        is_critical |= extension.next(tag::BOOLEAN).is_some_and(|value| value.content != [0]);
        extension.only(tag::OCTET_STRING)?;
    }
    Some(is_critical)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Request as `openssl ocsp` makes it, about serial number 0x1001 of an issuer whose digests
    /// are all ones and all twos.
    #[test]
    fn a_question_is_what_others_ask() {
        let asked = question(&[1; 20], &[2; 20], &[0x10, 0x01]);
        let head = [0x30, 0x43, 0x30, 0x41, 0x30, 0x3f, 0x30, 0x3d, 0x30, 0x3b, 0x30, 0x09, 0x06, 0x05];
        assert_eq!(asked[..14], head);
        assert_eq!(asked[14..21], [0x2b, 0x0e, 0x03, 0x02, 0x1a, 0x05, 0x00]);
        assert_eq!(asked[asked.len() - 4..], [0x02, 0x02, 0x10, 0x01]);
    }

    /// An answer about one certificate, with the parts that are given in place of the usual ones.
    fn answer(status: &[u8], extension: &[u8], more: &[u8]) -> Vec<u8> {
        let time = |text: &str| write(tag::GENERALIZED_TIME, &[text.as_bytes()]);
        let sequence = |parts: &[&[u8]]| write(tag::SEQUENCE, parts);
        let octets = |byte| write(tag::OCTET_STRING, &[&[byte; 20]]);
        let algorithm = sequence(&[&write(tag::OID, &[SHA1])]);
        let id = sequence(&[&algorithm, &octets(1), &octets(2), &write(tag::INTEGER, &[&[5]])]);
        let next = write(tag::wrapped(0), &[&time("20261123000000Z")]);
        let single = sequence(&[&id, status, &time("20261122000000Z"), &next, extension]);
        let responder = write(tag::wrapped(2), &[&octets(2)]);
        let signed = sequence(&[&responder, &time("20261122000000Z"), &sequence(&[&single])]);
        let signature = write(tag::BIT_STRING, &[&[0, 9, 9]]);
        let basic = sequence(&[&signed, &algorithm, &signature, more]);
        let typed = sequence(&[&write(tag::OID, &[BASIC]), &write(tag::OCTET_STRING, &[&basic])]);
        sequence(&[&write(tag::ENUMERATED, &[&[0]]), &write(tag::wrapped(0), &[&typed])])
    }

    #[test]
    fn an_answer_is_read_to_its_end() {
        for (written, status) in [
            (&[0x80, 0][..], CertStatus::Good),
            (&[0x82, 0], CertStatus::Unknown),
            (b"\xa1\x11\x18\x0f20261122000000Z", CertStatus::Revoked),
        ] {
            let bytes = answer(written, &[], &[]);
            let read = read(&bytes).expect("an answer");
            let single = &read.singles[0];
            assert_eq!((single.status, single.serial, single.hash), (status, &[5][..], SHA1));
            assert_eq!((single.name_hash, single.key_hash), (&[1; 20][..], &[2; 20][..]));
            assert_eq!(single.next_update, Some(single.this_update + 86_400));
            assert_eq!((read.signature, read.certificates.len()), (&[9, 9][..], 0));
            assert!(bytes.windows(read.signed.len()).any(|part| part == read.signed));
        }
        let list = write(tag::SEQUENCE, &[&write(tag::SEQUENCE, &[&[1, 1, 1]])]);
        let bytes = answer(&[0x80, 0], &[], &write(tag::wrapped(0), &[&list]));
        assert_eq!(read(&bytes).expect("an answer").certificates, [&[0x30, 3, 1, 1, 1][..]]);
    }

    #[test]
    fn what_must_be_understood_is_noticed() {
        for (flag, expected) in [(&[][..], false), (&[1, 1, 0], false), (&[1, 1, 0xff], true)] {
            let extension =
                write(tag::SEQUENCE, &[&write(tag::OID, &[&[1]]), flag, &write(tag::OCTET_STRING, &[])]);
            let list = write(tag::SEQUENCE, &[&extension]);
            let bytes = answer(&[0x80, 0], &write(tag::wrapped(1), &[&list]), &[]);
            assert_eq!(read(&bytes).expect("an answer").singles[0].has_critical_extension, expected);
        }
    }

    #[test]
    fn what_is_none_is_refused() {
        let good = answer(&[0x80, 0], &[], &[]);
        for end in 0..good.len() {
            assert_eq!(read(&good[..end]), Err(OcspError::Malformed), "{end}");
        }
        assert_eq!(read(&[&good[..], &[0]].concat()), Err(OcspError::Malformed));
        assert_eq!(read(&answer(&[0x83, 0], &[], &[])), Err(OcspError::Malformed));
        assert_eq!(read(&answer(&[0x80, 0], &[5, 0], &[])), Err(OcspError::Malformed));
        assert_eq!(read(&[0x30, 3, 0x0a, 1, 6]), Err(OcspError::Refused(6)));
        assert_eq!(OcspError::Refused(3).to_string(), "ocsp: error from server: try later");
    }
}
