//! Reading a small stream in every way, in memory and in files.

use std::sync::Arc;

use myelin_jsapi::get_request::GetRequest;
use myelin_store::entropy::SeededEntropy;
use myelin_store::{Admission, NewMessage, Store, StoreOptions, Stream, StreamConfig, Timestamp, Wait};
use myelin_wire::message_buf::{MessageBuf, MessageRef};

use super::*;

mod cold;
mod others;
mod replies;
mod twin;

/// Messages of an answer: headers and payload of each.
type Answer = Vec<(String, String)>;

/// A stream with its ground.
struct Bench {
    stream: Stream,
    disk: cold::Cold,
    store: Option<Store>,
}

impl Bench {
    fn in_memory() -> Self {
        let stream = Stream::in_memory(StreamConfig::default(), 1, 1);
        Self { stream, disk: cold::Cold::default(), store: None }
    }

    fn in_files() -> Self {
        let disk = cold::Cold::default();
        let options = StoreOptions { journal_file_bytes: 1 << 20, ..StoreOptions::new("/store") };
        let entropy = Arc::new(SeededEntropy::new(1));
        let (store, _) = Store::open(Arc::new(disk.clone()), options, entropy).unwrap();
        let config = StreamConfig { segment_bytes: Some(600), ..StreamConfig::default() };
        let stream = store.create_stream("A", "S", b"", config, 1).unwrap();
        Self { stream, disk, store: Some(store) }
    }

    fn put(&mut self, subject: &str, headers: &str, payload: &str, timestamp: Timestamp) {
        let (subject, headers) = (subject.as_bytes(), headers.as_bytes());
        let payload = payload.as_bytes();
        let message = NewMessage { subject, headers, payload, timestamp, ..NewMessage::default() };
        let mut outcomes = Vec::new();
        self.stream.append(&[message], Admission::Check, timestamp, &mut outcomes).unwrap();
        outcomes[0].unwrap();
        // The first messages of a stream in files wait for this.
        assert!(self.store.as_ref().is_none_or(|store| store.journal().round(&|| 1).is_ok()));
    }

    fn delete(&mut self, seq: Seq) {
        self.stream.delete(seq, 1).unwrap();
    }

    fn readable(&self) -> Readable {
        Readable { name: "S".into(), reader: self.stream.reader(), max_bytes: 64 << 20 }
    }

    /// Asks as a client does, and takes the answer in slices of this size. What would wait is gone
    /// on with where it may.
    fn ask_in_slices(&self, subject: &str, headers: &str, body: &[u8], slice: usize) -> Answer {
        let (mut out, mut answer) = (MessageBuf::default(), Vec::new());
        let subject = format!("$JS.API.DIRECT.GET.S{subject}");
        let msg = MessageRef {
            subject: subject.as_bytes(),
            reply: b"in.box",
            headers: headers.as_bytes(),
            payload: body,
            ..MessageRef::default()
        };
        let mut batch = Requests::default().ask(&self.readable(), &msg, &mut out);
        take(&mut out, &mut answer);
        while let Some(some) = &mut batch {
            let mut progress = some.fill(&mut out, slice, Wait::Forbidden);
            if progress == AnswerProgress::Waits {
                progress = some.fill(&mut out, slice, Wait::Allowed);
            }
            assert!(out.bytes() < slice + 1000, "a slice is hardly larger than asked for");
            take(&mut out, &mut answer);
            match progress {
                AnswerProgress::Done => batch = None,
                AnswerProgress::More => {}
                AnswerProgress::Waits => panic!("it may wait"),
            }
        }
        answer
    }

    fn ask(&self, body: &str) -> Answer {
        self.ask_in_slices("", "", body.as_bytes(), usize::MAX / 2)
    }
}

fn take(out: &mut MessageBuf, answer: &mut Answer) {
    for msg in out.iter() {
        assert_eq!((msg.subject, msg.reply), (&b"in.box"[..], &b""[..]));
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        answer.push((text(msg.headers), text(msg.payload)));
    }
    out.clear();
}

#[test]
fn a_batch_may_go_to_another_thread() {
    fn goes<T: Send + 'static>() {}
    goes::<SlicedAnswer>();
    goes::<Readable>();
    goes::<Requests>();
}
