//! Header blocks. The first line of the input is the key, the rest the block.
//!
//! Promised: looking up a key in any bytes says what a plain split into lines says, and the subject
//! in the server's own 503 is found again.

use myelin_wire::{encode, header};

/// Any bytes as a header block in which a client looks something up.
pub fn headers(data: &[u8]) {
    let (key, block) = split_line(data);
    assert_eq!(header::get(block, key), get_plainly(block, key));
    answer_names_the_subject(key);
}

fn split_line(data: &[u8]) -> (&[u8], &[u8]) {
    match data.iter().position(|byte| *byte == b'\n') {
        Some(end) => (&data[..end], &data[end + 1..]),
        None => (data, &[]),
    }
}

/// The twin: the first of the lines behind the first that begins with the key and a colon.
fn get_plainly<'a>(block: &'a [u8], key: &[u8]) -> Option<&'a [u8]> {
    if key.is_empty() {
        return None;
    }
    let mut lines = lines(block).into_iter().skip(1);
    let value = lines.find_map(|line| line.strip_prefix(key)?.strip_prefix(b":"))?;
    let blanks = value.iter().take_while(|byte| **byte == b' ').count();
    Some(&value[blanks..])
}

fn lines(mut rest: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while let Some(end) = (1..rest.len()).find(|at| rest[at - 1..=*at] == *b"\r\n") {
        lines.push(&rest[..end - 1]);
        rest = &rest[end + 1..];
    }
    lines.push(rest);
    lines
}

/// Subjects come from control lines: no blanks, no line ends.
fn answer_names_the_subject(subject: &[u8]) {
    if subject.is_empty() || subject.iter().any(|byte| b" \t\r\n".contains(byte)) {
        return;
    }
    let mut frame = Vec::new();
    encode::no_responders(&mut frame, b"inbox", b"1", subject);
    let block = frame.windows(2).position(|pair| pair == b"\r\n").map_or(&[][..], |end| &frame[end + 2..]);
    assert_eq!(header::get(block, b"Nats-Subject"), Some(subject));
}
