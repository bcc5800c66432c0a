//! The ports file: which addresses a server listens on, for tools that started it on random ports.

use crate::os_error;
use crate::process;
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

/// Scheme and address of a listener.
pub(crate) type Listener = (&'static str, SocketAddr);

/// Listeners of a server.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listeners {
    pub(crate) client: Listener,
    pub(crate) monitoring: Option<Listener>,
    pub(crate) cluster: Option<Listener>,
    pub(crate) websocket: Option<Listener>,
    pub(crate) leaf_nodes: Option<Listener>,
}

/// Writes `<executable>_<pid>.ports` into `dir` and returns its path, for [`remove`] at the end.
///
/// # Errors
/// When the folder does not exist or cannot be written; the text is for the log.
pub(crate) fn write(dir: &Path, listeners: &Listeners) -> Result<PathBuf, String> {
    let path = dir.join(format!("{}_{}.ports", process::called(), std::process::id()));
    let Listeners { client, monitoring, cluster, websocket, leaf_nodes } = *listeners;
    let mut ports = json!({ "nats": [url(client)] });
    let others = [
        ("monitoring", monitoring),
        ("cluster", cluster),
        ("websocket", websocket),
        ("leafnodes", leaf_nodes),
    ];
    for (name, listener) in others {
        if let Some(listener) = listener {
            ports[name] = json!([url(listener)]);
        }
    }
    match std::fs::write(&path, ports.to_string()) {
        Ok(()) => Ok(path),
        Err(error) => {
            let (path, error) = (path.display(), os_error::words(&error));
            Err(format!("Error writing ports file ({path}): open {path}: {error}"))
        }
    }
}

/// Removes the file; a file that is gone already is fine.
pub(crate) fn remove(path: &Path) {
    let _ = std::fs::remove_file(path);
}

/// An address that a client on this machine can use: one that stands for all addresses becomes
/// loopback.
fn url((scheme, mut address): Listener) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(Ipv4Addr::LOCALHOST.into());
    }
    format!("{scheme}://{address}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_names_reachable_addresses() {
        let dir = tempfile::tempdir().unwrap();
        let path = write(
            dir.path(),
            &Listeners {
                client: ("nats", ([0, 0, 0, 0], 4222).into()),
                monitoring: Some(("http", ([127, 0, 0, 2], 8222).into())),
                cluster: Some(("tls", ([0, 0, 0, 0], 6222).into())),
                websocket: Some(("wss", ([0, 0, 0, 0], 443).into())),
                leaf_nodes: Some(("nats", ([0, 0, 0, 0], 7422).into())),
            },
        )
        .unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            r#"{"nats":["nats://127.0.0.1:4222"],"monitoring":["http://127.0.0.2:8222"],"cluster":["tls://127.0.0.1:6222"],"websocket":["wss://127.0.0.1:443"],"leafnodes":["nats://127.0.0.1:7422"]}"#
        );
        remove(&path);
        assert!(!path.exists());
        remove(&path);
    }
}
