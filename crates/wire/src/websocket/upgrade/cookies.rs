//! Credentials in cookies.

use std::fmt;

/// The names of the cookies that have credentials; `None` for what is in none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)] // They are CONNECT's.
pub struct CookieNames {
    pub jwt: Option<String>,
    pub user: Option<String>,
    pub pass: Option<String>,
    pub token: Option<String>,
}

/// Values of the cookies. They stand for what CONNECT leaves out.
#[derive(Clone, Default, PartialEq, Eq)]
#[allow(missing_docs)] // They are CONNECT's.
pub struct Cookies {
    pub jwt: Option<String>,
    pub user: Option<String>,
    pub pass: Option<String>,
    pub token: Option<String>,
}

impl fmt::Debug for Cookies {
    /// Cookies are secrets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cookies")
    }
}

impl Cookies {
    /// Looks for them in the values of the `Cookie` headers. Of two with one name the later counts.
    pub(super) fn find<'r>(values: impl Iterator<Item = &'r str>, names: &CookieNames) -> Self {
        let mut found = Self::default();
        for (name, value) in values.flat_map(|value| value.split(';')).filter_map(cookie) {
            let is = |wanted: &Option<String>| wanted.as_deref() == Some(name);
            let place = if is(&names.jwt) {
                &mut found.jwt
            } else if is(&names.user) {
                &mut found.user
            } else if is(&names.pass) {
                &mut found.pass
            } else if is(&names.token) {
                &mut found.token
            } else {
                continue;
            };
            *place = Some(value.to_owned());
        }
        found
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// The name and the value of a cookie, if it is one.
fn cookie(part: &str) -> Option<(&str, &str)> {
    let (name, value) = part.trim_matches([' ', '\t']).split_once('=')?;
    let quoted = value.strip_prefix('"').and_then(|value| value.strip_suffix('"'));
    let value = quoted.unwrap_or(value);
    let is_fine = |byte: u8| (0x20..0x7f).contains(&byte) && !b"\";\\".contains(&byte);
    (!name.is_empty() && value.bytes().all(is_fine)).then_some((name.trim_matches([' ', '\t']), value))
}
