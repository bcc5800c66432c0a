//! Where a page comes from, and whether it may connect.

use super::UpgradeRules;

/// A scheme, a host and a port, as browsers name where a page comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    scheme: String,
    host: String,
    port: String,
}

impl Origin {
    /// Reads a URL; what is behind its host does not count.
    ///
    /// # Errors
    /// When it is none, in the reference's words.
    pub fn parse(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(format!("parse {text:?}: invalid URI for request"));
        };
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
        let scheme = scheme.to_ascii_lowercase();
        let (host, port) = host_and_port(place, scheme == "https")?;
        Ok(Self { scheme, host, port })
    }
}

/// Both in the form in which they are compared; a port that is not named is that of the scheme.
fn host_and_port(place: &str, is_secure: bool) -> Result<(String, String), String> {
    let default = || if is_secure { "443" } else { "80" }.to_owned();
    let (host, port) = match place.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.to_owned()),
        _ => (place, default()),
    };
    if host.contains(':') && !host.starts_with('[') {
        return Err(format!("address {place}: too many colons in address"));
    }
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    Ok((host.to_ascii_lowercase(), port))
}

/// Whether a page from `origin` may connect to a server that it calls `host`.
///
/// # Errors
/// Why not.
pub(super) fn check(origin: &str, host: &str, rules: &UpgradeRules) -> Result<(), String> {
    if !rules.same_origin && rules.allowed_origins.is_empty() {
        return Ok(());
    }
    let origin = Origin::parse(origin)?;
    if rules.same_origin {
        let (host, port) = host_and_port(host, rules.is_secure)?;
        let scheme = if rules.is_secure { "https" } else { "http" }.to_owned();
        if origin != (Origin { scheme, host, port }) {
            return Err("not same origin".to_owned());
        }
    }
    if !rules.allowed_origins.is_empty() && !rules.allowed_origins.contains(&origin) {
        return Err("not in the allowed list".to_owned());
    }
    Ok(())
}
