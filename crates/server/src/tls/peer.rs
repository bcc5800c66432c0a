//! A peer's certificate as monitoring shows it, and as it is pinned.

use std::fmt::Write;

use myelin_auth::{ClientCertificate, DistinguishedName};
use myelin_broker::PeerCertificate;
use rustls::pki_types::CertificateDer;
use sha2::{Digest, Sha256};
use x509_parser::asn1_rs::{Any, Tag};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};
use x509_parser::x509::{AttributeTypeAndValue, X509Name};

/// Compat: Go prints a name's known parts in this order (since 1.26, with which nats-server 2.15.2
/// is built), and all others behind them.
const PARTS: [(&str, &str); 9] = [
    ("2.5.4.5", "SERIALNUMBER"),
    ("2.5.4.3", "CN"),
    ("2.5.4.11", "OU"),
    ("2.5.4.10", "O"),
    ("2.5.4.17", "POSTALCODE"),
    ("2.5.4.9", "STREET"),
    ("2.5.4.7", "L"),
    ("2.5.4.8", "ST"),
    ("2.5.4.6", "C"),
];

/// Attributes that only users by certificate know.
const DOMAIN_COMPONENT: (&str, &str) = ("0.9.2342.19200300.100.1.25", "DC");

/// Describes a certificate; `None` if it cannot be read.
pub(super) fn describe(cert: &CertificateDer<'_>) -> Option<PeerCertificate> {
    let (_, parsed) = X509Certificate::from_der(cert).ok()?;
    Some(PeerCertificate {
        subject: name(parsed.subject()),
        spki_sha256: sha256(parsed.public_key().raw),
        cert_sha256: sha256(cert),
    })
}

/// The subject of a certificate, in the words of logs.
pub(crate) fn subject(cert: &[u8]) -> String {
    let parsed = X509Certificate::from_der(cert);
    parsed.map_or_else(|_| String::new(), |(_, cert)| known(&attributes(cert.subject())).join(","))
}

/// Subject and SHA-256 of a certificate, as the reference's log has those that are refused.
pub(super) fn fingerprinted(cert: &[u8]) -> String {
    let parsed = X509Certificate::from_der(cert);
    let subject = parsed.map_or_else(|_| String::new(), |(_, cert)| name(cert.subject()));
    format!("{subject} SHA-256: {}", sha256(cert))
}

/// Issuer of a certificate, in the form of [`subject`]; empty for what is none.
pub(crate) fn issuer(cert: &[u8]) -> String {
    let parsed = X509Certificate::from_der(cert);
    parsed.map_or_else(|_| String::new(), |(_, cert)| known(&attributes(cert.issuer())).join(","))
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Names in a certificate; `None` if it cannot be read.
pub(super) fn names(cert: &CertificateDer<'_>) -> Option<ClientCertificate> {
    let (_, parsed) = X509Certificate::from_der(cert).ok()?;
    let mut names = ClientCertificate {
        subject: known(&attributes(parsed.subject())).join(","),
        domain_components: domain_components(parsed.subject()),
        distinguished_name: distinguished_name(parsed.subject()),
        ..ClientCertificate::default()
    };
    let alternatives = parsed.subject_alternative_name().ok().flatten();
    for name in alternatives.iter().flat_map(|alternatives| &alternatives.value.general_names) {
        match name {
            GeneralName::RFC822Name(email) => names.emails.push((*email).to_owned()),
            GeneralName::DNSName(host) => names.dns_names.push((*host).to_owned()),
            GeneralName::URI(uri) => names.uris.push((*uri).to_owned()),
            _ => {}
        }
    }
    Some(names)
}

/// The subject with all that stands in it, or nothing at all: what is left out could be somebody
/// else's.
fn distinguished_name(name: &X509Name<'_>) -> Option<DistinguishedName> {
    let label = |part: &AttributeTypeAndValue<'_>| {
        let id = part.attr_type().to_id_string();
        let known = PARTS.iter().chain([&DOMAIN_COMPONENT]).find(|(known, _)| *known == id);
        known.map(|(_, label)| (*label).to_owned())
    };
    let attribute = |part: &AttributeTypeAndValue<'_>| Some((label(part)?, text(part)?.into_bytes()));
    let relative = name.iter_rdn().map(|relative| relative.iter().map(attribute).collect());
    DistinguishedName::from_certificate(relative.collect::<Option<_>>()?)
}

fn domain_components(name: &X509Name<'_>) -> String {
    let (id, label) = DOMAIN_COMPONENT;
    let parts = attributes(name).into_iter().filter(|(found, _)| found == id);
    parts.map(|(_, text)| format!("{label}={text}")).collect::<Vec<_>>().join(",")
}

/// Identifiers and texts; what is no text is left out.
fn attributes(name: &X509Name<'_>) -> Vec<(String, String)> {
    name.iter_attributes().filter_map(|part| Some((part.attr_type().to_id_string(), text(part)?))).collect()
}

fn name(name: &X509Name<'_>) -> String {
    let attributes = attributes(name);
    let is_other = |id: &str| PARTS.iter().all(|(known, _)| *known != id);
    let others = attributes.iter().rev().filter(|(id, _)| is_other(id));
    let others = others.map(|(id, text)| format!("{id}=#{}", hex(&der(text))));
    known(&attributes).into_iter().chain(others).collect::<Vec<_>>().join(",")
}

/// The parts that Go has fields for.
fn known(attributes: &[(String, String)]) -> Vec<String> {
    let known = PARTS.iter().filter_map(|(id, label)| {
        let values = attributes.iter().filter(|(found, _)| found == id);
        let mut values: Vec<_> = values.map(|(_, text)| format!("{label}={}", escaped(text))).collect();
        if matches!(*label, "CN" | "SERIALNUMBER") {
            // There is one of these; the last one counts.
            values.drain(..values.len().saturating_sub(1));
        }
        (!values.is_empty()).then(|| values.join("+"))
    });
    known.collect()
}

/// The text of an attribute, in any of the types that Go reads as text.
fn text(part: &AttributeTypeAndValue<'_>) -> Option<String> {
    let value: &Any<'_> = part.attr_value();
    match value.tag() {
        Tag::BmpString => {
            let units = value.data.chunks(2).map(|unit| Some(u16::from_be_bytes(unit.try_into().ok()?)));
            String::from_utf16(&units.collect::<Option<Vec<_>>>()?).ok()
        }
        Tag::T61String => String::from_utf8(value.data.to_vec()).ok(),
        _ => part.as_str().map(str::to_owned).ok(),
    }
}

/// As RFC 2253 asks for.
fn escaped(text: &str) -> String {
    let last = text.chars().count().saturating_sub(1);
    text.chars().enumerate().fold(String::new(), |mut escaped, (at, c)| {
        let is_special = match c {
            ',' | '+' | '"' | '\\' | '<' | '>' | ';' => true,
            ' ' => at == 0 || at == last,
            '#' => at == 0,
            _ => false,
        };
        if is_special {
            escaped.push('\\');
        }
        escaped.push(c);
        escaped
    })
}

/// The text as ASN.1, in the type that Go chooses for it. Longer texts than a name may have are
/// cut.
fn der(text: &str) -> Vec<u8> {
    let is_printable = text.chars().all(|c| c.is_ascii_alphanumeric() || " '()+,-./:=?".contains(c));
    let bytes = &text.as_bytes()[..text.len().min(127)];
    let tag = if is_printable { 0x13 } else { 0x0c };
    let length = u8::try_from(bytes.len()).unwrap_or(127);
    [&[tag, length], bytes].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair};

    #[test]
    fn names_are_printed_like_go() {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CountryName, "DE");
        params.distinguished_name.push(DnType::OrganizationName, "Synadia, Inc");
        params.distinguished_name.push(DnType::OrganizationalUnitName, "NATS");
        params.distinguished_name.push(DnType::LocalityName, "Bonn");
        params.distinguished_name.push(DnType::StateOrProvinceName, "NW");
        params.distinguished_name.push(DnType::CommonName, "#one ");
        params.distinguished_name.push(DnType::CustomDnType(vec![1, 2, 840, 113_549, 1, 9, 1]), "a@b");
        let cert = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let described = describe(cert.der()).unwrap();
        let known = "CN=\\#one\\ ,OU=NATS,O=Synadia\\, Inc,L=Bonn,ST=NW,C=DE";
        assert_eq!(described.subject, format!("{known},1.2.840.113549.1.9.1=#0c03614062"));
        assert_eq!((described.spki_sha256.len(), described.cert_sha256.len()), (64, 64));
    }
}
