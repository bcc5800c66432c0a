//! A stream as its consumers know it.

use super::LiveStream;
use crate::engine::consumers::{LiveConsumer, OwnStream};
use myelin_broker::ServiceShard;
use myelin_jsapi::config::StreamConfig;
use myelin_store::consumer::{DrawnImage, Obsolete, WrittenImage};
use myelin_store::{Filter, Seq, StreamReader};
use std::io;
use std::sync::Arc;

impl OwnStream for LiveStream {
    fn config(&self) -> Arc<StreamConfig> {
        self.view.config()
    }

    fn note_asked(&self, consumer: &str) {
        self.note_asked(consumer);
    }

    fn reader(&self) -> StreamReader {
        self.view.reader()
    }

    fn released(&self) -> Seq {
        self.view.released()
    }

    fn acknowledged(&self, seqs: Vec<Seq>, shard: &mut ServiceShard) {
        self.acknowledged(seqs, shard);
    }

    fn acknowledged_off_shard(&self, seqs: Vec<Seq>) {
        self.acknowledged_off_shard(seqs);
    }

    fn remove_all_settled(&self) -> Result<(), String> {
        self.remove_all_settled()
    }

    fn propose(&self, shard: &mut ServiceShard) {
        self.propose(shard);
    }

    fn propose_soon(&self) {
        self.wake();
    }

    fn propose_within(&self, gathered: i64) {
        self.propose_within(gathered);
    }

    fn draw_image(&self) -> Option<DrawnImage> {
        self.lock_core()?.parts().0.draw_image()
    }

    fn image_written(&self, written: WrittenImage) -> io::Result<()> {
        let Some(mut guard) = self.lock_core() else { return Ok(()) };
        guard.parts().0.image_written(written)
    }

    fn take_obsolete_images(&self) -> Vec<Obsolete> {
        let guard = self.lock_core();
        guard.map(|mut guard| guard.parts().0.take_obsolete_images()).unwrap_or_default()
    }

    fn consumer_left(&self, filter: Filter, is_awaited: bool) {
        self.consumer_left(filter, is_awaited);
    }

    fn consumer_changed(&self, consumer: &Arc<LiveConsumer>) {
        self.downstreams.consumer_changed(consumer);
    }

    fn consumer_removed(&self, consumer: &Arc<LiveConsumer>) {
        self.downstreams.consumer_removed(consumer);
    }
}
