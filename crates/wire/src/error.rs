//! The `-ERR` texts that a client can see, and the close reasons that monitoring shows.
//!
//! The texts are literal: client libraries compare them (lower-cased, by substring).

use std::fmt;

/// Text of the server in `-ERR '<text>'`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ErrorText {
    /// An unknown verb, or a payload that does not end in CRLF.
    UnknownOperation,
    /// The argument part of a control line is longer than `max_control_line`.
    MaximumControlLine,
    /// The announced payload is larger than the connection's `max_payload`.
    MaximumPayload,
    /// Credentials were refused, or missing where they are required.
    AuthorizationViolation,
    /// No CONNECT came within the authentication timeout.
    AuthenticationTimeout,
    /// The user's token, or its time of the day, has come to its end.
    UserExpired,
    /// The account's token has come to its end.
    AccountExpired,
    /// The account has taken the user's token back.
    UserRevoked,
    /// The server holds `max_connections` clients already.
    MaximumConnections,
    /// The account holds its maximum of connections already.
    MaximumAccountConnections,
    /// The connection or its account holds its maximum of subscriptions already.
    MaximumSubscriptions,
    /// SUB with a subject that is no valid pattern.
    InvalidSubject,
    /// Pedantic mode only: the message is routed nevertheless.
    InvalidPublishSubject,
    /// Publish permission denied, or a reserved prefix.
    PublishViolation(Vec<u8>),
    /// The reply subject uses a reserved prefix.
    ReplyViolation(Vec<u8>),
    /// Subscribe permission denied: subject, queue.
    SubscriptionViolation(Vec<u8>, Option<Vec<u8>>),
    /// A subscription ended because a new configuration no longer permits it.
    SubscriptionRevoked {
        /// Its subject.
        subject: Vec<u8>,
        /// Its queue group.
        queue: Option<Vec<u8>>,
        /// The client's name for it.
        sid: Vec<u8>,
    },
    /// The subject has more tokens than `max_sub_tokens`.
    TooManyTokens(Vec<u8>),
    /// CONNECT asked for a protocol level other than 0 and 1.
    InvalidClientProtocol,
    /// CONNECT asked for `no_responders` without `headers`.
    NoRespondersRequiresHeaders,
    /// Too many PINGs stayed without an answer.
    StaleConnection,
    /// More TLS handshakes were asked for than `connection_rate_limit` allows.
    ConnectionThrottling,
}

impl fmt::Display for ErrorText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownOperation => f.write_str("Unknown Protocol Operation"),
            Self::MaximumControlLine => f.write_str("maximum control line exceeded"),
            Self::MaximumPayload => f.write_str("Maximum Payload Violation"),
            Self::AuthorizationViolation => f.write_str("Authorization Violation"),
            Self::AuthenticationTimeout => f.write_str("Authentication Timeout"),
            Self::UserExpired => f.write_str("User Authentication Expired"),
            Self::AccountExpired => f.write_str("Account Authentication Expired"),
            Self::UserRevoked => f.write_str("User Authentication Revoked"),
            Self::MaximumConnections => f.write_str("maximum connections exceeded"),
            Self::MaximumAccountConnections => f.write_str("maximum account active connections exceeded"),
            Self::MaximumSubscriptions => f.write_str("maximum subscriptions exceeded"),
            Self::InvalidSubject => f.write_str("Invalid Subject"),
            Self::InvalidPublishSubject => f.write_str("Invalid Publish Subject"),
            Self::PublishViolation(subject) => {
                write!(f, "Permissions Violation for Publish to {}", Quoted(subject))
            }
            Self::ReplyViolation(reply) => {
                write!(f, "Permissions Violation for Publish with Reply of {}", Quoted(reply))
            }
            Self::SubscriptionViolation(subject, None) => {
                write!(f, "Permissions Violation for Subscription to {}", Quoted(subject))
            }
            Self::SubscriptionRevoked { subject, queue, sid } => {
                write!(f, "Permissions Violation for Subscription to {}", Quoted(subject))?;
                if let Some(queue) = queue {
                    write!(f, " using queue {}", Quoted(queue))?;
                }
                write!(f, " (sid {})", Quoted(sid))
            }
            Self::SubscriptionViolation(subject, Some(queue)) => {
                write!(
                    f,
                    "Permissions Violation for Subscription to {} using queue {}",
                    Quoted(subject),
                    Quoted(queue)
                )
            }
            Self::TooManyTokens(subject) => {
                write!(f, "Permissions Violation for Subscription to {}, too many tokens", Quoted(subject))
            }
            Self::InvalidClientProtocol => f.write_str("invalid client protocol"),
            Self::NoRespondersRequiresHeaders => f.write_str("no responders requires headers support"),
            Self::StaleConnection => f.write_str("Stale Connection"),
            Self::ConnectionThrottling => {
                f.write_str("Connection throttling is active. Please try again later.")
            }
        }
    }
}

/// Bytes between double quotes with control characters and whatever is not UTF-8 escaped, as Go's
/// `%q` prints it: the result never holds a CR or LF, so that no subject can smuggle a line into
/// the protocol or the log.
pub struct Quoted<'a>(
    /// Bytes to quote.
    pub &'a [u8],
);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("\"")?;
        for chunk in self.0.utf8_chunks() {
            quote(chunk.valid(), f)?;
            chunk.invalid().iter().try_for_each(|byte| write!(f, "\\x{byte:02x}"))?;
        }
        f.write_str("\"")
    }
}

fn quote(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for c in text.chars() {
        match c {
            '"' => f.write_str("\\\"")?,
            '\\' => f.write_str("\\\\")?,
            '\x07' => f.write_str("\\a")?,
            '\x08' => f.write_str("\\b")?,
            '\x0c' => f.write_str("\\f")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            '\x0b' => f.write_str("\\v")?,
            c if !is_printed(c) => escape(c, f)?,
            c => write!(f, "{c}")?,
        }
    }
    Ok(())
}

/// Whether Go prints a character: it cannot print what Rust would escape, and blanks other than the
/// plain one.
fn is_printed(c: char) -> bool {
    match c {
        ' ' | '\'' => true,
        _ => !c.is_whitespace() && c.escape_debug().len() == 1,
    }
}

/// Writes a character that does not print by its number.
fn escape(c: char, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match c as u32 {
        n if n < 0x80 => write!(f, "\\x{n:02x}"),
        n if n < 0x10000 => write!(f, "\\u{n:04x}"),
        n => write!(f, "\\U{n:08x}"),
    }
}

/// Why a connection ended, with the words that `/connz?state=closed` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloseReason {
    /// The peer went away.
    ClientClosed,
    /// No CONNECT within the authentication timeout.
    AuthenticationTimeout,
    /// Credentials refused.
    AuthenticationFailure,
    /// Credentials have come to their end.
    AuthenticationExpired,
    /// Credentials were taken back.
    Revocation,
    /// The user must come through a trusted proxy.
    ProxyRequired,
    /// Its proxy's signature is not by one that is trusted.
    ProxyNotTrusted,
    /// Queued more than `max_pending` bytes.
    SlowConsumerPendingBytes,
    /// A write made no progress within `write_deadline`.
    SlowConsumerWriteDeadline,
    /// The socket failed while writing.
    WriteError,
    /// The socket failed while reading.
    ReadError,
    /// Malformed arguments.
    ParseError,
    /// Too many PINGs stayed without an answer.
    StaleConnection,
    /// Unknown verb, or a `-ERR` from the peer.
    ProtocolViolation,
    /// CONNECT asked for an unknown protocol level.
    BadClientProtocolVersion,
    /// `max_connections` reached.
    MaximumConnections,
    /// The account's connection limit reached.
    MaximumAccountConnections,
    /// Payload larger than allowed.
    MaximumPayload,
    /// Control line longer than allowed.
    MaximumControlLine,
    /// The server stops, or lame duck mode came to this connection.
    ServerShutdown,
    /// HPUB from a client that did not announce headers.
    MessageHeaderViolation,
    /// `no_responders` without `headers`.
    NoRespondersRequiresHeaders,
    /// The TLS handshake failed, or did not come in time.
    TlsHandshake,
    /// Somebody in the system account has asked for it.
    Kicked,
    /// Both servers are connected already, or are the same.
    DuplicateRoute,
    /// A reload has taken the route away, or changes what it is like.
    RouteRemoved,
    /// A client on the port of routes.
    WrongPort,
    /// The peer's cluster has another name.
    ClusterNameConflict,
    /// The peer has the name of this server.
    DuplicateServerName,
    /// The account to which the link is dedicated is not known here.
    MissingAccount,
    /// More interest than one link may bring.
    MaximumSubscriptions,
    /// The leaf node has made another link in place of this one.
    DuplicateLeafNode,
    /// Another MQTT client has come with the same client id.
    DuplicateClientId,
    /// The peer's cluster has the name of this one, and they are to be linked as leaf node and hub.
    ClusterNamesIdentical,
    /// The leaf node's server is too old.
    MinimumVersionRequired,
    /// A gateway on the port of leaf nodes.
    WrongGateway,
    /// A bug: a panic while handling this connection's bytes.
    InternalError,
}

impl CloseReason {
    /// The reference's words.
    pub fn text(self) -> &'static str {
        match self {
            Self::ClientClosed => "Client Closed",
            Self::AuthenticationTimeout => "Authentication Timeout",
            Self::AuthenticationFailure => "Authentication Failure",
            Self::AuthenticationExpired => "Authentication Expired",
            Self::Revocation => "Credentials Revoked",
            Self::ProxyRequired => "Proxy Required",
            Self::ProxyNotTrusted => "Proxy Not Trusted",
            Self::SlowConsumerPendingBytes => "Slow Consumer (Pending Bytes)",
            Self::SlowConsumerWriteDeadline => "Slow Consumer (Write Deadline)",
            Self::WriteError => "Write Error",
            Self::ReadError => "Read Error",
            Self::ParseError => "Parse Error",
            Self::StaleConnection => "Stale Connection",
            Self::ProtocolViolation => "Protocol Violation",
            Self::BadClientProtocolVersion => "Bad Client Protocol Version",
            Self::MaximumConnections => "Maximum Connections Exceeded",
            Self::MaximumAccountConnections => "Maximum Account Connections Exceeded",
            Self::MaximumPayload => "Maximum Message Payload Exceeded",
            Self::MaximumControlLine => "Maximum Control Line Exceeded",
            Self::ServerShutdown => "Server Shutdown",
            Self::MessageHeaderViolation => "Message Header Violation",
            Self::NoRespondersRequiresHeaders => "No Responders Requires Headers",
            Self::TlsHandshake => "TLS Handshake Failure",
            Self::Kicked => "Kicked",
            Self::DuplicateRoute => "Duplicate Route",
            Self::RouteRemoved => "Route Removed",
            Self::WrongPort => "Incorrect Port",
            Self::ClusterNameConflict => "Cluster Name Conflict",
            Self::DuplicateServerName => "Duplicate Server Name",
            Self::MissingAccount => "Missing Account",
            Self::MaximumSubscriptions => "Maximum Subscriptions Exceeded",
            Self::DuplicateClientId => "Duplicate Client ID",
            Self::DuplicateLeafNode => "Duplicate Remote LeafNode Connection",
            Self::ClusterNamesIdentical => "Cluster Names Identical",
            Self::MinimumVersionRequired => "Minimum Version Required",
            Self::WrongGateway => "Wrong Gateway",
            Self::InternalError => "Internal Error",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_quoted_like_go() {
        for (text, shown) in [
            ("", r#""""#),
            ("a b", r#""a b""#),
            ("\"\\", r#""\"\\""#),
            ("\n\t\r\u{7}\u{8}\u{b}\u{c}", r#""\n\t\r\a\b\v\f""#),
            ("\u{1}\u{1b}\u{7f}", r#""\x01\x1b\x7f""#),
            ("é世", r#""é世""#),
            ("\u{a0}\u{2028}\u{85}", r#""\u00a0\u2028\u0085""#),
            ("\u{e0001}", r#""\U000e0001""#),
        ] {
            assert_eq!(Quoted(text.as_bytes()).to_string(), shown);
        }
    }

    #[test]
    fn violations_quote_what_the_peer_sent() {
        let text = ErrorText::SubscriptionViolation("a\r\nb".into(), Some("q\"".into())).to_string();
        assert_eq!(text, r#"Permissions Violation for Subscription to "a\r\nb" using queue "q\"""#);
    }

    #[test]
    fn publish_violation_reads_as_the_reference() {
        assert_eq!(
            ErrorText::PublishViolation("foo".into()).to_string(),
            "Permissions Violation for Publish to \"foo\""
        );
    }
}
