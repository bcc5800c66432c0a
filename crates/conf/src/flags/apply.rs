//! What flags set in the options, and what is said about those that ask for the impossible.

use super::address::ClusterAddress;
use super::table::Flag;
use super::{Flags, Setting, quoted};
use crate::diagnostic::Diagnostic;
use crate::options::{Options, Port, missing_text, positive};
use crate::secret::Secret;

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
        let read = |number| {
            Port::from_number(number).ok_or_else(|| format!("listen tcp: address {number}: invalid port"))
        };
        if let Some(number) = self.number(Flag::Port) {
            let complain = |reason: String| {
                let place = format!("{}:{number}", options.server.host);
                format!("Error listening on port: {place}, {}", quoted(&reason))
            };
            options.server.port = Port::or_default(read(number).map_err(complain)?);
        }
        if let Some(number) = self.number(Flag::HttpPort) {
            let what = "Can't start monitoring: can't listen to the monitor port";
            options.monitoring.port = read(number).map_err(|reason| format!("{what}: {reason}"))?;
        }
        Ok(())
    }

    /// Puts the flags that stand for several options over `options`, after all others and after the file.
    pub(crate) fn apply_combined(&self, options: &mut Options) -> Result<(), String> {
        self.apply_traces(options);
        let address = self.text(Flag::ClusterListen).map(ClusterAddress::parse).transpose()?;
        self.check_tls()?;
        if address.is_none() && self.text(Flag::Routes).is_some() {
            return Err("solicited routes require cluster capabilities, e.g. --cluster".to_owned());
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

    /// Compat: every flag about TLS asks for it, be it `-tlsverify=false`; only `-tls=false` does not, and
    /// then the others ask for nothing.
    fn asks_tls(&self) -> bool {
        const TLS: [Flag; 5] = [Flag::Tls, Flag::TlsVerify, Flag::TlsCert, Flag::TlsKey, Flag::TlsCaCert];
        let is_switched_off = self.last(Flag::Tls) == Some(&Setting::Switch(false));
        !is_switched_off && TLS.iter().any(|flag| self.is_given(*flag))
    }

    fn check_tls(&self) -> Result<(), String> {
        let needed = [(Flag::TlsCert, "certificate"), (Flag::TlsKey, "private key")];
        let absent = needed.iter().find(|(flag, _)| self.asks_tls() && self.text(*flag).is_none());
        absent.map_or(Ok(()), |(_, what)| Err(format!("TLS Server {what} must be present and valid")))
    }

    /// What there is to say about flags that are accepted and do nothing.
    pub(crate) fn warnings(&self) -> Vec<Diagnostic> {
        let profile = self.number(Flag::Profile).filter(|port| *port != 0);
        let text = "\"-profile\" has no effect in Myelin: there is no Go profile to serve; use `perf`";
        profile.map(|_| Diagnostic { position: None, message: text.to_owned() }).into_iter().collect()
    }

    /// The flags that ask for a feature that does not exist yet.
    pub(crate) fn missing(&self) -> Vec<Diagnostic> {
        let missing = self.settings.iter().filter_map(|(flag, setting)| {
            let (name, feature) = missing_feature(*flag)?;
            let asks = match setting {
                Setting::Switch(on) => *on,
                Setting::Number(number) => *number != 0,
                Setting::Text(text) => !text.is_empty(),
            };
            asks.then(|| Diagnostic { position: None, message: missing_text(name, feature) })
        });
        let tls =
            self.asks_tls().then(|| Diagnostic { position: None, message: missing_text("-tls", "TLS") });
        missing.chain(tls).collect()
    }
}

/// The flag as in the usage, and the feature that it needs.
fn missing_feature(flag: Flag) -> Option<(&'static str, &'static str)> {
    const CLUSTERING: &str = "clustering";
    Some(match flag {
        Flag::HttpsPort => ("--https_port", "TLS"),
        Flag::Syslog => ("--syslog", "syslog"),
        Flag::RemoteSyslog => ("--remote_syslog", "syslog"),
        Flag::Routes => ("--routes", CLUSTERING),
        Flag::ClusterListen => ("--cluster", CLUSTERING),
        Flag::ClusterAdvertise => ("--cluster_advertise", CLUSTERING),
        Flag::ClusterName => ("--cluster_name", CLUSTERING),
        Flag::NoAdvertise => ("--no_advertise", CLUSTERING),
        Flag::ConnectRetries => ("--connect_retries", CLUSTERING),
        _ => return None,
    })
}

fn set_switch(options: &mut Options, flag: Flag, on: bool) {
    match flag {
        Flag::Debug => options.logging.debug = on,
        Flag::Trace => options.logging.trace = on,
        Flag::Logtime => options.logging.logtime = on,
        Flag::LogtimeUtc => options.logging.logtime_utc = on,
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
        Flag::StoreDir => options.jetstream.store_dir = given.map(Into::into),
        Flag::User => options.authorization.user = given,
        Flag::Password => options.authorization.password = given.map(Secret::new),
        Flag::Token => options.authorization.token = given.map(Secret::new),
        _ => {}
    }
}
