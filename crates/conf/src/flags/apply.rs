//! Application of flags to the options, and what is said about those that ask for the impossible.

use super::address::ClusterAddress;
use super::table::Flag;
use super::{Flags, Setting};
use crate::diagnostic::Diagnostic;
use crate::options::table::BlockKind;
use crate::options::{InspectTls, Options, Port, TlsOptions, missing_text, positive};
use crate::secret::Secret;
use crate::url::Url;
use myelin_wire::error::Quoted;

impl Flags {
    /// Puts the flags that stand for one option each over `options`.
    pub(crate) fn apply(&self, options: &mut Options) -> Result<(), String> {
        for (flag, setting) in &self.settings {
            match setting {
                Setting::Switch(on) => set_switch(options, *flag, *on),
                Setting::Number(number) => set_number(options, *flag, *number),
                Setting::Text(text) => set_text(options, *flag, text),
            }
        }
        self.apply_ports(options)
    }

    /// The reference finds out about an impossible port when it listens; the words are the same.
    fn apply_ports(&self, options: &mut Options) -> Result<(), String> {
        let read = |number| Port::from_number(number).ok_or_else(|| impossible_port(number));
        if let Some(number) = self.number(Flag::Port) {
            let complain = |reason: String| {
                let place = format!("{}:{number}", options.server.host);
                format!("Error listening on port: {place}, {}", Quoted(reason.as_bytes()))
            };
            options.server.port = Port::or_default(read(number).map_err(complain)?);
        }
        let what = "Can't start monitoring: can't listen to the monitor port";
        if let Some(number) = self.number(Flag::HttpPort) {
            options.monitoring.port = read(number).map_err(|reason| format!("{what}: {reason}"))?;
        }
        if let Some(number) = self.number(Flag::HttpsPort) {
            options.monitoring.https_port = read(number).map_err(|reason| format!("{what}: {reason}"))?;
        }
        Ok(())
    }

    /// Puts the flags that stand for several options over `options`, after all others and after the
    /// file.
    pub(crate) fn apply_combined(
        &self,
        options: &mut Options,
        inspect: InspectTls<'_>,
    ) -> Result<(), String> {
        self.apply_traces(options);
        self.apply_cluster(options)?;
        self.apply_tls(options, inspect)?;
        let is_listening = options.cluster.listener.port.is_some();
        if !is_listening && self.text(Flag::Routes).is_some() {
            return Err("solicited routes require cluster capabilities, e.g. --cluster".to_owned());
        }
        Ok(())
    }

    /// Compat: an address without a login takes away the one of the file, and no address the
    /// listener.
    fn apply_cluster(&self, options: &mut Options) -> Result<(), String> {
        let cluster = &mut options.cluster;
        if let Some(text) = self.text(Flag::ClusterListen) {
            let address = ClusterAddress::parse(text)?;
            let port = Port::from_number(address.port);
            cluster.listener.port = port.ok_or_else(|| {
                let reason = impossible_port(address.port);
                format!("Error listening on router port: {} - {reason}", address.port)
            })?;
            cluster.listener.set_host(&address.host);
            (cluster.authorization.user, cluster.authorization.password) = address.login.unzip();
        } else if self.is_given(Flag::ClusterListen) {
            cluster.listener.port = None;
        }
        if self.is_given(Flag::Routes) {
            let routes = self.text(Flag::Routes).map(|text| text.split(',').map(route).collect());
            cluster.routes = routes.transpose()?.unwrap_or_default();
        }
        Ok(())
    }

    fn apply_tls(&self, options: &mut Options, inspect: InspectTls<'_>) -> Result<(), String> {
        if self.last(Flag::Tls) == Some(&Setting::Switch(false)) {
            options.tls = None;
        } else if self.asks_tls() {
            let text = |flag| self.text(flag).unwrap_or_default();
            let (cert, key) = (text(Flag::TlsCert), text(Flag::TlsKey));
            let tls = TlsOptions::from_flags(cert, key, text(Flag::TlsCaCert), self.switch(Flag::TlsVerify))?;
            inspect(&tls)?;
            options.tls = Some(tls);
        }
        Ok(())
    }

    /// Compat: in this order.
    fn apply_traces(&self, options: &mut Options) {
        let logging = &mut options.logging;
        if let Some(Setting::Switch(on)) = self.last(Flag::DebugTrace) {
            (logging.debug, logging.trace) = (*on, *on);
        }
        if let Some(Setting::Switch(on)) = self.last(Flag::DebugTraceVerbose) {
            (logging.debug, logging.trace, logging.trace_verbose) = (*on, *on, *on);
        }
        if let Some(Setting::Switch(on)) = self.last(Flag::TraceVerbose) {
            (logging.trace, logging.trace_verbose) = (*on, *on);
        }
    }

    /// Compat: every flag about TLS asks for it, be it `-tlsverify=false`; only `-tls=false` does
    /// not, and then the others ask for nothing.
    fn asks_tls(&self) -> bool {
        const TLS: [Flag; 5] = [Flag::Tls, Flag::TlsVerify, Flag::TlsCert, Flag::TlsKey, Flag::TlsCaCert];
        let is_switched_off = self.last(Flag::Tls) == Some(&Setting::Switch(false));
        !is_switched_off && TLS.iter().any(|flag| self.is_given(*flag))
    }

    /// Warnings about flags that are accepted and do nothing.
    pub(crate) fn warnings(&self) -> Vec<Diagnostic> {
        let profile = self.number(Flag::Profile).filter(|port| *port != 0);
        let text = "\"-profile\" has no effect in Myelin: there is no Go profile to serve; use `perf`";
        profile.map(|_| Diagnostic { position: None, message: text.to_owned() }).into_iter().collect()
    }

    /// The flags that ask for a feature that does not exist yet.
    pub(crate) fn missing(&self) -> Vec<Diagnostic> {
        let asked = self.settings.iter().filter(|(flag, setting)| {
            *flag != Flag::Tls
                && match setting {
                    Setting::Switch(on) => *on,
                    Setting::Number(number) => *number != 0,
                    Setting::Text(text) => !text.is_empty(),
                }
        });
        let asked = asked.map(|(flag, _)| *flag).chain(self.asks_tls().then_some(Flag::Tls));
        let missing = asked.filter_map(missing_feature);
        let message = |(name, feature)| missing_text(name, feature);
        missing.map(|missing| Diagnostic { position: None, message: message(missing) }).collect()
    }
}

/// The flag as in the usage, and the feature that the option of the file needs which means the
/// same.
fn missing_feature(flag: Flag) -> Option<(&'static str, &'static str)> {
    let (name, option) = match flag {
        Flag::HttpsPort => ("--https_port", "https_port"),
        Flag::Syslog => ("--syslog", "syslog"),
        Flag::RemoteSyslog => ("--remote_syslog", "remote_syslog"),
        Flag::Tls => ("--tls", "tls"),
        Flag::Routes => ("--routes", "cluster"),
        Flag::ClusterListen => ("--cluster", "cluster"),
        _ => return None,
    };
    Some((name, BlockKind::Top.find(option)?.class.feature()?))
}

/// Compat: the reference dies of a route that is no URL.
fn route(text: &str) -> Result<Url, String> {
    let text = text.trim();
    Url::parse(text).ok_or_else(|| format!("error parsing route url [{}]", Quoted(text.as_bytes())))
}

fn impossible_port(number: i64) -> String {
    format!("listen tcp: address {number}: invalid port")
}

fn set_switch(options: &mut Options, flag: Flag, on: bool) {
    match flag {
        Flag::Debug => options.logging.debug = on,
        Flag::Trace => options.logging.trace = on,
        Flag::Logtime => options.logging.logtime = on,
        Flag::LogtimeUtc => options.logging.logtime_utc = on,
        Flag::Syslog => options.logging.syslog = on,
        Flag::NoAdvertise => options.cluster.no_advertise = on,
        Flag::JetStream => options.jetstream.enabled = on,
        _ => {}
    }
}

fn set_number(options: &mut Options, flag: Flag, number: i64) {
    match flag {
        Flag::LogSizeLimit => options.logging.log_size_limit = positive(number),
        Flag::MaxTracedMsgLen => {
            options.logging.max_traced_msg_len =
                positive(number).map(|n| u32::try_from(n).unwrap_or(u32::MAX));
        }
        Flag::ConnectRetries => {
            options.cluster.connect_retries = u32::try_from(number.max(0)).unwrap_or(u32::MAX);
        }
        _ => {}
    }
}

/// An empty text is the same as no flag at all, except that it wins over the file.
fn set_text(options: &mut Options, flag: Flag, text: &str) {
    let given = (!text.is_empty()).then(|| text.to_owned());
    match flag {
        Flag::Host => options.server.set_host(text),
        Flag::ServerName => options.server.name = given,
        Flag::PidFile => options.server.pid_file = given.map(Into::into),
        Flag::ClientAdvertise => options.server.client_advertise = given,
        Flag::PortsFileDir => options.server.ports_file_dir = given.map(Into::into),
        Flag::LogFile => options.logging.log_file = given.map(Into::into),
        Flag::RemoteSyslog => options.logging.remote_syslog = given,
        Flag::ClusterName => options.cluster.name = given,
        Flag::ClusterAdvertise => options.cluster.advertise = given,
        Flag::StoreDir => options.jetstream.store_dir = given.map(Into::into),
        Flag::User => options.authorization.user = given,
        Flag::Password => options.authorization.password = given.map(Secret::new),
        Flag::Token => options.authorization.token = given.map(Secret::new),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::TlsIdentity;

    fn applied(args: &[&str], mut options: Options) -> Result<Options, String> {
        let args: Vec<String> = args.iter().map(|&arg| arg.to_owned()).collect();
        let flags = Flags::parse(&args).expect("flags that can be read");
        flags.apply(&mut options)?;
        flags.apply_combined(&mut options, &|tls| match &tls.identity {
            TlsIdentity::One(files) if files.cert_file.ends_with("missing") => Err("no such file".to_owned()),
            _ => Ok(()),
        })?;
        Ok(options)
    }

    fn on_defaults(args: &[&str]) -> Result<Options, String> {
        applied(args, Options::default())
    }

    #[test]
    fn a_cluster_is_made_of_flags() {
        let args = ["-cluster", "nats://u:p@[::1]:-1", "-routes", "nats://a:1, nats://b:2"];
        let more = ["-cluster_name", "c", "-cluster_advertise=x:1", "-no_advertise", "-connect_retries", "3"];
        let cluster = on_defaults(&[&args[..], &more[..]].concat()).expect("a cluster").cluster;
        assert_eq!((&*cluster.listener.host, cluster.listener.port), ("::1", Some(Port::Random)));
        assert_eq!(cluster.authorization.user.as_deref(), Some("u"));
        assert_eq!(cluster.authorization.password.as_ref().map(Secret::reveal), Some("p"));
        let routes: Vec<_> = cluster.routes.iter().map(Url::reveal).collect();
        assert_eq!(routes, ["nats://a:1", "nats://b:2"]);
        assert_eq!(cluster.name.as_deref(), Some("c"));
        assert_eq!(cluster.advertise.as_deref(), Some("x:1"));
        assert_eq!((cluster.no_advertise, cluster.connect_retries), (true, 3));
    }

    #[test]
    fn flags_take_away_what_the_file_says() {
        let mut file = Options::default();
        file.cluster.listener.port = Some(Port::Fixed(1));
        file.cluster.authorization.user = Some("u".to_owned());
        file.cluster.routes = vec![Url::parse("nats://a:1").expect("a URL")];
        file.tls = Some(TlsOptions::default());
        let cluster = |args: &[&str]| applied(args, file.clone()).expect("options").cluster;
        assert_eq!(cluster(&["-cluster", "nats://h:2"]).authorization.user, None);
        assert_eq!(cluster(&["-cluster="]).listener.port, None);
        assert!(cluster(&["-routes="]).routes.is_empty());
        assert_eq!(cluster(&["-routes", "nats://b:2"]).routes.len(), 1);
        assert_eq!(applied(&["-tls=false", "-tlscert", "a"], file.clone()).expect("options").tls, None);
    }

    #[test]
    fn certificates_of_flags_are_opened() {
        let tls = on_defaults(&["-tlscert", "a", "-tlskey", "b", "-tlscacert", "c", "-tlsverify"]);
        let tls = tls.expect("options").tls.expect("TLS");
        assert!(tls.verify && tls.ca_file.is_some());
        let error = on_defaults(&["-tls", "-tlscert", "missing", "-tlskey", "b"]);
        assert_eq!(error, Err("no such file".to_owned()));
    }

    /// CVE-2021-32026: who named certificates by flags was offered other suites than who named them
    /// in a file.
    #[test]
    fn flags_ask_for_the_same_tls_as_a_file() {
        let tls = on_defaults(&["-tlscert", "a", "-tlskey", "b"]).expect("options").tls.expect("TLS");
        let plain = TlsOptions { identity: tls.identity.clone(), ..TlsOptions::default() };
        assert_eq!(tls, plain);
    }

    #[test]
    fn impossible_addresses_are_refused() {
        for (args, said) in [
            (
                &["-routes", "nats://a:b", "-cluster", "nats://h:1"][..],
                "error parsing route url [\"nats://a:b\"]",
            ),
            (
                &["-cluster", "nats://h:70000"],
                "Error listening on router port: 70000 - listen tcp: address 70000: invalid port",
            ),
        ] {
            assert_eq!(on_defaults(args), Err(said.to_owned()));
        }
    }
}
