//! `mappings`: under which other names an account's messages go.

use myelin_subject::{Mappings, WeightedDestination, is_valid_pattern};

use super::super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::super::table::BlockKind;
use crate::diagnostic::Diagnostic;
use crate::value::{Node, Value};

/// One subject and where its messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingOptions {
    /// Valid pattern.
    pub subject: String,
    /// Checked with `subject`: valid, weights of one cluster together at most 100.
    pub destinations: Vec<MappingDestination>,
}

/// One of the places where messages go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappingDestination {
    /// A subject that may use the wildcards of the mapped one.
    pub subject: String,
    /// Of a hundred messages, how many go there: 0 to 100.
    pub weight: u8,
    /// Only in servers of this cluster; empty for all others.
    pub cluster: String,
}

/// Reads `mappings`. What is wrong with one does not hide what is wrong with the next.
pub(in super::super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<MappingOptions>> {
    let mut mappings = Vec::new();
    for (subject, node) in field.map()?.iter() {
        if !is_valid_pattern(subject.as_bytes()) {
            report.errors.push(field.diagnostic(format!("Subject {subject:?} is not a valid subject")));
            continue;
        }
        let mapping = read_mapping(subject, node, report);
        mappings.extend(report.keep(mapping).flatten());
    }
    Ok(mappings)
}

/// One mapping; none when its only destination has been complained about.
fn read_mapping(subject: &str, node: &Node, report: &mut Diagnostics) -> Read<Option<MappingOptions>> {
    let mut goes_to = format!("{subject:?}");
    let destinations = match &node.value {
        Value::Text(destination) => {
            goes_to = format!("{goes_to} to {destination:?}");
            vec![MappingDestination { subject: destination.clone(), weight: 100, cluster: String::new() }]
        }
        Value::Array(items) => {
            let mut destinations = Vec::new();
            for item in items {
                let destination = MappingDestination::read(item, report);
                destinations.extend(report.keep(destination).flatten());
            }
            destinations
        }
        _ => match MappingDestination::read(node, report)? {
            Some(destination) => vec![destination],
            None => return Ok(None),
        },
    };
    let mapping = MappingOptions { subject: subject.to_owned(), destinations };
    match mapping.check() {
        Ok(()) => Ok(Some(mapping)),
        Err(error) => {
            Err(diagnostic_at(&node.position, format!("Error adding mapping for {goes_to} : {error}")))
        }
    }
}

impl MappingOptions {
    /// Whether a server could map by this.
    ///
    /// Compat: the reference takes an empty destination and fails when it is used; here it is an
    /// error.
    fn check(&self) -> Result<(), String> {
        let destinations: Vec<_> = self
            .destinations
            .iter()
            .map(|MappingDestination { subject, weight, cluster }| WeightedDestination {
                subject: subject.clone(),
                weight: *weight,
                cluster: cluster.clone(),
            })
            .collect();
        Mappings::default().insert(&self.subject, &destinations).map_err(|error| error.to_string())
    }
}

impl MappingDestination {
    /// `None` when the block has been complained about.
    fn read(node: &Node, report: &mut Diagnostics) -> Read<Option<Self>> {
        let Value::Map(map) = &node.value else {
            return Err(diagnostic_at(&node.position, "Expected an entry for the mapping destination"));
        };
        let (mut subject, mut weight, mut cluster) = (String::new(), None, String::new());
        // Compat: complained about where the destination stands.
        let text = |field: &Field<'_>| match field.text() {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(diagnostic_at(&node.position, error.message)),
        };
        let errors = report.errors.len();
        read_block(map, BlockKind::MappingDestination, report, |field, _| {
            match field.name() {
                "dest" | "destination" => subject = text(field)?,
                "weight" => weight = Some(read_weight(field)?),
                "cluster" => cluster = text(field)?,
                _ => return Ok(false),
            }
            Ok(true)
        });
        if report.errors.len() > errors {
            return Ok(None);
        }
        let missing =
            || diagnostic_at(&node.position, format!("Missing weight for mapping destination {subject:?}"));
        let weight = weight.ok_or_else(missing)?;
        Ok(Some(Self { subject, weight, cluster }))
    }
}

/// A number from 0 to 100, with or without a percent sign.
fn read_weight(field: &Field<'_>) -> Read<u8> {
    let fail = |shown: String| -> Diagnostic {
        field.diagnostic(format!("Invalid weight {shown} for mapping destination"))
    };
    let number = match field.value() {
        Value::Integer(number) => *number,
        Value::Text(text) => super::exports::percent(text).map_err(|text| fail(format!("{text:?}")))?,
        other => {
            let found = other.type_name();
            return Err(field.diagnostic(format!("Unknown entry type for weight of {found}")));
        }
    };
    u8::try_from(number).ok().filter(|&weight| weight <= 100).ok_or_else(|| fail(number.to_string()))
}
