//! Reason codes of MQTT 5: which there are, and which packet may say which.

use super::kind::PacketKind;

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $code:literal $text:literal [$($kind:ident)*],)*) => {
        /// Outcome that a packet of MQTT 5 tells.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        #[allow(missing_docs)]
        pub enum ReasonCode {
            $($(#[$doc])* $name = $code,)*
        }

        impl ReasonCode {
            /// The reason with this number.
            pub fn new(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)*
                    _ => None,
                }
            }

            /// Name of the reason in the specification.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Whether packets of `kind` may say the reason.
            pub fn is_for(self, kind: PacketKind) -> bool {
                match self {
                    $(Self::$name => matches!(kind, $(PacketKind::$kind)|*),)*
                }
            }

            /// Every reason.
            #[cfg(test)]
            pub(super) const ALL: &[Self] = &[$(Self::$name),*];
        }
    };
}

reasons! {
    /// In a SUBACK it grants QoS 0, in a DISCONNECT it is the normal end.
    Success = 0x00 "Success"
        [ConnAck PubAck PubRec PubRel PubComp SubAck UnsubAck Disconnect Auth],
    GrantedQos1 = 0x01 "Granted QoS 1" [SubAck],
    GrantedQos2 = 0x02 "Granted QoS 2" [SubAck],
    DisconnectWithWill = 0x04 "Disconnect with Will Message" [Disconnect],
    NoMatchingSubscribers = 0x10 "No matching subscribers" [PubAck PubRec],
    NoSubscriptionExisted = 0x11 "No subscription existed" [UnsubAck],
    ContinueAuthentication = 0x18 "Continue authentication" [Auth],
    ReAuthenticate = 0x19 "Re-authenticate" [Auth],
    UnspecifiedError = 0x80 "Unspecified error"
        [ConnAck PubAck PubRec SubAck UnsubAck Disconnect],
    MalformedPacket = 0x81 "Malformed Packet" [ConnAck Disconnect],
    ProtocolError = 0x82 "Protocol Error" [ConnAck Disconnect],
    ImplementationSpecific = 0x83 "Implementation specific error"
        [ConnAck PubAck PubRec SubAck UnsubAck Disconnect],
    UnsupportedProtocolVersion = 0x84 "Unsupported Protocol Version" [ConnAck],
    ClientIdNotValid = 0x85 "Client Identifier not valid" [ConnAck],
    BadUserNameOrPassword = 0x86 "Bad User Name or Password" [ConnAck],
    NotAuthorized = 0x87 "Not authorized" [ConnAck PubAck PubRec SubAck UnsubAck Disconnect],
    ServerUnavailable = 0x88 "Server unavailable" [ConnAck],
    ServerBusy = 0x89 "Server busy" [ConnAck Disconnect],
    Banned = 0x8a "Banned" [ConnAck],
    ServerShuttingDown = 0x8b "Server shutting down" [Disconnect],
    BadAuthenticationMethod = 0x8c "Bad authentication method" [ConnAck Disconnect],
    KeepAliveTimeout = 0x8d "Keep Alive timeout" [Disconnect],
    SessionTakenOver = 0x8e "Session taken over" [Disconnect],
    TopicFilterInvalid = 0x8f "Topic Filter invalid" [SubAck UnsubAck Disconnect],
    TopicNameInvalid = 0x90 "Topic Name invalid" [ConnAck PubAck PubRec Disconnect],
    PacketIdInUse = 0x91 "Packet Identifier in use" [PubAck PubRec SubAck UnsubAck],
    PacketIdNotFound = 0x92 "Packet Identifier not found" [PubRel PubComp],
    ReceiveMaximumExceeded = 0x93 "Receive Maximum exceeded" [Disconnect],
    TopicAliasInvalid = 0x94 "Topic Alias invalid" [Disconnect],
    PacketTooLarge = 0x95 "Packet too large" [ConnAck Disconnect],
    MessageRateTooHigh = 0x96 "Message rate too high" [Disconnect],
    QuotaExceeded = 0x97 "Quota exceeded" [ConnAck PubAck PubRec SubAck Disconnect],
    AdministrativeAction = 0x98 "Administrative action" [Disconnect],
    PayloadFormatInvalid = 0x99 "Payload format invalid" [ConnAck PubAck PubRec Disconnect],
    RetainNotSupported = 0x9a "Retain not supported" [ConnAck Disconnect],
    QosNotSupported = 0x9b "QoS not supported" [ConnAck Disconnect],
    UseAnotherServer = 0x9c "Use another server" [ConnAck Disconnect],
    ServerMoved = 0x9d "Server moved" [ConnAck Disconnect],
    SharedSubscriptionsNotSupported = 0x9e "Shared Subscriptions not supported"
        [SubAck Disconnect],
    ConnectionRateExceeded = 0x9f "Connection rate exceeded" [ConnAck Disconnect],
    MaximumConnectTime = 0xa0 "Maximum connect time" [Disconnect],
    SubscriptionIdsNotSupported = 0xa1 "Subscription Identifiers not supported"
        [SubAck Disconnect],
    WildcardsNotSupported = 0xa2 "Wildcard Subscriptions not supported" [SubAck Disconnect],
}

impl ReasonCode {
    /// Whether the reason says that something failed.
    pub fn is_error(self) -> bool {
        self as u8 >= 0x80
    }

    /// Return code of a CONNACK of version 3.1.1 that says the nearest.
    ///
    /// Compat: 16 for a will with a QoS that is refused, which the specification does not have.
    pub fn return_code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::UnsupportedProtocolVersion => 1,
            Self::ClientIdNotValid => 2,
            Self::BadUserNameOrPassword => 4,
            Self::NotAuthorized | Self::Banned | Self::BadAuthenticationMethod => 5,
            Self::QosNotSupported => 16,
            _ => 3,
        }
    }

    /// Reason that a return code of version 3.1.1 says.
    pub fn of_return_code(code: u8) -> Option<Self> {
        Some(match code {
            0 => Self::Success,
            1 => Self::UnsupportedProtocolVersion,
            2 => Self::ClientIdNotValid,
            3 => Self::ServerUnavailable,
            4 => Self::BadUserNameOrPassword,
            5 => Self::NotAuthorized,
            16 => Self::QosNotSupported,
            _ => return None,
        })
    }
}
