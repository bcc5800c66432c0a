//! Connection flags as the `nats` command has them, and what they mean together with the
//! environment and a context.
//!
//! Owns the order: a flag beats its environment variable, which beats the context. Gives a
//! `Target`, which knows how to reach a server and by which subjects JetStream is asked there.
//! Reads files of keys; opens connections, and no more. `context` reads contexts, `greeting` what a
//! server says of itself.

pub(crate) mod context;
pub mod greeting;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, fs};

use clap::Args;

use crate::connection::address::{Address, Credentials};
use crate::connection::nkey::{self, Seed};
use crate::connection::socks::Proxy;
use crate::connection::tls::{Tls, TlsSettings};
use crate::connection::{Connection, PATIENCE};
use crate::error::BenchError;
use crate::names;
use crate::target_server::context::NatsContext;
use crate::token::unique;
use crate::units::Time;

/// Where a server is unless somebody says so.
const DEFAULT_URL: &str = "nats://127.0.0.1:4222";

/// Start of the subjects for answers, unless a flag or the context gives another.
const INBOX: &str = "_INBOX";
/// Start of the subjects of the JetStream API where no domain and no prefix is given.
pub const API: &str = "$JS.API";

/// How to reach a server. The flags, their variables and their meaning are those of the `nats`
/// command.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Connection")]
pub struct ConnectionFlags {
    /// Server URLs, comma-separated ($NATS_URL) [default: nats://127.0.0.1:4222]
    #[arg(short, long, global = true, value_name = "URL")]
    server: Option<String>,
    /// User name, or a token if there is no password ($NATS_USER)
    #[arg(long, global = true)]
    user: Option<String>,
    /// Password ($NATS_PASSWORD)
    #[arg(long, global = true)]
    password: Option<String>,
    /// Token ($NATS_TOKEN)
    #[arg(long, global = true)]
    token: Option<String>,
    /// Name of the connection, as the server shows it
    #[arg(long, global = true, value_name = "NAME")]
    connection_name: Option<String>,
    /// File with a user's JWT and seed ($NATS_CREDS)
    #[arg(long, global = true, value_name = "FILE")]
    creds: Option<String>,
    /// File with a user's seed ($NATS_NKEY)
    #[arg(long, global = true, value_name = "FILE")]
    nkey: Option<String>,
    /// User JWT, or a file with it ($NATS_JWT)
    #[arg(long, global = true, value_name = "JWT")]
    jwt: Option<String>,
    /// Seed that belongs to --jwt, or a file with it ($NATS_SEED)
    #[arg(long, global = true, value_name = "SEED")]
    seed: Option<String>,
    /// Our certificate ($NATS_CERT)
    #[arg(long, global = true, value_name = "FILE")]
    tlscert: Option<String>,
    /// Its private key ($NATS_KEY)
    #[arg(long, global = true, value_name = "FILE")]
    tlskey: Option<String>,
    /// Certificates of authorities that we trust ($NATS_CA)
    #[arg(long, global = true, value_name = "FILE")]
    tlsca: Option<String>,
    /// The TLS handshake comes before the server's greeting
    #[arg(long, global = true, alias = "tls-first", overrides_with = "no_tlsfirst")]
    tlsfirst: bool,
    #[arg(long, global = true, hide = true, overrides_with = "tlsfirst")]
    no_tlsfirst: bool,
    /// How long to wait for an answer ($NATS_TIMEOUT) [default: 5s]
    #[arg(long, global = true, value_name = "DURATION")]
    timeout: Option<Time>,
    /// SOCKS5 proxy on the way to the server ($NATS_SOCKS_PROXY)
    #[arg(long, global = true, value_name = "PROXY")]
    socks_proxy: Option<String>,
    /// Start of the subjects of the JetStream API, instead of $JS.API
    #[arg(long, global = true, value_name = "PREFIX")]
    js_api_prefix: Option<String>,
    /// Taken and not needed: no advisory is listened to
    #[arg(long, global = true, hide = true)]
    js_event_prefix: Option<String>,
    /// JetStream domain
    #[arg(long, global = true, alias = "domain", value_name = "DOMAIN")]
    js_domain: Option<String>,
    /// Start of the subjects for answers, instead of _INBOX
    #[arg(long, global = true, value_name = "PREFIX")]
    inbox_prefix: Option<String>,
    /// Taken and not needed: nothing is coloured
    #[arg(long, global = true, hide = true)]
    colors: Option<String>,
    /// Context of the nats command, by name or file ($NATS_CONTEXT) [default: the selected one]
    #[arg(long, global = true, value_name = "NAME")]
    context: Option<String>,
    /// Leave the selected context out
    #[arg(long, global = true)]
    no_context: bool,
    /// Show what JetStream is asked and what it answers, around the benchmark
    #[arg(long, global = true)]
    trace: bool,
}

impl fmt::Debug for ConnectionFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Flags(…)")
    }
}

/// Names of the flags above that take a value, and of those that take none: `main` moves them
/// behind the verb.
pub const VALUED: [&str; 21] = [
    "--server",
    "--user",
    "--password",
    "--token",
    "--connection-name",
    "--creds",
    "--nkey",
    "--jwt",
    "--seed",
    "--tlscert",
    "--tlskey",
    "--tlsca",
    "--timeout",
    "--socks-proxy",
    "--js-api-prefix",
    "--js-event-prefix",
    "--js-domain",
    "--domain",
    "--inbox-prefix",
    "--colors",
    "--context",
];
/// Flags of a connection that stand alone.
pub const BARE: [&str; 5] = ["--tlsfirst", "--tls-first", "--no-tlsfirst", "--no-context", "--trace"];

/// A server, and how it is asked.
#[derive(Clone, Debug)]
pub struct Target {
    addresses: Vec<Address>,
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// Start of the subjects for answers, without the dot.
    pub(crate) inbox_prefix: String,
    /// Start of the subjects of the JetStream API, without the dot.
    pub api: String,
    /// Whether to show all requests and their answers.
    pub(crate) is_traced: bool,
}

impl From<&Target> for Target {
    fn from(target: &Target) -> Self {
        target.clone()
    }
}

/// A server that somebody here has started, asked in the usual way.
impl From<&Address> for Target {
    fn from(address: &Address) -> Self {
        Self {
            addresses: vec![address.clone()],
            timeout: PATIENCE,
            inbox_prefix: INBOX.into(),
            api: API.into(),
            is_traced: false,
        }
    }
}

impl ConnectionFlags {
    /// Server that the flags mean in this process's environment.
    pub fn target(&self) -> Result<Target, BenchError> {
        self.target_in(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
    }

    fn target_in(&self, variable: impl Fn(&str) -> Option<String>) -> Result<Target, BenchError> {
        let directory = context::directory(&variable);
        let either = |flag: &Option<String>, name: &str| flag.clone().or_else(|| variable(name));
        let context = match either(&self.context, "NATS_CONTEXT") {
            Some(name) => NatsContext::load(directory.as_deref(), &name)?,
            None if self.no_context => NatsContext::default(),
            None => NatsContext::selected(directory.as_deref())?,
        };
        let proxy = either(&self.socks_proxy, "NATS_SOCKS_PROXY").or(context.socks_proxy.clone());
        let proxy: Option<Arc<Proxy>> = proxy.map(|url| url.parse().map(Arc::new)).transpose()?;
        let timeout = match (self.timeout, variable("NATS_TIMEOUT")) {
            (Some(time), _) => time.0,
            (None, Some(text)) => text.parse::<Time>()?.0,
            (None, None) => Duration::from_secs(5),
        };
        let tls = Arc::new(Tls::new(TlsSettings {
            authorities: either(&self.tlsca, "NATS_CA").or(context.ca.clone()).map(path),
            certificate: self.certificate(&either, &context)?,
            is_first: self.tlsfirst || (context.tls_first && !self.no_tlsfirst),
            is_required: false,
        }));
        let credentials = self.credentials(&either, &context)?;
        let name = self.connection_name.as_deref();
        let urls = either(&self.server, "NATS_URL").or(context.url).unwrap_or_else(|| DEFAULT_URL.into());
        let addresses = urls.split(',').map(|url| {
            let plain: Address = url.trim().parse()?;
            let has_own = plain.credentials != Credentials::Anonymous;
            Ok(Address {
                credentials: if has_own { plain.credentials } else { credentials.clone() },
                tls: if tls.is_required() { Arc::clone(&tls) } else { plain.tls },
                name: name.map_or(plain.name, Arc::from),
                proxy: proxy.clone(),
                ..plain
            })
        });
        let domain = self.js_domain.clone().or(context.domain);
        let prefix = self.js_api_prefix.clone().or(context.api_prefix);
        let inbox_prefix = self.inbox_prefix.clone().or(context.inbox_prefix);
        for (what, text) in
            [("domain", &domain), ("prefix of the API", &prefix), ("prefix of inboxes", &inbox_prefix)]
        {
            text.as_deref().map_or(Ok(()), |text| names::word(what, text))?;
        }
        Ok(Target {
            addresses: addresses.collect::<Result<_, BenchError>>()?,
            timeout,
            inbox_prefix: inbox_prefix.unwrap_or_else(|| INBOX.into()),
            api: match (domain, prefix) {
                (Some(domain), _) => format!("$JS.{domain}.API"),
                (None, Some(prefix)) => prefix.trim_end_matches('.').to_owned(),
                (None, None) => API.into(),
            },
            is_traced: self.trace,
        })
    }

    fn certificate(
        &self,
        either: &impl Fn(&Option<String>, &str) -> Option<String>,
        context: &NatsContext,
    ) -> Result<Option<(PathBuf, PathBuf)>, BenchError> {
        let certificate = either(&self.tlscert, "NATS_CERT").or(context.cert.clone()).map(path);
        match (certificate, either(&self.tlskey, "NATS_KEY").or(context.key.clone()).map(path)) {
            (None, None) => Ok(None),
            (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
            _ => Err(BenchError::Usage("--tlscert and --tlskey belong together".into())),
        }
    }

    /// Credentials: those of the flags if they have any, else those of the environment and the
    /// context.
    fn credentials(
        &self,
        either: &impl Fn(&Option<String>, &str) -> Option<String>,
        context: &NatsContext,
    ) -> Result<Credentials, BenchError> {
        let user = either(&self.user, "NATS_USER");
        let password = either(&self.password, "NATS_PASSWORD");
        if let Some(creds) = either(&self.creds, "NATS_CREDS") {
            return credentials_file("--creds", &creds);
        }
        if let Some(file) = either(&self.nkey, "NATS_NKEY") {
            return Ok(Credentials::Nkey(nkey::seed_in(&read("--nkey", &file)?)?));
        }
        if let Some(jwt) = either(&self.jwt, "NATS_JWT") {
            return user_jwt(&jwt, either(&self.seed, "NATS_SEED").as_deref());
        }
        match (user, password, either(&self.token, "NATS_TOKEN")) {
            (Some(user), Some(password), _) => return Ok(Credentials::Password { user, password }),
            (_, _, Some(token)) | (Some(token), None, None) => return Ok(Credentials::Token(token)),
            (None, _, None) => {}
        }
        match context {
            NatsContext { creds: Some(creds), .. } => credentials_file("creds of the context", creds),
            NatsContext { nkey: Some(file), .. } => {
                Ok(Credentials::Nkey(nkey::seed_in(&read("nkey of the context", file)?)?))
            }
            NatsContext { jwt: Some(jwt), seed, .. } => user_jwt(jwt, seed.as_deref()),
            NatsContext { user: Some(user), password, .. } => Ok(Credentials::Password {
                user: user.clone(),
                password: password.clone().unwrap_or_default(),
            }),
            NatsContext { token: Some(token), .. } => Ok(Credentials::Token(token.clone())),
            _ => Ok(Credentials::Anonymous),
        }
    }
}

fn credentials_file(setting: &str, file: &str) -> Result<Credentials, BenchError> {
    let (token, seed) = nkey::credentials(&read(setting, file)?)?;
    Ok(Credentials::Jwt { token, seed: Some(seed) })
}

fn user_jwt(jwt: &str, seed: Option<&str>) -> Result<Credentials, BenchError> {
    let content = |setting: &str, text: &str| match Path::new(text).is_file() {
        true => read(setting, text),
        false => Ok(text.to_owned()),
    };
    let token = content("the user's JWT", jwt)?.trim().to_owned();
    let seed =
        seed.map(|seed| content("the seed", seed).and_then(|text| nkey::seed_in(&text))).transpose()?;
    Ok(Credentials::Jwt { token, seed: seed.or(None::<Seed>) })
}

/// A path in which `~` is the home directory.
fn path(text: String) -> PathBuf {
    match (text.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => PathBuf::from(home).join(rest),
        _ => PathBuf::from(text),
    }
}

/// The text of the file that a setting names. Errors name the setting: its value may be the secret
/// itself, given where the file was wanted.
fn read(setting: &str, file: &str) -> Result<String, BenchError> {
    let unreadable = |error| BenchError::Usage(format!("{setting}: the file cannot be read: {error}"));
    fs::read_to_string(path(file.to_owned())).map_err(unreadable)
}

impl Target {
    /// Connects to the first of the servers that can be reached.
    pub fn connect(&self) -> Result<Connection, BenchError> {
        let mut failure = BenchError::Address("no server is named".into());
        for address in &self.addresses {
            match Connection::open(address) {
                Ok(mut connection) => {
                    connection.set_inbox_prefix(&self.inbox_prefix);
                    return Ok(connection);
                }
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    /// A new subject for answers, without the end that tells them apart.
    pub fn inbox(&self) -> String {
        format!("{}.{}", self.inbox_prefix, unique(22))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(flags: &ConnectionFlags, variables: &[(&str, &str)]) -> Result<Target, BenchError> {
        flags.target_in(|name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn flags_beat_variables_and_variables_beat_the_context() {
        let home = tempfile::tempdir().unwrap();
        let contexts = home.path().join("nats/context");
        fs::create_dir_all(&contexts).unwrap();
        fs::write(contexts.join("c.json"), r#"{"url":"nats://c:1","user":"cu","password":"cp"}"#).unwrap();
        let xdg = ("XDG_CONFIG_HOME", home.path().to_str().unwrap());
        let named = ("NATS_CONTEXT", "c");
        let seen = |flags: &ConnectionFlags, variables: &[(&str, &str)]| {
            let address = target(flags, variables).unwrap().addresses.remove(0);
            (address.host, address.credentials)
        };
        let password = |user: &str, password: &str| Credentials::Password {
            user: user.into(),
            password: password.into(),
        };
        let none = ConnectionFlags::default();
        assert_eq!(seen(&none, &[]), ("127.0.0.1".into(), Credentials::Anonymous));
        assert_eq!(seen(&none, &[xdg, named]), ("c".into(), password("cu", "cp")));
        let from_variables =
            [xdg, named, ("NATS_URL", "nats://v:2"), ("NATS_USER", "vu"), ("NATS_PASSWORD", "vp")];
        assert_eq!(seen(&none, &from_variables), ("v".into(), password("vu", "vp")));
        let flags = ConnectionFlags {
            server: Some("nats://f:3".into()),
            token: Some("t".into()),
            ..ConnectionFlags::default()
        };
        assert_eq!(seen(&flags, &[xdg, named]), ("f".into(), Credentials::Token("t".into())));
        let in_url = ConnectionFlags { server: Some("a:b@h".into()), ..flags };
        assert_eq!(seen(&in_url, &[]), ("h".into(), password("a", "b")));
        let user_alone = ConnectionFlags { user: Some("secret".into()), ..ConnectionFlags::default() };
        assert_eq!(seen(&user_alone, &[]).1, Credentials::Token("secret".into()));
        assert!(
            target(&ConnectionFlags { context: Some("gone".into()), ..ConnectionFlags::default() }, &[xdg])
                .is_err()
        );
    }

    #[test]
    fn domains_and_prefixes_change_how_jetstream_is_asked() {
        let api = |flags: ConnectionFlags| target(&flags, &[]).unwrap().api;
        assert_eq!(api(ConnectionFlags::default()), "$JS.API");
        assert_eq!(
            api(ConnectionFlags { js_domain: Some("hub".into()), ..ConnectionFlags::default() }),
            "$JS.hub.API"
        );
        assert_eq!(
            api(ConnectionFlags { js_api_prefix: Some("js.from.x.".into()), ..ConnectionFlags::default() }),
            "js.from.x"
        );
    }

    #[test]
    fn a_proxy_stands_before_every_server() {
        let flags = ConnectionFlags { server: Some("a,tls://b".into()), ..ConnectionFlags::default() };
        let proxied = target(&flags, &[("NATS_SOCKS_PROXY", "socks5://u:sEcret@p:9")]).unwrap();
        assert!(proxied.addresses.iter().all(|address| address.proxy.as_ref().is_some_and(|p| p.port == 9)));
        assert!(!format!("{proxied:?}").contains("sEcret"));
        assert!(target(&flags, &[]).unwrap().addresses.iter().all(|address| address.proxy.is_none()));
    }

    #[test]
    fn flags_and_targets_show_no_secret() {
        let secret = Some("sEcret".to_owned());
        let flags = ConnectionFlags { user: secret.clone(), password: secret, ..ConnectionFlags::default() };
        let shown = format!("{flags:?} {:?}", target(&flags, &[]).unwrap());
        assert!(shown.contains("Password(…)") && !shown.contains("sEcret"), "{shown}");
    }

    #[test]
    fn an_error_names_the_flag_and_not_its_value() {
        let flags = |set: fn(&mut ConnectionFlags, Option<String>)| {
            let mut flags = ConnectionFlags::default();
            set(&mut flags, Some("sEcret".into()));
            flags
        };
        for (flags, named) in [
            (flags(|flags, secret| flags.nkey = secret), "--nkey"),
            (flags(|flags, secret| flags.creds = secret), "--creds"),
            (flags(|flags, secret| (flags.jwt, flags.seed) = (secret.clone(), secret)), "seed"),
            (
                ConnectionFlags { server: Some("nats://u:p,sEcret@h".into()), ..ConnectionFlags::default() },
                "host:port",
            ),
            (
                ConnectionFlags { server: Some("nats://u:sEcret,w@h".into()), ..ConnectionFlags::default() },
                "host:port",
            ),
        ] {
            let error = target(&flags, &[]).unwrap_err().to_string();
            assert!(error.contains(named) && !error.contains("sEcret"), "{error}");
        }
    }

    #[test]
    fn naming_certificates_asks_for_encryption_of_every_server() {
        let flags = ConnectionFlags { server: Some("a,tls://b".into()), ..ConnectionFlags::default() };
        let required = |flags: &ConnectionFlags| -> Vec<bool> {
            target(flags, &[]).unwrap().addresses.iter().map(|address| address.tls.is_required()).collect()
        };
        assert_eq!(required(&flags), [false, true]);
        assert_eq!(
            required(&ConnectionFlags { tlsca: Some("ca.pem".into()), ..flags.clone() }),
            [true, true]
        );
        assert!(target(&ConnectionFlags { tlscert: Some("c.pem".into()), ..flags }, &[]).is_err());
    }
}
