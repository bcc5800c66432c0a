//! A stream as its consumers know it.

use super::LiveStream;
use crate::engine::consumers::{LiveConsumer, OwnStream};
use myelin_broker::ServiceShard;
use myelin_jsapi::config::StreamConfig;
use myelin_store::{Seq, StreamReader};
use std::sync::Arc;

impl OwnStream for LiveStream {
    fn config(&self) -> Arc<StreamConfig> {
        self.view.config()
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

    fn propose_off_shard(&self) {
        self.propose_off_shard();
    }

    fn reconcile(&self) {
        self.reconcile();
    }

    fn consumer_changed(&self, consumer: &Arc<LiveConsumer>) {
        self.downstreams.consumer_changed(consumer);
    }

    fn consumer_removed(&self, consumer: &Arc<LiveConsumer>) {
        self.downstreams.consumer_removed(consumer);
    }
}
