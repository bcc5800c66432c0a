//! Clusters of whoever asks: a stream that asks for none goes there.

use super::{Call, REQUEST_INFO};
use myelin_wire::header;
use serde::Deserialize;

/// As much of what a server says of who has sent a request as tells where that is.
#[derive(Default, Deserialize)]
struct AskingClient {
    #[serde(default)]
    cluster: String,
    #[serde(default)]
    alts: Vec<String>,
}

impl Call {
    /// The cluster of the server that the client is connected to, and the others, the nearest
    /// first: as that server says, or as it is here.
    pub(super) fn asking_clusters(&self) -> Vec<String> {
        let host = &self.jetstream.host;
        let info = header::get(&self.request.headers, REQUEST_INFO).unwrap_or_default();
        let said: AskingClient = serde_json::from_slice(info).unwrap_or_default();
        // That of a leaf node has no part in this.
        let is_known = self.jetstream.meta().is_some_and(|meta| meta.clusters().contains(&said.cluster));
        match is_known && !said.cluster.is_empty() {
            true => [vec![said.cluster], said.alts].concat(),
            false => [vec![host.cluster()], host.other_clusters()].concat(),
        }
    }
}
