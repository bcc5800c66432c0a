//! Claims of a user's token, and what must be true of it by itself.

use serde::{Deserialize, Deserializer};

use super::issues::Issues;
use super::network::Network;
use super::subject;
use super::times::{self, TimeRange};
use super::token::Claims;
use myelin_stdx::nkey::Role;
use myelin_wire::error::Quoted;

/// A user's token.
pub type UserClaims = Claims<User>;

/// Subjects for one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Permission {
    /// Subjects that are allowed; none is everything.
    pub allow: Vec<String>,
    /// Subjects of these that are denied.
    pub deny: Vec<String>,
}

/// How often and how long requests may be answered; 0 is the default, less is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ResponsePermission {
    /// Messages.
    pub max: i64,
    /// Nanoseconds.
    pub ttl: i64,
}

/// Permissions and limits of a user, as its token or the scope of its issuer says. Numbers: -1 is
/// no limit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserPermissions {
    /// Publishing.
    #[serde(rename = "pub")]
    pub publish: Permission,
    /// Subscribing.
    #[serde(rename = "sub")]
    pub subscribe: Permission,
    /// Answering.
    pub resp: Option<ResponsePermission>,
    /// Networks to come from; none is all.
    #[serde(deserialize_with = "networks")]
    pub src: Vec<String>,
    /// Times of the day; none is always.
    pub times: Vec<TimeRange>,
    /// Name of the zone that the times are of; the server's where it is empty.
    pub times_location: String,
    /// Subscriptions.
    subs: Option<i64>,
    /// Bytes.
    data: Option<i64>,
    /// Bytes of a message.
    payload: Option<i64>,
    /// The token is enough: nothing needs to be signed.
    pub bearer_token: bool,
    /// Must come through a trusted proxy.
    pub proxy_required: bool,
    /// Ways in.
    pub allowed_connection_types: Vec<String>,
}

/// Claims that only a user's token has.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct User {
    /// Permissions of the user.
    #[serde(flatten)]
    pub permissions: UserPermissions,
    /// The account, where the issuer is one of its signing keys.
    pub issuer_account: String,
    tags: Vec<String>,
}

impl UserPermissions {
    /// Sets what scopes have that say nothing else: no limits.
    pub(super) fn unlimited(mut self) -> Self {
        self.subs.get_or_insert(-1);
        self.data.get_or_insert(-1);
        self.payload.get_or_insert(-1);
        self
    }

    /// Subscriptions of a connection.
    #[must_use]
    pub fn max_subscriptions(&self) -> i64 {
        self.subs.unwrap_or(0)
    }

    /// Bytes of a message.
    #[must_use]
    pub fn max_payload(&self) -> i64 {
        self.payload.unwrap_or(0)
    }

    /// Whether nothing is said, so that a scope can say it.
    #[must_use]
    pub fn are_empty(&self) -> bool {
        let nothing = |n: Option<i64>| n.unwrap_or(0);
        let bare =
            Self { subs: None, data: None, payload: None, times_location: String::new(), ..self.clone() };
        let limits = [nothing(self.subs), nothing(self.data), nothing(self.payload)];
        limits == [0; 3] && self.times_location.is_empty() && bare == Self::default()
    }

    /// Adds the issues of the permissions.
    fn check(&self, issues: &mut Issues) {
        check_permission(&self.subscribe, true, issues);
        check_permission(&self.publish, false, issues);
        for network in self.src.iter().filter(|network| Network::parse(network).is_none()) {
            issues.error(format!("invalid cidr {} in user src limits", Quoted(network.as_bytes())));
        }
        for range in &self.times {
            for (name, time) in [("start", &range.start), ("end", &range.end)] {
                if time.is_empty() {
                    issues.error(format!("time ranges {name} must contain {}", article(name)));
                } else if times::time_of_day(time).is_none() {
                    issues.error(format!("{name} in time range is invalid {}", Quoted(time.as_bytes())));
                }
            }
        }
        if times::zone(&self.times_location).is_none() {
            let name = &self.times_location;
            issues.error(format!("could not parse iana time zone by name: unknown time zone {name}"));
        }
    }
}

fn article(name: &str) -> &str {
    if name == "end" { "an end" } else { "a start" }
}

/// Compat: what stands behind the second blank of a subject is not looked at closely by anybody.
pub(super) fn check_permission(permission: &Permission, with_queues: bool, issues: &mut Issues) {
    for text in permission.allow.iter().chain(&permission.deny) {
        let parts: Vec<&str> = text.split(' ').collect();
        match parts[..] {
            [pattern] => subject::check(pattern, issues),
            [pattern, queue] => {
                subject::check(pattern, issues);
                subject::check(queue, issues);
                if !with_queues {
                    issues.error(format!("Permission Subject \"{text}\" is not allowed to contain queue"));
                }
            }
            _ => issues.error(format!("Permission Subject \"{text}\" contains too many spaces")),
        }
    }
}

impl User {
    /// Changes what the version decides.
    pub(super) fn migrate(&mut self, version: i64, old_issuer: String) {
        if version == 1 {
            self.permissions = std::mem::take(&mut self.permissions).unlimited();
            // Version 1 knew neither.
            self.permissions.proxy_required = false;
            self.permissions.allowed_connection_types.clear();
            self.issuer_account = old_issuer;
        }
    }
}

impl UserClaims {
    /// Labels of the user.
    #[must_use]
    pub fn user_tags(&self) -> &[String] {
        self.tags(&self.nats.tags)
    }

    /// The account that the user is of.
    #[must_use]
    pub fn account(&self) -> &str {
        let by_signing_key = &self.nats.issuer_account;
        if by_signing_key.is_empty() { &self.issuer } else { by_signing_key }
    }

    /// Issues of the claims at `now`, in seconds of the epoch.
    #[must_use]
    pub fn issues(&self, now: i64) -> Issues {
        let mut issues = Issues::default();
        self.check_times(now, &mut issues);
        self.nats.permissions.check(&mut issues);
        let by_signing_key = &self.nats.issuer_account;
        if !by_signing_key.is_empty() && !Role::Account.owns(by_signing_key) {
            issues.error("account_id is not an account public key");
        }
        issues
    }
}

/// A list, or a text with commas.
fn networks<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum ListOrText {
        List(Vec<String>),
        Text(String),
    }
    Ok(match ListOrText::deserialize(from)? {
        ListOrText::List(list) => list,
        ListOrText::Text(text) => {
            let parts = text.split(',').map(|part| part.trim().to_lowercase());
            parts.filter(|part| !part.is_empty()).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permissions(json: &str) -> UserPermissions {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn nothing_said_is_seen() {
        for json in ["{}", r#"{"subs":0,"payload":0}"#, r#"{"pub":{},"sub":{"allow":[]}}"#] {
            assert!(permissions(json).are_empty(), "{json}");
        }
        for json in [
            r#"{"subs":-1}"#,
            r#"{"bearer_token":true}"#,
            r#"{"resp":{}}"#,
            r#"{"src":["10.0.0.0/8"]}"#,
            r#"{"times_location":"UTC"}"#,
            r#"{"proxy_required":true}"#,
            r#"{"allowed_connection_types":["MQTT"]}"#,
        ] {
            assert!(!permissions(json).are_empty(), "{json}");
        }
    }

    #[test]
    fn networks_are_a_list_or_a_text() {
        assert_eq!(permissions(r#"{"src":"10.0.0.0/8, FD00::/8"}"#).src, ["10.0.0.0/8", "fd00::/8"]);
        assert_eq!(permissions(r#"{"src":["a","b"]}"#).src, ["a", "b"]);
    }

    #[test]
    fn what_is_wrong_is_named_in_the_libraries_words() {
        for (json, expected) in [
            (r#"{"pub":{"allow":["a","a..b"]}}"#, "subject \"a..b\" cannot contain consecutive `.`"),
            (r#"{"pub":{"deny":["a q"]}}"#, "Permission Subject \"a q\" is not allowed to contain queue"),
            (r#"{"sub":{"deny":["a b c"]}}"#, "Permission Subject \"a b c\" contains too many spaces"),
            (r#"{"src":["10.0.0.0"]}"#, "invalid cidr \"10.0.0.0\" in user src limits"),
            (r#"{"times":[{"end":"10:00:00"}]}"#, "time ranges start must contain a start"),
            (r#"{"times":[{"start":"1","end":"10:00:00"}]}"#, "start in time range is invalid \"1\""),
            (
                r#"{"times_location":"No/Where"}"#,
                "could not parse iana time zone by name: unknown time zone No/Where",
            ),
        ] {
            let mut issues = Issues::default();
            permissions(json).check(&mut issues);
            assert_eq!(issues.first(), Some(expected), "{json}");
        }
        let mut issues = Issues::default();
        permissions(r#"{"sub":{"allow":["a q"]}}"#).check(&mut issues);
        assert_eq!(issues.first(), None);
    }
}
