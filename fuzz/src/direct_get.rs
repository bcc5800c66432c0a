//! The body of a direct get.
//!
//! Promised for any bytes: reading does not panic; where they are JSON by the strict rules the
//! fields and the verdict are those of a plain walk over the document; and a small stream answers
//! with no more than it has, ending by itself. What is only JSON by Go's lax rules the twin has no
//! opinion on, nor on times, which have tests of their own.

use myelin_jsapi::get_request::GetRequest;
use myelin_store::{Admission, NewMessage, Stream, StreamConfig, Wait};
use myelin_streams::read::{AnswerProgress, Readable, Requests};
use myelin_wire::message_buf::{MessageBuf, MessageRef};
use serde_json::Value;

use crate::document::Document;

const MESSAGES: usize = 5;

/// Any bytes as the body of a request.
pub fn direct_get(data: &[u8]) {
    let mut request = GetRequest::default();
    let verdict = request.read(data);
    if let Ok(document) = serde_json::from_slice::<Document>(data)
        && let Some(expected) = twin(document)
    {
        assert_eq!(verdict.is_ok(), expected.is_some(), "verdict");
        if let Some(expected) = expected {
            let untimed = GetRequest { start_time: None, up_to_time: None, ..request.clone() };
            assert_eq!(untimed, expected, "fields");
        }
    }
    let again = request.clone();
    if verdict.is_ok() {
        assert!(request.read(data).is_ok() && request == again, "nothing is left of what was read before");
    }
    answer(data);
}

/// Asks a small stream, in the smallest slices.
fn answer(body: &[u8]) {
    let mut stream = Stream::in_memory(StreamConfig::default(), 1, 1);
    let subjects: [&[u8]; MESSAGES] = [b"a", b"b", b"a.b", b"a", b"c"];
    let message = |subject| NewMessage { subject, timestamp: 1, ..NewMessage::default() };
    let messages = subjects.map(message);
    stream.append(&messages, Admission::Check, 1, &mut Vec::new()).expect("memory takes a few messages");
    let readable = Readable { name: "S".into(), reader: stream.reader(), max_bytes: 1 << 20 };
    let msg =
        MessageRef { subject: b"$JS.API.DIRECT.GET.S", reply: b"r", payload: body, ..MessageRef::default() };
    let mut out = MessageBuf::default();
    if let Some(mut batch) = Requests::default().ask(&readable, &msg, &mut out) {
        assert!(out.is_empty(), "what is answered is not gone on with");
        while batch.fill(&mut out, 1, Wait::Allowed) != AnswerProgress::Done {
            assert!(out.len() <= MESSAGES, "every slice has a message");
        }
    }
    assert!((1..=MESSAGES + 1).contains(&out.len()), "an answer, and no more than there is");
}

/// The plain twin of [`GetRequest::read`]: `None` where it has no opinion, within it the request or
/// a refusal.
fn twin(document: Document) -> Option<Option<GetRequest>> {
    let fields = match document {
        Document::Null => return Some(Some(GetRequest::default())),
        Document::Object(fields) => fields,
        Document::Other => return Some(None),
    };
    let mut request = GetRequest::default();
    let mut is_good = true;
    for (name, value) in fields {
        let name = name.replace('ſ', "s").replace('\u{212a}', "k").to_ascii_lowercase();
        match &*name {
            "start_time" | "up_to_time" if value.is_string() => return None,
            "start_time" | "up_to_time" => is_good &= value.is_null(),
            "multi_last" => is_good &= texts(&value).map(|texts| request.multi_last = texts).is_some(),
            _ if value.is_null() => {}
            _ => is_good &= set(&mut request, &name, &value).is_some(),
        }
    }
    Some(is_good.then_some(request))
}

fn texts(value: &Value) -> Option<Vec<Vec<u8>>> {
    let text = |value: &Value| match value {
        Value::Null => Some(Vec::new()),
        value => value.as_str().map(|text| text.as_bytes().to_vec()),
    };
    match value {
        Value::Null => Some(Vec::new()),
        value => value.as_array()?.iter().map(text).collect(),
    }
}

fn set(request: &mut GetRequest, name: &str, value: &Value) -> Option<()> {
    match name {
        "seq" => request.seq = value.as_u64()?,
        "up_to_seq" => request.up_to_seq = value.as_u64()?,
        "batch" => request.batch = value.as_i64()?,
        "max_bytes" => request.max_bytes = value.as_i64()?,
        "last_by_subj" => request.last_for = value.as_str()?.as_bytes().to_vec(),
        "next_by_subj" => request.next_for = value.as_str()?.as_bytes().to_vec(),
        "no_hdr" => request.no_headers = value.as_bool()?,
        _ => {}
    }
    Some(())
}
