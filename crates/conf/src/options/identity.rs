//! Identity of a server beside its name: tags, metadata, and behaviours switched by name.

use std::collections::BTreeMap;

use super::field::{Diagnostics, Field, Read, diagnostic_at};
use crate::value::Value;

/// The behaviours that can be switched, and whether they are on by default.
const FEATURE_FLAGS: [(&str, bool); 4] = [
    ("js_ack_fc_v2", false),
    ("js_api_reply_v2", false),
    ("js_raft_delete_range", true),
    ("js_snapshot_sources", false),
];

/// Behaviours as configured, by name. Names that nobody knows are kept: the log says that they are
/// not supported, and they change nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FeatureFlags(pub BTreeMap<String, bool>);

impl FeatureFlags {
    /// All known behaviours with their state, for `/varz` and system events.
    pub fn merged(&self) -> BTreeMap<&'static str, bool> {
        FEATURE_FLAGS
            .iter()
            .map(|&(name, default)| (name, self.0.get(name).copied().unwrap_or(default)))
            .collect()
    }

    /// Feature flags for the log at the start: the configured ones with what that means, and the
    /// unknown ones. `None` when nothing was configured; each list may be empty.
    pub fn announced(&self) -> Option<(Vec<String>, Vec<&str>)> {
        let (mut configured, mut unsupported) = (Vec::new(), Vec::new());
        for (name, &is_on) in &self.0 {
            let known = FEATURE_FLAGS.iter().find(|(known, _)| known == name);
            let state = match known {
                None => {
                    unsupported.push(name.as_str());
                    continue;
                }
                Some((_, true)) if is_on => "enabled",
                Some((_, true)) => "opt-out",
                Some((_, false)) if is_on => "opt-in",
                Some((_, false)) => "disabled",
            };
            configured.push(format!("{name} ({state})"));
        }
        (!self.0.is_empty()).then_some((configured, unsupported))
    }
}

/// Tags, metadata and behaviours.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IdentityOptions {
    /// Lower case, without blanks around them, none twice, in the order of the file.
    pub tags: Vec<String>,
    /// Pairs of text.
    pub metadata: BTreeMap<String, String>,
    /// Behaviours switched by name.
    pub feature_flags: FeatureFlags,
}

impl IdentityOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "server_tags" => self.set_tags(field)?,
            "server_metadata" => self.set_metadata(field, report)?,
            "feature_flags" => self.set_feature_flags(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn set_tags(&mut self, field: &Field<'_>) -> Read<()> {
        match field.value() {
            Value::Text(text) => self.add_tag(text),
            Value::Array(items) => {
                for item in items {
                    let Value::Text(text) = &item.value else {
                        // Compat: these are the words, and the place is that of the list.
                        let found = "unsupported type *conf.token where string is expected";
                        return Err(field.diagnostic(format!("error parsing tags: {found}")));
                    };
                    self.add_tag(text);
                }
            }
            other => {
                let found = other.go_type();
                return Err(field.diagnostic(format!("error parsing tags: unsupported type {found}")));
            }
        }
        Ok(())
    }

    fn add_tag(&mut self, text: &str) {
        let tag = text.trim().to_lowercase();
        if !tag.is_empty() && !self.tags.contains(&tag) {
            self.tags.push(tag);
        }
    }

    fn set_metadata(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<()> {
        let Value::Map(map) = field.value() else {
            let found = field.value().go_type();
            return Err(field.diagnostic(format!("error parsing metadata: unsupported type {found}")));
        };
        for (name, node) in map.iter() {
            let text = Field::new(name, node).text().map(str::to_owned);
            self.metadata.extend(report.keep(text).map(|text| (name.to_owned(), text)));
        }
        Ok(())
    }

    fn set_feature_flags(&mut self, field: &Field<'_>) -> Read<()> {
        let Value::Map(map) = field.value() else {
            let found = field.value().go_type();
            return Err(field.diagnostic(format!("error parsing feature flags: unsupported type {found}")));
        };
        for (name, node) in map.iter() {
            let Value::Boolean(is_on) = node.value else {
                let found = node.value.go_type();
                let message = format!("error parsing feature flag {name:?}: expected bool, got {found}");
                return Err(diagnostic_at(&node.position, message));
            };
            self.feature_flags.0.insert(name.to_owned(), is_on);
        }
        Ok(())
    }
}
