//! A manifest and its base against the count of everything that they cover.

use crate::base::{self, BaseReader};
use crate::damage::Damage;
use crate::manifest::Manifest;
use crate::recovery::base_name;
use crate::segment::SubjectChange;

use super::Finding;
use super::apply::Counting;
use super::state::{Sum, Tally};
use super::stream::Checking;

const DISAGREE: &str = "The server would show another state than that of the messages it has.";
const REBUILT: &str = "The next start makes the index again from the segments; no message is lost.";

/// Checks what stands in the manifest and in its base. `counting` has reached what it covers.
pub(super) fn check(checking: &mut Checking<'_, '_>, manifest: &Manifest, counting: &Counting) {
    if counting.is_trusted {
        totals(checking, manifest, counting);
    }
    let Some(listed) = manifest.base else { return };
    let name = base_name(listed.number);
    match read(checking, manifest, &name, counting) {
        Ok(None) => {}
        Ok(Some(what)) => checking.emit(Finding::damage(checking.path(&name), what, DISAGREE)),
        Err(damage) => checking.emit(Finding::damage(checking.path(&name), damage.to_string(), REBUILT)),
    }
}

fn totals(checking: &mut Checking<'_, '_>, manifest: &Manifest, counting: &Counting) {
    let (told, state) = (&manifest.totals, &counting.state);
    let path = checking.path(crate::manifest::COPIES[0]);
    let told = (told.first_seq, told.last_seq, told.messages, told.bytes);
    let counted = (state.first_seq, state.last_seq, state.messages, state.bytes);
    if told != counted {
        let what = format!("it says {}, counted were {}", Sum(told), Sum(counted));
        checking.emit(Finding::damage(&*path, what, DISAGREE));
    }
    let there = manifest.deleted.iter().find_map(|range| state.any_in(*range.start(), *range.end()));
    if let Some(seq) = there {
        let finding = Finding::damage(&*path, "it says that a message was deleted that is there", DISAGREE);
        checking.emit(finding.messages(seq, seq));
    }
    let span = state.last_seq.saturating_add(1).saturating_sub(state.first_seq);
    if manifest.deleted.count() != span.saturating_sub(state.messages) {
        let what = "its deleted sequences are not those without a message";
        checking.emit(Finding::damage(&*path, what, DISAGREE));
    }
    for entry in &manifest.segments {
        let counted = state.count_in(entry.first_seq, entry.last_seq);
        if counted != (entry.messages, entry.bytes) {
            let what = format!("it says that segment {} shows other messages than it has", entry.no.0);
            checking
                .emit(Finding::suspicious(&*path, what, DISAGREE).messages(entry.first_seq, entry.last_seq));
        }
    }
}

/// Reads a base and reports what it says that is not so; nothing if it is right.
fn read(
    checking: &Checking<'_, '_>,
    manifest: &Manifest,
    name: &str,
    counting: &Counting,
) -> Result<Option<String>, Damage> {
    let file = checking.open(name)?;
    let header = base::BaseHeader::read(&*file)?;
    if header.stream != checking.id() || header.covers != manifest.covers {
        return Err(Damage::Content("base of another state"));
    }
    let listed = manifest.base.map(|base| (base.generation, base.file_len));
    if listed != Some((header.generation, file.len()?)) {
        return Err(Damage::Content("base that the manifest does not list"));
    }
    let cipher = header.encryption.zip(checking.key.as_ref());
    let cipher = cipher.map(|(kind, key)| key.file_cipher(kind, "index", header.covers.0, &header.salt));
    if header.encryption.is_some() && cipher.is_none() {
        return base::check_structure(&*file, &header).map(|_| None);
    }
    let mut reader = BaseReader::open(file, &header, header.context(cipher))?;
    let state = &counting.state;
    let tallies = if counting.is_trusted { state.tallies() } else { Default::default() };
    let (mut wrong, mut subjects) = (None, 0);
    while let Some(changes) = reader.next_subjects()? {
        for change in changes.iter().filter(|change| counting.is_trusted && change.count > 0) {
            subjects += 1;
            let tally = tallies.get(change.text).copied().unwrap_or_default();
            if wrong.is_none() && !is_told(&change, tally) {
                let subject = String::from_utf8_lossy(change.text);
                wrong =
                    Some(format!("it says that {subject} has {} messages, counted: {tally}", change.count));
            }
        }
    }
    if counting.is_trusted && subjects != tallies.len() {
        wrong.get_or_insert_with(|| format!("it has {subjects} subjects, counted were {}", tallies.len()));
    }
    while let Some(expiries) = reader.next_expiries()? {
        let differs = |(seq, at): &(u64, i64)| state.expiries.get(seq).is_some_and(|known| known != at);
        if counting.is_trusted && wrong.is_none() && expiries.iter().any(differs) {
            wrong = Some("a lifetime in it is not that of the message".to_owned());
        }
    }
    Ok(wrong)
}

/// Whether a tally is what a base or an index says.
pub(super) fn is_told(change: &SubjectChange<'_>, tally: Tally) -> bool {
    let first = if change.first_exact { change.first == tally.first } else { change.first <= tally.first };
    let last = if change.last_exact { change.last == tally.last } else { change.last >= tally.last };
    change.count == tally.count && first && last
}
