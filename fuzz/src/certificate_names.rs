//! Users by certificate. The first byte of the input turns the order of the parts of a subject, the
//! others are its parts: a kind and a text each, up to a zero.
//!
//! Promised: who is called as the subject is written, in any order, is found; who is called
//! anything else is not; and any text whatever is a name or none. The first byte also says which
//! part is another one, or is missing, or is there twice: all parts in turn would cost as many
//! users as there are parts, three times.

use myelin_auth::{
    AccountName, ClientCertificate, ConnectionType, DistinguishedName, StoredSecret, User, Users,
};

/// Any bytes as a subject, and as a name.
pub fn certificate_names(data: &[u8]) {
    let _ = DistinguishedName::parse(&String::from_utf8_lossy(data));
    let Some((turn, rest)) = data.split_first() else { return };
    let parts: Vec<_> =
        rest.split(|byte| *byte == 0).filter(|part| part.len() > 1).take(16).map(part).collect();
    let names = parts.iter().map(|part| vec![part.clone()]).collect();
    let Some(subject) = DistinguishedName::from_certificate(names) else { return };
    let cert = ClientCertificate { distinguished_name: Some(subject), ..ClientCertificate::default() };
    let mut turned = parts.clone();
    turned.rotate_left(usize::from(*turn) % parts.len());
    let is_found = |parts: &[(String, Vec<u8>)]| {
        let users = Users::new([user(write(parts))]);
        cert.find(&users, ConnectionType::Standard).0.is_some()
    };
    assert!(is_found(&parts) && is_found(&turned), "{parts:?}");
    let at = usize::from(*turn) / parts.len() % parts.len();
    let mut other = parts.clone();
    other[at].1.push(b'x');
    assert!(!is_found(&other), "{other:?}");
    let mut fewer = parts.clone();
    fewer.remove(at);
    assert!(!is_found(&fewer), "{fewer:?}");
    let mut more = parts.clone();
    more.push(parts[at].clone());
    assert!(!is_found(&more), "{more:?}");
}

fn part(bytes: &[u8]) -> (String, Vec<u8>) {
    let kinds = ["CN", "OU", "O", "DC"];
    (kinds[usize::from(bytes[0]) % kinds.len()].to_owned(), bytes[1..].to_vec())
}

/// Writes a name by RFC 4514, with all that could be taken for something else in hex.
fn write(parts: &[(String, Vec<u8>)]) -> String {
    let value = |bytes: &[u8]| {
        let byte = |byte: &u8| match byte {
            byte if byte.is_ascii_alphanumeric() => char::from(*byte).to_string(),
            byte => format!("\\{byte:02x}"),
        };
        bytes.iter().map(byte).collect::<String>()
    };
    let parts: Vec<_> = parts.iter().rev().map(|(kind, bytes)| format!("{kind}={}", value(bytes))).collect();
    parts.join(",")
}

fn user(name: String) -> User {
    User {
        name,
        password: StoredSecret::parse(""),
        account: AccountName::global(),
        permissions: None,
        connection_types: [].into_iter().collect(),
        proxy_required: false,
    }
}
