//! The stream that consumers belong to, as far as they know it.

use super::LiveConsumer;
use myelin_broker::ServiceShard;
use myelin_jsapi::config::StreamConfig;
use myelin_store::consumer::{DrawnImage, Obsolete, WrittenImage};
use myelin_store::{Filter, Seq, StreamReader};
use std::io;
use std::sync::Arc;

/// Stream to which consumers belong.
pub(in crate::engine) trait OwnStream: Send + Sync {
    /// The configuration in force.
    fn config(&self) -> Arc<StreamConfig>;

    /// A consumer of a group's leader was asked for messages. Must not wait.
    fn note_asked(&self, consumer: &str);

    /// A reader of what is released.
    fn reader(&self) -> StreamReader;

    /// The last message that can be read.
    fn released(&self) -> Seq;

    /// Removes messages that a consumer has settled, unless another one needs them. For shards that
    /// hold no turn.
    fn acknowledged(&self, seqs: Vec<Seq>, shard: &mut ServiceShard);

    /// Removes messages that a consumer has settled, unless another one needs them. For threads
    /// that may wait.
    fn acknowledged_off_shard(&self, seqs: Vec<Seq>);

    /// Removes what the consumers of a work queue have settled and what could not be removed until
    /// now. For threads that may wait.
    ///
    /// # Errors
    /// Words for why it cannot be removed now, either.
    fn remove_all_settled(&self) -> Result<(), String>;

    /// Proposes to its group what consumers have decided. For shards that hold no turn.
    fn propose(&self, shard: &mut ServiceShard);

    /// Has a shard propose to its group what consumers have decided, and what comes until then.
    fn propose_soon(&self);

    /// Has what consumers have decided proposed within so many nanoseconds, with what comes until
    /// then.
    fn propose_within(&self, gathered: i64);

    /// The image of its group's consumers, to be written: for threads that may wait, as the next.
    fn draw_image(&self) -> Option<DrawnImage>;

    /// Hears what became of that image.
    fn image_written(&self, written: WrittenImage) -> io::Result<()>;

    /// Files of images that are needed no more. Named once.
    fn take_obsolete_images(&self) -> Vec<Obsolete>;

    /// Has the messages removed that pass this filter and that no consumer needs any more: one that
    /// wanted them is gone or wants others. `is_awaited`: whoever asks next sees the first slice of
    /// it. For threads that may wait.
    fn consumer_left(&self, filter: Filter, is_awaited: bool);

    /// Hears that a consumer has another configuration. On the thread that answers the API.
    fn consumer_changed(&self, consumer: &Arc<LiveConsumer>);

    /// Hears that a consumer was removed. On the thread that answers the API.
    fn consumer_removed(&self, consumer: &Arc<LiveConsumer>);
}
