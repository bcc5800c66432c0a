//! How a connection came in, where that is not by the clients' own listener: what it is told of the
//! server then, how it is called, and what it need not say in CONNECT.

use crate::conn_details::TlsDetails;
use myelin_auth::ConnectionType;
use myelin_wire::connect::Connect;
use myelin_wire::info::Info;
use myelin_wire::websocket::upgrade::Cookies;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A listener that is not the clients' own, for the sessions behind it.
#[derive(Debug)]
pub struct ListenerInfo {
    /// Which kind of connection it takes.
    pub via: ConnectionType,
    /// Host that INFO says instead of that of the clients' listener.
    pub host: String,
    /// Port that INFO says instead of that of the clients' listener.
    pub port: u16,
    /// Whether it encrypts.
    pub is_secure: bool,
    /// Quiet time after which the server sends PING, if not as usual.
    pub ping_interval: Option<Duration>,
    /// Time for a client to authenticate, if not as usual.
    pub auth_timeout: Option<Duration>,
}

/// Origin of a connection that came over WebSocket.
#[derive(Debug)]
pub struct WebSocketOrigin {
    /// The listener.
    pub listener_info: Arc<ListenerInfo>,
    /// Credentials that came with the upgrade.
    pub cookies: Cookies,
    /// Address of the client behind a proxy, as the proxy says. For the log only.
    pub client_ip: Option<IpAddr>,
    /// TLS parameters of the handshake, which is over.
    pub tls: Option<TlsDetails>,
}

impl WebSocketOrigin {
    /// Says in INFO where the client is, and where other servers take such clients.
    pub(crate) fn show(&self, info: &mut Info, urls: &[String]) {
        info.host.clone_from(&self.listener_info.host);
        info.port = self.listener_info.port;
        (info.tls_required, info.tls_available) =
            (self.listener_info.is_secure, self.listener_info.is_secure);
        info.connect_urls = urls.to_vec();
    }

    /// Puts cookies where CONNECT says nothing.
    pub(crate) fn complete(&self, connect: &mut Connect) {
        let Cookies { jwt, user, pass, token } = &self.cookies;
        if [jwt, user, pass, token].into_iter().all(Option::is_none) {
            return;
        }
        let credentials = connect.credentials.get_or_insert_default();
        let fields = [
            (&mut credentials.jwt, jwt),
            (&mut credentials.user, user),
            (&mut credentials.pass, pass),
            (&mut credentials.auth_token, token),
        ];
        for (field, cookie) in fields {
            if let Some(cookie) = cookie.as_ref().filter(|_| field.is_empty()) {
                field.clone_from(cookie);
            }
        }
    }

    /// Name of the connection in the log.
    pub(crate) fn name(&self, peer: SocketAddr, cid: u64) -> String {
        format!("{} - wid:{cid}", self.peer_name(peer))
    }

    /// Name of the other end in the log.
    pub(crate) fn peer_name(&self, peer: SocketAddr) -> String {
        match self.client_ip {
            Some(IpAddr::V6(ip)) => format!("[{ip}]/{peer}"),
            Some(ip) => format!("{ip}/{peer}"),
            None => peer.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_wire::connect::ConnectCredentials;

    #[test]
    fn cookies_stand_for_what_is_left_out() {
        let cookie = |text: &str| Some(text.to_owned());
        let websocket_origin = WebSocketOrigin {
            listener_info: Arc::new(ListenerInfo {
                via: ConnectionType::Websocket,
                host: String::new(),
                port: 0,
                is_secure: true,
                ping_interval: None,
                auth_timeout: None,
            }),
            cookies: Cookies { jwt: cookie("j"), user: cookie("u"), pass: cookie("p"), token: None },
            client_ip: None,
            tls: None,
        };
        let own = ConnectCredentials { pass: "own".to_owned(), ..ConnectCredentials::default() };
        let mut connect = Connect { credentials: Some(Box::new(own)), ..Connect::default() };
        websocket_origin.complete(&mut connect);
        let credentials = connect.credentials.unwrap();
        assert_eq!((credentials.jwt.as_str(), credentials.user.as_str()), ("j", "u"));
        assert_eq!((credentials.pass.as_str(), credentials.auth_token.as_str()), ("own", ""));
    }
}
