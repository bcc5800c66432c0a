//! `exports`: what an account lets others subscribe to and ask for.

use std::time::Duration;

use super::super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::super::table::BlockKind;
use crate::diagnostic::{Diagnostic, Position};
use crate::duration;
use crate::value::{Node, Value};

/// Something that an account offers to others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExportOptions {
    /// Messages to listen to.
    Stream(StreamExport),
    /// Requests to be answered.
    Service(ServiceExport),
}

/// Accounts that may import something.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExportAccess {
    /// Names of accounts; none listed means everybody.
    pub accounts: Vec<String>,
    /// The token of the subject, counted from 1, that must be the importer's name.
    pub account_token_position: Option<usize>,
}

/// An exported stream of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamExport {
    /// As written: the reference does not check it.
    pub subject: String,
    /// Accounts that may import it.
    pub access: ExportAccess,
}

/// An exported service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceExport {
    /// As written: the reference does not check it.
    pub subject: String,
    /// Accounts that may import it.
    pub access: ExportAccess,
    /// Kind of response to one request. Default [`ResponseType::Single`].
    pub response: ResponseType,
    /// How long a response may take; `None` is the default of 2 minutes.
    pub threshold: Option<Duration>,
    /// Where times of responses are reported.
    pub latency: Option<LatencyOptions>,
    /// Whether traces may follow requests into this account.
    pub allow_trace: bool,
}

/// How many messages answer a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ResponseType {
    /// One.
    #[default]
    Single,
    /// Many.
    Stream,
    /// One, in pieces.
    Chunked,
}

/// How latencies of a service are sampled and where they go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LatencyOptions {
    /// Subject of the reports.
    pub subject: String,
    /// Which requests are measured. Default all.
    pub sampling: LatencySampling,
}

/// Which requests are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LatencySampling {
    /// Requests whose headers ask for it.
    Headers,
    /// A share of a hundred, 1 to 100.
    Percent(u8),
}

/// Reads `exports`. What is wrong with one entry does not hide what is wrong with the next.
pub(super) fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<ExportOptions>> {
    let Value::Array(items) = field.value() else {
        let found = field.value().type_name();
        return Err(field.diagnostic(format!("Exports should be an array, got {found}")));
    };
    let exports = items.iter().filter_map(|item| {
        let export = ExportFields::read(item, report).and_then(|draft| draft.finish(report));
        report.keep(export).flatten()
    });
    Ok(exports.collect())
}

/// The fields of an entry, in whatever order they stand, and where.
#[derive(Default)]
struct ExportFields {
    /// In the order of the file, with whether it is a stream.
    subjects: Vec<(String, Position, bool)>,
    access: ExportAccess,
    response: Option<ResponseType>,
    threshold: Option<i64>,
    latency: Option<LatencyOptions>,
    allow_trace: bool,
    /// Options that only a service may have, and where they stand.
    for_services: Vec<(&'static str, Position)>,
}

impl ExportFields {
    fn read(item: &Node, report: &mut Diagnostics) -> Read<Self> {
        let Value::Map(map) = &item.value else {
            let found = item.value.type_name();
            let message = format!("Export Items should be a map with type entry, got {found}");
            return Err(diagnostic_at(&item.position, message));
        };
        let mut draft = Self::default();
        read_block(map, BlockKind::Export, report, |field, report| draft.set(field, report));
        Ok(draft)
    }

    fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        let place = || field.node().position.clone();
        match field.name() {
            "stream" => self.subjects.push((subject(field)?, place(), true)),
            "service" => self.subjects.push((subject(field)?, place(), false)),
            "response" | "response_type" => {
                once(field, self.response.is_some(), "Duplicate response type definition")?;
                self.for_services.push(("response", place()));
                self.response = Some(ResponseType::read(field)?);
            }
            "threshold" | "response_threshold" | "response_max_time" | "response_time" => {
                once(field, self.threshold.is_some(), "Duplicate response threshold detected")?;
                self.threshold = Some(threshold(field)?);
                self.for_services.push(("response", place()));
            }
            "accounts" => self.access.accounts = field.texts()?,
            "latency" => {
                self.for_services.push(("latency", place()));
                self.latency = LatencyOptions::read(field, report)?;
            }
            "account_token_position" => self.access.account_token_position = token_position(field)?,
            "allow_trace" => {
                self.allow_trace = field.boolean()?;
                self.for_services.push(("allow_trace", place()));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Compat: an entry that is neither a stream nor a service is nothing, and no error.
    fn finish(self, report: &mut Diagnostics) -> Read<Option<ExportOptions>> {
        if let [_, (second, place, is_stream), ..] = &self.subjects[..] {
            let (now, before) = if *is_stream { ("stream", "service") } else { ("service", "stream") };
            return Err(diagnostic_at(
                place,
                format!("Detected {now} {second:?} but already saw a {before}"),
            ));
        }
        match self.subjects.first() {
            None => Ok(None),
            Some((_, _, true)) => {
                report.errors.extend(self.only_for_services());
                let subject = self.subjects.into_iter().next().map(|(subject, ..)| subject);
                let access = self.access;
                Ok(subject.map(|subject| ExportOptions::Stream(StreamExport { subject, access })))
            }
            Some(_) => Ok(self.into_service()),
        }
    }

    /// Compat: the reference overlooks some of these when they stand before the stream.
    fn only_for_services(&self) -> Vec<Diagnostic> {
        let complain = |(what, place): &(&str, Position)| {
            diagnostic_at(place, format!("Detected {what} directive on non-service"))
        };
        self.for_services.iter().map(complain).collect()
    }

    fn into_service(self) -> Option<ExportOptions> {
        let (subject, ..) = self.subjects.into_iter().next()?;
        let threshold = self.threshold.filter(|&nanos| nanos != 0);
        Some(ExportOptions::Service(ServiceExport {
            subject,
            access: self.access,
            response: self.response.unwrap_or_default(),
            // A negative threshold leaves no time at all.
            threshold: threshold.map(|nanos| Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))),
            latency: self.latency,
            allow_trace: self.allow_trace,
        }))
    }
}

fn once(field: &Field<'_>, is_known: bool, diagnostic: &str) -> Read<()> {
    if is_known { Err(field.diagnostic(diagnostic)) } else { Ok(()) }
}

fn subject(field: &Field<'_>) -> Read<String> {
    let Value::Text(subject) = field.value() else {
        let (kind, found) = (field.name(), field.value().type_name());
        return Err(field.diagnostic(format!("Expected {kind} name to be string, got {found}")));
    };
    Ok(subject.clone())
}

fn threshold(field: &Field<'_>) -> Read<i64> {
    let fail = |found: String| {
        field.diagnostic(format!("Expected response threshold to be a parseable time duration, got {found}"))
    };
    let Value::Text(text) = field.value() else {
        return Err(fail(field.value().type_name().to_owned()));
    };
    duration::parse(text).map_err(|_| fail(format!("{text:?}")))
}

fn token_position(field: &Field<'_>) -> Read<Option<usize>> {
    let position = usize::try_from(field.count_up_to(i64::MAX)?).unwrap_or(usize::MAX);
    Ok((position > 0).then_some(position))
}

impl ResponseType {
    fn read(field: &Field<'_>) -> Read<Self> {
        let Value::Text(text) = field.value() else {
            let found = field.value().type_name();
            return Err(field.diagnostic(format!("Expected response type to be string, got {found}")));
        };
        match text.to_lowercase().as_str() {
            "single" | "singleton" => Ok(ResponseType::Single),
            "stream" => Ok(ResponseType::Stream),
            "chunk" | "chunked" => Ok(ResponseType::Chunked),
            _ => Err(field.diagnostic(format!("Unknown response type: {text:?}"))),
        }
    }
}

impl LatencyOptions {
    /// A subject, or a block of subject and sampling. `None` when the block has been complained
    /// about.
    fn read(field: &Field<'_>, report: &mut Diagnostics) -> Read<Option<Self>> {
        let map = match field.value() {
            Value::Text(subject) => {
                let sampling = LatencySampling::Percent(100);
                return Ok(Some(Self { subject: subject.clone(), sampling }));
            }
            Value::Map(map) => map,
            other => {
                let expected = "Expected latency entry to be a map/struct or string";
                return Err(field.diagnostic(format!("{expected}, got {}", other.type_name())));
            }
        };
        let (mut subject, mut sampling) = (None, LatencySampling::Percent(100));
        let mut is_spoilt = false;
        read_block(map, BlockKind::Latency, report, |field, _| {
            let is_read = match field.name() {
                "subject" => latency_subject(field).map(|text| subject = Some(text)),
                "sampling" => LatencySampling::read(field).map(|read| sampling = read),
                _ => return Ok(false),
            };
            is_spoilt |= is_read.is_err();
            is_read.map(|()| true)
        });
        match subject {
            _ if is_spoilt => Ok(None),
            Some(subject) => Ok(Some(Self { subject, sampling })),
            None => Err(field.diagnostic("Latency subject required, but missing")),
        }
    }
}

fn latency_subject(field: &Field<'_>) -> Read<String> {
    let Value::Text(text) = field.value() else {
        let found = field.value().type_name();
        return Err(field.diagnostic(format!("Expected latency subject to be a string, got {found}")));
    };
    Ok(text.clone())
}

impl LatencySampling {
    fn read(field: &Field<'_>) -> Read<Self> {
        let number = match field.value() {
            Value::Integer(number) => *number,
            Value::Text(text) if text.trim().eq_ignore_ascii_case("headers") => {
                return Ok(LatencySampling::Headers);
            }
            Value::Text(text) => percent(text).map_err(|text| {
                let reason = format!("strconv.Atoi: parsing {text:?}: invalid syntax");
                field.diagnostic(format!("Failed to parse latency sample: {reason}"))
            })?,
            other => {
                let expected = "Expected latency sample to be a string or map/struct";
                return Err(field.diagnostic(format!("{expected}, got {}", other.type_name())));
            }
        };
        match u8::try_from(number) {
            Ok(percent @ 1..=100) => Ok(LatencySampling::Percent(percent)),
            _ => Err(field.diagnostic("bad sampling percentage, should be 1-100")),
        }
    }
}

/// A number with or without a percent sign, or the text that is no number.
pub(super) fn percent(text: &str) -> Result<i64, &str> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    digits.parse().map_err(|_| digits)
}
