//! Users by certificate (`verify_and_map`): which of the configured users a client's certificate
//! names.
//!
//! The certificate was verified by TLS before; here is only looked at what it says. Nothing in it
//! is taken for a pattern: a user is found when one of the names in the certificate is the user's,
//! as a whole.

use std::fmt;

use crate::connection_type::ConnectionType;
use crate::distinguished::DistinguishedName;
use crate::users::{User, Users};

/// Names in a client's certificate.
#[derive(Clone, Debug, Default)]
pub struct ClientCertificate {
    /// Alternative names: e-mail addresses.
    pub emails: Vec<String>,
    /// Alternative names: host names.
    pub dns_names: Vec<String>,
    /// Alternative names: URIs, as Go would write them.
    pub uris: Vec<String>,
    /// The subject as Go writes it, without the attributes that it knows no name for.
    pub subject: String,
    /// The subject's domain components in the order of the certificate: `DC=example,DC=org`; empty
    /// for none.
    pub domain_components: String,
    /// The subject with all that stands in it; `None` where something in it has no name or is no
    /// text.
    pub distinguished_name: Option<DistinguishedName>,
}

/// One name in a certificate, and what came of it: a line for the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameLookup {
    way: LookupKind,
    name: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LookupKind {
    Email,
    Dns,
    Uri,
    DistinguishedName,
    NoDistinguishedName,
    Sequence,
    NoSequence,
    Subject,
    Nobody,
    Empty,
}

/// Compat: the reference's words. Names are quoted by whoever logs them.
impl fmt::Display for NameLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format_args!("[{:?}]", self.name);
        match self.way {
            LookupKind::Email => write!(f, "Using email found in cert for auth {name}"),
            LookupKind::Dns => write!(f, "Using SAN found in cert for auth {name}"),
            LookupKind::Uri => write!(f, "Using URI found in cert for auth {name}"),
            LookupKind::DistinguishedName => write!(f, "Using DistinguishedNameMatch for auth {name}"),
            LookupKind::NoDistinguishedName => {
                write!(f, "DistinguishedNameMatch could not be used for auth {name}")
            }
            LookupKind::Sequence => write!(f, "Using RDNSequence for auth {name}"),
            LookupKind::NoSequence => write!(f, "RDNSequence could not be used for auth {name}"),
            LookupKind::Subject => write!(f, "Using certificate subject for auth {name}"),
            LookupKind::Nobody => write!(f, "User in cert {name}, not found"),
            LookupKind::Empty => f.write_str("User required in cert, none found"),
        }
    }
}

impl ClientCertificate {
    fn is_empty(&self) -> bool {
        self.emails.is_empty()
            && self.dns_names.is_empty()
            && self.uris.is_empty()
            && self.subject.is_empty()
            && self.domain_components.is_empty()
            && self.distinguished_name.is_none()
    }

    /// The user that the certificate names, of those who may come in by `via`, and how it was
    /// found.
    ///
    /// Compat: e-mail addresses come first, then host names, URIs, and the subject: as a
    /// distinguished name, as text with its domain components behind it, and as text without.
    #[must_use]
    pub fn find<'u>(&self, users: &'u Users, via: ConnectionType) -> (Option<&'u User>, Vec<NameLookup>) {
        if self.is_empty() {
            return (None, vec![NameLookup { way: LookupKind::Empty, name: String::new() }]);
        }
        let user = |name: &str| users.get(name).filter(|user| user.connection_types.allow(via));
        let named =
            |way: LookupKind, names: &[String]| names.iter().find_map(|name| Some((user(name)?, way)));
        let found = named(LookupKind::Email, &self.emails)
            .or_else(|| named(LookupKind::Dns, &self.dns_names))
            .or_else(|| named(LookupKind::Uri, &self.uris));
        if let Some((user, way)) = found {
            return (Some(user), vec![NameLookup { way, name: user.name.clone() }]);
        }
        self.find_subject(users, &user)
    }

    fn find_subject<'u>(
        &self,
        users: &'u Users,
        user: &dyn Fn(&str) -> Option<&'u User>,
    ) -> (Option<&'u User>, Vec<NameLookup>) {
        let mut attempts = Vec::new();
        let mut attempt = |way, name: &str| attempts.push(NameLookup { way, name: name.to_owned() });
        let mut found = None;
        if let Some(subject) = &self.distinguished_name {
            found = users.subjects().find(subject, |name| user(name).is_some()).and_then(user);
            match found {
                Some(user) => attempt(LookupKind::DistinguishedName, &user.name),
                None => attempt(LookupKind::NoDistinguishedName, &self.subject),
            }
        }
        if found.is_none() && !self.domain_components.is_empty() {
            let whole = format!("{},{}", self.subject, self.domain_components);
            found = user(&whole);
            attempt(if found.is_some() { LookupKind::Sequence } else { LookupKind::NoSequence }, &whole);
        }
        if found.is_none() {
            found = user(&self.subject).filter(|_| !self.subject.is_empty());
            attempt(if found.is_some() { LookupKind::Subject } else { LookupKind::Nobody }, &self.subject);
        }
        (found, attempts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AccountName, StoredSecret};

    fn users(names: &[&str]) -> Users {
        Users::new(names.iter().map(|name| User {
            name: (*name).to_owned(),
            password: StoredSecret::parse(""),
            account: AccountName::global(),
            permissions: None,
            connection_types: [].into_iter().collect(),
            proxy_required: false,
        }))
    }

    fn texts(names: &[&str]) -> Vec<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    /// The subject of a certificate whose relative names stand there as in `text`, from its end to
    /// its begin.
    fn subject(text: &str, domain_components: &str) -> ClientCertificate {
        let whole = [text, domain_components].join(if domain_components.is_empty() { "" } else { "," });
        ClientCertificate {
            subject: text.to_owned(),
            domain_components: domain_components.to_owned(),
            distinguished_name: DistinguishedName::parse(&whole),
            ..ClientCertificate::default()
        }
    }

    #[track_caller]
    fn finds(cert: &ClientCertificate, names: &[&str], expected: &[&str]) {
        let users = users(names);
        let (user, attempts) = cert.find(&users, ConnectionType::Standard);
        let mut lines: Vec<_> = attempts.iter().map(ToString::to_string).collect();
        lines.insert(0, user.map_or_else(|| "-".to_owned(), |user| user.name.clone()));
        assert_eq!(lines, expected);
    }

    #[test]
    fn alternative_names_come_before_the_subject() {
        let cert = ClientCertificate {
            emails: texts(&["e@x", "f@x"]),
            dns_names: texts(&["h.x"]),
            uris: texts(&["spiffe://x/u"]),
            ..subject("CN=c", "")
        };
        let all = ["CN=c", "h.x", "spiffe://x/u", "f@x"];
        finds(&cert, &all, &["f@x", "Using email found in cert for auth [\"f@x\"]"]);
        finds(&cert, &all[..3], &["h.x", "Using SAN found in cert for auth [\"h.x\"]"]);
        let uri = "Using URI found in cert for auth [\"spiffe://x/u\"]";
        finds(&cert, &["CN=c", "spiffe://x/u"], &["spiffe://x/u", uri]);
        let name = "Using DistinguishedNameMatch for auth [\"CN=c\"]";
        finds(&cert, &all[..1], &["CN=c", name]);
        finds(
            &cert,
            &["c", "*.x", "x", ""],
            &[
                "-",
                "DistinguishedNameMatch could not be used for auth [\"CN=c\"]",
                "User in cert [\"CN=c\"], not found",
            ],
        );
    }

    #[test]
    fn a_subject_is_found_in_either_order_and_in_its_own_first() {
        let cert = subject("CN=a,OU=b,O=c", "");
        for name in ["CN=a,OU=b,O=c", "O=c,OU=b,CN=a", "OU=b, cn=a, o=c"] {
            let line = format!("Using DistinguishedNameMatch for auth [{name:?}]");
            finds(&cert, &[name, "CN=a", "CN=a,O=c"], &[name, &line]);
        }
        let line = "Using DistinguishedNameMatch for auth [\"CN=a,OU=b,O=c\"]";
        finds(&cert, &["O=c,OU=b,CN=a", "CN=a,OU=b,O=c", "CN=a,O=c,OU=b"], &["CN=a,OU=b,O=c", line]);
    }

    #[test]
    fn text_is_the_last_resort() {
        let unknown = ClientCertificate { distinguished_name: None, ..subject("CN=a", "DC=org,DC=x") };
        finds(
            &unknown,
            &["CN=a,DC=org,DC=x", "CN=a"],
            &["CN=a,DC=org,DC=x", "Using RDNSequence for auth [\"CN=a,DC=org,DC=x\"]"],
        );
        finds(
            &unknown,
            &["CN=a"],
            &[
                "CN=a",
                "RDNSequence could not be used for auth [\"CN=a,DC=org,DC=x\"]",
                "Using certificate subject for auth [\"CN=a\"]",
            ],
        );
        finds(&ClientCertificate::default(), &["", "a"], &["-", "User required in cert, none found"]);
    }

    #[test]
    fn who_may_not_come_in_that_way_is_not_there() {
        let mut list = users(&[]);
        for (name, kind) in [("e@x", ConnectionType::Websocket), ("CN=c", ConnectionType::Standard)] {
            let user = User {
                connection_types: [kind].into_iter().collect(),
                ..users(&[name]).get(name).expect("just made").clone()
            };
            list = Users::new([user].into_iter().chain(list.get("e@x").cloned()));
        }
        let cert = ClientCertificate { emails: texts(&["e@x"]), ..subject("CN=c", "") };
        let name = |via| cert.find(&list, via).0.map(|user| user.name.clone());
        assert_eq!(name(ConnectionType::Standard).as_deref(), Some("CN=c"));
        assert_eq!(name(ConnectionType::Websocket).as_deref(), Some("e@x"));
    }
}
