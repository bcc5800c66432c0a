//! Changes of `cluster{}`.

use super::{Changes, NotReloadable};
use crate::options::{ClusterOptions, ListenerOptions, Port};

impl Changes<'_> {
    /// Everything of a cluster may change but its address.
    pub(super) fn cluster(&mut self, bound: Option<u16>) {
        let (old, new) = (&self.old.cluster, &self.new.cluster);
        let host = |cluster: &ClusterOptions| match &cluster.listener.host {
            host if *host == ListenerOptions::default().host && cluster.listener.port.is_none() => {
                String::new()
            }
            host => host.clone(),
        };
        let port = |cluster: &ClusterOptions| match cluster.listener.port {
            // A port that the system chose stays what it is.
            Some(Port::Random) => i32::from(bound.unwrap_or(0)),
            port => port.map_or(0, Port::to_number),
        };
        if host(old) != host(new) {
            let (field, old, new) = ("cluster host", host(old), host(new));
            return self.refuse(NotReloadable::Field { field, old, new });
        }
        if port(old) != port(new) {
            let (field, old, new) = ("cluster port", port(old).to_string(), port(new).to_string());
            return self.refuse(NotReloadable::Field { field, old, new });
        }
        // Routes are told of by themselves.
        let (routes, listener) = (old.routes.clone(), old.listener.clone());
        if *old != (ClusterOptions { routes, listener, ..new.clone() }) {
            self.report("Reloaded: cluster".to_owned());
        }
    }

    pub(super) fn routes(&mut self) {
        if self.old.cluster.routes != self.new.cluster.routes {
            self.report("Reloaded: cluster routes".to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{BoundPorts, changes};
    use crate::load_text;
    use crate::options::Options;

    fn options(text: &str) -> Options {
        load_text(text.as_bytes(), &|_| None).unwrap_or_else(|error| panic!("{text}: {error}")).options
    }

    /// As nats-server 2.15.2 wrote them.
    #[test]
    fn of_a_cluster_the_address_stays() {
        let block = |port: &str, more: &str| format!("cluster {{ name: C, port: {port}\n{more} }}");
        let route = "routes: ['nats://h:1']";
        for (old, new, lines) in [
            (block("6222", ""), block("6222", ""), ""),
            (block("-1", ""), block("6222", ""), ""),
            (block("6222", ""), block("6222", "pool_size: 5"), "Reloaded: cluster"),
            (block("6222", ""), block("6222", "compression: s2_fast"), "Reloaded: cluster"),
            (block("6222", ""), block("6222", route), "Reloaded: cluster routes"),
            (
                block("6222", route),
                block("6222", "no_advertise: true"),
                "Reloaded: cluster; Reloaded: cluster routes",
            ),
        ] {
            assert_eq!(compare_clusters(&old, &new), Ok(lines.to_owned()), "{old} -> {new}");
        }
        for (new, text) in [
            (block("6223", ""), "cluster port: old=6222, new=6223"),
            (block("6222", "host: h"), "cluster host: old=0.0.0.0, new=h"),
            ("port: 4222".to_owned(), "cluster host: old=0.0.0.0, new="),
        ] {
            let refused = Err(format!("config reload not supported for {text}"));
            assert_eq!(compare_clusters(&block("6222", ""), &new), refused, "{new}");
        }
    }

    fn compare_clusters(old: &str, new: &str) -> Result<String, String> {
        let bound = BoundPorts { client: 4222, websocket: None, mqtt: None, cluster: Some(6222), leaf: None };
        let lines = changes(&options(old), &options(new), bound).map_err(|error| error.to_string())?;
        let cluster: Vec<_> =
            lines.iter().filter(|line| line.starts_with("Reloaded: cluster")).cloned().collect();
        Ok(cluster.join("; "))
    }
}
