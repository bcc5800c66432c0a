//! Claims of an account's token, and what must be true of it by itself.

use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{self, Deserializer};
use serde_json::Value;

use super::imports::{Export, Import, WeightedMapping, check_exports, check_imports, check_mappings};
use super::issues::Issues;
use super::subject;
use super::token::Claims;
use super::user::{Permission, ResponsePermission, UserPermissions, check_permission};
use myelin_stdx::nkey::Role;
use myelin_wire::error::Quoted;

/// An account's token.
pub type AccountClaims = Claims<Account>;

/// Claims that only an account's token has.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Subjects that the account takes from others.
    pub imports: Vec<Import>,
    /// Subjects that others may take.
    pub exports: Vec<Export>,
    /// Limits of the account.
    pub limits: OperatorLimits,
    /// Keys that sign its users, beside its own.
    #[serde(deserialize_with = "signing_keys")]
    pub signing_keys: Vec<SigningKey>,
    /// Users whose tokens are worth nothing if they were issued up to this second; `*` is all of
    /// them.
    pub revocations: HashMap<String, i64>,
    /// Permissions of users who have none of their own.
    pub default_permissions: DefaultPermissions,
    /// Under which names its messages go.
    pub mappings: HashMap<String, Vec<WeightedMapping>>,
    /// Callout that decides about its users.
    pub authorization: ExternalAuthorization,
    /// Where traces of its messages go.
    pub trace: Option<MessageTrace>,
    /// Payer for the traffic of its streams' replicas: `system`, `owner` or nothing.
    pub cluster_traffic: String,
    description: String,
    info_url: String,
    tags: Vec<String>,
}

/// Permissions of users who have none of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct DefaultPermissions {
    /// Publishing.
    #[serde(rename = "pub")]
    pub publish: Permission,
    /// Subscribing.
    #[serde(rename = "sub")]
    pub subscribe: Permission,
    /// Answering.
    pub resp: Option<ResponsePermission>,
}

/// Limits of an account. Of numbers -1 is no limit; of what JetStream stores, 0 is nothing at all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct OperatorLimits {
    /// Subscriptions of a connection.
    pub subs: i64,
    /// Bytes.
    pub data: i64,
    /// Bytes of a message.
    pub payload: i64,
    /// Imports that it may have.
    pub imports: i64,
    /// Exports that it may have.
    pub exports: i64,
    /// Whether exports may have wildcards.
    pub wildcards: bool,
    /// Whether its users must prove who they are.
    pub disallow_bearer: bool,
    /// Client connections at once.
    pub conn: i64,
    /// Leaf nodes at once.
    pub leaf: i64,
    /// JetStream, where tiers say nothing else.
    #[serde(flatten)]
    pub jetstream: JetStreamLimits,
    /// JetStream by number of replicas: `R1`, `R3`.
    pub tiered_limits: HashMap<String, JetStreamLimits>,
}

/// Limits of what an account may store. Of bytes 0 is nothing at all, of the rest -1 or 0 is no
/// limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct JetStreamLimits {
    /// Bytes in memory.
    pub mem_storage: i64,
    /// Bytes in files.
    pub disk_storage: i64,
    /// Streams.
    pub streams: i64,
    /// Consumers.
    pub consumer: i64,
    /// Unacknowledged messages of a consumer.
    pub max_ack_pending: i64,
    /// Bytes of a stream in memory.
    pub mem_max_stream_bytes: i64,
    /// Bytes of a stream in files.
    pub disk_max_stream_bytes: i64,
    /// Streams must have a limit of bytes.
    pub max_bytes_required: bool,
}

impl JetStreamLimits {
    /// Whether anything may be stored.
    #[must_use]
    pub fn allow_anything(&self) -> bool {
        self.mem_storage != 0 || self.disk_storage != 0
    }
}

/// A key that signs users for an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SigningKey {
    /// The key may give what it likes.
    Plain(String),
    /// The key gives what the scope says, and nothing else.
    Scoped(Box<UserScope>),
}

impl SigningKey {
    /// The public key.
    #[must_use]
    pub fn key(&self) -> &str {
        match self {
            Self::Plain(key) => key,
            Self::Scoped(scope) => &scope.key,
        }
    }
}

/// Scope of a signing key: what the users get whose issuer it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct UserScope {
    /// The public key.
    pub key: String,
    /// A name for people.
    pub role: String,
    /// Permissions of these users; subjects may have templates.
    pub template: UserPermissions,
}

/// A service that decides about an account's users.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ExternalAuthorization {
    /// Users of the service itself.
    pub auth_users: Vec<String>,
    /// Accounts that it may put users into.
    pub allowed_accounts: Vec<String>,
    /// Key that requests are sealed for.
    pub xkey: String,
}

/// Where traces of messages go.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct MessageTrace {
    /// Subject.
    pub dest: String,
    /// Of 100 messages; 0 is all.
    pub sampling: i64,
}

impl Account {
    /// Changes what the version decides.
    pub(super) fn migrate(&mut self, version: i64) {
        if version == 1 {
            // Version 1 knew none of these.
            self.limits.jetstream = JetStreamLimits::default();
            self.limits.tiered_limits.clear();
            self.limits.disallow_bearer = false;
        } else if !self.limits.tiered_limits.is_empty() {
            self.limits.jetstream = JetStreamLimits::default();
        }
    }

    fn check(&self, subject: &str, issues: &mut Issues) {
        check_imports(&self.imports, subject, issues);
        check_exports(&self.exports, issues);
        if self.limits.tiered_limits.contains_key("") {
            issues.error("Tiered JetStream Limits can not contain a blank \"\" tier name");
        }
        check_permission(&self.default_permissions.subscribe, true, issues);
        check_permission(&self.default_permissions.publish, false, issues);
        check_mappings(&self.mappings, issues);
        self.authorization.check(issues);
        if let Some(trace) = &self.trace {
            trace.check(issues);
        }
        self.check_counts(issues);
        for key in &self.signing_keys {
            key.check(issues);
        }
        check_info(&self.description, &self.info_url, issues);
        if !matches!(self.cluster_traffic.as_str(), "" | "system" | "owner") {
            let found = Quoted(self.cluster_traffic.as_bytes());
            issues.error(format!("unknown cluster traffic option: {found}"));
        }
    }

    fn check_counts(&self, issues: &mut Issues) {
        let (imports, exports) = (self.imports.len() as i64, self.exports.len() as i64);
        let limits = &self.limits;
        let is_empty = *limits == OperatorLimits::default();
        let too_many = "the account contains more imports than allowed by the operator";
        if !is_empty && limits.imports >= 0 && imports > limits.imports {
            issues.error(too_many);
        }
        if limits.imports != -1 && imports > limits.imports {
            issues.error(too_many);
        }
        if limits.exports != -1 {
            if exports > limits.exports {
                issues.error("the account contains more exports than allowed by the operator");
            }
            let wild = self.exports.iter().filter(|export| subject::has_wildcards(&export.subject));
            for _ in wild.filter(|_| !limits.wildcards) {
                issues.error("the account contains wildcard exports that are not allowed by the operator");
            }
        }
    }
}

impl AccountClaims {
    /// Labels of the account.
    #[must_use]
    pub fn account_tags(&self) -> &[String] {
        self.tags(&self.nats.tags)
    }

    /// Issues of the claims at `now`, in seconds of the epoch.
    #[must_use]
    pub fn issues(&self, now: i64) -> Issues {
        let mut issues = Issues::default();
        self.check_times(now, &mut issues);
        self.nats.check(&self.subject, &mut issues);
        if Role::Account.owns(&self.issuer) && self.nats.limits != OperatorLimits::default() {
            issues.warning("self-signed account JWTs shouldn't contain operator limits");
        }
        issues
    }
}

impl SigningKey {
    fn check(&self, issues: &mut Issues) {
        match self {
            Self::Scoped(scope) if !Role::Account.owns(&scope.key) => {
                issues.error(format!("{} is not an account public key", scope.key));
            }
            Self::Plain(key) if !Role::Account.owns(key) => {
                issues.error(format!("{} is not a valid account signing key", Quoted(key.as_bytes())));
            }
            _ => {}
        }
    }
}

impl ExternalAuthorization {
    fn check(&self, issues: &mut Issues) {
        let quoted = |text: &str| Quoted(text.as_bytes()).to_string();
        if !self.allowed_accounts.is_empty() && self.auth_users.is_empty() {
            issues.error("External authorization cannot have accounts without users specified");
        }
        for user in self.auth_users.iter().filter(|user| !Role::User.owns(user)) {
            issues.error(format!("AuthUser {} is not a valid user public key", quoted(user)));
        }
        for account in &self.allowed_accounts {
            if account == "*" {
                if self.allowed_accounts.len() > 1 {
                    issues.error("AllowedAccounts can only be a list of accounts or \"*\"");
                }
            } else if !Role::Account.owns(account) {
                issues.error(format!("Account {} is not a valid account public key", quoted(account)));
            }
        }
        if !self.xkey.is_empty() && !Role::Curve.owns(&self.xkey) {
            issues.error(format!("XKey {} is not a valid public xkey", quoted(&self.xkey)));
        }
    }
}

impl MessageTrace {
    fn check(&self, issues: &mut Issues) {
        let mut own = Issues::default();
        subject::check(&self.dest, &mut own);
        if let Some(first) = own.first() {
            issues.error(format!("the account Trace.Destination {first}"));
        }
        if subject::has_wildcards(&self.dest) {
            let dest = Quoted(self.dest.as_bytes());
            issues.error(format!(
                "the account Trace.Destination subject {dest} is not a valid publish subject"
            ));
        }
        if !(0..=100).contains(&self.sampling) {
            issues.error(format!(
                "the account Trace.Sampling value '{}' is not valid, should be in the range [1..100]",
                self.sampling
            ));
        }
    }
}

/// Texts for people must not be endless.
pub(super) fn check_info(description: &str, url: &str, issues: &mut Issues) {
    const MAX: usize = 8 * 1024;
    if description.len() > MAX {
        issues.error("Description is too long");
    }
    if url.is_empty() {
        return;
    }
    if url.len() > MAX {
        issues.error("Info URL is too long");
    }
    let host = url.split_once("://").map(|(scheme, rest)| (scheme, rest.split(['/', '?', '#']).next()));
    if !matches!(host, Some((scheme, Some(host))) if !scheme.is_empty() && !host.is_empty()) {
        issues.error("error parsing info url: no hostname or scheme");
    }
}

/// A list of keys, each by itself or with its scope. Of two for one key the later counts.
fn signing_keys<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<SigningKey>, D::Error> {
    let mut keys: Vec<SigningKey> = Vec::new();
    for item in Vec::<Value>::deserialize(from)? {
        let key = match item {
            Value::String(key) => SigningKey::Plain(key),
            Value::Object(ref fields) => {
                let kind = fields.get("kind").and_then(Value::as_str);
                if kind != Some("user_scope") {
                    return Err(de::Error::custom("unknown signing key scope"));
                }
                let mut scope: UserScope = serde_json::from_value(item).map_err(de::Error::custom)?;
                scope.template = scope.template.unlimited();
                SigningKey::Scoped(Box::new(scope))
            }
            // Compat: other things are passed over.
            _ => continue,
        };
        keys.retain(|other| other.key() != key.key());
        keys.push(key);
    }
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn issue(json: &str) -> Option<String> {
        let mut issues = Issues::default();
        let account: Account = serde_json::from_str(json).unwrap();
        account.check("A", &mut issues);
        issues.first().map(str::to_owned)
    }

    const OPEN: &str = r#""limits":{"imports":-1,"exports":-1,"wildcards":true}"#;

    #[test]
    fn what_is_wrong_is_named_in_the_libraries_words() {
        assert_eq!(issue(&format!("{{{OPEN}}}")), None);
        for (field, expected) in [
            (
                r#""trace":{"dest":"a.*"}"#,
                "the account Trace.Destination subject \"a.*\" is not a valid publish subject",
            ),
            (r#""trace":{"dest":""}"#, "the account Trace.Destination subject cannot be empty"),
            (r#""cluster_traffic":"mine""#, "unknown cluster traffic option: \"mine\""),
            (r#""signing_keys":["A"]"#, "\"A\" is not a valid account signing key"),
            (r#""signing_keys":[{"kind":"user_scope","key":"A"}]"#, "A is not an account public key"),
            (r#""info_url":"x""#, "error parsing info url: no hostname or scheme"),
            (r#""authorization":{"auth_users":["U"]}"#, "AuthUser \"U\" is not a valid user public key"),
            (
                r#""default_permissions":{"pub":{"allow":["a q"]}}"#,
                "Permission Subject \"a q\" is not allowed to contain queue",
            ),
        ] {
            assert_eq!(issue(&format!("{{{OPEN},{field}}}")).as_deref(), Some(expected), "{field}");
        }
    }

    #[test]
    fn counts_are_the_operators() {
        let export = r#""exports":[{"subject":"a.*","type":"stream"}]"#;
        assert_eq!(
            issue(&format!("{{{export}}}")).as_deref(),
            Some("the account contains more exports than allowed by the operator")
        );
        let narrow = r#""limits":{"imports":-1,"exports":1}"#;
        assert_eq!(
            issue(&format!("{{{narrow},{export}}}")).as_deref(),
            Some("the account contains wildcard exports that are not allowed by the operator")
        );
    }

    #[test]
    fn a_scope_without_limits_has_none() {
        let json = r#"{"signing_keys":["A1",{"kind":"user_scope","key":"A2","template":{"subs":7}},"A1"]}"#;
        let account: Account = serde_json::from_str(json).unwrap();
        assert_eq!(account.signing_keys.len(), 2);
        let SigningKey::Scoped(scope) = &account.signing_keys[0] else { panic!("the scope comes first") };
        assert_eq!((scope.template.max_subscriptions(), scope.template.max_payload()), (7, -1));
        assert!(serde_json::from_str::<Account>(r#"{"signing_keys":[{"kind":"other","key":"A"}]}"#).is_err());
    }

    /// CVE-2020-26521: a null where a token has an export or an import brought the reference down.
    #[test]
    fn cve_2020_26521_nothing_in_a_list_is_a_mistake() {
        for json in [r#"{"exports":[null]}"#, r#"{"imports":[null]}"#, r#"{"mappings":{"a":[null]}}"#] {
            assert!(serde_json::from_str::<Account>(json).is_err(), "{json}");
        }
    }
}
