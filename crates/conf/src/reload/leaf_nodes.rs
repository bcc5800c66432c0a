//! Changes of `leafnodes{}`: remotes come and go one by one; of what stays, compression and most of
//! TLS may change.

use super::{Changes, Effect, GoDuration, NotReloadable, text};
use crate::Secret;
use crate::duration;
use crate::options::{
    ClusterMigrate, HandshakeFirst, LeafNodeOptions, LeafProxyOptions, LeafRemoteOptions, LeafUserOptions,
    LinkCompression, ListenerOptions, Options, Port, TlsOptions,
};
use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

/// Time for a leaf node to log in where nothing is configured, in seconds.
const AUTH_TIMEOUT: f64 = 2.0;
/// Time for the handshake of TLS where nothing is configured, in seconds.
const TLS_TIMEOUT: f64 = 2.0;

/// Text that is said instead of a secret.
const HIDDEN: &str = "[REDACTED]";

impl Changes<'_> {
    pub(super) fn leaf_nodes(&mut self, bound: Option<u16>) {
        self.leaf_listener(bound);
        self.leaf_logins();
        self.leaf_tls();
        self.leaf_links();
        self.leaf_handshakes();
        let compression = |of: &Options| of.leaf_nodes.compression().ok();
        if compression(self.old) != compression(self.new)
            && let Some(compression) = compression(self.new)
        {
            let line = format!("Reloaded: LeafNode Compression value is: {}", shown(compression));
            self.report_as(Effect::Reconnect, true, line);
        }
        self.leaf_remotes();
    }

    fn leaf_listener(&mut self, bound: Option<u16>) {
        let host = |of: &LeafNodeOptions| match &of.listener.host {
            host if *host == ListenerOptions::default().host && of.listener.port.is_none() => String::new(),
            host => host.clone(),
        };
        let port = |of: &LeafNodeOptions| match of.listener.port {
            // A port that the system chose stays what it is.
            Some(Port::Random) => i32::from(bound.unwrap_or(0)),
            port => port.map_or(0, Port::to_number),
        };
        self.leaf("LeafNode: field \"Host\"", host);
        self.leaf("LeafNode: field \"Port\"", port);
    }

    fn leaf_logins(&mut self) {
        self.leaf("LeafNode: field \"Username\"", |of| text(of.authorization.user.as_ref()));
        let hidden = [
            ("LeafNode: field \"Password\"", self.differ(|of| of.authorization.password.clone())),
            ("LeafNode: field \"Users\"", self.differ(users)),
        ];
        for (field, _) in hidden.into_iter().filter(|(_, differs)| *differs) {
            let (old, new) = (HIDDEN.to_owned(), HIDDEN.to_owned());
            self.refuse(NotReloadable::Field { field, old, new });
        }
        if self.differ(proxied_users) {
            self.unsaid("LeafNode Users proxy_required".to_owned());
        }
        self.leaf("LeafNode: field \"ProxyRequired\"", |of| of.authorization.proxy_required);
        self.leaf("LeafNode: field \"Nkey\"", |of| text(of.authorization.nkey.as_ref()));
        self.leaf("LeafNode: field \"Account\"", |of| text(of.authorization.account.as_ref()));
        self.leaf("LeafNode: field \"AuthTimeout\"", |of| {
            let of_tls = |tls: &TlsOptions| tls.timeout.map_or(TLS_TIMEOUT, |time| time.as_secs_f64()) + 1.0;
            let default = match of.listener.port {
                None => 0.0,
                Some(_) => of.tls.as_ref().map_or(AUTH_TIMEOUT, of_tls),
            };
            of.authorization.timeout.map_or(default, |time| time.as_secs_f64())
        });
    }

    fn leaf_tls(&mut self) {
        self.leaf("LeafNode: field \"TLSTimeout\"", |of| {
            let default = if of.listener.port.is_some() { TLS_TIMEOUT } else { 0.0 };
            tls_timeout(of.tls.as_ref()).unwrap_or(default)
        });
        self.leaf("LeafNode: field \"TLSMap\"", |of| of.tls.as_ref().is_some_and(|tls| tls.verify_and_map));
        self.leaf("LeafNode: field \"TLSPinnedCerts\"", |of| {
            let pinned = of.tls.iter().flat_map(|tls| &tls.pinned_certs);
            let pinned: Vec<_> = pinned.map(|key| format!("{key}:{{}}")).collect();
            format!("map[{}]", pinned.join(" "))
        });
    }

    /// Tells of TLS that may change: the log has a word for the moment of the handshake only.
    fn leaf_handshakes(&mut self) {
        let first =
            |of: &LeafNodeOptions| of.tls.as_ref().map_or(HandshakeFirst::No, |tls| tls.handshake_first);
        let (old, new) = (&self.old.leaf_nodes, &self.new.leaf_nodes);
        if first(old) != first(new) {
            let (first, fallback) = match first(new) {
                HandshakeFirst::No => (false, Duration::ZERO),
                HandshakeFirst::Yes => (true, Duration::ZERO),
                HandshakeFirst::Within(fallback) => (true, fallback),
            };
            let name = "Reloaded: LeafNode TLS HandshakeFirst";
            self.report(format!("{name} value is: {first}"));
            self.report(format!("{name}Fallback value is: {}", duration::format(fallback)));
        } else if old.tls != new.tls {
            self.unsaid("LeafNode TLS".to_owned());
        }
    }

    fn leaf_links(&mut self) {
        self.leaf("LeafNode: field \"Advertise\"", |of| text(of.advertise.as_ref()));
        self.leaf("LeafNode: field \"NoAdvertise\"", |of| of.no_advertise);
        self.leaf("LeafNode: field \"ReconnectInterval\"", |of| GoDuration(of.reconnect));
        self.leaf("LeafNode: field \"WriteDeadline\"", |of| {
            GoDuration(of.write_deadline.unwrap_or_default())
        });
        self.leaf("LeafNode: field \"WriteTimeout\"", |of| of.write_timeout.name());
        self.leaf("LeafNode: field \"MinVersion\"", |of| {
            of.min_version.map_or_else(String::new, |[a, b, c]| format!("{a}.{b}.{c}"))
        });
        self.leaf("LeafNode: field \"IsolateLeafnodeInterest\"", |of| of.isolate_leafnode_interest);
        self.leaf("LeafNode: field \"DialTimeout\"", |of| GoDuration(of.dial_timeout));
    }

    fn leaf<T: PartialEq + Display>(&mut self, field: &'static str, get: impl Fn(&LeafNodeOptions) -> T) {
        self.fixed(field, |options| get(&options.leaf_nodes));
    }

    fn differ<T: PartialEq>(&self, get: impl Fn(&LeafNodeOptions) -> T) -> bool {
        get(&self.old.leaf_nodes) != get(&self.new.leaf_nodes)
    }

    fn leaf_remotes(&mut self) {
        let (old, new) = (&self.old.leaf_nodes, &self.new.leaf_nodes);
        for remote in &old.remotes {
            let id = remote.identity();
            let other = new.remotes.iter().find(|other| other.identity() == id);
            let line =
                other.map_or_else(|| vec![Ok("removed".to_owned())], |other| remote_changes(remote, other));
            let name = remote.shown_name();
            if other.is_some_and(|other| other.tls != remote.tls || other.proxy != remote.proxy) {
                self.unsaid(format!("LeafNode Remote {name} TLS"));
            }
            for change in line {
                match change {
                    Ok(what) => {
                        let line = format!("Reloaded: LeafNode Remote {name} {what}");
                        self.report_as(Effect::Reconnect, true, line);
                    }
                    Err(why) => self.refuse(NotReloadable::LeafRemote(format!("{name}: {why}"))),
                }
            }
        }
        for remote in &new.remotes {
            let id = remote.identity();
            if !old.remotes.iter().any(|other| other.identity() == id) {
                // Compat: nothing in the log.
                self.unsaid(format!("LeafNode Remote {} added", remote.shown_name()));
            }
        }
    }
}

/// Users of leaf nodes, of which none may change. Compat: in any order, and but for whether they
/// must come through a proxy.
fn users(of: &LeafNodeOptions) -> Vec<(String, Secret, Option<String>)> {
    let fixed = |user: &LeafUserOptions| (user.name.clone(), user.password.clone(), user.account.clone());
    let mut users: Vec<_> = of.authorization.users.iter().map(fixed).collect();
    users.sort_unstable_by(|one, other| one.0.cmp(&other.0));
    users
}

/// Names of the users who must come through a proxy.
fn proxied_users(of: &LeafNodeOptions) -> BTreeSet<String> {
    let proxied = of.authorization.users.iter().filter(|user| user.proxy_required);
    proxied.map(|user| user.name.clone()).collect()
}

/// Changes of one remote: words for the log, or why they are refused.
fn remote_changes(old: &LeafRemoteOptions, new: &LeafRemoteOptions) -> Vec<Result<String, String>> {
    let mut found = Vec::new();
    let mut fixed = |field: &str, old: String, new: String| {
        if old != new {
            found.push(Err(format!("field {field:?}: old={old}, new={new}")));
        }
    };
    let both = |get: &dyn Fn(&LeafRemoteOptions) -> String| (get(old), get(new));
    let list = |subjects: &[String]| format!("[{}]", subjects.join(" "));
    let duration = |time: Duration| duration::format(time);
    let migrates = |of: &LeafRemoteOptions| match of.jetstream_cluster_migrate {
        ClusterMigrate::Off => (false, Duration::ZERO),
        ClusterMigrate::After(delay) => (true, delay),
    };
    type Get<'g> = &'g dyn Fn(&LeafRemoteOptions) -> String;
    let fields: [(&str, Get<'_>); 13] = [
        ("NoRandomize", &|of| of.no_randomize.to_string()),
        ("TLSTimeout", &|of| tls_timeout(of.tls.as_ref()).unwrap_or(0.0).to_string()),
        ("Hub", &|of| of.hub.to_string()),
        ("DenyImports", &|of| list(&of.deny_imports)),
        ("DenyExports", &|of| list(&of.deny_exports)),
        ("FirstInfoTimeout", &|of| duration(of.first_info_timeout)),
        ("DialTimeout", &|of| duration(of.dial_timeout.unwrap_or_default())),
        ("Websocket", &|of| format!("{{{} {}}}", of.ws_compression, of.ws_no_masking)),
        ("JetStreamClusterMigrate", &|of| migrates(of).0.to_string()),
        ("JetStreamClusterMigrateDelay", &|of| duration(migrates(of).1)),
        ("LocalIsolation", &|of| of.isolate_leafnode_interest.to_string()),
        ("RequestIsolation", &|of| of.request_isolation.to_string()),
        ("IgnoreDiscoveredServers", &|of| of.ignore_discovered_servers.to_string()),
    ];
    for (field, get) in fields {
        let (old, new) = both(get);
        fixed(field, old, new);
    }
    let proxy = |of: &LeafRemoteOptions| {
        of.proxy.clone().map(|proxy| LeafProxyOptions { tls: None, ..proxy }).unwrap_or_default()
    };
    if proxy(old) != proxy(new) {
        found.push(Err("field \"Proxy\": only the proxy TLS configuration can be changed".to_owned()));
    }
    let is_first =
        |of: &LeafRemoteOptions| of.tls.as_ref().is_some_and(|tls| tls.handshake_first != HandshakeFirst::No);
    if is_first(old) != is_first(new) {
        found.push(Ok(format!("TLS HandshakeFirst value is: {}", is_first(new))));
    }
    let compression = |of: &LeafRemoteOptions| of.compression().ok();
    if compression(old) != compression(new)
        && let Some(compression) = compression(new)
    {
        found.push(Ok(format!("Compression value is: {}", shown(compression))));
    }
    if old.disabled != new.disabled {
        found.push(Ok(format!("Disabled value is: {}", new.disabled)));
    }
    found
}

/// Time for a handshake where there is TLS.
fn tls_timeout(tls: Option<&TlsOptions>) -> Option<f64> {
    tls.map(|tls| tls.timeout.map_or(TLS_TIMEOUT, |time| time.as_secs_f64()))
}

/// A mode of compression as the reference prints it.
fn shown(compression: LinkCompression) -> String {
    let mode = match compression {
        LinkCompression::NotSupported => "not supported",
        LinkCompression::Off => "off",
        LinkCompression::Accept => "accept",
        LinkCompression::S2Auto(thresholds) => {
            let thresholds: Vec<_> = thresholds.0.into_iter().map(duration::format).collect();
            return format!("{{s2_auto [{}]}}", thresholds.join(" "));
        }
        LinkCompression::S2Fast => "s2_fast",
        LinkCompression::S2Better => "s2_better",
        LinkCompression::S2Best => "s2_best",
    };
    format!("{{{mode} []}}")
}

#[cfg(test)]
mod tests {
    use super::super::{BoundPorts, changes, check_reload};
    use crate::load_text;
    use crate::options::Options;

    fn options(text: &str) -> Options {
        load_text(text.as_bytes(), &|_| None).unwrap_or_else(|error| panic!("{text}: {error}")).options
    }

    fn bound() -> BoundPorts {
        BoundPorts { client: 4222, websocket: None, mqtt: None, cluster: None, leaf: Some(7422) }
    }

    fn block(inner: &str) -> Options {
        options(&format!("accounts: [A, B]\nleafnodes {{ port: 7422\n{inner} }}"))
    }

    fn remote(more: &str) -> Options {
        block(&format!("remotes: [{{ url: \"nats-leaf://u:p@h:1\", account: A\n{more} }}]"))
    }

    fn lines(old: &Options, new: &Options) -> Result<Vec<String>, String> {
        let lines = changes(old, new, bound()).map_err(|error| error.to_string())?;
        Ok(lines.into_iter().filter(|line| line.contains("LeafNode")).collect())
    }

    const NAME: &str = "urls=[\"nats-leaf://u:xxxxx@h:1\"], account=\"A\"";

    /// As nats-server 2.15.2 wrote them.
    #[test]
    fn remotes_come_and_go_and_may_be_compressed_otherwise() {
        let none = block("");
        assert_eq!(lines(&none, &remote("")), Ok(vec![]));
        let [added] = &check_reload(&none, &remote(""), bound())[..] else { panic!("one change") };
        assert_eq!(added.text, format!("LeafNode Remote {NAME} added"));
        for (old, new, what) in [
            (remote(""), none.clone(), "removed"),
            (remote(""), remote("disabled: true"), "Disabled value is: true"),
            (remote("disabled: true"), remote(""), "Disabled value is: false"),
            (remote(""), remote("compression: s2_fast"), "Compression value is: {s2_fast []}"),
            (remote("compression: off"), remote(""), "Compression value is: {s2_auto [10ms 50ms 100ms]}"),
        ] {
            let expected = format!("Reloaded: LeafNode Remote {NAME} {what}");
            assert_eq!(lines(&old, &new), Ok(vec![expected]), "{what}");
        }
        let of = |password: &str, account: &str| {
            block(&format!("remotes: [{{ url: \"nats-leaf://u:{password}@h:1\", account: {account} }}]"))
        };
        let removed = Ok(vec![format!("Reloaded: LeafNode Remote {NAME} removed")]);
        assert_eq!(lines(&of("p", "A"), &of("q", "A")), removed, "another password");
        assert_eq!(lines(&of("p", "A"), &of("p", "B")), removed, "another account");
        assert_eq!(lines(&of("p", "A"), &of("p", "A")), Ok(vec![]));
        assert_eq!(
            lines(&none, &block("compression: s2_fast")),
            Ok(vec!["Reloaded: LeafNode Compression value is: {s2_fast []}".to_owned()])
        );
    }

    /// As nats-server 2.15.2 answered.
    #[test]
    fn users_may_change_places() {
        let block = |users: &str| block(&format!("authorization {{ users: [{users}] }}"));
        let (one, other) = ("{user: u, password: p, account: A}", "{user: v, password: q}");
        let old = block(&format!("{one}, {other}"));
        let proxied = "{user: v, password: q, proxy_required: true}";
        for same in [format!("{other}, {one}"), format!("{proxied}, {one}")] {
            assert_eq!(lines(&old, &block(&same)), Ok(vec![]), "{same}");
        }
        for another in [
            one.to_owned(),
            format!("{one}, {other}, {{user: w, password: r}}"),
            format!("{one}, {{user: v, password: r}}"),
            format!("{one}, {{user: v, password: q, account: B}}"),
            format!("{one}, {{user: w, password: q}}"),
        ] {
            assert!(lines(&old, &block(&another)).is_err(), "{another}");
        }
    }

    #[test]
    fn a_default_port_that_is_written_out_is_no_change() {
        let [old, new] = ["nats://h", "nats://h:7422"].map(|url| {
            let options = block(&format!("remotes: [{{ url: \"{url}\", account: A }}]"));
            options.leaf_nodes.remotes[0].clone()
        });
        assert_ne!(old.urls, new.urls);
        assert!(old.identity() == new.identity() && old.is_with_other_tls(&new));
    }

    #[test]
    fn all_else_stays() {
        let with = |field: &str, old: &str, new: &str| {
            format!("config reload not supported for LeafNode: field {field:?}: old={old}, new={new}")
        };
        for (new, field, before, after) in [
            ("advertise: \"1.2.3.4:5\"", "Advertise", "", "1.2.3.4:5"),
            ("no_advertise: true", "NoAdvertise", "false", "true"),
            ("authorization { timeout: 5 }", "AuthTimeout", "2", "5"),
            ("authorization { user: u, password: p }", "Username", "", "u"),
            ("min_version: 2.9.0", "MinVersion", "", "2.9.0"),
            ("isolate_leafnode_interest: true", "IsolateLeafnodeInterest", "false", "true"),
            ("reconnect: \"2s\"", "ReconnectInterval", "1s", "2s"),
            ("write_deadline: \"2s\"", "WriteDeadline", "0s", "2s"),
            ("port: 7423", "Port", "7422", "7423"),
        ] {
            assert_eq!(lines(&block(""), &block(new)), Err(with(field, before, after)), "{new}");
        }
        let with = |field: &str, old: &str, new: &str| {
            let what = format!("LeafNode: remote {NAME}: field {field:?}: old={old}, new={new}");
            format!("config reload not supported for {what}")
        };
        for (new, field, before, after) in [
            ("deny_imports: x", "DenyImports", "[]", "[x]"),
            ("deny_exports: [x, y]", "DenyExports", "[]", "[x y]"),
            ("hub: true", "Hub", "false", "true"),
            ("no_randomize: true", "NoRandomize", "false", "true"),
            ("dial_timeout: \"2s\"", "DialTimeout", "0s", "2s"),
            ("first_info_timeout: \"3s\"", "FirstInfoTimeout", "1s", "3s"),
            ("isolate_leafnode_interest: true", "LocalIsolation", "false", "true"),
            ("request_isolation: true", "RequestIsolation", "false", "true"),
            ("ignore_discovered_servers: true", "IgnoreDiscoveredServers", "false", "true"),
            ("jetstream_cluster_migrate: true", "JetStreamClusterMigrate", "false", "true"),
        ] {
            assert_eq!(lines(&remote(""), &remote(new)), Err(with(field, before, after)), "{new}");
        }
    }

    /// As nats-server 2.15.2 answered.
    #[test]
    fn the_first_remotes_may_come_and_a_listener_may_not() {
        let none = options("accounts: [A, B]");
        let dialling = options(
            "accounts: [A, B]\nleafnodes { remotes: [{ url: \"nats-leaf://u:p@h:1\", account: A }] }",
        );
        assert_eq!(lines(&none, &dialling), Ok(vec![]));
        let removed = format!("Reloaded: LeafNode Remote {NAME} removed");
        assert_eq!(lines(&dialling, &none), Ok(vec![removed]));
        for (old, new, before, after) in [
            (&none, &block(""), "", "0.0.0.0"),
            (&dialling, &block(""), "", "0.0.0.0"),
            (&block(""), &none, "0.0.0.0", ""),
        ] {
            let field = format!("field \"Host\": old={before}, new={after}");
            let expected = format!("config reload not supported for LeafNode: {field}");
            assert_eq!(lines(old, new), Err(expected));
        }
    }

    /// As nats-server 2.15.2 answered.
    #[test]
    fn of_tls_all_may_change_but_its_times_its_users_and_its_pins() {
        let own = "cert_file: a, key_file: b";
        let tls = |more: &str| block(&format!("tls {{ {own}\n{more} }}"));
        let with = |field: &str, old: &str, new: &str| {
            let field = format!("field {field:?}: old={old}, new={new}");
            Err(format!("config reload not supported for LeafNode: {field}"))
        };
        let pin = "a8f407340dcc719864214b85ed96f98d16cbffa8f509d9fa4ca237b7bb3f9c32";
        assert_eq!(lines(&block(""), &tls("")), with("AuthTimeout", "2", "3"));
        assert_eq!(lines(&tls(""), &block("")), with("AuthTimeout", "3", "2"));
        assert_eq!(lines(&tls(""), &tls("timeout: 5")), with("AuthTimeout", "3", "6"));
        assert_eq!(lines(&tls(""), &tls("verify_and_map: true")), with("TLSMap", "false", "true"));
        let pins = with("TLSPinnedCerts", "map[]", &format!("map[{pin}:{{}}]"));
        assert_eq!(lines(&tls(""), &tls(&format!("pinned_certs: [\"{pin}\"]"))), pins);
        assert_eq!(lines(&tls(""), &tls("min_version: \"1.3\"")), Ok(vec![]));
        let first = |first: &str, fallback: &str| {
            let name = "Reloaded: LeafNode TLS HandshakeFirst";
            Ok(vec![format!("{name} value is: {first}"), format!("{name}Fallback value is: {fallback}")])
        };
        assert_eq!(lines(&tls(""), &tls("handshake_first: true")), first("true", "0s"));
        assert_eq!(lines(&tls(""), &tls("handshake_first: 300ms")), first("true", "300ms"));
        assert_eq!(lines(&tls("handshake_first: true"), &tls("")), first("false", "0s"));
        let with = |old: &str, new: &str| {
            let field = format!("remote {NAME}: field \"TLSTimeout\": old={old}, new={new}");
            Err(format!("config reload not supported for LeafNode: {field}"))
        };
        assert_eq!(lines(&remote(""), &remote("tls {}")), with("0", "2"));
        assert_eq!(lines(&remote("tls {}"), &remote("tls { timeout: 5 }")), with("2", "5"));
        assert_eq!(lines(&remote("tls {}"), &remote("tls { insecure: true }")), Ok(vec![]));
        let line = format!("Reloaded: LeafNode Remote {NAME} TLS HandshakeFirst value is: true");
        assert_eq!(lines(&remote("tls {}"), &remote("tls { handshake_first: true }")), Ok(vec![line]));
        let proxy = |more: &str| remote(&format!("proxy {{ url: \"https://p:1\"\n{more} }}"));
        assert_eq!(lines(&proxy(""), &proxy("tls { insecure: true }")), Ok(vec![]));
        let refused = lines(&proxy(""), &proxy("timeout: \"5s\""));
        assert!(
            refused.is_err_and(|error| error.contains("only the proxy TLS configuration can be changed"))
        );
    }

    #[test]
    fn no_secret_is_said() {
        let users = |password: &str| block(&format!("authorization {{ user: u, password: {password} }}"));
        let error = lines(&users("first"), &users("second")).expect_err("a password stays");
        assert!(error.contains("Password") && !error.contains("first") && !error.contains("second"));
    }
}
