//! The one function that turns credentials into an identity.

use std::sync::Arc;

use crate::account_name::AccountName;
use crate::attempt::{Attempt, Reject};
use crate::callout::{self, AuthRequest, CalloutService};
use crate::certificate::ClientCertificate;
use crate::config::{AuthConfig, Method};
use crate::connection_type::ConnectionType;
use crate::credentials::Credentials;
use crate::identity::Identity;
use crate::operator::{self, Accounts, ClaimsFault};
use crate::proxy::Proxied;
use crate::secret::{Secret, StoredSecret};
use crate::users::{NkeyUser, User, Users};

/// Decision about an attempt, as far as it is known at once.
#[derive(Debug)]
pub enum Decision {
    /// Identity of the client, or why it has none.
    Final(Result<Identity, Reject>),
    /// A service decides.
    AskCallout(Box<AuthRequest>),
}

impl Decision {
    /// Identity of a client that is let in without a callout. One that needs a callout is refused.
    ///
    /// # Errors
    /// If the credentials are not those of anybody who may connect in this way.
    pub fn without_callout(self) -> Result<Identity, Reject> {
        match self {
            Self::Final(outcome) => outcome,
            Self::AskCallout(question) => Err(Reject::Unanswered(question.account().as_str().to_owned())),
        }
    }
}

/// Says who makes this attempt, or that a service must be asked. `accounts` knows the tokens of
/// accounts, where users come with tokens.
///
/// May take long where [`AuthConfig::is_slow`] says so.
pub fn authenticate(config: &AuthConfig, attempt: &Attempt<'_>, accounts: &dyn Accounts) -> Decision {
    let signature = attempt.credentials.proxy_signature.as_deref();
    let proxy = match Proxied::of(&config.proxies, signature, attempt.nonce) {
        Ok(proxy) => proxy,
        // Compat: safer than the reference, which lets a callout decide as if the proxy were
        // trusted.
        Err(reject) => return Decision::Final(Err(reject)),
    };
    let is_proxied = proxy.is_trusted();
    let outcome = by_method(config, attempt, is_proxied, accounts);
    let claims = outcome.as_ref().ok().and_then(|identity| identity.claims.clone());
    let asked = match (&config.method, &claims) {
        (Method::Operator(_), Some(user)) => callout::of_account(user.account(), user.subject()),
        // Compat: the reference asks about those too, in an account where nobody can answer.
        (Method::Operator(_), None) => None,
        _ => configured_callout(config, attempt, outcome.as_ref().ok().map(|identity| &identity.account)),
    };
    if let Some(asked) = asked {
        let needs_proxy = config.named(attempt).needs_proxy(config);
        let question = AuthRequest::new(asked, attempt, claims.as_deref(), needs_proxy, proxy);
        return Decision::AskCallout(Box::new(question));
    }
    if let Err(Reject::ProxyRequired | Reject::Claims(ClaimsFault::ProxyRequired)) = outcome {
        return Decision::Final(Err(Reject::ProxyRequired));
    }
    Decision::Final(outcome.map(|identity| {
        let identity = Identity { proxy: proxy.key(), ..identity };
        match config.callout.as_ref().map(|callout| &callout.account) {
            Some(account) => identity.without_callout_subject(account),
            None => identity,
        }
    }))
}

/// Callout service that decides in the configuration's mode, if one does: `account` is where the
/// client would be without.
fn configured_callout(
    config: &AuthConfig,
    attempt: &Attempt<'_>,
    account: Option<&AccountName>,
) -> Option<CalloutService> {
    let callout = config.callout.as_ref().filter(|callout| callout.covers(account))?;
    let is_bypassed = config.named(attempt).id().is_some_and(|user| callout.bypasses(user));
    (!is_bypassed).then(|| CalloutService::Configured(Arc::clone(callout)))
}

fn by_method(
    config: &AuthConfig,
    attempt: &Attempt<'_>,
    is_proxied: bool,
    accounts: &dyn Accounts,
) -> Result<Identity, Reject> {
    let outcome = match &config.method {
        Method::Operator(trust) => return operator::by_claims(trust, accounts, attempt, is_proxied),
        Method::Users(users) if users.have_nkeys() => match nkey_user(config, users, attempt.credentials)? {
            Some(user) => by_nkey(config, user, attempt),
            None => by_secret(config, attempt.credentials, attempt.via),
        },
        _ => by_secret(config, attempt.credentials, attempt.via),
    };
    // Asked last, so that names cannot be probed by time.
    let needs_proxy = !is_proxied && config.named(attempt).needs_proxy(config);
    if needs_proxy { Err(Reject::ProxyRequired) } else { outcome }
}

impl AuthConfig {
    /// Identifies a connection that begins with something else than CONNECT, if that is allowed.
    /// Never slow.
    #[must_use]
    pub fn anonymous(&self, via: ConnectionType) -> Option<Identity> {
        self.anonymous_with(None, via)
    }

    /// Identifies a connection that begins with something else than CONNECT and may have shown a
    /// certificate, if that is allowed. Never slow.
    #[must_use]
    pub fn anonymous_with(
        &self,
        certificate: Option<Arc<ClientCertificate>>,
        via: ConnectionType,
    ) -> Option<Identity> {
        anonymous(self, certificate, via).ok()
    }
}

/// Identity of a client that never sends CONNECT.
///
/// Compat: `no_auth_user` applies only if it is a user with a password, not one with an nkey. With
/// `verify_and_map` the client is the user that its certificate names, provided that `no_auth_user`
/// is set.
fn anonymous(
    config: &AuthConfig,
    certificate: Option<Arc<ClientCertificate>>,
    via: ConnectionType,
) -> Result<Identity, Reject> {
    match &config.method {
        Method::Operator(_) => Err(Reject::Missing),
        // Compat: the reference asks its service also about who does not say CONNECT. Here
        // everybody has to.
        _ if config.callout.is_some() => Err(Reject::Missing),
        Method::Users(users) if config.maps(via) => {
            let anonymous_user = config.no_auth_user().filter(|user| user.connection_types.allow(via));
            anonymous_user.ok_or(Reject::Missing)?;
            by_certificate(users, &Credentials { certificate, ..Credentials::default() }, via)
        }
        _ if config.no_auth_user().is_some_and(|user| user.proxy_required) => Err(Reject::ProxyRequired),
        _ => by_secret(config, &Credentials::default(), via),
    }
}

fn by_secret(
    config: &AuthConfig,
    credentials: &Credentials,
    via: ConnectionType,
) -> Result<Identity, Reject> {
    match &config.method {
        Method::Open => Ok(Identity::global(credentials)),
        Method::Token(token) => by_token(token, credentials),
        Method::SingleUser { name, password } => by_single_user(name, password, credentials),
        Method::Users(users) if config.maps(via) => by_certificate(users, credentials, via),
        Method::Users(users) => match config.no_auth_user() {
            Some(user) if credentials.is_anonymous() => as_no_auth_user(user, credentials, via),
            _ => by_users(config, users, credentials, via),
        },
        Method::Operator(_) => Err(Reject::Missing),
    }
}

/// The user whose key the credentials name, or who stands for those without any.
///
/// Compat: an unknown key is not outweighed by a password that is right.
fn nkey_user<'a>(
    config: &AuthConfig,
    users: &'a Users,
    credentials: &Credentials,
) -> Result<Option<&'a NkeyUser>, Reject> {
    match credentials.nkey() {
        Some(key) => users.by_nkey(key).map(Some).ok_or(Reject::Wrong),
        None if credentials.is_anonymous() => {
            Ok(config.no_auth_user.as_deref().and_then(|key| users.by_nkey(key)))
        }
        None => Ok(None),
    }
}

fn by_nkey(config: &AuthConfig, user: &NkeyUser, attempt: &Attempt<'_>) -> Result<Identity, Reject> {
    if !user.connection_types.allow(attempt.via) {
        return Err(Reject::ConnectionType);
    }
    // Who stands for those without credentials is anybody.
    if config.no_auth_user.as_deref() != Some(user.nkey.as_str()) {
        attempt.check_signature(&user.nkey)?;
    }
    Ok(Identity::of_key(user))
}

fn by_token(token: &StoredSecret, credentials: &Credentials) -> Result<Identity, Reject> {
    if token.is_empty() {
        return Err(Reject::Wrong);
    }
    check(token, credentials.token.as_ref())?;
    Ok(Identity::global(credentials))
}

fn by_single_user(
    name: &str,
    password: &StoredSecret,
    credentials: &Credentials,
) -> Result<Identity, Reject> {
    let given = credentials.user().ok_or(Reject::Missing)?;
    // Compared whatever the name, so that the name cannot be probed by time.
    let right_password = check(password, credentials.pass.as_ref());
    if given != name {
        return Err(Reject::Wrong);
    }
    right_password.map(|()| Identity::global(credentials))
}

/// Compat: whoever has a password must send it too.
fn by_certificate(users: &Users, credentials: &Credentials, via: ConnectionType) -> Result<Identity, Reject> {
    let certificate = credentials.certificate.as_ref().ok_or(Reject::Certificate)?;
    let user = certificate.find(users, via).0.ok_or(Reject::Certificate)?;
    check(&user.password, credentials.pass.as_ref())?;
    admit(user, credentials, via)
}

fn by_users(
    config: &AuthConfig,
    users: &Users,
    credentials: &Credentials,
    via: ConnectionType,
) -> Result<Identity, Reject> {
    let name = credentials.user().ok_or(Reject::Missing)?;
    let user = users.get(name);
    let stored = user.map_or(users.dummy_password(), |user| &user.password);
    let right_password = check(stored, credentials.pass.as_ref());
    let user = user.ok_or(Reject::Wrong)?;
    right_password?;
    if config.is_only_mapped(user, via) {
        return Err(Reject::Certificate);
    }
    admit(user, credentials, via)
}

/// Compat: the reference compares the stored password with itself, so that a `no_auth_user` with a
/// bcrypt hash lets nobody in.
fn as_no_auth_user(user: &User, credentials: &Credentials, via: ConnectionType) -> Result<Identity, Reject> {
    if user.password.is_slow() { Err(Reject::Wrong) } else { admit(user, credentials, via) }
}

fn admit(user: &User, credentials: &Credentials, via: ConnectionType) -> Result<Identity, Reject> {
    if user.connection_types.allow(via) {
        Ok(Identity::of(user, credentials))
    } else {
        Err(Reject::ConnectionType)
    }
}

/// Compares secrets, where an absent one is an empty one: a user whose configuration has no
/// password needs none.
fn check(stored: &StoredSecret, given: Option<&Secret>) -> Result<(), Reject> {
    let empty = Secret::new("");
    if stored.agrees_with(given.unwrap_or(&empty)) { Ok(()) } else { Err(Reject::Wrong) }
}

/// The tables were first tried on nats-server 2.15.2 by raw sockets and `/connz`; unless said
/// otherwise the rows are what it did.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::connection_type::ConnectionTypes;
    use crate::permissions::Permissions;
    use crate::{AccountName, KeyPair};
    use myelin_stdx::entropy::OsEntropy;
    use myelin_stdx::nkey::Role;
    use std::time::SystemTime;

    const PA: &str = "$2a$04$HC3pb82UrzraClGLwypBgOiyUbVMgoaS1XYV5Dr5RzehWUR8aIg6K";

    /// Credentials from `field=value` words, as they would stand in a CONNECT.
    fn connect(words: &str) -> Credentials {
        let mut credentials = Credentials::default();
        for (field, value) in words.split_whitespace().map(|word| word.split_once('=').unwrap()) {
            let value = value.to_owned();
            match field {
                "user" => credentials.user = Some(value),
                "pass" => credentials.pass = Some(Secret::new(value)),
                "token" => credentials.token = Some(Secret::new(value)),
                "jwt" => credentials.jwt = Some(Secret::new(value)),
                "nkey" => credentials.nkey = Some(value),
                "sig" => credentials.sig = Some(value),
                other => panic!("{other}"),
            }
        }
        credentials
    }

    fn user(name: &str, password: &str) -> User {
        User {
            name: name.to_owned(),
            password: StoredSecret::parse(password),
            account: AccountName::new("A"),
            permissions: None,
            connection_types: [].into_iter().collect(),
            proxy_required: false,
        }
    }

    fn users(no_auth_user: Option<&str>, users: impl IntoIterator<Item = User>) -> AuthConfig {
        let no_auth_user = no_auth_user.map(str::to_owned);
        AuthConfig { no_auth_user, ..AuthConfig::new(Method::Users(Users::new(users))) }
    }

    fn try_in(config: &AuthConfig, words: &str) -> Result<Identity, Reject> {
        try_with(config, &connect(words))
    }

    fn try_with(config: &AuthConfig, credentials: &Credentials) -> Result<Identity, Reject> {
        let attempt = Attempt {
            credentials,
            via: ConnectionType::Standard,
            nonce: NONCE,
            peer: [127, 0, 0, 1].into(),
            now: SystemTime::UNIX_EPOCH,
            entropy: &OsEntropy,
        };
        authenticate(config, &attempt, &()).without_callout()
    }

    const NONCE: &str = "a-nonce-of-ours";

    /// Rows of a CONNECT and the user shown, or why it is refused.
    #[track_caller]
    fn check_rows(config: &AuthConfig, rows: &[(&str, Result<Option<&str>, Reject>)]) {
        for (words, expected) in rows {
            let answer = try_in(config, words);
            let shown = answer.as_ref().map(|identity| identity.user.as_deref()).map_err(Clone::clone);
            assert_eq!(shown, *expected, "{words:?}");
        }
    }

    const MISSING: Result<Option<&str>, Reject> = Err(Reject::Missing);
    const WRONG: Result<Option<&str>, Reject> = Err(Reject::Wrong);

    #[test]
    fn an_open_server_lets_everybody_in_and_shows_what_they_say() {
        let open = AuthConfig::open();
        check_rows(
            &open,
            &[
                ("", Ok(None)),
                ("user=u pass=p", Ok(Some("u"))),
                ("token=t", Ok(Some("[REDACTED]"))),
                ("token=t user=u", Ok(Some("u"))),
                ("nkey=N sig=x user=u", Ok(Some("N"))),
                ("jwt=e sig=x", Ok(None)),
                ("jwt=e token=t", Ok(Some("[REDACTED]"))),
                ("user= token=", Ok(None)),
            ],
        );
        let anonymous = open.anonymous(ConnectionType::Standard).unwrap();
        assert_eq!((anonymous.account, anonymous.user), (AccountName::global(), None));
        assert!(!open.required() && !open.advertised());
    }

    #[test]
    fn a_token_is_all_that_counts() {
        for token in ["pa", PA] {
            let config = AuthConfig::new(Method::Token(StoredSecret::parse(token)));
            check_rows(
                &config,
                &[
                    ("", WRONG),
                    ("token=pa", Ok(Some("[REDACTED]"))),
                    ("token=x", WRONG),
                    ("user=u pass=pa", WRONG),
                    ("user=u token=pa", Ok(Some("u"))),
                    ("jwt=e token=pa", Ok(Some("[REDACTED]"))),
                    ("nkey=N sig=x", WRONG),
                ],
            );
            assert!(config.required() && config.advertised());
            assert!(config.anonymous(ConnectionType::Standard).is_none());
        }
    }

    #[test]
    fn a_single_user_needs_name_and_password() {
        let password = StoredSecret::parse("p");
        let config = AuthConfig::new(Method::SingleUser { name: "u".to_owned(), password });
        check_rows(
            &config,
            &[
                ("", MISSING),
                ("user=u pass=p", Ok(Some("u"))),
                ("user=u", WRONG),
                ("user=v pass=p", WRONG),
                ("user= pass=p", MISSING),
                ("token=p", MISSING),
                ("nkey=N user=u pass=p", Ok(Some("N"))),
                ("jwt=e user=u", WRONG),
            ],
        );
    }

    #[test]
    fn users_are_found_by_name() {
        let config = users(None, [user("a", "pa"), user("b", PA)]);
        check_rows(
            &config,
            &[
                ("", MISSING),
                ("user=a pass=pa", Ok(Some("a"))),
                ("user=b pass=pa", Ok(Some("b"))),
                ("user=a pass=x", WRONG),
                ("user=b pass=x", WRONG),
                ("user=a", WRONG),
                ("user=nobody pass=pa", WRONG),
                ("pass=pa", MISSING),
                ("token=pa", MISSING),
                ("jwt=e", MISSING),
                ("nkey=N sig=x", MISSING),
                ("jwt=e user=a pass=pa", Ok(Some("a"))),
                ("nkey=N sig=x user=a pass=pa", Ok(Some("N"))),
                ("token=zz user=a pass=pa", Ok(Some("a"))),
            ],
        );
        let identity = try_in(&config, "user=a pass=pa").unwrap();
        assert_eq!(identity.account.as_str(), "A");
    }

    #[test]
    fn an_identity_carries_its_users_permissions() {
        let permissions = Arc::new(Permissions::new(None, None, None).unwrap());
        let limited = User { permissions: Some(Arc::clone(&permissions)), ..user("a", "pa") };
        let config = users(Some("a"), [limited]);
        for words in ["", "user=a pass=pa"] {
            let identity = try_in(&config, words).unwrap();
            assert!(Arc::ptr_eq(&identity.permissions.unwrap(), &permissions), "{words}");
        }
    }

    #[test]
    fn who_is_configured_without_a_password_needs_none() {
        let config = users(None, [user("e", "")]);
        const LET_IN: Result<Option<&str>, Reject> = Ok(Some("e"));
        check_rows(&config, &[("user=e", LET_IN), ("user=e pass=", LET_IN), ("user=e pass=x", WRONG)]);
        check_rows(&config, &[("user=nobody", WRONG), ("user=nobody pass=", WRONG)]);
        let (name, password) = ("u".to_owned(), StoredSecret::parse(""));
        let single = AuthConfig::new(Method::SingleUser { name, password });
        check_rows(&single, &[("user=u", Ok(Some("u"))), ("user=u pass=x", WRONG), ("user=v", WRONG)]);
        let token = AuthConfig::new(Method::Token(StoredSecret::parse("")));
        check_rows(&token, &[("token=", WRONG), ("", WRONG)]);
    }

    #[test]
    fn the_no_auth_user_is_for_those_who_send_no_credentials_at_all() {
        let config = users(Some("a"), [user("a", "pa")]);
        check_rows(
            &config,
            &[
                ("", Ok(Some("a"))),
                ("user= pass= token=", Ok(Some("a"))),
                ("user=a pass=pa", Ok(Some("a"))),
                ("user=a pass=x", WRONG),
                ("user=a", WRONG),
                ("pass=pa", MISSING),
                ("token=pa", MISSING),
                ("jwt=e sig=x", Ok(Some("a"))),
                ("nkey=N sig=x", Ok(Some("N"))),
            ],
        );
        let anonymous = config.anonymous(ConnectionType::Standard).unwrap();
        assert_eq!((anonymous.account.as_str(), anonymous.user.as_deref()), ("A", Some("a")));
        assert!(config.required() && !config.advertised());
        let implied = AuthConfig { no_auth_user_implied: true, ..config };
        assert!(implied.advertised() && implied.anonymous(ConnectionType::Standard).is_some());
    }

    #[test]
    fn the_no_auth_user_may_lack_a_password_but_not_have_a_hash() {
        check_rows(&users(Some("e"), [user("e", "")]), &[("", Ok(Some("e"))), ("user=e", Ok(Some("e")))]);
        let hashed = users(Some("b"), [user("b", PA)]);
        check_rows(&hashed, &[("", WRONG), ("user=b pass=pa", Ok(Some("b")))]);
        assert!(hashed.anonymous(ConnectionType::Standard).is_none());
        check_rows(&users(Some("gone"), [user("a", "pa")]), &[("", MISSING)]);
    }

    #[test]
    fn connection_types_limit_every_way_in() {
        let by = |kinds: &[ConnectionType]| User {
            connection_types: kinds.iter().copied().collect(),
            ..user("a", "pa")
        };
        let websocket = users(Some("a"), [by(&[ConnectionType::Websocket])]);
        const REFUSED: Result<Option<&str>, Reject> = Err(Reject::ConnectionType);
        check_rows(&websocket, &[("user=a pass=pa", REFUSED), ("", REFUSED), ("user=a pass=x", WRONG)]);
        assert!(websocket.anonymous(ConnectionType::Websocket).is_some());
        let standard = users(None, [by(&[ConnectionType::Standard, ConnectionType::Mqtt])]);
        check_rows(&standard, &[("user=a pass=pa", Ok(Some("a")))]);
        assert_eq!(ConnectionType::parse("websocket"), Some(ConnectionType::Websocket));
        assert_eq!(ConnectionType::parse("WIRE"), None);
    }

    #[test]
    fn a_certificate_names_the_user_where_certificates_are_mapped() {
        let mapped = |list: Vec<User>| AuthConfig {
            maps_certificates: vec![ConnectionType::Standard],
            ..users(Some("a"), list)
        };
        let config = mapped(vec![user("a", "pa"), user("e@x", ""), user("f@x", "pf"), user("g@x", PA)]);
        let shown = |name: &str, words: &str| Credentials {
            certificate: Some(Arc::new(ClientCertificate {
                emails: vec![name.to_owned()],
                ..ClientCertificate::default()
            })),
            ..connect(words)
        };
        for (name, words, expected) in [
            ("e@x", "", Ok("e@x")),
            // Whoever else it says it is.
            ("e@x", "user=a", Ok("e@x")),
            ("e@x", "user=a pass=pa", Err(Reject::Wrong)),
            ("f@x", "", Err(Reject::Wrong)),
            ("f@x", "pass=pf", Ok("f@x")),
            ("g@x", "pass=pa", Ok("g@x")),
            ("h@x", "user=a pass=pa", Err(Reject::Certificate)),
            ("E@X", "", Err(Reject::Certificate)),
        ] {
            let answer = try_with(&config, &shown(name, words));
            let user = answer.map(|identity| identity.user.expect("users have names"));
            assert_eq!(user.as_deref().map_err(Clone::clone), expected, "{name} {words}");
        }
        assert!(config.is_slow(&shown("g@x", ""), ConnectionType::Standard));
        assert!(!config.is_slow(&shown("f@x", ""), ConnectionType::Standard));
        // Without a certificate nobody is let in, whatever they know.
        check_rows(&config, &[("user=a pass=pa", Err(Reject::Certificate)), ("", Err(Reject::Certificate))]);
        assert!(config.anonymous(ConnectionType::Standard).is_none());
    }

    #[test]
    fn who_is_known_by_certificate_only_cannot_come_in_without_by_another_door() {
        let config = AuthConfig {
            maps_certificates: vec![ConnectionType::Websocket],
            ..users(Some("n"), [user("e@x", ""), user("n", ""), user("p", "p")])
        };
        check_rows(
            &config,
            &[
                ("user=e@x", Err(Reject::Certificate)),
                ("", Ok(Some("n"))),
                ("user=n", Ok(Some("n"))),
                ("user=p pass=p", Ok(Some("p"))),
            ],
        );
    }

    #[test]
    fn unknown_names_are_as_slow_as_known_ones() {
        let plain = users(None, [user("a", "pa")]);
        let hashed =
            users(Some("a"), [user("a", "pa"), user("b", PA), user("c", &PA.replace("$04$", "$05$"))]);
        for (words, slow) in [
            ("", false),
            ("token=x", false),
            ("user=a pass=pa", false),
            ("user=b pass=pa", true),
            ("user=nobody pass=pa", true),
        ] {
            assert_eq!(hashed.is_slow(&connect(words), ConnectionType::Standard), slow, "{words}");
            assert!(!plain.is_slow(&connect(words), ConnectionType::Standard), "{words}");
        }
        let Method::Users(users) = &hashed.method else { unreachable!() };
        assert_eq!(users.dummy_password().cost(), Some(5));
    }

    fn key(n: u8) -> KeyPair {
        KeyPair::from_bytes(Role::User, &[n; 32]).unwrap()
    }

    fn nkey_user(key: &KeyPair, account: &str) -> NkeyUser {
        NkeyUser {
            nkey: key.public(),
            account: AccountName::new(account),
            permissions: None,
            connection_types: ConnectionTypes::default(),
            proxy_required: false,
        }
    }

    /// Users with keys beside one with a password.
    fn keys(no_auth_user: Option<&str>, nkeys: impl IntoIterator<Item = NkeyUser>) -> AuthConfig {
        let users = Users::new([user("a", "pa")]).with_nkeys(nkeys);
        let no_auth_user = no_auth_user.map(str::to_owned);
        AuthConfig { no_auth_user, ..AuthConfig::new(Method::Users(users)) }
    }

    #[test]
    fn a_key_needs_a_signature_of_the_nonce() {
        let (ours, other) = (key(1), key(2));
        let config = keys(None, [nkey_user(&ours, "B")]);
        let (nkey, signature) = (ours.public(), ours.sign(NONCE.as_bytes()));
        let signed = format!("nkey={nkey} sig={signature}");
        check_rows(
            &config,
            &[
                (&signed, Ok(Some(&nkey))),
                (&format!("{signed} user=a pass=x"), Ok(Some(&nkey))),
                (&format!("nkey={nkey}"), Err(Reject::SignatureMissing)),
                (&format!("nkey={nkey} sig=?"), Err(Reject::SignatureEncoding)),
                (&format!("nkey={nkey} sig=AAAA"), Err(Reject::SignatureWrong)),
                (&format!("nkey={nkey} sig={}", other.sign(NONCE.as_bytes())), Err(Reject::SignatureWrong)),
                (&format!("nkey={nkey} sig={}", ours.sign(b"another nonce")), Err(Reject::SignatureWrong)),
                (&format!("nkey={} sig={}", other.public(), other.sign(NONCE.as_bytes())), WRONG),
                // Who names a key is asked for it, although the password is right.
                (&format!("nkey={} user=a pass=pa", other.public()), WRONG),
                ("user=a pass=pa", Ok(Some("a"))),
                ("", MISSING),
            ],
        );
        let identity = try_in(&config, &signed).unwrap();
        assert_eq!((identity.account.as_str(), identity.issuer_key.as_deref()), ("B", Some("B")));
        assert!(config.needs_nonce() && config.is_slow(&connect(&signed), ConnectionType::Standard));
        assert!(!users(None, [user("a", "pa")]).needs_nonce());
    }

    /// A class of attacks: a server that asked for nothing to be signed must not take a signature
    /// of nothing.
    #[test]
    fn a_signature_of_no_nonce_is_none() {
        let ours = key(1);
        let config = keys(None, [nkey_user(&ours, "B")]);
        let credentials = connect(&format!("nkey={} sig={}", ours.public(), ours.sign(b"")));
        let attempt = Attempt {
            credentials: &credentials,
            via: ConnectionType::Standard,
            nonce: "",
            peer: [127, 0, 0, 1].into(),
            now: SystemTime::UNIX_EPOCH,
            entropy: &OsEntropy,
        };
        let outcome = authenticate(&config, &attempt, &()).without_callout();
        assert_eq!(outcome.err(), Some(Reject::SignatureWrong));
    }

    #[test]
    fn who_has_a_key_may_stand_for_those_without_credentials() {
        let (ours, other) = (key(1), key(2));
        let nkey = ours.public();
        let config = keys(Some(&nkey), [nkey_user(&ours, "B"), nkey_user(&other, "B")]);
        check_rows(
            &config,
            &[
                ("", Ok(Some(&nkey))),
                (&format!("nkey={nkey}"), Ok(Some(&nkey))),
                (&format!("nkey={}", other.public()), Err(Reject::SignatureMissing)),
                ("pass=x", MISSING),
            ],
        );
        assert!(config.anonymous(ConnectionType::Standard).is_none(), "only with a CONNECT");
    }

    #[test]
    fn connection_types_limit_keys_too() {
        let ours = key(1);
        let kinds = [ConnectionType::Websocket].into_iter().collect();
        let config = keys(None, [NkeyUser { connection_types: kinds, ..nkey_user(&ours, "B") }]);
        let signed = format!("nkey={} sig={}", ours.public(), ours.sign(NONCE.as_bytes()));
        check_rows(&config, &[(&signed, Err(Reject::ConnectionType))]);
    }
}
