//! The options that stand in no block.

use super::{BlockTable, Class, OptionEntry};

const PROFILING: Class = Class::NoMeaning("there is no Go profile to serve; use `perf`");

pub(super) static TOP: BlockTable = BlockTable {
    title: "Top level",
    entries: &[
        OptionEntry::new(&["listen"], "port or `host:port`", "0.0.0.0:4222", "Where clients connect."),
        OptionEntry::new(&["host", "net"], "text", "0.0.0.0", "Address to bind for clients."),
        OptionEntry::new(&["port"], "number", "4222", "Client port; -1 lets the system choose."),
        OptionEntry::new(&["server_name"], "text", "", "Name without blanks; the server's id when absent."),
        OptionEntry::new(
            &["client_advertise"],
            "`host` or `host:port`",
            "",
            "What INFO shows instead of the bound address.",
        )
        .live(),
        OptionEntry::new(&["pidfile", "pid_file"], "path", "", "File that receives the process id.").live(),
        OptionEntry::new(&["ports_file_dir"], "path", "", "Directory that receives `<program>_<pid>.ports`.")
            .live(),
        OptionEntry::new(
            &["lame_duck_duration"],
            "duration",
            "2m",
            "Over how long lame duck mode closes clients; at least 30s.",
        ),
        OptionEntry::new(
            &["lame_duck_grace_period"],
            "duration",
            "10s",
            "Wait before the first of them is closed.",
        ),
        // Logging.
        OptionEntry::new(&["debug"], "boolean", "false", "Log `[DBG]` lines.").live(),
        OptionEntry::new(&["trace"], "boolean", "false", "Log protocol lines.").live(),
        OptionEntry::new(
            &["trace_verbose"],
            "boolean",
            "false",
            "Trace the server's own connections, of which there are none yet; sets `trace` too.",
        )
        .live(),
        OptionEntry::new(
            &["trace_headers"],
            "boolean",
            "false",
            "Trace headers, not payloads; sets `trace` too.",
        )
        .live(),
        OptionEntry::new(
            &["max_traced_msg_len"],
            "number",
            "0",
            "Bytes of a payload that a trace line shows; 0 shows all.",
        )
        .live(),
        OptionEntry::new(&["logtime"], "boolean", "true", "Begin lines with the time.").live(),
        OptionEntry::new(&["logtime_utc"], "boolean", "false", "That time is UTC.").live(),
        OptionEntry::new(&["logfile", "log_file"], "path", "", "File to log to instead of standard error.")
            .live(),
        OptionEntry::new(
            &["logfile_size_limit", "log_size_limit"],
            "bytes",
            "0",
            "Size after which the file is rotated; 0 never.",
        ),
        OptionEntry::new(
            &["logfile_max_num", "log_max_num"],
            "number",
            "0",
            "Log files to keep, the current one included; 0 keeps all.",
        ),
        OptionEntry::new(&["syslog"], "boolean", "false", "Log to the system's log.").live(),
        OptionEntry::new(
            &["remote_syslog"],
            "URL",
            "",
            "Log to a syslog server: `udp://host:port`, `tcp://…`.",
        )
        .live(),
        // Monitoring.
        OptionEntry::new(&["http"], "port or `host:port`", "", "Where monitoring is served."),
        OptionEntry::new(&["https"], "port or `host:port`", "", "Where monitoring is served over TLS."),
        OptionEntry::new(
            &["http_port", "monitor_port"],
            "number",
            "",
            "Port of monitoring, at the clients' address.",
        ),
        OptionEntry::new(&["https_port"], "number", "", "Port of monitoring over TLS."),
        OptionEntry::new(&["http_base_path"], "path", "/", "Prefix of every page."),
        OptionEntry::new(
            &["metrics"],
            "boolean or block",
            "false",
            "Serve `/metrics` beside the pages. An option of Myelin's own.",
        )
        .live(),
        OptionEntry::new(
            &["otlp"],
            "block",
            "",
            "Push [metrics](monitoring.md#push) to a collector by OTLP. An option of Myelin's own.",
        )
        .live(),
        OptionEntry::new(
            &["dashboard"],
            "boolean",
            "false",
            "Serve the [dashboard](dashboard.md) at `/ui` beside the pages. An option of Myelin's own.",
        )
        .live(),
        OptionEntry::new(&["prof_port"], "number", "", "Port of Go's profiler.").class(PROFILING),
        OptionEntry::new(&["prof_block_rate"], "number", "", "Rate of Go's blocking profile.")
            .class(PROFILING),
        // Limits.
        OptionEntry::new(&["max_control_line"], "bytes", "4KB", "Longest protocol line.").live(),
        OptionEntry::new(&["max_payload"], "bytes", "1MB", "Largest message, headers included.").live(),
        OptionEntry::new(
            &["max_pending"],
            "bytes",
            "64MB",
            "What may wait for one client before it is cut off as too slow.",
        ),
        OptionEntry::new(
            &["max_connections", "max_conn"],
            "number",
            "65536",
            "Clients at once; 0 admits none.",
        )
        .live(),
        OptionEntry::new(
            &["max_subscriptions", "max_subs"],
            "number",
            "0",
            "Subscriptions of one client; 0 is no limit.",
        ),
        OptionEntry::new(
            &["max_sub_tokens", "max_subscription_tokens"],
            "number up to 255",
            "",
            "Tokens in a subscription's subject.",
        ),
        OptionEntry::new(
            &["max_closed_clients"],
            "number",
            "10000",
            "Closed clients that `/connz` remembers.",
        ),
        OptionEntry::new(
            &["ping_interval"],
            "duration",
            "2m",
            "Quiet time before the server pings a client.",
        )
        .live(),
        OptionEntry::new(&["ping_max"], "number", "2", "Unanswered pings before a client is cut off.").live(),
        OptionEntry::new(&["write_deadline"], "duration", "10s", "How long a client may accept nothing.")
            .live(),
        OptionEntry::new(
            &["write_timeout"],
            "`default`, `close` or `retry`",
            "default",
            "What happens then.",
        ),
        OptionEntry::new(
            &["no_fast_producer_stall"],
            "boolean",
            "false",
            "Drop for slow receivers rather than hold publishers back.",
        )
        .live(),
        OptionEntry::new(
            &["no_header_support"],
            "boolean",
            "false",
            "Behave like a server that knows no headers.",
        ),
        OptionEntry::new(
            &["disable_sublist_cache", "no_sublist_cache"],
            "boolean",
            "false",
            "Route without a cache.",
        )
        .class(Class::NoMeaning("the cache costs no lock and has a fixed size")),
        OptionEntry::new(
            &["connect_error_reports"],
            "number",
            "3600",
            "How often failed attempts to link are logged.",
        )
        .live(),
        OptionEntry::new(
            &["reconnect_error_reports"],
            "number",
            "1",
            "The same for links that were up before.",
        )
        .live(),
        OptionEntry::new(
            &["proxy_protocol"],
            "boolean",
            "false",
            "Connections may begin with a PROXY header.",
        ),
        OptionEntry::new(&["proxies"], "block", "", "Proxies that may connect for users.").live(),
        OptionEntry::new(&["feature_flags"], "block", "", "Behaviours that can be switched by name."),
        OptionEntry::new(&["server_tags"], "text or list", "", "Tags of this server, shown by monitoring.")
            .live(),
        OptionEntry::new(&["server_metadata"], "block", "", "Pairs of text that monitoring shows.").live(),
        // Security.
        OptionEntry::new(&["authorization"], "block", "", "Who may connect.").live(),
        OptionEntry::new(
            &["accounts"],
            "block or list of names",
            "",
            "Accounts, which are isolated from each other.",
        )
        .live(),
        OptionEntry::new(&["no_auth_user"], "text", "", "The user that clients without credentials become."),
        OptionEntry::new(
            &["system_account", "system"],
            "text",
            "$SYS",
            "The account for system events and requests.",
        ),
        OptionEntry::new(
            &["no_system_account", "no_system", "no_sys_acc"],
            "boolean",
            "false",
            "Run without a system account.",
        ),
        OptionEntry::new(
            &["default_sentinel"],
            "text",
            "",
            "JWT of the user that clients without one become.",
        )
        .live(),
        OptionEntry::new(&["mappings", "maps"], "block", "", "Subject mappings of the global account.")
            .live(),
        OptionEntry::new(&["tls"], "block", "", "TLS for clients.").live(),
        OptionEntry::new(&["allow_non_tls"], "boolean", "false", "Clients may do without TLS."),
        OptionEntry::new(&["ocsp"], "boolean or block", "", "OCSP stapling.").live(),
        OptionEntry::new(&["ocsp_cache"], "boolean or block", "", "Cache of OCSP answers.").live(),
        OptionEntry::new(
            &["operator", "operators", "roots", "root", "root_operators", "root_operator"],
            "JWT, path or list",
            "",
            "Operators whose accounts are trusted.",
        ),
        OptionEntry::new(
            &["trusted", "trusted_keys"],
            "key or list",
            "",
            "Public keys of trusted operators.",
        ),
        OptionEntry::new(
            &["resolver", "account_resolver", "accounts_resolver"],
            "text or block",
            "",
            "Where account JWTs are found.",
        ),
        OptionEntry::new(&["resolver_tls"], "block", "", "TLS for the resolver.").live(),
        OptionEntry::new(&["resolver_preload"], "block", "", "Account JWTs to begin with.").live(),
        OptionEntry::new(
            &["resolver_pinned_accounts"],
            "list",
            "",
            "Accounts to which the resolver is held.",
        )
        .live(),
        // Features.
        OptionEntry::new(&["jetstream"], "boolean, `enabled`, `disabled` or block", "false", "Streams.")
            .live(),
        OptionEntry::new(&["store_dir", "storedir"], "path", "", "Where JetStream stores."),
        OptionEntry::new(&["default_js_domain"], "block", "", "JetStream domain of accounts."),
        OptionEntry::new(&["cluster"], "block", "", "Routes to servers of the same cluster.").live(),
        OptionEntry::new(&["gateway"], "block", "", "Links to other clusters."),
        OptionEntry::new(
            &["leafnodes", "leaf"],
            "block",
            "",
            "Leaf nodes; remotes and compression are live.",
        )
        .live(),
        OptionEntry::new(&["websocket", "ws"], "block", "", "Clients over WebSocket."),
        OptionEntry::new(&["mqtt"], "block", "", "MQTT clients.").live(),
    ],
};
