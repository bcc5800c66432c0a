//! Orders to the server's own thread.

use tokio::sync::mpsc::UnboundedSender;

/// To be told what came of a reload.
pub(crate) type Reloaded = Box<dyn FnOnce(Result<(), String>) + Send>;

/// The way to the server's own thread: each order is a reload.
pub(crate) type Orders = UnboundedSender<Reloaded>;
