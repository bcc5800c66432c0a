//! One question: about whom, by whom, and the token in which it is written.

use super::CalloutService;
use crate::account_name::AccountName;
use crate::attempt::Attempt;
use crate::connection_type::ConnectionType;
use crate::jwt::{AuthorizationRequest, ClientInformation, ClientTls, ConnectOptions, ServerId, seconds};
use crate::operator::ClaimedUser;
use crate::proxy::Proxied;
use crate::secret::Secret;
use crate::signature::KeyPair;
use crate::xkey::{SealFault, XKey};
use myelin_stdx::entropy::Entropy;
use myelin_stdx::id;
use myelin_stdx::nkey::{self, Role};
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

/// The header in which a service finds the key that a question was sealed with.
const XKEY_HEADER: &str = "Nats-Server-Xkey";

/// The keys of the server that asks.
#[derive(Debug)]
pub struct ServerKeys {
    /// Signs questions. Its public half is the server's id.
    pub signing: KeyPair,
    /// Seals them. Its public half is in INFO.
    pub curve: XKey,
}

impl ServerKeys {
    /// New ones that nobody can guess.
    #[must_use]
    pub fn random(entropy: &dyn Entropy) -> Self {
        Self { signing: KeyPair::random(Role::Server, entropy), curve: XKey::random(entropy) }
    }
}

/// The server that asks.
#[derive(Clone, Debug, Default)]
pub struct RequestingServer {
    /// Its name.
    pub name: String,
    /// Where its clients connect.
    pub host: String,
    /// The version that it claims.
    pub version: String,
    /// Its cluster, if it is in one.
    pub cluster: String,
    /// Its tags.
    pub tags: Vec<String>,
}

/// Facts about a client beside its credentials.
#[derive(Clone, Debug, Default)]
pub struct ClientInfo {
    /// The number of the connection.
    pub id: u64,
    /// CONNECT's `name`.
    pub name: String,
    /// CONNECT's `lang`.
    pub lang: String,
    /// CONNECT's `version`.
    pub version: String,
    /// CONNECT's `protocol`.
    pub protocol: i64,
    /// TLS under the connection, if there is any.
    pub tls: Option<ClientTls>,
}

/// A question as it is published.
#[derive(Debug)]
pub struct SignedRequest {
    /// The block of headers, or nothing.
    pub headers: Vec<u8>,
    /// The rest.
    pub payload: Vec<u8>,
}

/// Request to a callout service: about whom, by whom, and what the response must say. What it holds
/// outlives the attempt.
#[derive(Debug)]
pub struct AuthRequest {
    pub(super) service: CalloutService,
    /// The key that the answer must be about. Nobody has its private half: it only ties answer to
    /// question.
    pub(super) user: String,
    pub(super) needs_proxy: bool,
    pub(super) proxy: Proxied,
    pub(super) via: ConnectionType,
    pub(super) peer: IpAddr,
    /// Name of the client if the response gives it none.
    pub(super) display_name: Option<String>,
    pub(super) names_nkey: bool,
    client: ClientInformation,
    connect: ConnectOptions,
}

impl AuthRequest {
    pub(crate) fn new(
        service: CalloutService,
        attempt: &Attempt<'_>,
        claims: Option<&ClaimedUser>,
        needs_proxy: bool,
        proxy: Proxied,
    ) -> Self {
        let credentials = attempt.credentials;
        let given = |secret: &Option<Secret>| secret.clone().filter(|secret| !secret.is_empty());
        let text = |text: Option<&str>| text.unwrap_or_default().to_owned();
        let token = given(&credentials.token);
        let key = claims.map(|claims| claims.subject().to_owned());
        let named = credentials.nkey().or(credentials.user()).map(str::to_owned).or(key);
        let display_name = named.or_else(|| token.as_ref().map(|_| "[REDACTED]".to_owned()));
        let signature = text(credentials.sig.as_deref());
        let (kind, connection) = match attempt.via {
            ConnectionType::Leafnode | ConnectionType::LeafnodeWs => ("Leafnode", ""),
            ConnectionType::Websocket => ("Client", "websocket"),
            ConnectionType::Mqtt | ConnectionType::MqttWs => ("Client", "mqtt"),
            _ => ("Client", "nats"),
        };
        Self {
            service,
            user: nkey::encode(Role::User, &id::random::<32>(attempt.entropy)),
            needs_proxy,
            proxy,
            via: attempt.via,
            peer: attempt.peer,
            client: ClientInformation {
                host: attempt.peer.to_canonical().to_string(),
                user: display_name.clone().unwrap_or_default(),
                tags: claims.map(|claims| claims.tags().to_vec()).unwrap_or_default(),
                name_tag: claims.map(|claims| claims.name().to_owned()).unwrap_or_default(),
                kind,
                connection,
                nonce: if signature.is_empty() { String::new() } else { attempt.nonce.to_owned() },
                ..ClientInformation::default()
            },
            connect: ConnectOptions {
                jwt: claims.map(|claims| claims.token().clone()).or_else(|| given(&credentials.jwt)),
                nkey: text(credentials.nkey()),
                signature,
                token,
                user: text(credentials.user()),
                password: given(&credentials.pass),
                ..ConnectOptions::default()
            },
            names_nkey: credentials.nkey().is_some(),
            display_name,
        }
    }

    /// The account in which the question is published.
    #[must_use]
    pub fn account(&self) -> AccountName {
        self.service.account()
    }

    /// Makes the request as it is published: signed, and sealed where the service has a curve key.
    /// Takes some 200 us.
    ///
    /// # Errors
    /// When the service's key is none.
    pub fn request(
        &mut self,
        keys: &ServerKeys,
        asker: RequestingServer,
        client_info: ClientInfo,
        now: SystemTime,
        timeout: Duration,
        entropy: &dyn Entropy,
    ) -> Result<SignedRequest, SealFault> {
        let recipient = self.service.xkey();
        let own_key = recipient.map(|_| keys.curve.public()).unwrap_or_default();
        let ClientInfo { id, name, lang, version, protocol, tls } = client_info;
        let client = std::mem::take(&mut self.client);
        let connect = std::mem::take(&mut self.connect);
        let request = AuthorizationRequest {
            server_id: ServerId {
                name: asker.name,
                host: asker.host,
                id: keys.signing.public(),
                version: asker.version,
                cluster: asker.cluster,
                tags: asker.tags,
                xkey: own_key.clone(),
            },
            user_nkey: self.user.clone(),
            client_info: ClientInformation { id, name: name.clone(), ..client },
            connect_opts: ConnectOptions { name, lang, version, protocol, ..connect },
            client_tls: tls,
            ..AuthorizationRequest::default()
        };
        let (now, end) = (seconds(now), seconds(now + timeout));
        let token = request.sign(self.service.subject(), now, end, &keys.signing);
        let Some(recipient) = recipient else {
            return Ok(SignedRequest { headers: Vec::new(), payload: token.into_bytes() });
        };
        Ok(SignedRequest {
            headers: format!("NATS/1.0\r\n{XKEY_HEADER}: {own_key}\r\n\r\n").into_bytes(),
            payload: keys.curve.seal(token.as_bytes(), recipient, entropy)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_stdx::entropy::OsEntropy;

    #[test]
    fn server_ids_have_the_shape_of_the_references() {
        // Taken from the INFO of a nats-server 2.15.2.
        let theirs = "NBWX5AFJKGKQTOFQZLV2IG6R547JJ3GFAG5JL455RMUGJPLX6YBJDYJA";
        assert!(Role::Server.owns(theirs));
        let id = || ServerKeys::random(&OsEntropy).signing.public();
        let ours = id();
        assert_eq!((ours.len(), &ours[..1]), (56, "N"));
        assert!(Role::Server.owns(&ours) && nkey::public_key(&ours).is_some());
        assert_ne!(id(), ours);
    }
}
