//! `imports`: what an account takes from others, and under which names.

use super::super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::super::table::BlockKind;
use crate::diagnostic::Position;
use crate::value::{Node, Value};

/// Something that another account offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ImportOptions {
    /// Messages to listen to.
    Stream(StreamImport),
    /// Requests that the other account answers.
    Service(ServiceImport),
}

/// An imported stream of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamImport {
    /// The account that exports it.
    pub account: String,
    /// Subject in the exporting account.
    pub subject: String,
    /// Name in the importing account.
    pub name: StreamName,
    /// Whether traces may come along.
    pub allow_trace: bool,
}

/// Name of an imported stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamName {
    /// As in the other account.
    Same,
    /// With this in front.
    Prefixed(String),
    /// A subject in which `$1` is the first wildcard of the other name.
    Mapped(String),
}

/// An imported service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceImport {
    /// The account that answers.
    pub account: String,
    /// Subject of the service in the exporting account.
    pub subject: String,
    /// Subject in the importing account; equal to that unless configured.
    pub to: String,
    /// Whether the other account learns who asks.
    pub share: bool,
}

/// Reads `imports`. What is wrong with one entry does not hide what is wrong with the next.
pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<ImportOptions>> {
    let Value::Array(items) = field.value() else {
        let found = field.value().type_name();
        return Err(field.diagnostic(format!("Imports should be an array, got {found}")));
    };
    let mut imports = Vec::new();
    for item in items {
        let import = ImportFields::read(item, report).and_then(|draft| draft.finish(report));
        if let Some(import) = report.keep(import).flatten() {
            match duplicate(&imports, &import) {
                Some(message) => report.errors.push(diagnostic_at(&item.position, message)),
                None => imports.push(import),
            }
        }
    }
    Ok(imports)
}

/// The diagnostic about a service that has the name of another one of the same account.
fn duplicate(imports: &[ImportOptions], new: &ImportOptions) -> Option<String> {
    let ImportOptions::Service(new) = new else { return None };
    imports.iter().find_map(|import| match import {
        ImportOptions::Service(old) if old.to == new.to && old.account == new.account => Some(format!(
            "Duplicate service import subject {:?}, previously used in import for account {:?}, subject {:?}",
            new.to, old.account, old.subject
        )),
        _ => None,
    })
}

/// The account and the subject that an import names.
struct ImportOrigin {
    account: String,
    subject: String,
    is_stream: bool,
    place: Position,
}

/// The fields of an entry, in whatever order they stand, and where.
#[derive(Default)]
struct ImportFields {
    sources: Vec<ImportOrigin>,
    prefix: String,
    to: Option<(String, Position)>,
    share: bool,
    allow_trace: Option<(bool, Position)>,
}

impl ImportFields {
    fn read(item: &Node, report: &mut Diagnostics) -> Read<Self> {
        let Value::Map(map) = &item.value else {
            let found = item.value.type_name();
            let message = format!("Import Items should be a map with type entry, got {found}");
            return Err(diagnostic_at(&item.position, message));
        };
        let mut draft = Self::default();
        read_block(map, BlockKind::Import, report, |field, report| draft.set(field, report));
        Ok(draft)
    }

    fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        let place = || field.node().position.clone();
        match field.name() {
            "stream" => self.sources.push(ImportOrigin::read(field, "Stream", report)?),
            "service" => self.sources.push(ImportOrigin::read(field, "Service", report)?),
            "prefix" => field.text()?.clone_into(&mut self.prefix),
            "to" => self.to = Some((field.text()?.to_owned(), place())),
            "share" => self.share = field.boolean()?,
            "allow_trace" => self.allow_trace = Some((field.boolean()?, place())),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Compat: an entry that is neither a stream nor a service is nothing, and no error; `prefix`
    /// of a service and `share` of a stream mean nothing.
    fn finish(self, report: &mut Diagnostics) -> Read<Option<ImportOptions>> {
        if let [_, second, ..] = &self.sources[..] {
            let (now, before) = if second.is_stream { ("stream", "service") } else { ("service", "stream") };
            return Err(diagnostic_at(&second.place, format!("Detected {now} but already saw a {before}")));
        }
        let to = self.to.filter(|(to, _)| !to.is_empty());
        let Some(source) = self.sources.into_iter().next() else { return Ok(None) };
        let ImportOrigin { account, subject, .. } = source;
        if source.is_stream {
            let name = match (self.prefix.is_empty(), to) {
                (true, None) => StreamName::Same,
                (true, Some((to, _))) => StreamName::Mapped(to),
                (false, None) => StreamName::Prefixed(self.prefix),
                (false, Some((_, place))) => {
                    let message = "Stream import can not have a 'prefix' and a 'to' property";
                    return Err(diagnostic_at(&place, message));
                }
            };
            let allow_trace = self.allow_trace.is_some_and(|(allowed, _)| allowed);
            return Ok(Some(ImportOptions::Stream(StreamImport { account, subject, name, allow_trace })));
        }
        if let Some((_, place)) = &self.allow_trace {
            let message = "Detected allow_trace directive on a non-stream";
            report.errors.push(diagnostic_at(place, message));
        }
        let to = to.map_or_else(|| subject.clone(), |(to, _)| to);
        Ok(Some(ImportOptions::Service(ServiceImport { account, subject, to, share: self.share })))
    }
}

impl ImportOrigin {
    fn read(field: &Field<'_>, kind: &str, report: &mut Diagnostics) -> Read<Self> {
        let Value::Map(map) = field.value() else {
            let found = field.value().type_name();
            return Err(field.diagnostic(format!("{kind} entry should be an account map, got {found}")));
        };
        let (mut account, mut subject) = (String::new(), String::new());
        read_block(map, BlockKind::ImportSource, report, |field, _| {
            match field.name() {
                "account" => field.text()?.clone_into(&mut account),
                "subject" => field.text()?.clone_into(&mut subject),
                _ => return Ok(false),
            }
            Ok(true)
        });
        if account.is_empty() || subject.is_empty() {
            return Err(field.diagnostic("Expect an account name and a subject"));
        }
        let place = field.node().position.clone();
        Ok(Self { account, subject, is_stream: kind == "Stream", place })
    }
}
