//! Clusters of whoever asks: a stream that asks for none goes there.

use super::Call;
use myelin_broker::ASKING_CLUSTER;
use myelin_wire::header;

impl Call {
    /// The cluster of the server that the client is connected to, and the others, the nearest
    /// first. What has come over a gateway says where from.
    ///
    /// Compat: which clusters are near to the client is for its own server to say; here those that
    /// are near to the one that decides.
    pub(super) fn asking_clusters(&self) -> Vec<String> {
        let host = &self.jetstream.host;
        let mut all = [vec![host.cluster()], host.other_clusters()].concat();
        // The gateway of this server need not be there yet.
        let known = self.jetstream.meta().map(|meta| meta.clusters()).unwrap_or_default();
        let further = known.into_iter().filter(|cluster| !all.contains(cluster)).collect::<Vec<_>>();
        all.extend(further);
        if let Some(said) = header::get(&self.request.headers, ASKING_CLUSTER) {
            let said = String::from_utf8_lossy(said).into_owned();
            all.retain(|cluster| *cluster != said);
            all.insert(0, said);
        }
        all
    }
}
