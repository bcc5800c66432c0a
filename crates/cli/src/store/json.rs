//! Findings and figures as JSON, one object per line.

use myelin_store::repair::{self, RepairAction};
use myelin_store::verify::{Finding, StoreInfo, StreamDetails, Summary};
use serde_json::{Value, json};

/// A finding. What it does not have is `null`.
pub(super) fn finding(finding: &Finding) -> Value {
    let range = finding.bytes.as_ref();
    let sequences = finding.sequences.as_ref();
    json!({
        "type": "finding",
        "severity": finding.severity.to_string(),
        "stream": finding.stream.as_ref().map(|stream| format!("{:016x}", stream.id.0)),
        "account": finding.stream.as_ref().map(|stream| &stream.account),
        "name": finding.stream.as_ref().map(|stream| &stream.name),
        "file": finding.file.to_string_lossy(),
        "bytes": range.map(|range| json!([range.start, range.end])),
        "sequences": sequences.map(|range| json!([range.start(), range.end()])),
        "what": finding.what,
        "meaning": finding.meaning,
    })
}

/// One thing that a repair did, or would do, or cannot.
pub(super) fn action(action: &RepairAction) -> Value {
    let stream = action.stream.as_ref();
    json!({
        "type": "action",
        "outcome": action.outcome.to_string(),
        "stream": stream.map(|(id, ..)| format!("{:016x}", id.0)),
        "account": stream.map(|(_, account, _)| account),
        "name": stream.map(|(.., name)| name),
        "file": action.file.to_string_lossy(),
        "what": action.what,
    })
}

/// A repair in numbers.
pub(super) fn repaired(summary: &repair::Summary, is_applied: bool) -> Value {
    json!({
        "type": "repair",
        "applied": is_applied,
        "repaired": summary.repaired,
        "lost": summary.lost,
        "left": summary.left,
    })
}

/// The last line of a check.
pub(super) fn summary(summary: &Summary) -> Value {
    json!({
        "type": "summary",
        "sound": summary.is_sound(),
        "streams": summary.streams,
        "locked": summary.locked,
        "segments": summary.segments,
        "messages": summary.messages,
        "damage": summary.damage,
        "suspicious": summary.suspicious,
        "notes": summary.notes,
    })
}

/// A store.
pub(super) fn store(info: &StoreInfo) -> Value {
    let id: String = info.id.iter().map(|byte| format!("{byte:02x}")).collect();
    json!({
        "type": "store",
        "id": id,
        "streams": info.streams.len(),
        "journal_files": info.journal_files,
        "journal_bytes": info.journal_bytes,
        "last_round": info.last_round,
    })
}

/// A stream.
pub(super) fn stream(stream: &StreamDetails) -> Value {
    let totals = stream.totals.as_ref().ok();
    json!({
        "type": "stream",
        "stream": format!("{:016x}", stream.id.0),
        "account": stream.account,
        "name": stream.name,
        "created": stream.created,
        "encrypted": stream.is_encrypted,
        "messages": totals.map(|totals| totals.messages),
        "bytes": totals.map(|totals| totals.bytes),
        "first_seq": totals.map(|totals| totals.first_seq),
        "last_seq": totals.map(|totals| totals.last_seq),
        "subjects": totals.map(|_| stream.subjects),
        "segments": stream.segments,
        "file_bytes": stream.file_bytes,
        "error": stream.totals.as_ref().err(),
    })
}
