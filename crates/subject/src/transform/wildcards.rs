//! Wildcards and their numbers: `a.*.*` says that there are two, `a.$2.$1` where they go.

/// `a.*.*` as `a.$1.$2`: the destination in which each wildcard is what it was.
#[must_use]
pub fn numbered(subject: &str) -> String {
    let mut stars = 0;
    let tokens = subject.split('.').map(|token| {
        if token != "*" {
            return token.to_owned();
        }
        stars += 1;
        format!("${stars}")
    });
    tokens.collect::<Vec<_>>().join(".")
}

/// `a.$2.{{wildcard(1)}}` as `a.*.*`, and the numbers that stood there. One that is none that fits
/// is 0.
#[must_use]
pub fn starred(subject: &str) -> (String, Vec<usize>) {
    let mut numbers = Vec::new();
    let tokens = subject.split('.').map(|token| match number(token) {
        Some(number) => {
            numbers.push(number);
            "*"
        }
        None => token,
    });
    (tokens.collect::<Vec<_>>().join("."), numbers)
}

/// Name of an imported stream that has a prefix for its name: `p` and `p.` are one.
#[must_use]
pub fn prefixed(prefix: &str, subject: &str) -> String {
    let dot = if prefix.ends_with('.') { "" } else { "." };
    format!("{prefix}{dot}{subject}")
}

/// The wildcard that a token stands for. Compat: `$1x` is one too, though no number.
fn number(token: &str) -> Option<usize> {
    match token.strip_prefix('$') {
        Some(digits) if matches!(digits.as_bytes().first(), Some(b'1'..=b'9')) => {
            Some(digits.parse().unwrap_or(0))
        }
        _ => Some(wildcard_call(token)?.trim().parse().unwrap_or(0)),
    }
}

/// The argument of `{{wildcard(x)}}` in a token, if it is one.
fn wildcard_call(token: &str) -> Option<&str> {
    let inner = &token[token.find("{{")? + 2..];
    let inner = inner[..inner.rfind("}}")?].trim();
    let name = inner.get(..8).filter(|name| *name == "wildcard" || *name == "Wildcard")?;
    let argument = inner[name.len()..].trim_start().strip_prefix('(')?.strip_suffix(')')?;
    (!argument.is_empty() && !argument.contains(',')).then_some(argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_are_numbered_in_order() {
        assert_eq!(numbered("a.*.b.*.>"), "a.$1.b.$2.>");
        assert_eq!(numbered("a.*x"), "a.*x");
    }

    #[test]
    fn numbers_become_wildcards() {
        let cases: [(&str, &str, &[usize]); 7] = [
            ("a.$2.{{wildcard(1)}}", "a.*.*", &[2, 1]),
            ("a.$1.>", "a.*.>", &[1]),
            ("$0.$x.$", "$0.$x.$", &[]),
            ("a.$12", "a.*", &[12]),
            ("a.$1x", "a.*", &[0]),
            ("{{ Wildcard ( 3 ) }}.b", "*.b", &[3]),
            (
                "{{partition(3,1)}}.{{wildcard(1,2)}}.{{wildcard()}}",
                "{{partition(3,1)}}.{{wildcard(1,2)}}.{{wildcard()}}",
                &[],
            ),
        ];
        for (subject, pattern, numbers) in cases {
            assert_eq!(starred(subject), (pattern.to_owned(), numbers.to_vec()), "{subject}");
        }
    }
}
