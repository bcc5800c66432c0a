//! The configuration of the server under load, and the certificate that it shows.
//!
//! Whatever bounds how long or how much a server may remember is small here, so that all of it has
//! turned over by the third round of two minutes: closed clients, batches without an end, requests
//! without an answer.

use crate::Error;
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

/// Closed clients that are remembered. Ten connections a second have pushed them all out after ten
/// seconds.
pub(crate) const CLOSED_CLIENTS: u32 = 100;

/// Where everything listens.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ports {
    pub(crate) clients: SocketAddr,
    pub(crate) websocket: SocketAddr,
    pub(crate) monitor: SocketAddr,
}

impl Ports {
    /// Three that are free now.
    pub(crate) fn free() -> Result<Self, Error> {
        // All are held until all are chosen, so that they differ.
        let held = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let [clients, websocket, monitor] = held;
        Ok(Self {
            clients: clients?.local_addr()?,
            websocket: websocket?.local_addr()?,
            monitor: monitor?.local_addr()?,
        })
    }
}

/// Variant between which a reload goes back and forth: nobody who stays connected may notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variant {
    /// The settings of the start.
    Plain,
    /// Another limit, and one account more, with imports.
    Changed,
}

/// The configuration's text; `folder` holds certificates and the store.
pub(crate) fn text(ports: Ports, folder: &Path, variant: Variant) -> String {
    let Ports { clients, websocket, monitor } = ports;
    let folder = folder.display();
    let (max_control_line, more) = match variant {
        Variant::Plain => (4096, ""),
        Variant::Changed => (
            5000,
            "C { users: [ { user: c, password: p } ], imports: [\n\
             { service: { account: A, subject: \"svc.>\" } }, { stream: { account: A, subject: \"feed.>\" } } ] }\n",
        ),
    };
    format!(
        r#"server_name: soak
listen: "{clients}"
http: "{monitor}"
max_closed_clients: {CLOSED_CLIENTS}
max_control_line: {max_control_line}
max_pending: 4MB
write_deadline: "2s"
tls {{ cert_file: "{folder}/server.pem", key_file: "{folder}/server.key", timeout: 3 }}
allow_non_tls: true
websocket {{ listen: "{websocket}", no_tls: true, compression: true }}
jetstream {{
  store_dir: "{folder}/store", max_memory_store: 1GB, max_file_store: 8GB
  limits {{ batch {{ timeout: "2s" }} }}
}}
system_account: SYS
no_auth_user: a
accounts {{
  SYS {{ users: [ {{ user: sys, password: p }} ] }}
  A {{
    jetstream: enabled
    users: [ {{ user: a, password: p }} ]
    exports: [ {{ service: "svc.>", threshold: "1s" }}, {{ stream: "feed.>" }} ]
    mappings {{ "mapped.*": "visit.mapped.$1" }}
  }}
  B {{
    users: [ {{ user: b, password: p }} ]
    imports: [ {{ service: {{ account: A, subject: "svc.>" }} }}, {{ stream: {{ account: A, subject: "feed.>" }} }} ]
  }}
  {more}
}}
"#
    )
}

/// Writes `ca.pem`, and `server.pem` and `server.key` for `localhost` signed by it.
pub(crate) fn write_certificates(folder: &Path) -> Result<(), Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_key = KeyPair::generate()?;
    fs::write(folder.join("ca.pem"), params.self_signed(&authority_key)?.pem())?;
    let authority = Issuer::new(params, authority_key);
    let key = KeyPair::generate()?;
    let names = vec!["localhost".to_owned(), "127.0.0.1".to_owned()];
    fs::write(folder.join("server.pem"), CertificateParams::new(names)?.signed_by(&key, &authority)?.pem())?;
    fs::write(folder.join("server.key"), key.serialize_pem())?;
    Ok(())
}
