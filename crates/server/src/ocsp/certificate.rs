//! Certificates as OCSP sees them: who has signed one, whom to ask, and whether it must come with a
//! proof.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, SHA256, digest};
use myelin_stdx::base64;
use myelin_wire::der::{DerReader, bits, tag};
use myelin_wire::ocsp;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::CertificateDer;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Access to information about an authority: where it answers questions.
const RESPONDER: &str = "1.3.6.1.5.5.7.48.1";

/// Extension by which a certificate asks for something of those who show it (RFC 7633), and in it:
/// a proof.
const FEATURES: &str = "1.3.6.1.5.5.7.1.24";
const PROOF: &[u8] = &[5];

/// The frame of a certificate.
struct SignedParts<'a> {
    signed: &'a [u8],
    algorithm: &'a [u8],
    signature: &'a [u8],
}

fn frame(cert: &[u8]) -> Option<SignedParts<'_>> {
    let mut parts = DerReader::new(DerReader::new(cert).only(tag::SEQUENCE)?.content);
    let signed = parts.next(tag::SEQUENCE)?.whole;
    let algorithm = parts.next(tag::SEQUENCE)?.content;
    let signature = bits(parts.only(tag::BIT_STRING)?.content)?;
    Some(SignedParts { signed, algorithm, signature })
}

pub(super) fn parse(cert: &[u8]) -> Option<X509Certificate<'_>> {
    X509Certificate::from_der(cert).ok().map(|(_, parsed)| parsed)
}

/// The algorithm and the bits of a certificate's public key.
fn public_key<'a>(cert: &'a X509Certificate<'_>) -> Option<(&'a [u8], &'a [u8])> {
    let mut parts = DerReader::new(DerReader::new(cert.public_key().raw).only(tag::SEQUENCE)?.content);
    let algorithm = parts.next(tag::SEQUENCE)?.content;
    Some((algorithm, bits(parts.only(tag::BIT_STRING)?.content)?))
}

/// Whether the owner of `signer`'s key has signed `message`.
pub(super) fn has_signed(signer: &[u8], message: &[u8], algorithm: &[u8], signature: &[u8]) -> bool {
    let Some(signer) = parse(signer) else { return false };
    let Some((key_algorithm, key)) = public_key(&signer) else { return false };
    let known = default_provider().signature_verification_algorithms.all;
    let mut fitting = known.iter().filter(|known| {
        known.signature_alg_id().as_ref() == algorithm && known.public_key_alg_id().as_ref() == key_algorithm
    });
    fitting.any(|known| known.verify_signature(key, message, signature).is_ok())
}

/// Whether `issuer` has signed `cert`.
pub(super) fn is_issuer(issuer: &[u8], cert: &[u8]) -> bool {
    let (Some(above), Some(below), Some(frame)) = (parse(issuer), parse(cert), frame(cert)) else {
        return false;
    };
    above.subject().as_raw() == below.issuer().as_raw()
        && has_signed(issuer, frame.signed, frame.algorithm, frame.signature)
}

/// Every way from `chain[0]` to one of those that are trusted: on each, a certificate is signed by
/// the next. The others that were shown may stand in between. Compat: the order is Go's, and so is
/// the limit of what is tried.
pub(super) fn paths(
    chain: &[CertificateDer<'_>],
    trusted: &[CertificateDer<'static>],
) -> Vec<Vec<CertificateDer<'static>>> {
    let [leaf, shown @ ..] = chain else { return Vec::new() };
    if trusted.contains(leaf) {
        return vec![vec![leaf.clone().into_owned()]];
    }
    let Some(leaf) = ChainLink::of(leaf) else { return Vec::new() };
    let (shown, trusted): (Vec<_>, Vec<_>) = (
        shown.iter().filter_map(ChainLink::of).collect(),
        trusted.iter().filter_map(ChainLink::of).collect(),
    );
    let mut search = PathSearch { shown: &shown, trusted: &trusted, tries: TRIES, found: Vec::new() };
    search.extend(&mut vec![&leaf]);
    search.found
}

/// Signatures that are looked at for one who connects.
const TRIES: usize = 100;

/// A certificate, and what it says of itself and of who has signed it.
struct ChainLink<'c> {
    cert: &'c CertificateDer<'c>,
    subject: Vec<u8>,
    issuer: Vec<u8>,
    is_authority: bool,
}

impl<'c> ChainLink<'c> {
    fn of(cert: &'c CertificateDer<'c>) -> Option<Self> {
        let parsed = parse(cert)?;
        let (subject, issuer) = (parsed.subject().as_raw().to_vec(), parsed.issuer().as_raw().to_vec());
        Some(Self { cert, subject, issuer, is_authority: parsed.is_ca() })
    }
}

struct PathSearch<'s> {
    shown: &'s [ChainLink<'s>],
    trusted: &'s [ChainLink<'s>],
    tries: usize,
    found: Vec<Vec<CertificateDer<'static>>>,
}

impl<'s> PathSearch<'s> {
    fn extend(&mut self, path: &mut Vec<&'s ChainLink<'s>>) {
        for root in self.trusted {
            if self.leads_to(path, root) {
                let links = path.iter().copied().chain([root]);
                self.found.push(links.map(|link| link.cert.clone().into_owned()).collect());
            }
        }
        for link in self.shown {
            if link.is_authority && self.leads_to(path, link) {
                path.push(link);
                self.extend(path);
                path.pop();
            }
        }
    }

    fn leads_to(&mut self, path: &[&ChainLink<'_>], above: &ChainLink<'_>) -> bool {
        let Some(last) = path.last().filter(|last| last.issuer == above.subject) else { return false };
        if self.tries == 0 || path.iter().any(|link| link.cert == above.cert) {
            return false;
        }
        self.tries -= 1;
        is_issuer(above.cert, last.cert)
    }
}

/// Where the authority answers questions about this certificate, by HTTP.
pub(super) fn responders(cert: &[u8]) -> Vec<String> {
    let Some(cert) = parse(cert) else { return Vec::new() };
    let mut found = Vec::new();
    for extension in cert.extensions() {
        let ParsedExtension::AuthorityInfoAccess(access) = extension.parsed_extension() else { continue };
        for description in &access.accessdescs {
            if let GeneralName::URI(uri) = &description.access_location
                && description.access_method.to_id_string() == RESPONDER
                && (uri.starts_with("http://") || uri.starts_with("https://"))
            {
                found.push((*uri).to_owned());
            }
        }
    }
    found
}

/// Whether it must not be shown without a proof.
pub(super) fn must_staple(cert: &[u8]) -> bool {
    let Some(cert) = parse(cert) else { return false };
    let features = cert.extensions().iter().find(|extension| extension.oid.to_id_string() == FEATURES);
    let Some(list) = features.and_then(|features| DerReader::new(features.value).only(tag::SEQUENCE)) else {
        return false;
    };
    let mut list = DerReader::new(list.content);
    let mut is_asked = false;
    while !list.is_empty() {
        let Some(feature) = list.next(tag::INTEGER) else { return false };
        is_asked |= feature.content == PROOF;
    }
    is_asked
}

/// Whether it may sign certificates.
pub(super) fn is_authority(cert: &[u8]) -> bool {
    parse(cert).is_some_and(|cert| cert.is_ca())
}

/// Whether its owner may answer questions for whoever has signed it.
pub(super) fn may_answer(cert: &[u8]) -> bool {
    let usage = |cert: &X509Certificate<'_>| Some(cert.extended_key_usage().ok()??.value.ocsp_signing);
    parse(cert).as_ref().and_then(usage).unwrap_or(false)
}

/// Whether it is valid at that time.
pub(super) fn is_valid_at(cert: &[u8], seconds: i64) -> bool {
    parse(cert).is_some_and(|cert| {
        let validity = cert.validity();
        (validity.not_before.timestamp()..=validity.not_after.timestamp()).contains(&seconds)
    })
}

/// Digests of a certificate's name and key, as they stand for an issuer.
pub(super) fn issuer_hashes(
    issuer: &[u8],
    algorithm: &'static aws_lc_rs::digest::Algorithm,
) -> Option<[Vec<u8>; 2]> {
    let issuer = parse(issuer)?;
    let name = digest(algorithm, issuer.subject().as_raw());
    let key = digest(algorithm, public_key(&issuer)?.1);
    Some([name.as_ref().to_vec(), key.as_ref().to_vec()])
}

/// The serial number as it stands there.
pub(super) fn serial(cert: &[u8]) -> Option<Vec<u8>> {
    Some(parse(cert)?.raw_serial().to_vec())
}

/// The question whether `cert`, which `issuer` has signed, was revoked.
pub(super) fn question(cert: &[u8], issuer: &[u8]) -> Option<Vec<u8>> {
    let [name, key] = issuer_hashes(issuer, &SHA1_FOR_LEGACY_USE_ONLY)?;
    Some(ocsp::question(&name, &key, &serial(cert)?))
}

/// Fingerprint of a certificate for the cache and the log.
pub(crate) fn fingerprint(cert: &[u8]) -> String {
    base64::encode(digest(&SHA256, cert).as_ref())
}

/// Fingerprint of a certificate for names of files.
pub(super) fn hex_fingerprint(cert: &[u8]) -> String {
    digest(&SHA256, cert).as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
