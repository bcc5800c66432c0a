//! Exports, imports, activations and mappings of accounts, as their tokens have them.
//!
//! Owns the words of the token only. What comes of them is the broker's.

use std::collections::HashMap;

use serde::{Deserialize, Deserializer, de};
use serde_json::Value;

use super::account::check_info;
use super::issues::Issues;
use super::subject::{self, is_contained};
use super::token::Claims;
use myelin_stdx::nkey::Role;
use myelin_wire::error::Quoted;

/// The token by which an account lets another have an export.
pub type ActivationClaims = Claims<Activation>;

/// Type of what is exported or imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExportType {
    /// The token does not say.
    #[default]
    #[serde(skip)]
    Unknown,
    /// Messages, from the exporter to the importer.
    Stream,
    /// Requests, from the importer to the exporter, and their answers.
    Service,
}

impl ExportType {
    fn name(self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Stream => "stream",
            Self::Service => "service",
        }
    }
}

/// How many answers a service gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ClaimedResponseType {
    /// One.
    #[default]
    Singleton,
    /// Any number.
    Stream,
    /// One, in pieces.
    Chunked,
    /// Something else is said.
    Unknown(String),
}

/// Export of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Export {
    /// A name for people.
    pub name: String,
    /// The pattern.
    pub subject: String,
    /// Type of the export.
    #[serde(rename = "type")]
    pub kind: ExportType,
    /// Importers need an activation.
    pub token_req: bool,
    /// Accounts whose activations are worth nothing if they were issued up to this second; `*` is
    /// all.
    pub revocations: HashMap<String, i64>,
    response_type: String,
    /// Nanoseconds; 0 is the default.
    pub response_threshold: i64,
    /// Where it is reported how long answers take.
    pub service_latency: Option<ServiceLatency>,
    /// The token of the subject that must be the importer's key, from 1 on; 0 is none.
    pub account_token_position: u32,
    /// Whether it is listed for others.
    pub advertise: bool,
    /// Traces go on here.
    pub allow_trace: bool,
    description: String,
    info_url: String,
}

/// Where it is reported how long answers take.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ServiceLatency {
    /// Of 100 requests; `None` leaves it to headers.
    #[serde(deserialize_with = "sampling")]
    pub sampling: Option<i64>,
    /// Subject.
    pub results: String,
}

/// Instead of a key, all of them.
const ALL: &str = "*";

/// Whether what was issued to `key` then is worth nothing any more.
pub(crate) fn is_revoked(revocations: &HashMap<String, i64>, key: &str, issued_at: i64) -> bool {
    let revoked = |key| revocations.get(key).is_some_and(|&until| until >= issued_at);
    revoked(ALL) || revoked(key)
}

/// Import of an account from another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Import {
    /// A name for people.
    pub name: String,
    /// The pattern, as its publisher says it: the exporter of a stream, the importer of a service.
    pub subject: String,
    /// The exporter.
    pub account: String,
    /// An activation.
    pub token: String,
    /// The old way to give it another name: as its subscriber says it.
    pub to: String,
    /// Its name in the importing account; `$1` stands for the first `*` of the subject.
    pub local_subject: String,
    /// Type of the import.
    #[serde(rename = "type")]
    pub kind: ExportType,
    /// The exporter learns who asks.
    pub share: bool,
    /// Traces go on there.
    pub allow_trace: bool,
}

/// Where messages of a subject go instead.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct WeightedMapping {
    /// Destination.
    pub subject: String,
    /// Of 100 messages; 0 is all.
    weight: u8,
    /// Only in this cluster.
    pub cluster: String,
}

/// Claims that only an activation has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Activation {
    /// The pattern.
    pub subject: String,
    /// Type of what is activated.
    pub kind: ExportType,
    /// The account, where the issuer is one of its signing keys.
    pub issuer_account: String,
}

impl WeightedMapping {
    /// Of 100 messages.
    #[must_use]
    pub fn weight(&self) -> u8 {
        if self.weight == 0 { 100 } else { self.weight }
    }
}

impl Activation {
    pub(super) fn migrate(&mut self, version: i64, old_issuer: String) {
        if version == 1 {
            self.issuer_account = old_issuer;
        }
    }
}

impl Export {
    /// Whether an activation of `account` that was issued then has been taken back.
    #[must_use]
    pub fn has_revoked(&self, account: &str, issued_at: i64) -> bool {
        is_revoked(&self.revocations, account, issued_at)
    }

    /// How many answers the service gives.
    #[must_use]
    pub fn response_type(&self) -> ClaimedResponseType {
        match self.response_type.as_str() {
            "" | "Singleton" => ClaimedResponseType::Singleton,
            "Stream" => ClaimedResponseType::Stream,
            "Chunked" => ClaimedResponseType::Chunked,
            other => ClaimedResponseType::Unknown(other.to_owned()),
        }
    }

    fn check(&self, issues: &mut Issues) {
        let is_service = self.kind == ExportType::Service;
        if self.kind == ExportType::Unknown {
            issues.error("invalid export type: \"unknown\"");
        }
        let response = Quoted(self.response_type.as_bytes());
        if is_service && matches!(self.response_type(), ClaimedResponseType::Unknown(_)) {
            issues.error(format!("invalid response type for service: {response}"));
        }
        if self.kind == ExportType::Stream {
            if !self.response_type.is_empty() {
                issues.error(format!("invalid response type for stream: {response}"));
            }
            if self.allow_trace {
                issues.error("AllowTrace only valid for service export");
            }
        }
        if let Some(latency) = &self.service_latency {
            if !is_service {
                issues.error("latency tracking only permitted for services");
            }
            latency.check(issues);
        }
        if self.response_threshold < 0 {
            issues.error("negative response threshold is invalid");
        }
        if self.response_threshold > 0 && !is_service {
            issues.error("response threshold only valid for services");
        }
        subject::check(&self.subject, issues);
        self.check_token_position(issues);
        check_info(&self.description, &self.info_url, issues);
    }

    fn check_token_position(&self, issues: &mut Issues) {
        let (position, subject) = (self.account_token_position as usize, &self.subject);
        if position == 0 {
            return;
        }
        if !subject::has_wildcards(subject) {
            let what = "Account Token Position can only be used with wildcard subjects";
            return issues.error(format!("{what}: {subject}"));
        }
        match subject.split('.').nth(position - 1) {
            None => {
                issues.error(format!(
                    "Account Token Position {position} exceeds length of subject '{subject}'"
                ));
            }
            Some("*") => {}
            Some(token) => issues.error(format!(
                "Account Token Position {position} matches '{token}' but must match a * in: {subject}"
            )),
        }
    }
}

impl ServiceLatency {
    fn check(&self, issues: &mut Issues) {
        if self.sampling.is_some_and(|sampling| !(1..=100).contains(&sampling)) {
            issues.error("sampling percentage needs to be between 1-100");
        }
        subject::check(&self.results, issues);
        if subject::has_wildcards(&self.results) {
            issues.error("results subject can not contain wildcards");
        }
    }
}

impl Import {
    fn check(&self, importer: &str, issues: &mut Issues) {
        let is_service = self.kind == ExportType::Service;
        let shown = Quoted(self.subject.as_bytes());
        if self.kind == ExportType::Unknown {
            issues.error("invalid import type: \"unknown\"");
        }
        if is_service && self.allow_trace {
            issues.error("AllowTrace only valid for stream import");
        }
        if self.account.is_empty() {
            issues.error("account to import from is not specified");
        }
        if !self.to.is_empty() {
            issues.warning("the field to has been deprecated (use LocalSubject instead)");
        }
        subject::check(&self.subject, issues);
        if !self.local_subject.is_empty() {
            subject::check_renaming(&self.local_subject, &self.subject, issues);
            if !self.to.is_empty() {
                issues.error("Local Subject replaces To");
            }
        }
        if self.share && !is_service {
            issues.error(format!(
                "sharing information (for latency tracking) is only valid for services: {shown}"
            ));
        }
        if self.token.is_empty() {
            return;
        }
        match super::activation(&self.token) {
            Ok(activation) => self.check_activation(&activation, importer, issues),
            Err(_) => issues.error(format!("import {shown} contains an invalid activation token")),
        }
    }

    /// CVE-2021-3127: an activation is worth something for this import, this account and this
    /// exporter only.
    fn check_activation(&self, activation: &ActivationClaims, importer: &str, issues: &mut Issues) {
        let shown = Quoted(self.subject.as_bytes());
        let what = &activation.nats;
        if activation.issuer != self.account && what.issuer_account != self.account {
            issues.error(format!("activation token doesn't match account for import {shown}"));
        }
        if activation.subject != importer {
            issues.error(format!("activation token doesn't match account it is being included in, {shown}"));
        }
        if what.kind != self.kind {
            issues.error(format!(
                "mismatch between token import type {} and type of import {}",
                what.kind.name(),
                self.kind.name()
            ));
        }
        if what.kind == ExportType::Unknown {
            issues.error("invalid import type: \"unknown\"");
        }
        subject::check(&what.subject, issues);
        if !what.issuer_account.is_empty() && !Role::Account.owns(&what.issuer_account) {
            issues.error("account_id is not an account public key");
        }
        let of_service = self.kind == ExportType::Service && !self.to.is_empty();
        let subject = if of_service { &self.to } else { &self.subject };
        if !is_contained(subject, &what.subject) {
            issues.error(format!(
                "activation token import subject {} doesn't match import {shown}",
                Quoted(what.subject.as_bytes())
            ));
        }
    }

    /// Under which subject the importing account asks.
    fn local(&self) -> String {
        match (self.to.as_str(), self.local_subject.as_str()) {
            ("", "") => self.subject.clone(),
            ("", local) => subject::of_renaming(local),
            (to, _) => to.to_owned(),
        }
    }
}

pub(super) fn check_imports(imports: &[Import], importer: &str, issues: &mut Issues) {
    let mut services: HashMap<&str, Vec<String>> = HashMap::new();
    for import in imports {
        if import.kind == ExportType::Service {
            let local = import.local();
            let others = services.entry(&import.account).or_default();
            for other in others.iter() {
                if is_contained(&local, other) || is_contained(other, &local) {
                    issues.error(format!(
                        "overlapping subject namespace for {} and {} in same account {}",
                        Quoted(local.as_bytes()),
                        Quoted(other.as_bytes()),
                        Quoted(import.account.as_bytes())
                    ));
                }
            }
            others.push(local);
        }
        import.check(importer, issues);
    }
}

pub(super) fn check_exports(exports: &[Export], issues: &mut Issues) {
    exports.iter().for_each(|export| export.check(issues));
    for kind in [ExportType::Service, ExportType::Stream] {
        let same = exports
            .iter()
            .filter(|export| (export.kind == ExportType::Service) == (kind == ExportType::Service));
        let subjects: Vec<&str> = same.map(|export| export.subject.as_str()).collect();
        for (at, inner) in subjects.iter().enumerate() {
            let outer = subjects.iter().enumerate().find(|&(i, outer)| i != at && is_contained(inner, outer));
            if let Some((_, outer)) = outer {
                issues.error(format!(
                    "{} export subject {} already exports {}",
                    kind.name(),
                    Quoted(outer.as_bytes()),
                    Quoted(inner.as_bytes())
                ));
            }
        }
    }
}

pub(super) fn check_mappings(mappings: &HashMap<String, Vec<WeightedMapping>>, issues: &mut Issues) {
    for (from, destinations) in mappings {
        let shown = Quoted(from.as_bytes());
        subject::check(from, issues);
        let mut totals: HashMap<&str, u32> = HashMap::new();
        for destination in destinations {
            subject::check(&destination.subject, issues);
            let weight = u32::from(destination.weight());
            if weight > 100 {
                issues.error(format!("Mapping {shown} has a weight {weight} that exceeds 100"));
            }
            *totals.entry(&destination.cluster).or_default() += weight;
        }
        for (cluster, _) in totals.into_iter().filter(|(_, total)| *total > 100) {
            let place = if cluster.is_empty() {
                String::new()
            } else {
                format!(" in cluster {}", Quoted(cluster.as_bytes()))
            };
            issues
                .error(format!("Mapping {shown}{place} exceeds 100% among all of it's weighted to mappings"));
        }
    }
}

/// A number, or the word `headers`.
fn sampling<'de, D: Deserializer<'de>>(from: D) -> Result<Option<i64>, D::Error> {
    match Value::deserialize(from)? {
        Value::String(word) if word.eq_ignore_ascii_case("headers") => Ok(None),
        Value::Number(number) => match number.as_i64() {
            Some(0) => Ok(None),
            Some(number) => Ok(Some(number)),
            None => Err(de::Error::custom("unknown sampling rate")),
        },
        _ => Err(de::Error::custom("unknown sampling rate")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn first<T: for<'de> Deserialize<'de>>(json: &str, check: impl Fn(&T, &mut Issues)) -> Option<String> {
        let mut issues = Issues::default();
        check(&serde_json::from_str(json).unwrap(), &mut issues);
        issues.first().map(str::to_owned)
    }

    #[test]
    fn exports_are_checked_in_the_libraries_words() {
        for (json, expected) in [
            (r#"{"subject":"a","type":"stream"}"#, None),
            (r#"{"subject":"a","type":"service","response_type":"Chunked"}"#, None),
            (r#"{"subject":"a"}"#, Some("invalid export type: \"unknown\"")),
            (
                r#"{"subject":"a","type":"stream","response_type":"Singleton"}"#,
                Some("invalid response type for stream: \"Singleton\""),
            ),
            (
                r#"{"subject":"a.*","type":"service","account_token_position":1}"#,
                Some("Account Token Position 1 matches 'a' but must match a * in: a.*"),
            ),
            (
                r#"{"subject":"a","type":"service","service_latency":{"sampling":"headers","results":"r.*"}}"#,
                Some("results subject can not contain wildcards"),
            ),
        ] {
            assert_eq!(first(json, Export::check).as_deref(), expected, "{json}");
        }
        let twice = r#"[{"subject":"a.*","type":"stream"},{"subject":"a.b","type":"stream"}]"#;
        assert_eq!(
            first(twice, |exports: &Vec<Export>, issues| check_exports(exports, issues)).as_deref(),
            Some("stream export subject \"a.*\" already exports \"a.b\"")
        );
        assert!(serde_json::from_str::<Export>(r#"{"type":"other"}"#).is_err());
    }

    #[test]
    fn imports_are_checked_in_the_libraries_words() {
        let check = |json: &str| first(json, |import: &Import, issues| import.check("A", issues));
        for (json, expected) in [
            (r#"{"subject":"a","account":"B","type":"stream"}"#, None),
            (r#"{"subject":"a","type":"stream"}"#, Some("account to import from is not specified")),
            (
                r#"{"subject":"a","account":"B","type":"stream","share":true}"#,
                Some("sharing information (for latency tracking) is only valid for services: \"a\""),
            ),
            (
                r#"{"subject":"a","account":"B","type":"service","token":"x"}"#,
                Some("import \"a\" contains an invalid activation token"),
            ),
        ] {
            assert_eq!(check(json).as_deref(), expected, "{json}");
        }
        let overlap = r#"[{"subject":"a.*","account":"B","type":"service"},{"subject":"a.b","account":"B","type":"service"}]"#;
        assert_eq!(
            first(overlap, |imports: &Vec<Import>, issues| check_imports(imports, "A", issues)).as_deref(),
            Some("overlapping subject namespace for \"a.b\" and \"a.*\" in same account \"B\"")
        );
    }

    #[test]
    fn weights_are_parts_of_a_hundred() {
        let check = |json: &str| {
            first(json, |m: &HashMap<String, Vec<WeightedMapping>>, issues| check_mappings(m, issues))
        };
        assert_eq!(check(r#"{"a":[{"subject":"b"}]}"#), None);
        assert_eq!(
            check(r#"{"a":[{"subject":"b","weight":60},{"subject":"c","weight":50}]}"#).as_deref(),
            Some("Mapping \"a\" exceeds 100% among all of it's weighted to mappings")
        );
    }
}
