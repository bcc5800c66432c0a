//! Details of a connection as it keeps them: few bytes, for a connection that does nothing has
//! them, too. Monitoring is shown [`ConnDetails`], made of them when it asks.

use crate::conn_details::{AccessRefusal, ConnDetails, RefusedAccess, TlsDetails};
use myelin_auth::operator::ClaimedUser;
use myelin_auth::{ClientCertificate, Identity};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Details of a connection, beyond counters.
#[derive(Default)]
pub(crate) struct KeptDetails {
    names: GivenNames,
    /// User that logged in; never a secret.
    pub(crate) user: Option<Box<str>>,
    /// The account's name, which all its connections share.
    pub(crate) account: Arc<str>,
    /// The last measured round trip in nanoseconds; 0: none yet.
    rtt_nanos: u64,
    special: Option<Box<SpecialDetails>>,
}

/// Names that the other end gives.
enum GivenNames {
    /// Names in CONNECT, or in the handshake of a link. Boxed: a client of MQTT has none.
    Nats(Option<Box<NatsNames>>),
    /// The client id of MQTT.
    Mqtt(Box<str>),
}

#[derive(Default)]
struct NatsNames {
    name: Box<str>,
    lang: Box<str>,
    version: Box<str>,
    /// Text behind the client id in each line of the log, once it is known.
    label: Option<Box<str>>,
}

/// Details that few connections have.
#[derive(Default)]
struct SpecialDetails {
    /// Address behind the peer, if that is a proxy and says so.
    client: Option<SocketAddr>,
    issuer_key: Option<String>,
    claims: Option<Arc<ClaimedUser>>,
    expires: Option<SystemTime>,
    proxy: Option<Box<str>>,
    tls: Option<Box<TlsDetails>>,
    refused: Option<Box<RefusedAccess>>,
}

impl Default for GivenNames {
    fn default() -> Self {
        Self::Nats(None)
    }
}

impl KeptDetails {
    /// Details as monitoring shows them.
    pub(crate) fn shown(&self) -> ConnDetails {
        let special = self.special.as_deref();
        ConnDetails {
            name: self.name().into(),
            lang: self.lang().into(),
            version: self.version().into(),
            user: self.user.as_deref().map(str::to_owned),
            issuer_key: special.and_then(|special| special.issuer_key.clone()),
            claims: special.and_then(|special| special.claims.clone()),
            expires: special.and_then(|special| special.expires),
            proxy: special.and_then(|special| special.proxy.clone()),
            account: (*self.account).to_owned(),
            mqtt_client: self.mqtt_client().map(Box::from),
            rtt: self.rtt(),
            tls: special.and_then(|special| special.tls.clone()),
            refused: special.and_then(|special| special.refused.clone()),
        }
    }

    /// The client id of MQTT, if it speaks that.
    pub(crate) fn mqtt_client(&self) -> Option<&str> {
        match &self.names {
            GivenNames::Mqtt(client_id) => Some(client_id),
            GivenNames::Nats(_) => None,
        }
    }

    /// Notes the client id of MQTT, which it speaks.
    pub(crate) fn set_mqtt_client(&mut self, client_id: &str) {
        self.names = GivenNames::Mqtt(client_id.into());
    }

    fn nats_names(&self) -> Option<&NatsNames> {
        match &self.names {
            GivenNames::Nats(names) => names.as_deref(),
            GivenNames::Mqtt(_) => None,
        }
    }

    /// The names, but for a client of MQTT, which has no other than its id.
    fn nats_names_mut(&mut self) -> Option<&mut NatsNames> {
        match &mut self.names {
            GivenNames::Nats(names) => Some(names.get_or_insert_default()),
            GivenNames::Mqtt(_) => None,
        }
    }

    /// CONNECT's `name`.
    pub(crate) fn name(&self) -> &str {
        self.nats_names().map_or("", |names| &names.name)
    }

    /// CONNECT's `lang`.
    pub(crate) fn lang(&self) -> &str {
        self.nats_names().map_or("", |names| &names.lang)
    }

    /// CONNECT's `version`.
    pub(crate) fn version(&self) -> &str {
        self.nats_names().map_or("", |names| &names.version)
    }

    /// Notes what a client says of itself in CONNECT, in place of what it has said before.
    pub(crate) fn set_names(&mut self, name: &str, lang: &str, version: &str) {
        if [name, lang, version].iter().all(|text| text.is_empty()) && self.nats_names().is_none() {
            return;
        }
        if let Some(names) = self.nats_names_mut() {
            (names.name, names.lang, names.version) = (name.into(), lang.into(), version.into());
        }
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.nats_names_mut().into_iter().for_each(|names| names.name = name.into());
    }

    pub(crate) fn set_version(&mut self, version: &str) {
        self.nats_names_mut().into_iter().for_each(|names| names.version = version.into());
    }

    /// Text behind the client id in each line of the log, if it is known.
    pub(crate) fn label(&self) -> Option<&str> {
        self.nats_names()?.label.as_deref()
    }

    /// Sets that text. Only the first call counts.
    pub(crate) fn set_label(&mut self, label: &str) {
        if let Some(names) = self.nats_names_mut() {
            names.label.get_or_insert_with(|| label.into());
        }
    }

    /// The last measured round trip.
    pub(crate) fn rtt(&self) -> Option<Duration> {
        (self.rtt_nanos > 0).then(|| Duration::from_nanos(self.rtt_nanos))
    }

    pub(crate) fn set_rtt(&mut self, rtt: Duration) {
        self.rtt_nanos = rtt.as_nanos().try_into().unwrap_or(u64::MAX);
    }

    /// Takes an estimate for the round trip, until one is measured.
    pub(crate) fn estimate_rtt(&mut self, estimate: Duration) {
        if self.rtt().is_none() {
            self.set_rtt(estimate);
        }
    }

    fn special_mut(&mut self) -> &mut SpecialDetails {
        self.special.get_or_insert_default()
    }

    /// Address behind the peer, if that is a proxy and has said so.
    pub(crate) fn client(&self) -> Option<SocketAddr> {
        self.special.as_ref()?.client
    }

    /// The peer is a proxy, and this is its client. Only the first call counts.
    pub(crate) fn set_client(&mut self, client: SocketAddr) {
        self.special_mut().client.get_or_insert(client);
    }

    /// The public key of the trusted proxy through which it came.
    pub(crate) fn proxy(&self) -> Option<&str> {
        self.special.as_ref()?.proxy.as_deref()
    }

    /// TLS parameters of the handshake, if there was one.
    pub(crate) fn tls(&self) -> Option<&TlsDetails> {
        self.special.as_ref()?.tls.as_deref()
    }

    pub(crate) fn set_tls(&mut self, tls: Box<TlsDetails>) {
        self.special_mut().tls = Some(tls);
    }

    /// Names in the client's certificate, if it has shown one.
    pub(crate) fn certificate(&self) -> Option<&Arc<ClientCertificate>> {
        self.tls()?.certificate.as_ref()
    }

    /// Notes which user it is.
    pub(crate) fn set_user(&mut self, user: Option<&str>) {
        self.user = user.map(Box::from);
    }

    /// Notes by which key, token and proxy the user has come.
    pub(crate) fn set_credentials(&mut self, identity: &Identity) {
        let Identity { issuer_key, claims, proxy, .. } = identity;
        if self.special.is_some() || issuer_key.is_some() || claims.is_some() || proxy.is_some() {
            let special = self.special_mut();
            special.issuer_key.clone_from(issuer_key);
            special.claims.clone_from(claims);
            special.proxy.clone_from(proxy);
        }
    }

    /// The user has this token now.
    pub(crate) fn set_claims(&mut self, claims: &Arc<ClaimedUser>) {
        self.special_mut().claims = Some(Arc::clone(claims));
    }

    /// Notes the expiry that the auth callout has set, if any.
    pub(crate) fn set_expiry(&mut self, expires: Option<SystemTime>) {
        if self.special.is_some() || expires.is_some() {
            self.special_mut().expires = expires;
        }
    }

    /// Notes a publish or a subscription that was refused.
    pub(crate) fn note_refused(&mut self, refusal: AccessRefusal) {
        self.special_mut().refused.get_or_insert_default().note(refusal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_auth::AccountName;

    /// Each connection has them.
    #[test]
    fn details_of_an_idle_connection_are_small() {
        assert!(size_of::<KeptDetails>() <= 64, "{}", size_of::<KeptDetails>());
    }

    #[test]
    fn nothing_is_boxed_for_a_client_that_says_nothing_special() {
        let mut details = KeptDetails::default();
        details.set_names("", "", "");
        details.set_expiry(None);
        details.set_credentials(&Identity {
            account: AccountName::global(),
            user: None,
            permissions: None,
            issuer_key: None,
            claims: None,
            proxy: None,
            callout_grant: None,
        });
        assert!(details.nats_names().is_none() && details.special.is_none());
    }

    #[test]
    fn what_is_said_later_takes_the_place_of_what_was_said_before() {
        let mut details = KeptDetails::default();
        details.set_names("app", "go", "1");
        details.set_label("first");
        details.set_label("second");
        details.set_names("", "", "");
        let shown = details.shown();
        assert_eq!((&*shown.name, &*shown.lang, &*shown.version), ("", "", ""));
        assert_eq!(details.label(), Some("first"));
        let (one, other) = (SocketAddr::from(([10, 0, 0, 1], 1)), SocketAddr::from(([10, 0, 0, 2], 1)));
        details.set_client(one);
        details.set_client(other);
        assert_eq!(details.client(), Some(one));
        details.set_expiry(Some(SystemTime::UNIX_EPOCH));
        details.set_expiry(None);
        assert_eq!(details.shown().expires, None);
    }

    #[test]
    fn an_estimate_gives_way_to_what_is_measured() {
        let mut details = KeptDetails::default();
        assert_eq!(details.rtt(), None);
        details.estimate_rtt(Duration::from_millis(3));
        details.estimate_rtt(Duration::from_millis(4));
        assert_eq!(details.rtt(), Some(Duration::from_millis(3)));
        details.set_rtt(Duration::from_millis(5));
        assert_eq!(details.shown().rtt, Some(Duration::from_millis(5)));
    }

    #[test]
    fn a_client_of_mqtt_has_its_id_for_a_name() {
        let mut details = KeptDetails::default();
        details.set_mqtt_client("sensor");
        details.set_names("app", "go", "1");
        details.set_label("label");
        let shown = details.shown();
        assert_eq!((shown.mqtt_client.as_deref(), &*shown.name), (Some("sensor"), ""));
        assert_eq!(details.label(), None);
    }
}
