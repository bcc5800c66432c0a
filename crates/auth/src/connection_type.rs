//! How connections come in, and which of these ways a user may take.

/// How a connection came in, as `allowed_connection_types` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionType {
    /// `STANDARD`: a client over TCP or TLS.
    Standard,
    /// `WEBSOCKET`
    Websocket,
    /// `LEAFNODE`
    Leafnode,
    /// `LEAFNODE_WS`
    LeafnodeWs,
    /// `MQTT`
    Mqtt,
    /// `MQTT_WS`
    MqttWs,
    /// `IN_PROCESS`
    InProcess,
}

impl ConnectionType {
    const NAMES: [(&str, Self); 7] = [
        ("STANDARD", Self::Standard),
        ("WEBSOCKET", Self::Websocket),
        ("LEAFNODE", Self::Leafnode),
        ("LEAFNODE_WS", Self::LeafnodeWs),
        ("MQTT", Self::Mqtt),
        ("MQTT_WS", Self::MqttWs),
        ("IN_PROCESS", Self::InProcess),
    ];

    /// The type called `name` in the configuration; upper and lower case are one.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let called = |&&(known, _): &&(&str, Self)| known.eq_ignore_ascii_case(name);
        Self::NAMES.iter().find(called).map(|&(_, kind)| kind)
    }
}

/// The ways in that a user may take. The default, none listed, allows all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectionTypes(u8);

impl ConnectionTypes {
    /// Whether a connection that came in by `kind` may be this user.
    #[must_use]
    pub fn allow(self, kind: ConnectionType) -> bool {
        self.0 == 0 || self.0 & (1 << kind as u8) != 0
    }
}

impl FromIterator<ConnectionType> for ConnectionTypes {
    fn from_iter<I: IntoIterator<Item = ConnectionType>>(kinds: I) -> Self {
        Self(kinds.into_iter().fold(0, |set, kind| set | 1 << kind as u8))
    }
}
