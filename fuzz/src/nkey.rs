//! Keys as text.
//!
//! Promised for any bytes: reading does not panic; a text is a public key of at most one role, and
//! then of 32 bytes; no text is a public key and a private one; what is written is read again;
//! nobody's signature is taken for another's.

use myelin_stdx::base_n::{self, BASE32, BASE64, BASE64_URL};
use myelin_stdx::nkey::{self, Role};

const ROLES: [Role; 6] =
    [Role::Account, Role::Cluster, Role::Server, Role::Operator, Role::User, Role::Curve];

/// Any bytes as the text of a key, and as a key.
pub fn nkey(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let owners = ROLES.iter().filter(|role| role.owns(&text)).count();
    assert!(owners <= 1, "one role");
    let (public, seed) = (nkey::public_key(&text), nkey::seed(&text));
    assert!(public.is_none() || (owners == 1 && seed.is_none()), "one kind");
    for alphabet in [BASE32, BASE64, BASE64_URL] {
        let written = base_n::encode(data, alphabet);
        assert_eq!(base_n::decode(&written, alphabet).as_deref(), Some(data), "digits");
        if let Some(bytes) = base_n::decode(&text, alphabet) {
            let again = base_n::encode(&bytes, alphabet);
            assert_eq!(base_n::decode(&again, alphabet), Some(bytes), "digits again");
        }
    }
    let mut key = [0; 32];
    key.iter_mut().zip(data).for_each(|(to, from)| *to = *from);
    for role in ROLES {
        assert_eq!(nkey::public_key(&nkey::encode(role, &key)), Some(key));
        assert_eq!(nkey::seed(&nkey::encode_seed(role, &key)), Some((role, key)));
    }
    let Some(pair) = myelin_auth::KeyPair::from_bytes(Role::User, &key) else { return };
    let signature = base_n::decode(&pair.sign(data), BASE64_URL).unwrap_or_default();
    assert!(myelin_auth::is_signed(&pair.public(), data, &signature));
    assert!(!myelin_auth::is_signed(&pair.public(), data, data) || data.len() == 64);
    assert!(!myelin_auth::is_signed(&text, data, &signature) || text == pair.public());
}
