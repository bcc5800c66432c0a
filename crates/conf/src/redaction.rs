//! A command line without its secrets, for pages that show it.

/// `args` with the values of `-user`, `-pass` and `-auth` replaced, and logins cut out of the URLs
/// of `-routes` and `-cluster`. The program's name may come first.
///
/// Like the reference it looks at every argument, also at what is the value of another flag.
pub fn redacted_args(args: &[String]) -> Vec<String> {
    let mut redacted = args.to_vec();
    for at in 0..redacted.len() {
        let Some((flag, value)) = Secrecy::of(&redacted[at]) else { continue };
        match value {
            Some(value) => {
                let value = flag.hide(&value);
                let name = redacted[at].split('=').next().unwrap_or_default().to_owned();
                redacted[at] = format!("{name}={value}");
            }
            None if at + 1 < redacted.len() => redacted[at + 1] = flag.hide(&redacted[at + 1]),
            None => {}
        }
    }
    redacted
}

/// Secrecy of a flag's value.
enum Secrecy {
    All,
    /// The login of a URL.
    Url,
    /// The logins of URLs between commas.
    Urls,
}

impl Secrecy {
    /// The secrecy of a flag, and its value if it stands in the same argument.
    fn of(argument: &str) -> Option<(Self, Option<String>)> {
        let body = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-'))?;
        let (name, value) =
            body.split_once('=').map_or((body, None), |(name, value)| (name, Some(value.to_owned())));
        let secrecy = match name {
            "user" | "pass" | "auth" => Secrecy::All,
            "routes" => Secrecy::Urls,
            "cluster" | "cluster_listen" => Secrecy::Url,
            _ => return None,
        };
        Some((secrecy, value))
    }

    fn hide(&self, value: &str) -> String {
        match self {
            Secrecy::All => "[REDACTED]".to_owned(),
            Secrecy::Url => without_login(value),
            Secrecy::Urls => value.split(',').map(without_login).collect::<Vec<_>>().join(","),
        }
    }
}

/// The reference shows a URL that it cannot read as it is; here whatever stands before an `@` is
/// cut out, for a typing error is no reason to show a password.
fn without_login(url: &str) -> String {
    let url_begin = url.find("://").map_or(0, |at| at + 3);
    let authority_end = url[url_begin..].find('/').map_or(url.len(), |at| url_begin + at);
    let login_end = url[url_begin..authority_end].rfind('@').map(|at| url_begin + at);
    match login_end.or_else(|| url.rfind('@').filter(|at| *at >= url_begin)) {
        Some(at) => format!("{}[REDACTED]{}", url[..url_begin].trim_start(), url[at..].trim_end()),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn redact(line: &str) -> String {
        let args: Vec<String> = line.split('|').map(str::to_owned).collect();
        redacted_args(&args).join("|")
    }

    #[test]
    fn no_secret_stays_in_a_command_line() {
        for (line, shown) in [
            ("nats-server|-p|1", "nats-server|-p|1"),
            ("-user|a|-pass|b|--auth|c", "-user|[REDACTED]|-pass|[REDACTED]|--auth|[REDACTED]"),
            ("-pass=a=b|--user=", "-pass=[REDACTED]|--user=[REDACTED]"),
            ("-pass", "-pass"),
            ("-password|x|---pass|y", "-password|x|---pass|y"),
            ("-cluster|nats://u:p@h:1", "-cluster|nats://[REDACTED]@h:1"),
            ("--cluster_listen=nats://u:p@h:-1", "--cluster_listen=nats://[REDACTED]@h:-1"),
            ("-cluster|nats://h:1", "-cluster|nats://h:1"),
            (
                "-routes|nats://a:b@h:1,nats://k:2, nats://c:d@l:3",
                "-routes|nats://[REDACTED]@h:1,nats://k:2,nats://[REDACTED]@l:3",
            ),
            ("-routes=nats://a:p/w@h:1", "-routes=nats://[REDACTED]@h:1"),
            ("-routes=u:p@h:1", "-routes=[REDACTED]@h:1"),
        ] {
            assert_eq!(redact(line), shown);
        }
    }
}
