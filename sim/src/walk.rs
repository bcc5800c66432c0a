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
        return walk_damaged(name, reader, turn, see);
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
    turn: u64,
    mut see: impl FnMut(&Message<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let (mut cursor, mut from, mut buffer) = (reader.cursor(Filter::All, 1), 1, Vec::new());
    loop {
        match cursor.next(Wait::Allowed) {
            Ok(Some(message)) => {
                let seq = message.seq;
                if seq % LOOKED_UP == turn % LOOKED_UP
                    && let Ok(Some(found)) = reader.get(seq, Wait::Allowed, &mut buffer)
                    && found != message
                {
                    return Err(format!("{name}: {seq} is read as {message:?}, looked up as {found:?}"));
                }
                see(&message)?;
                from = seq + 1;
            }
            Ok(None) => return Ok(()),
            Err(_) => {
                let next = reader.next_seq(&Filter::All, from);
                let next = next.map_err(|error| format!("{name}: no message behind {from}: {error}"))?;
                let Some(seq) = next else { return Ok(()) };
                if let Ok(Some(message)) = reader.get(seq, Wait::Allowed, &mut buffer) {
                    see(&message)?;
                }
                cursor.skip(seq);
                from = seq + 1;
            }
        }
    }
}
