//! The texts of `-help` and `-help_tls`: every flag of nats-server 2.15.2 in its group and place,
//! in our words.
//!
//! The text of `-help` is also the table of flags for manual pages and completions
//! ([`flag_groups`]), so that there is no second place to describe a flag in.

/// Column of `-help` at which the description of a flag begins.
const ABOUT: usize = 37;

/// A flag as `-help` describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedFlag {
    /// All its names, with their dashes.
    pub names: Vec<&'static str>,
    /// Placeholder of its value, as in `<host>`; empty for a switch.
    pub takes: &'static str,
    /// Description, on one line.
    pub about: String,
}

/// Flags that stand below one title of `-help`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FlagGroup {
    /// Title without its colon.
    pub title: &'static str,
    /// Flags in the order of `-help`.
    pub flags: Vec<DescribedFlag>,
}

/// Every flag, group by group, as `-help` shows them.
pub fn flag_groups() -> Vec<FlagGroup> {
    let mut groups: Vec<FlagGroup> = Vec::new();
    for line in USAGE.lines() {
        if let Some(title) = line.strip_suffix(':').filter(|title| title.ends_with("Options")) {
            groups.push(FlagGroup { title, flags: Vec::new() });
        } else if let Some(group) = groups.last_mut() {
            add_line(group, line);
        }
    }
    groups
}

/// Adds one line of a group: a flag, more names of the flag above, or more of its description.
fn add_line(group: &mut FlagGroup, line: &'static str) {
    // A long placeholder moves the description to the right by a column.
    let about = line.get(ABOUT..).map(str::trim_start).unwrap_or_default();
    let left = line.get(..ABOUT).unwrap_or(line).trim();
    if !left.is_empty() {
        let (names, takes) = left
            .find(" <")
            .or_else(|| left.find(" ["))
            .map_or((left, ""), |at| (&left[..at], &left[at + 1..]));
        let names = names.split(',').map(str::trim);
        match group.flags.last_mut() {
            Some(flag) if flag.about.is_empty() => {
                flag.names.extend(names);
                flag.takes = takes;
            }
            _ => group.flags.push(DescribedFlag { names: names.collect(), takes, about: String::new() }),
        }
    }
    if let Some(flag) = group.flags.last_mut().filter(|_| !about.is_empty()) {
        if !flag.about.is_empty() {
            flag.about.push(' ');
        }
        flag.about.push_str(about);
    }
}

/// Text that `-help` prints on standard output, and that follows a complaint about a flag.
pub fn usage() -> &'static str {
    USAGE
}

/// Text that `-help_tls` prints on standard output.
pub fn help_tls() -> &'static str {
    HELP_TLS
}

const USAGE: &str = "
Usage: myelin-server [options]

Server Options:
    -a, --addr, --net <host>         Address to listen on (default: 0.0.0.0)
    -p, --port <port>                Port for clients, -1 for any free one (default: 4222)
    -n, --name
        --server_name <server_name>  Name of this server (default: its id)
    -P, --pid <file>                 Write the process id to a file
    -m, --http_port <port>           Port for monitoring over HTTP
    -ms,--https_port <port>          Port for monitoring over HTTPS
    -c, --config <file>              Read a configuration file
    -t                               Check the configuration file and exit
        --check-reload <file>        Say what a reload would do if this were the configuration file, and exit:
                                     0 it would take it, 1 it could not read it, 2 a restart is needed
    -sl,--signal <signal>[=<pid>]    Signal a running server: ldm, stop, quit, term, reopen, reload
                                     <pid> is a process id, the path of a pid file, or the beginning of ids
                                     followed by *; without it the only server that runs is meant
        --client_advertise <string>  Address that clients are told to connect to
        --ports_file_dir <dir>       Write the ports in use to <executable_name>_<pid>.ports in a directory

Logging Options:
    -l, --log <file>                 Write the log to a file
    -T, --logtime                    Begin log lines with the time (default: true)
        --logtime_utc                That time is UTC (default: local time)
    -s, --syslog                     Write the log to the system's log
    -r, --remote_syslog <addr>       Write it to a syslog server (udp://localhost:514)
    -D, --debug                      Log debugging lines
    -V, --trace                      Log the protocol
    -VV                              Log the protocol, the system account included
    -DV                              The same as -D -V
    -DVV                             The same as -D -VV
        --log_size_limit <limit>     Start a new log file at this size in bytes (default: never)
        --max_traced_msg_len <len>   Cut messages in the log at this length (default: unlimited)

JetStream Options:
    -js, --jetstream                 Enable JetStream
    -sd, --store_dir <dir>           Directory for JetStream's files

Authorization Options:
        --user <user>                User name that clients must give
        --pass <password>            Password that clients must give
        --auth <token>               Token that clients must give

TLS Options:
        --tls                        Talk TLS to clients, whoever they are (default: false)
        --tlscert <file>             Certificate of this server
        --tlskey <file>              Private key of that certificate
        --tlsverify                  Talk TLS, and only to clients with a certificate
        --tlscacert <file>           Who may have signed the clients' certificates

Cluster Options:
        --routes <rurl-1, rurl-2>    Servers to connect to
        --cluster <cluster-url>      Where other servers of the cluster connect to this one
        --cluster_name <string>      Name of the cluster (default: made up)
        --no_advertise <bool>        Do not tell clients of the other servers
        --cluster_advertise <string> Address that other servers are told to connect to
        --connect_retries <number>   How often to try a server again that another one told of
        --cluster_listen <url>       The same as --cluster

Profiling Options:
        --profile <port>             Accepted and without effect: there is no Go profile to serve

Common Options:
    -h, --help                       Show this text
    -v, --version                    Show the version
        --help_tls                   Show what there is to configure about TLS
";

const HELP_TLS: &str = r#"
TLS is configured in a tls block of the configuration file, for example:

    tls {
        cert_file:      "./certs/server-cert.pem"
        key_file:       "./certs/server-key.pem"
        ca_file:        "./certs/ca.pem"
        verify:         true
        verify_and_map: true

        cipher_suites: [
            "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
        ]
        curve_preferences: [
            "X25519",
            "CurveP256"
        ]
    }

Cipher suites (those with CBC, 3DES or RC4, and those that begin with TLS_RSA, are known by name only):
    TLS_AES_128_GCM_SHA256
    TLS_AES_256_GCM_SHA384
    TLS_CHACHA20_POLY1305_SHA256
    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA
    TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256
    TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256
    TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA
    TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384
    TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256
    TLS_ECDHE_ECDSA_WITH_RC4_128_SHA
    TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA
    TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA
    TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256
    TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256
    TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA
    TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384
    TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256
    TLS_ECDHE_RSA_WITH_RC4_128_SHA
    TLS_RSA_WITH_3DES_EDE_CBC_SHA
    TLS_RSA_WITH_AES_128_CBC_SHA
    TLS_RSA_WITH_AES_128_CBC_SHA256
    TLS_RSA_WITH_AES_128_GCM_SHA256
    TLS_RSA_WITH_AES_256_CBC_SHA
    TLS_RSA_WITH_AES_256_GCM_SHA384
    TLS_RSA_WITH_RC4_128_SHA

Curve preferences:
    X25519MLKEM768
    SecP256r1MLKEM768
    SecP384r1MLKEM1024
    X25519
    CurveP256
    CurveP384
    CurveP521

The certificates of peers can be checked with their CA (OCSP), if verify is true or for the remotes of leaf nodes:

    tls {
        ...
        verify: true

        # Either this, with all defaults:
        ocsp_peer: true

        # or this:
        ocsp_peer {
            verify: true                            # ask the CA (default false)
            ca_timeout: 2                           # seconds to wait for it (default 2)
            allowed_clockskew: 30                   # seconds that clocks may differ (default 30)
            warn_only: false                        # accept what was revoked, with a warning (default false)
            unknown_is_good: false                  # accept what the CA does not know (default false)
            allow_when_ca_unreachable: false        # accept when the CA is silent (default false)
            cache_ttl_when_next_update_unset: 3600  # seconds to keep an answer without an end (default 3600)
        }
    }

Their answers can be kept, with this at the top of the file:

    ocsp_cache {
        type: local              # or none (default local)
        local_store: "_rc_"      # directory (default _rc_)
        preserve_revoked: false  # never forget what was revoked (default false)
        save_interval: 300       # seconds between writes, at least 1 (default 300)
    }

The option ocsp is about the answer for this server's own certificate, and about routes and gateways.
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::Flags;

    fn flag<'a>(groups: &'a [FlagGroup], name: &str) -> &'a DescribedFlag {
        let mut flags = groups.iter().flat_map(|group| &group.flags);
        flags.find(|flag| flag.names.contains(&name)).expect(name)
    }

    #[test]
    fn flags_of_the_help_have_names_values_and_descriptions() {
        let groups = flag_groups();
        assert_eq!(groups.first().map(|group| group.title), Some("Server Options"));
        let name = flag(&groups, "--server_name");
        assert_eq!(name.names, ["-n", "--name", "--server_name"]);
        assert_eq!((name.takes, &*name.about), ("<server_name>", "Name of this server (default: its id)"));
        assert_eq!(flag(&groups, "-ms").names, ["-ms", "--https_port"]);
        let signal = flag(&groups, "--signal");
        assert_eq!(signal.takes, "<signal>[=<pid>]");
        assert!(signal.about.ends_with("the only server that runs is meant"), "{}", signal.about);
        assert_eq!(
            flag(&groups, "--cluster_advertise").about,
            "Address that other servers are told to connect to"
        );
        assert_eq!(flag(&groups, "--routes").takes, "<rurl-1, rurl-2>");
        assert_eq!(flag(&groups, "-t").takes, "");
    }

    #[test]
    fn the_help_has_every_flag_that_is_read_and_no_other() {
        let groups = flag_groups();
        let mut described: Vec<_> = groups
            .iter()
            .flat_map(|group| &group.flags)
            .inspect(|flag| assert!(!flag.about.is_empty(), "{flag:?}"))
            .flat_map(|flag| {
                flag.names.iter().map(|name| (name.trim_start_matches('-'), !flag.takes.is_empty()))
            })
            .collect();
        let mut read: Vec<_> = Flags::known().collect();
        described.sort_unstable();
        read.sort_unstable();
        // Compat: the reference shows a value behind a switch.
        described
            .iter_mut()
            .filter(|(name, _)| *name == "no_advertise")
            .for_each(|(_, takes)| *takes = false);
        assert_eq!(described, read);
    }
}
