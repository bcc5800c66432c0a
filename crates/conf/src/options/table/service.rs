//! `websocket{}` and `mqtt{}`.

use super::{Block, Entry};

pub(super) static WEBSOCKET: Block = Block {
    title: "websocket",
    entries: &[
        Entry::new(&["listen"], "port or `host:port`", "", "Where WebSocket is accepted."),
        Entry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        Entry::new(&["port"], "number", "", "Port for WebSocket; -1 lets the system choose."),
        Entry::new(
            &["advertise"],
            "`host` or `host:port`",
            "",
            "What clients are told instead of the bound address.",
        ),
        Entry::new(&["no_tls"], "boolean", "false", "Run without TLS."),
        Entry::new(&["tls"], "block", "", "TLS; required unless `no_tls`."),
        Entry::new(&["same_origin"], "boolean", "false", "The origin of a request must be its host."),
        Entry::new(
            &["allowed_origins", "allowed_origin", "allow_origins", "allow_origin", "origins", "origin"],
            "URL or list",
            "",
            "Origins that may connect.",
        ),
        Entry::new(
            &["handshake_timeout"],
            "seconds or duration",
            "2s",
            "Time for the request, the TLS handshake included.",
        ),
        Entry::new(
            &["compression", "compress"],
            "boolean",
            "false",
            "Compress frames when the client asks for it.",
        ),
        Entry::new(
            &["authorization", "authentication"],
            "block",
            "",
            "Instead of the credentials of ordinary clients.",
        ),
        Entry::new(&["jwt_cookie"], "text", "", "Cookie that stands for the JWT."),
        Entry::new(&["user_cookie"], "text", "", "Cookie that stands for the user."),
        Entry::new(&["pass_cookie"], "text", "", "Cookie that stands for the password."),
        Entry::new(&["token_cookie"], "text", "", "Cookie that stands for the token."),
        Entry::new(&["no_auth_user"], "text", "", "The user that clients without credentials become."),
        Entry::new(&["headers"], "block", "", "Headers of the answer to the upgrade."),
        Entry::new(
            &["ping_interval"],
            "duration",
            "that of clients",
            "Quiet time before a client is pinged.",
        ),
    ],
};

pub(super) static SIMPLE_AUTHORIZATION: Block = Block {
    title: "websocket.authorization, mqtt.authorization",
    entries: &[
        Entry::new(&["user", "username"], "text", "", "The single user."),
        Entry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt."),
        Entry::new(&["token"], "text", "", "The token that all clients send."),
        Entry::new(&["timeout"], "seconds or duration", "that of clients", "Time to log in."),
    ],
};

pub(super) static MQTT: Block = Block {
    title: "mqtt",
    entries: &[
        Entry::new(&["listen"], "port or `host:port`", "", "Where MQTT is accepted."),
        Entry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        Entry::new(&["port"], "number", "", "Port for MQTT; -1 lets the system choose."),
        Entry::new(&["tls"], "block", "", "TLS."),
        Entry::new(
            &["authorization", "authentication"],
            "block",
            "",
            "Instead of the credentials of ordinary clients.",
        ),
        Entry::new(&["no_auth_user"], "text", "", "The user that clients without credentials become."),
        Entry::new(&["ack_wait", "ackwait"], "duration", "30s", "Time for a client to acknowledge."),
        Entry::new(&["js_api_timeout", "api_timeout"], "duration", "5s", "Time for JetStream to answer."),
        Entry::new(
            &["max_ack_pending", "max_pending", "max_inflight"],
            "number up to 65535",
            "1024",
            "Messages on their way to one subscription.",
        ),
        Entry::new(&["js_domain"], "text", "", "JetStream domain of sessions and messages."),
        Entry::new(
            &["stream_replicas"],
            "number",
            "up to 3, by the size of the cluster",
            "Replicas of sessions and messages.",
        ),
        Entry::new(&["consumer_replicas"], "number", "", "Ignored with a warning."),
        Entry::new(&["consumer_memory_storage"], "boolean", "false", "Keep consumers in memory."),
        Entry::new(
            &["consumer_inactive_threshold", "consumer_auto_cleanup"],
            "duration",
            "",
            "Remove consumers that were not used for so long.",
        ),
        Entry::new(&["reject_qos2_publish"], "boolean", "false", "Refuse to publish with QoS 2."),
        Entry::new(&["downgrade_qos2_subscribe"], "boolean", "false", "Subscribe with QoS 1 instead of 2."),
    ],
};
