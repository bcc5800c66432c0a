//! Every flag of nats-server 2.15.2 by each of its names, and what it takes; and those that only
//! Myelin has.

use super::FlagKind::{self, Number, Switch, Text};

/// Flag by what it sets, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flag {
    Host,
    Port,
    ServerName,
    PidFile,
    ConfigFile,
    TestConfig,
    HttpPort,
    HttpsPort,
    LogFile,
    Syslog,
    RemoteSyslog,
    Debug,
    Trace,
    TraceVerbose,
    DebugTrace,
    DebugTraceVerbose,
    Logtime,
    LogtimeUtc,
    LogSizeLimit,
    MaxTracedMsgLen,
    JetStream,
    StoreDir,
    User,
    Password,
    Token,
    ClientAdvertise,
    PortsFileDir,
    Routes,
    ClusterListen,
    ClusterAdvertise,
    ClusterName,
    NoAdvertise,
    ConnectRetries,
    Tls,
    TlsVerify,
    TlsCert,
    TlsKey,
    TlsCaCert,
    Profile,
    Signal,
    CheckReload,
    Version,
    Help,
    HelpTls,
}

pub(super) const FLAGS: &[(&[&str], FlagKind, Flag)] = &[
    (&["a", "addr", "net"], Text, Flag::Host),
    (&["p", "port"], Number, Flag::Port),
    (&["n", "name", "server_name"], Text, Flag::ServerName),
    (&["P", "pid"], Text, Flag::PidFile),
    (&["c", "config"], Text, Flag::ConfigFile),
    (&["t"], Switch, Flag::TestConfig),
    (&["m", "http_port"], Number, Flag::HttpPort),
    (&["ms", "https_port"], Number, Flag::HttpsPort),
    (&["l", "log"], Text, Flag::LogFile),
    (&["s", "syslog"], Switch, Flag::Syslog),
    (&["r", "remote_syslog"], Text, Flag::RemoteSyslog),
    (&["D", "debug"], Switch, Flag::Debug),
    (&["V", "trace"], Switch, Flag::Trace),
    (&["VV"], Switch, Flag::TraceVerbose),
    (&["DV"], Switch, Flag::DebugTrace),
    (&["DVV"], Switch, Flag::DebugTraceVerbose),
    (&["T", "logtime"], Switch, Flag::Logtime),
    (&["logtime_utc"], Switch, Flag::LogtimeUtc),
    (&["log_size_limit"], Number, Flag::LogSizeLimit),
    (&["max_traced_msg_len"], Number, Flag::MaxTracedMsgLen),
    (&["js", "jetstream"], Switch, Flag::JetStream),
    (&["sd", "store_dir"], Text, Flag::StoreDir),
    (&["user"], Text, Flag::User),
    (&["pass"], Text, Flag::Password),
    (&["auth"], Text, Flag::Token),
    (&["client_advertise"], Text, Flag::ClientAdvertise),
    (&["ports_file_dir"], Text, Flag::PortsFileDir),
    (&["routes"], Text, Flag::Routes),
    (&["cluster", "cluster_listen"], Text, Flag::ClusterListen),
    (&["cluster_advertise"], Text, Flag::ClusterAdvertise),
    (&["cluster_name"], Text, Flag::ClusterName),
    (&["no_advertise"], Switch, Flag::NoAdvertise),
    (&["connect_retries"], Number, Flag::ConnectRetries),
    (&["tls"], Switch, Flag::Tls),
    (&["tlsverify"], Switch, Flag::TlsVerify),
    (&["tlscert"], Text, Flag::TlsCert),
    (&["tlskey"], Text, Flag::TlsKey),
    (&["tlscacert"], Text, Flag::TlsCaCert),
    (&["profile"], Number, Flag::Profile),
    (&["sl", "signal"], Text, Flag::Signal),
    // Ours.
    (&["check-reload"], Text, Flag::CheckReload),
    (&["v", "version"], Switch, Flag::Version),
    (&["h", "help"], Switch, Flag::Help),
    (&["help_tls"], Switch, Flag::HelpTls),
];

/// The flag of that name, without dashes.
pub(super) fn find(name: &str) -> Option<(FlagKind, Flag)> {
    FLAGS.iter().find(|(names, ..)| names.contains(&name)).map(|&(_, kind, flag)| (kind, flag))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_name_is_listed_twice() {
        let names = FLAGS.iter().flat_map(|(names, ..)| *names);
        let mut seen = HashSet::new();
        let twice: Vec<_> = names.filter(|name| !seen.insert(**name)).collect();
        assert!(twice.is_empty(), "{twice:?}");
        // What nats-server 2.15.2 defines, and one of ours.
        assert_eq!(seen.len(), 64 + 1);
    }
}
