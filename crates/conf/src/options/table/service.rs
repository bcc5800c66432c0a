//! `websocket{}`, `mqtt{}` and `metrics{}`.

use super::{BlockTable, OptionEntry};

pub(super) static WEBSOCKET: BlockTable = BlockTable {
    title: "websocket",
    entries: &[
        OptionEntry::new(&["listen"], "port or `host:port`", "", "Where WebSocket is accepted."),
        OptionEntry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        OptionEntry::new(&["port"], "number", "", "Port for WebSocket; -1 lets the system choose."),
        OptionEntry::new(
            &["advertise"],
            "`host` or `host:port`",
            "",
            "What clients are told instead of the bound address.",
        ),
        OptionEntry::new(&["no_tls"], "boolean", "false", "Run without TLS."),
        OptionEntry::new(&["tls"], "block", "", "TLS; required unless `no_tls`."),
        OptionEntry::new(&["same_origin"], "boolean", "false", "The origin of a request must be its host."),
        OptionEntry::new(
            &["allowed_origins", "allowed_origin", "allow_origins", "allow_origin", "origins", "origin"],
            "URL or list",
            "",
            "Origins that may connect.",
        ),
        OptionEntry::new(
            &["handshake_timeout"],
            "seconds or duration",
            "2s",
            "Time for the request, the TLS handshake included.",
        ),
        OptionEntry::new(
            &["compression", "compress"],
            "boolean",
            "false",
            "Compress frames when the client asks for it.",
        ),
        OptionEntry::new(
            &["authorization", "authentication"],
            "block",
            "",
            "Instead of the credentials of ordinary clients.",
        ),
        OptionEntry::new(&["jwt_cookie"], "text", "", "Cookie that stands for the JWT."),
        OptionEntry::new(&["user_cookie"], "text", "", "Cookie that stands for the user."),
        OptionEntry::new(&["pass_cookie"], "text", "", "Cookie that stands for the password."),
        OptionEntry::new(&["token_cookie"], "text", "", "Cookie that stands for the token."),
        OptionEntry::new(&["no_auth_user"], "text", "", "The user that clients without credentials become."),
        OptionEntry::new(&["headers"], "block", "", "Headers of the answer to the upgrade."),
        OptionEntry::new(
            &["ping_interval"],
            "duration",
            "that of clients",
            "Quiet time before a client is pinged.",
        ),
    ],
};

pub(super) static SIMPLE_AUTHORIZATION: BlockTable = BlockTable {
    title: "websocket.authorization, mqtt.authorization",
    entries: &[
        OptionEntry::new(&["user", "username"], "text", "", "The single user."),
        OptionEntry::new(&["pass", "password"], "text", "", "Its password, plain or bcrypt."),
        OptionEntry::new(&["token"], "text", "", "The token that all clients send."),
        OptionEntry::new(&["timeout"], "seconds or duration", "that of clients", "Time to log in."),
    ],
};

pub(super) static MQTT: BlockTable = BlockTable {
    title: "mqtt",
    entries: &[
        OptionEntry::new(&["listen"], "port or `host:port`", "", "Where MQTT is accepted."),
        OptionEntry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind."),
        OptionEntry::new(&["port"], "number", "", "Port for MQTT; -1 lets the system choose."),
        OptionEntry::new(&["tls"], "block", "", "TLS.").live(),
        OptionEntry::new(
            &["authorization", "authentication"],
            "block",
            "",
            "Instead of the credentials of ordinary clients.",
        ),
        OptionEntry::new(&["no_auth_user"], "text", "", "The user that clients without credentials become."),
        OptionEntry::new(&["ack_wait", "ackwait"], "duration", "30s", "Time for a client to acknowledge.")
            .live(),
        OptionEntry::new(
            &["js_api_timeout", "api_timeout"],
            "duration",
            "5s",
            "Time for JetStream to answer.",
        ),
        OptionEntry::new(
            &["max_ack_pending", "max_pending", "max_inflight"],
            "number up to 65535",
            "1024",
            "Messages on their way to one session.",
        )
        .live(),
        OptionEntry::new(&["js_domain"], "text", "", "JetStream domain of sessions and messages."),
        OptionEntry::new(
            &["stream_replicas"],
            "number",
            "up to 3, by the size of the cluster",
            "Replicas of sessions and messages.",
        )
        .live(),
        OptionEntry::new(&["consumer_replicas"], "number", "", "Ignored with a warning."),
        OptionEntry::new(&["consumer_memory_storage"], "boolean", "false", "Keep consumers in memory.")
            .live(),
        OptionEntry::new(
            &["consumer_inactive_threshold", "consumer_auto_cleanup"],
            "duration",
            "",
            "Remove consumers that were not used for so long.",
        )
        .live(),
        OptionEntry::new(&["reject_qos2_publish"], "boolean", "false", "Refuse to publish with QoS 2."),
        OptionEntry::new(
            &["downgrade_qos2_subscribe"],
            "boolean",
            "false",
            "Subscribe with QoS 1 instead of 2.",
        ),
        OptionEntry::new(
            &["protocols"],
            "`[3]` or `[3, 5]`",
            "[3, 5]",
            "Versions of MQTT. Without 5 it is refused as by nats-server.",
        ),
        OptionEntry::new(
            &["server_reference"],
            "text",
            "",
            "Other servers, for clients of MQTT 5 in lame duck mode: `host:port`, blanks between them.",
        ),
    ],
};

pub(super) static METRICS: BlockTable = BlockTable {
    title: "metrics",
    entries: &[
        OptionEntry::new(&["enabled"], "boolean", "true", "Serve `/metrics`.").live(),
        OptionEntry::new(
            &["prefix"],
            "text",
            "",
            "Beginning of names instead of `gnatsd` and `jetstream`, like the exporter's `-prefix`.",
        )
        .live(),
        OptionEntry::new(
            &["max_connections"],
            "number",
            "0",
            "Connections whose figures are shown one by one; 0 shows sums only.",
        )
        .live(),
        OptionEntry::new(&["max_accounts"], "number", "1000", "Accounts that are shown.").live(),
        OptionEntry::new(
            &["max_streams"],
            "number",
            "1000",
            "Streams that are shown, and groups of replicas, and queues.",
        )
        .live(),
        OptionEntry::new(&["max_consumers"], "number", "10000", "Consumers that are shown.").live(),
    ],
};

pub(super) static OTLP: BlockTable = BlockTable {
    title: "otlp",
    entries: &[
        OptionEntry::new(
            &["endpoint"],
            "URL",
            "",
            "`http://` or `https://`, with a port and a path if need be; `/v1/metrics` is appended (and `/v1/traces`). Without it nothing is pushed.",
        )
        .live(),
        OptionEntry::new(
            &["traces"],
            "boolean",
            "false",
            "Push [spans](monitoring.md#traces) of messages whose header `traceparent` says that another system traces them, to `/v1/traces`.",
        )
        .live(),
        OptionEntry::new(&["interval"], "duration", "60s", "Time between two pushes of metrics, 100ms or more.")
            .live(),
        OptionEntry::new(
            &["timeout"],
            "duration",
            "10s",
            "Time for one request, from its connection to its answer.",
        )
        .live(),
        OptionEntry::new(&["headers"], "block", "", "Headers of every request, such as a token.").live(),
        OptionEntry::new(
            &["resource"],
            "block",
            "",
            "Attributes of the resource, beside `service.name`, `service.version` and `service.instance.id` or in their place.",
        )
        .live(),
        OptionEntry::new(&["tls"], "block", "", "TLS for `https`; without it the system's authorities count.")
            .live(),
    ],
};
