//! Name of a client in the log once it has said who it is: `"v1.2:go:app" - "$G/user:a"`.

use myelin_wire::connect::Connect;
use myelin_wire::error::Quoted;

/// Login that a client gives in CONNECT, never a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Login<'a> {
    /// By public key.
    Nkey(&'a str),
    /// By name; also whom a client without credentials stands for.
    User(&'a str),
    /// By token: its public key.
    Jwt(&'a str),
    /// By token.
    Token,
    /// The client gives none.
    Nobody,
}

impl<'a> Login<'a> {
    /// `admitted` is whom the client was let in as: what one without credentials stands for.
    pub(super) fn of(connect: &'a Connect, admitted: Option<Login<'a>>) -> Self {
        match (connect.nkey(), connect.user()) {
            ("", "") => match admitted {
                Some(login @ Self::Jwt(_)) => login,
                _ if !connect.credential(|given| &given.auth_token).is_empty() => Self::Token,
                admitted => admitted.unwrap_or(Self::Nobody),
            },
            ("", user) => Self::User(user),
            (key, _) => Self::Nkey(key),
        }
    }

    /// Text behind a line that is logged rarely. A name cannot begin a line of its own there.
    pub(super) fn suffix(self) -> Option<String> {
        let quoted = Quoted(self.label()?.as_bytes()).to_string();
        Some(format!(" - {}", &quoted[1..quoted.len() - 1]))
    }

    /// The form of prefixes.
    pub(super) fn label(self) -> Option<String> {
        match self {
            Self::Nkey(key) => Some(format!("nkey:{key}")),
            Self::User(user) => Some(format!("user:{user}")),
            Self::Jwt(key) => Some(format!("jwt:{key}")),
            Self::Token => Some("token".to_owned()),
            Self::Nobody => None,
        }
    }

    /// The form in which a failed login is reported.
    pub(super) fn blame(self) -> Option<String> {
        match self {
            Self::Nkey(key) => Some(format!("Nkey {}", Quoted(key.as_bytes()))),
            Self::User(user) => Some(format!("User {}", Quoted(user.as_bytes()))),
            Self::Jwt(key) => Some(format!("JWT User {}", Quoted(key.as_bytes()))),
            Self::Token => Some("Token \"[REDACTED]\"".to_owned()),
            Self::Nobody => None,
        }
    }
}

/// Text behind the client id in every line from CONNECT on, with a dash in front of each part.
pub(super) fn label(connect: &Connect, account: &str, login: Login<'_>) -> String {
    let version = if connect.version.is_empty() { String::new() } else { format!("v{}", connect.version) };
    let said = [version.as_str(), &*connect.lang, &*connect.name];
    let said: Vec<_> = said.into_iter().filter(|part| !part.is_empty()).collect();
    let mut label = String::new();
    if !said.is_empty() {
        label = format!(" - {}", Quoted(said.join(":").as_bytes()));
    }
    if let Some(login) = login.label() {
        label += &format!(" - {}", Quoted(format!("{account}/{login}").as_bytes()));
    }
    label
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connect(json: &str) -> Connect {
        let mut connect = Connect::default();
        connect.read(json.as_bytes()).unwrap();
        connect
    }

    #[test]
    fn a_label_has_what_the_client_said() {
        for (json, expected) in [
            ("{}", ""),
            (r#"{"version":"1.2","lang":"go","name":"app"}"#, r#" - "v1.2:go:app""#),
            (r#"{"version":"1"}"#, r#" - "v1""#),
            (r#"{"lang":"go","user":"a","auth_token":"t"}"#, r#" - "go" - "$G/user:a""#),
            (r#"{"auth_token":"t"}"#, r#" - "$G/token""#),
            (r#"{"name":"x\"y","nkey":"U"}"#, r#" - "x\"y" - "$G/nkey:U""#),
        ] {
            let connect = connect(json);
            assert_eq!(label(&connect, "$G", Login::of(&connect, None)), expected);
        }
    }

    #[test]
    fn who_does_not_log_in_is_whom_it_stands_for() {
        let guest = Some(Login::User("guest"));
        assert_eq!(Login::of(&connect("{}"), guest), Login::User("guest"));
        assert_eq!(Login::of(&connect(r#"{"auth_token":"t"}"#), guest), Login::Token);
        let claimed = Some(Login::Jwt("UABC"));
        assert_eq!(Login::of(&connect(r#"{"auth_token":"t"}"#), claimed), Login::Jwt("UABC"));
        assert_eq!(Login::of(&connect(r#"{"user":"u"}"#), claimed), Login::User("u"));
    }

    #[test]
    fn no_name_begins_a_line() {
        assert_eq!(Login::User("a").suffix().as_deref(), Some(" - user:a"));
        assert_eq!(Login::User("a\n[1] [INF] b").suffix().as_deref(), Some(r" - user:a\n[1] [INF] b"));
        assert_eq!(Login::Nobody.suffix(), None);
    }
}
