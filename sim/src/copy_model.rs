//! Knowledge of a mirror, or of a stream that has others as sources.

use serde_json::{Value, json};

use crate::model::Status;

/// A stream whose messages come from others.
#[derive(Debug)]
pub(crate) struct CopyModel {
    /// One, if it is a mirror.
    pub(crate) origins: Vec<String>,
    pub(crate) is_mirror: bool,
    pub(crate) status: Status,
    /// Which of the server's lives it was made in.
    pub(crate) made_in: u64,
    pub(crate) is_in_memory: bool,
    /// Whether bytes of it, or of what it copies, may have been changed on the disk.
    pub(crate) is_damaged: bool,
}

impl CopyModel {
    /// A server died: what is in memory is gone.
    pub(crate) fn server_died(&mut self) {
        if self.is_in_memory {
            self.status = Status::Gone;
        }
    }

    /// The configuration.
    pub(crate) fn body(&self, name: &str) -> Value {
        let mut body = json!({
            "name": name,
            "retention": "limits",
            "storage": if self.is_in_memory { "memory" } else { "file" },
            "num_replicas": 1,
            "allow_direct": true,
            "allow_msg_ttl": true,
        });
        if self.is_mirror {
            body["mirror"] = json!({ "name": self.origins[0] });
        } else {
            let sources = self.origins.iter().map(|origin| json!({ "name": origin }));
            body["sources"] = sources.collect();
        }
        body
    }
}
