//! The one function that turns credentials into an identity.

use std::fmt;

use crate::config::{AuthConfig, Method, User, Users};
use crate::credentials::{ConnectionType, Credentials};
use crate::identity::Identity;
use crate::secret::{Secret, StoredSecret};

/// Why nobody is let in. For logs and counters: on the wire all are `Authorization Violation`, and they must
/// not be told apart there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reject {
    /// The credentials lack what the method asks for.
    Missing,
    /// There is no such user, or the secret is wrong.
    Wrong,
    /// The user may not come in this way.
    ConnectionType,
    /// The certificate, if there is one, names no user; or there should be one and is none.
    Certificate,
}

impl fmt::Display for Reject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "credentials are missing",
            Self::Wrong => "unknown user or wrong secret",
            Self::ConnectionType => "connection type is not allowed for this user",
            Self::Certificate => "no user for this certificate",
        })
    }
}

impl std::error::Error for Reject {}

/// Says who a connection is that came in by `via` and sent `credentials`.
///
/// May take 100 ms and more where [`AuthConfig::is_slow`] says so.
///
/// # Errors
/// If the credentials are not those of anybody who may connect in this way.
pub fn authenticate(
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
    }
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
    let_in(user, credentials, via)
}

fn by_users(
    config: &AuthConfig,
    users: &Users,
    credentials: &Credentials,
    via: ConnectionType,
) -> Result<Identity, Reject> {
    let name = credentials.user().ok_or(Reject::Missing)?;
    let user = users.get(name);
    let stored = user.map_or(users.decoy(), |user| &user.password);
    let right_password = check(stored, credentials.pass.as_ref());
    let user = user.ok_or(Reject::Wrong)?;
    right_password?;
    if config.is_only_mapped(user, via) {
        return Err(Reject::Certificate);
    }
    let_in(user, credentials, via)
}

/// Compat: the reference compares the stored password with itself, so that a `no_auth_user` with a bcrypt hash
/// lets nobody in.
fn as_no_auth_user(user: &User, credentials: &Credentials, via: ConnectionType) -> Result<Identity, Reject> {
    if user.password.is_slow() { Err(Reject::Wrong) } else { let_in(user, credentials, via) }
}

fn let_in(user: &User, credentials: &Credentials, via: ConnectionType) -> Result<Identity, Reject> {
    if user.connection_types.allow(via) {
        Ok(Identity::of(user, credentials))
    } else {
        Err(Reject::ConnectionType)
    }
}

/// Compares secrets, where an absent one is an empty one: a user whose configuration has no password needs none.
fn check(stored: &StoredSecret, given: Option<&Secret>) -> Result<(), Reject> {
    let empty = Secret::new("");
    if stored.agrees_with(given.unwrap_or(&empty)) { Ok(()) } else { Err(Reject::Wrong) }
}

/// The tables were first tried on nats-server 2.15.2 by raw sockets and `/connz`; unless said otherwise
/// the rows are what it did.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::permissions::Permissions;
    use crate::{AccountName, ClientCertificate};
    use std::sync::Arc;

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
                "jwt" => credentials.jwt = Some(value),
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
        }
    }

    fn users(no_auth_user: Option<&str>, users: impl IntoIterator<Item = User>) -> AuthConfig {
        let no_auth_user = no_auth_user.map(str::to_owned);
        AuthConfig { no_auth_user, ..AuthConfig::new(Method::Users(Users::new(users))) }
    }

    /// Rows of a CONNECT and the user shown, or why it is refused.
    #[track_caller]
    fn check_rows(config: &AuthConfig, rows: &[(&str, Result<Option<&str>, Reject>)]) {
        for &(words, expected) in rows {
            let answer = authenticate(config, &connect(words), ConnectionType::Standard);
            let shown = answer.as_ref().map(|identity| identity.user.as_deref()).map_err(|&reject| reject);
            assert_eq!(shown, expected, "{words:?}");
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
        let identity = authenticate(&config, &connect("user=a pass=pa"), ConnectionType::Standard).unwrap();
        assert_eq!(identity.account.as_str(), "A");
    }

    #[test]
    fn an_identity_carries_its_users_permissions() {
        let permissions = Arc::new(Permissions::new(None, None, None).unwrap());
        let limited = User { permissions: Some(Arc::clone(&permissions)), ..user("a", "pa") };
        let config = users(Some("a"), [limited]);
        for words in ["", "user=a pass=pa"] {
            let identity = authenticate(&config, &connect(words), ConnectionType::Standard).unwrap();
            assert!(Arc::ptr_eq(&identity.permissions.unwrap(), &permissions), "{words}");
        }
    }

    #[test]
    fn who_is_configured_without_a_password_needs_none() {
        let config = users(None, [user("e", "")]);
        let let_in = Ok(Some("e"));
        check_rows(&config, &[("user=e", let_in), ("user=e pass=", let_in), ("user=e pass=x", WRONG)]);
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
        let refused = Err(Reject::ConnectionType);
        check_rows(&websocket, &[("user=a pass=pa", refused), ("", refused), ("user=a pass=x", WRONG)]);
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
            let answer = authenticate(&config, &shown(name, words), ConnectionType::Standard);
            let user = answer.map(|identity| identity.user.expect("users have names"));
            assert_eq!(user.as_deref().map_err(|&reject| reject), expected, "{name} {words}");
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
        assert_eq!(users.decoy().cost(), Some(5));
    }
}
