//! Contents of a stream, in order: read as consumers read it, and some of it as clients
//! read single messages.

use myelin_store::{Filter, Message, StreamReader, Wait};

/// One message in so many is read by its sequence as well.
const LOOKED_UP: u64 = 8;

/// Shows each message of a stream. Where it is damaged, what cannot be read is passed over. `turn`
/// says which messages are read twice.
pub(crate) fn walk(
    name: &str,
    reader: &StreamReader,
    is_damaged: bool,
    turn: u64,
    mut see: impl FnMut(&Message<'_>) -> Result<(), String>,
) -> Result<(), String> {
    if is_damaged {
        return walk_damaged(name, reader, see);
    }
    let (mut cursor, mut buffer) = (reader.cursor(Filter::All, 1), Vec::new());
    loop {
        let from = cursor.position();
        let message = cursor.next(Wait::Allowed);
        let message = message.map_err(|error| format!("{name}: no message from {from} on: {error}"))?;
        let Some(message) = message else { return Ok(()) };
        let seq = message.seq;
        if seq % LOOKED_UP == turn % LOOKED_UP {
            let next = reader.next_seq(&Filter::All, from);
            let next = next.map_err(|error| format!("{name}: no message behind {from}: {error}"))?;
            let found = reader.get(seq, Wait::Allowed, &mut buffer);
            let found = found.map_err(|error| format!("{name}: {seq} cannot be read: {error}"))?;
            if next != Some(seq) || found.as_ref() != Some(&message) {
                return Err(format!("{name}: {seq} is read as {message:?}, looked up as {next:?} {found:?}"));
            }
        }
        see(&message)?;
    }
}

fn walk_damaged(
    name: &str,
    reader: &StreamReader,
    mut see: impl FnMut(&Message<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let (mut from, mut buffer) = (1, Vec::new());
    loop {
        let next = reader.next_seq(&Filter::All, from);
        let next = next.map_err(|error| format!("{name}: no message behind {from}: {error}"))?;
        let Some(seq) = next else { return Ok(()) };
        from = seq + 1;
        if let Ok(Some(message)) = reader.get(seq, Wait::Allowed, &mut buffer) {
            see(&message)?;
        }
    }
}
