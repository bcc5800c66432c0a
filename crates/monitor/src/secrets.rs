//! A command line that can be shown: without passwords and tokens.

/// What stands for a secret.
const REDACTED: &str = "[REDACTED]";

/// Flags whose value is a secret.
const SECRET: [&str; 2] = ["pass", "auth"];

/// `arguments` without the values of secret flags and without the passwords inside URLs.
///
/// Compat: the reference shows its command line as it is.
pub(crate) fn redacted(arguments: &[String]) -> Vec<String> {
    let mut shown = Vec::with_capacity(arguments.len());
    let mut is_value_of_secret = false;
    for argument in arguments {
        if std::mem::take(&mut is_value_of_secret) {
            shown.push(REDACTED.to_owned());
            continue;
        }
        match flag(argument) {
            Some((name, None)) if SECRET.contains(&name) => {
                is_value_of_secret = true;
                shown.push(argument.clone());
            }
            Some((name, Some(value))) if SECRET.contains(&name) => {
                let head = &argument[..argument.len() - value.len()];
                shown.push(format!("{head}{REDACTED}"));
            }
            _ => shown.push(without_passwords(argument)),
        }
    }
    shown
}

/// The name of a flag, written with one dash or two, and what follows its `=`.
fn flag(argument: &str) -> Option<(&str, Option<&str>)> {
    let name = argument.strip_prefix('-')?;
    let name = name.strip_prefix('-').unwrap_or(name);
    Some(match name.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (name, None),
    })
}

/// Each URL of a list with commas without what is between `://` and `@`: a password behind a name, or a token.
fn without_passwords(argument: &str) -> String {
    argument.split(',').map(without_password).collect::<Vec<_>>().join(",")
}

fn without_password(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let Some(at) = authority.rfind('@') else { return url.to_owned() };
    let user = match authority[..at].split_once(':') {
        Some((user, _)) => format!("{user}:{REDACTED}"),
        None => REDACTED.to_owned(),
    };
    format!("{scheme}://{user}{}", &rest[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(arguments: &[&str]) -> String {
        let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
        redacted(&arguments).join(" ")
    }

    #[test]
    fn values_of_secret_flags_are_left_out() {
        let line = ["server", "--user", "ann", "-pass", "s3cret", "--auth=tok", "-p", "4222", "-auth", "tok"];
        assert_eq!(
            shown(&line),
            "server --user ann -pass [REDACTED] --auth=[REDACTED] -p 4222 -auth [REDACTED]"
        );
        assert_eq!(shown(&["server", "--pass"]), "server --pass");
        assert_eq!(shown(&["pass", "auth", "-passed", "x"]), "pass auth -passed x");
    }

    #[test]
    fn passwords_inside_urls_are_left_out() {
        assert_eq!(
            shown(&["-routes", "nats://a:b:c@x:1,nats://tok@y,nats://z:2/p@q"]),
            "-routes nats://a:[REDACTED]@x:1,nats://[REDACTED]@y,nats://z:2/p@q"
        );
        assert_eq!(shown(&["--cluster=nats://a:b@x"]), "--cluster=nats://a:[REDACTED]@x");
        assert_eq!(shown(&["-c", "a@b.conf", "://"]), "-c a@b.conf ://");
    }
}
