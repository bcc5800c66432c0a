//! Services that listen for tests.

use myelin_broker::{Service, ServiceBatch, ServiceShard};
use myelin_stdx::sync::lock;
use std::sync::{Arc, Mutex};

/// Somebody who listens.
pub(super) struct Subscriber;

impl Service for Subscriber {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        msgs.clear();
    }
}

/// Somebody who listens and keeps the headers.
pub(super) struct HeaderRecorder(pub(super) Arc<Mutex<Vec<String>>>);

impl Service for HeaderRecorder {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let headers = msgs.iter().map(|msg| String::from_utf8_lossy(msg.headers).into_owned());
        lock(&self.0).extend(headers);
        msgs.clear();
    }
}

/// A message that somebody has heard.
#[derive(Debug)]
pub(super) struct Heard {
    pub(super) subject: String,
    pub(super) reply: String,
    pub(super) headers: String,
    pub(super) payload: String,
}

/// Somebody who listens and keeps everything.
pub(super) struct Recorder(pub(super) Arc<Mutex<Vec<Heard>>>);

impl Service for Recorder {
    fn serve(&self, msgs: &mut ServiceBatch, _: &mut ServiceShard) {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let heard = msgs.iter().map(|msg| Heard {
            subject: text(msg.subject),
            reply: text(msg.reply),
            headers: text(msg.headers),
            payload: text(msg.payload),
        });
        lock(&self.0).extend(heard);
        msgs.clear();
    }
}
