//! Other servers that are let in by the names in their certificates.
//!
//! `verify_and_map` looks for the cluster's user among the names,
//! `verify_cert_and_check_known_urls` compares host names with the routes that are configured.
//! Where either is asked for, passwords do not count.

use crate::config::{Login, RouteUrl};
use myelin_auth::ClientCertificate;
use myelin_wire::peer::info::PeerConnect;
use std::fmt::Arguments;
use std::sync::Arc;

/// A server's certificate: names, and the hash of its key.
#[derive(Debug, Clone)]
pub struct PeerCertificate {
    /// Names in it.
    pub names: Arc<ClientCertificate>,
    /// SHA-256 of the public key, in hex.
    pub key: String,
}

/// Whom certificates let in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CertificateRules {
    /// A name in the certificate has to be the cluster's user.
    pub maps_user: bool,
    /// A host name in the certificate has to be that of a configured route.
    pub checks_known_urls: bool,
}

impl CertificateRules {
    /// Whether certificates decide, and not users and passwords.
    fn decide(self) -> bool {
        self.maps_user || self.checks_known_urls
    }
}

/// Whether a server that says this, and has shown this certificate, may come in: with the user and
/// password of `login`, or, where `rules` have certificates decide, as that user or under the name
/// of one of `urls`. `note` gets what the log says of it.
pub(crate) fn admits<'u>(
    (rules, login): (CertificateRules, Option<&Login>),
    urls: impl Iterator<Item = &'u RouteUrl> + Clone,
    (connect, certificate): (&PeerConnect, Option<&ClientCertificate>),
    note: &dyn Fn(Arguments<'_>),
) -> bool {
    if !rules.decide() {
        return login.is_none_or(|login| login.admits(connect));
    }
    let Some(certificate) = certificate else {
        note(format_args!("User required in cert, no TLS connection state"));
        return false;
    };
    let names = names(certificate);
    if names.is_empty() {
        note(format_args!("User required in cert, none found"));
        return false;
    }
    let user = login.map(|login| login.user.as_str());
    for (kind, name) in &names {
        let is_known = rules.checks_known_urls
            && *kind == NameKind::Host
            && urls.clone().any(|url| is_name_of(name, &url.host));
        if !name.is_empty() && (is_known || rules.maps_user && user == Some(name)) {
            // Compat: the reference shows no name of a server.
            note(format_args!("Using {} for auth [\"\"]", kind.words()));
            return true;
        }
    }
    note(format_args!("User in cert [{:?}], not found", certificate.subject));
    false
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum NameKind {
    Email,
    Host,
    Uri,
    SubjectAndDomain,
    Subject,
}

impl NameKind {
    fn words(self) -> &'static str {
        match self {
            Self::Email => "email found in cert",
            Self::Host => "SAN found in cert",
            Self::Uri => "URI found in cert",
            Self::SubjectAndDomain => "RDNSequence",
            Self::Subject => "certificate subject",
        }
    }
}

/// Names in the order in which they are tried. Compat: a distinguished name is tried in between,
/// and nobody is called like that here.
fn names(certificate: &ClientCertificate) -> Vec<(NameKind, String)> {
    let all = |kind, names: &[String]| names.iter().map(|name| (kind, name.clone())).collect::<Vec<_>>();
    let mut found = all(NameKind::Email, &certificate.emails);
    found.extend(all(NameKind::Host, &certificate.dns_names));
    found.extend(all(NameKind::Uri, &certificate.uris));
    let ClientCertificate { subject, domain_components, .. } = certificate;
    if !domain_components.is_empty() {
        found.push((NameKind::SubjectAndDomain, format!("{subject},{domain_components}")));
    }
    if !subject.is_empty() {
        found.push((NameKind::Subject, subject.clone()));
    }
    found
}

/// Whether a host name of a certificate, whose first label may be `*`, is that of a host.
fn is_name_of(name: &str, host: &str) -> bool {
    let (name, host) = (name.to_lowercase(), host.to_lowercase());
    let (labels, wanted): (Vec<_>, Vec<_>) = (name.split('.').collect(), host.split('.').collect());
    let first = usize::from(labels.first() == Some(&"*"));
    labels.len() == wanted.len() && labels[first..] == wanted[first..]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_the_first_label_only() {
        for (name, host, is_it) in [
            ("N1.example", "n1.EXAMPLE", true),
            ("*.example", "n1.example", true),
            ("*.example", "a.n1.example", false),
            ("n1.*", "n1.example", false),
            ("n1", "n2", false),
            ("*", "n1", true),
        ] {
            assert_eq!(is_name_of(name, host), is_it, "{name} {host}");
        }
    }

    #[test]
    fn names_are_tried_in_the_order_of_the_reference() {
        let certificate = ClientCertificate {
            emails: vec!["e".into()],
            dns_names: vec!["h".into()],
            uris: vec!["u".into()],
            subject: "CN=s".into(),
            domain_components: "DC=d".into(),
            distinguished_name: None,
        };
        let found: Vec<_> = names(&certificate).into_iter().map(|(_, name)| name).collect();
        assert_eq!(found, ["e", "h", "u", "CN=s,DC=d", "CN=s"]);
        assert!(names(&ClientCertificate::default()).is_empty());
    }
}
