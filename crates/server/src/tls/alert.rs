//! Alert for a peer whose certificate turns out to be no good when the handshake has come to its
//! end here: `bad_certificate`, as if it had come in the middle.
//!
//! Whether a certificate was revoked is asked while nothing computes, so rustls has finished by
//! then, and it sends no alert that others ask for. Its last words must not have been sent.

use rustls::crypto::cipher::{AeadKey, Iv, MessageEncrypter, OutboundChunks, OutboundPlainMessage};
use rustls::{
    AlertDescription, ConnectionTrafficSecrets, ContentType, ProtocolVersion, ServerConnection,
    SupportedCipherSuite,
};

/// How bad an alert is: this one ends the connection.
const FATAL: u8 = 2;

/// The record with the alert; nothing where the configuration does not let keys be taken out
/// (`ServerConfig::enable_secret_extraction`).
pub(crate) fn bad_certificate(mut connection: ServerConnection) -> Option<Vec<u8>> {
    let suite = connection.negotiated_cipher_suite()?;
    let mut unsent = Vec::new();
    while connection.wants_write() {
        connection.write_tls(&mut unsent).ok()?;
    }
    let alert = [FATAL, u8::from(AlertDescription::BadCertificate)];
    match suite {
        // Our half is not encrypted yet, unless the session is an old one: then it was the first to
        // be.
        SupportedCipherSuite::Tls12(_) if !unsent.is_empty() => {
            Some([&[u8::from(ContentType::Alert), 3, 3, 0, 2][..], &alert].concat())
        }
        SupportedCipherSuite::Tls12(suite) => {
            let (sequence, secrets) = connection.dangerous_extract_secrets().ok()?.tx;
            let (key, nonce) = parts(secrets)?;
            let (fixed, explicit) = nonce.as_ref().split_at(suite.aead_alg.key_block_shape().fixed_iv_len);
            record(&mut *suite.aead_alg.encrypter(key, fixed, explicit), &alert, sequence)
        }
        // Tickets are all that these keys have encrypted, and they are not sent.
        SupportedCipherSuite::Tls13(suite) => {
            let (_, secrets) = connection.dangerous_extract_secrets().ok()?.tx;
            let (key, nonce) = parts(secrets)?;
            record(&mut *suite.aead_alg.encrypter(key, nonce), &alert, 0)
        }
    }
}

fn parts(secrets: ConnectionTrafficSecrets) -> Option<(AeadKey, Iv)> {
    match secrets {
        ConnectionTrafficSecrets::Aes128Gcm { key, iv }
        | ConnectionTrafficSecrets::Aes256Gcm { key, iv }
        | ConnectionTrafficSecrets::Chacha20Poly1305 { key, iv } => Some((key, iv)),
        _ => None,
    }
}

fn record(encrypter: &mut dyn MessageEncrypter, alert: &[u8], sequence: u64) -> Option<Vec<u8>> {
    let message = OutboundPlainMessage {
        typ: ContentType::Alert,
        version: ProtocolVersion::TLSv1_2,
        payload: OutboundChunks::Single(alert),
    };
    Some(encrypter.encrypt(message, sequence).ok()?.encode())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use rustls::pki_types::ServerName;
    use rustls::version::{TLS12, TLS13};
    use rustls::{AlertDescription, ClientConfig, ClientConnection, Error, ServerConfig, ServerConnection};

    use super::super::testing::TestAuthority;
    use super::super::{Peers, offer};
    use super::bad_certificate;

    /// A handshake up to where the server has nothing more to ask, and has not said its last words.
    fn meet(server: &Arc<ServerConfig>, client: &Arc<ClientConfig>) -> (ServerConnection, ClientConnection) {
        let mut server = ServerConnection::new(Arc::clone(server)).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let mut client = ClientConnection::new(Arc::clone(client), name).unwrap();
        loop {
            let mut bytes = Vec::new();
            while client.wants_write() {
                client.write_tls(&mut bytes).unwrap();
            }
            let mut bytes = &bytes[..];
            while !bytes.is_empty() {
                server.read_tls(&mut bytes).unwrap();
                server.process_new_packets().unwrap();
            }
            if !server.is_handshaking() {
                return (server, client);
            }
            hear(&mut server, &mut client);
        }
    }

    fn hear(server: &mut ServerConnection, client: &mut ClientConnection) {
        let mut bytes = Vec::new();
        while server.wants_write() {
            server.write_tls(&mut bytes).unwrap();
        }
        told(&bytes, client).unwrap();
    }

    fn told(mut bytes: &[u8], client: &mut ClientConnection) -> Result<(), Error> {
        while !bytes.is_empty() {
            client.read_tls(&mut bytes).unwrap();
            client.process_new_packets()?;
        }
        Ok(())
    }

    #[test]
    fn the_peer_hears_that_its_certificate_is_bad() {
        let lab = TestAuthority::new();
        lab.sign("client", &["client"]);
        let files =
            "cert_file: \"@server.pem\", key_file: \"@server.key\", ca_file: \"@ca.pem\", verify: true";
        let chacha = "cipher_suites: [TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256]";
        for (version, more) in [(&TLS13, ""), (&TLS12, ""), (&TLS12, chacha)] {
            let options = lab.options(&format!("{files}, ocsp_peer: true, {more}"));
            let server = offer(&options, Peers::AsConfigured).unwrap().terms.config;
            let client = Arc::new(lab.client_of(&[version], Some("client")));
            let (refused, mut hears) = meet(&server, &client);
            let alert = bad_certificate(refused).unwrap();
            let expected = Error::AlertReceived(AlertDescription::BadCertificate);
            assert_eq!(told(&alert, &mut hears), Err(expected.clone()), "{more}");
            // A session that goes on: with TLS 1.2 the server was the first to finish.
            let (mut accepted, mut glad) = meet(&server, &client);
            hear(&mut accepted, &mut glad);
            let (refused, mut hears) = meet(&server, &client);
            let alert = bad_certificate(refused).unwrap();
            assert_eq!(hears.handshake_kind(), Some(rustls::HandshakeKind::Resumed));
            assert_eq!(told(&alert, &mut hears), Err(expected), "{more}");
        }
        // Keys stay where they are where nobody is asked about.
        let server = offer(&lab.options(files), Peers::AsConfigured).unwrap().terms.config;
        let (refused, _) = meet(&server, &Arc::new(lab.client(Some("client"))));
        assert_eq!(bad_certificate(refused), None);
    }
}
