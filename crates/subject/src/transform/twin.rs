//! The twin of transforms, on strings, for well-formed functions only.

/// A subject that matches `source`, with wildcards filled from `words`.
pub(super) fn fill(source: &str, words: &[String]) -> String {
    let mut words = words.iter().cloned();
    let mut next = || words.next().expect("enough words");
    let tokens = source.split('.').map(|token| match token {
        "*" => next(),
        ">" => format!("{}.{}", next(), next()),
        _ => token.to_owned(),
    });
    tokens.collect::<Vec<_>>().join(".")
}

/// Whether both end in `>` or neither, and the source has all wildcards that the destination refers
/// to.
pub(super) fn is_possible(source: &str, destination: &str) -> bool {
    let stars = source.matches('*').count();
    let literal = stars == 0 && !source.ends_with('>');
    source.ends_with('>') == destination.ends_with('>')
        && destination.split('.').all(|token| match read(token) {
            None => true,
            Some((name, _)) if literal => name == "partition" || name == "random",
            Some((name, arguments)) => wildcards(&name, &arguments).iter().all(|&number| number <= stars),
        })
}

/// Transforms `subject`, which matches `source`.
pub(super) fn transform(source: &str, destination: &str, subject: &str, random: u32) -> String {
    let tokens: Vec<&str> = subject.split('.').collect();
    let stars: Vec<&str> =
        source.split('.').zip(&tokens).filter(|(s, _)| *s == "*").map(|(_, t)| *t).collect();
    let results = destination.split('.').map(|token| match read(token) {
        None if token == ">" => tokens[source.split('.').count() - 1..].join("."),
        None => token.to_owned(),
        Some((name, arguments)) => call(&name, &arguments, &stars, subject, random),
    });
    results.collect::<Vec<_>>().join(".")
}

/// Splits a function into its name, in lower case, and its arguments.
fn read(token: &str) -> Option<(String, Vec<String>)> {
    if let Some(number) = token.strip_prefix('$') {
        number.parse::<u32>().ok()?;
        return Some(("wildcard".into(), vec![number.into()]));
    }
    let call = token.strip_prefix("{{")?.strip_suffix("}}")?.trim();
    let (name, arguments) = call.strip_suffix(')')?.split_once('(')?;
    Some((name.to_lowercase(), arguments.split(',').map(|a| a.trim().to_owned()).collect()))
}

fn wildcards(name: &str, arguments: &[String]) -> Vec<usize> {
    let given = match name {
        "partition" => &arguments[1..],
        "random" => &[],
        _ => &arguments[..1],
    };
    given.iter().map(|number| number.parse().expect("a number")).collect()
}

fn call(name: &str, arguments: &[String], stars: &[&str], subject: &str, random: u32) -> String {
    let number = |at: usize| arguments[at].parse::<i32>().expect("a number");
    if name == "random" {
        return if number(0) == 0 { "0".into() } else { (random / 2 % number(0) as u32).to_string() };
    }
    if name == "partition" {
        // Without wildcards in the source, the ones that are named do not exist and are not used.
        let key: String = match wildcards(name, arguments) {
            named if named.is_empty() || stars.is_empty() => subject.into(),
            named => named.iter().map(|&n| stars[n - 1]).collect(),
        };
        return partition(&key, number(0) as u32).to_string();
    }
    let token = stars[wildcards(name, arguments)[0] - 1];
    if name == "wildcard" {
        return token.into();
    }
    if name == "split" {
        return split(token, &arguments[1]);
    }
    let length = number(1);
    if length <= 0 || length as usize >= token.len() {
        return token.into();
    }
    cut(name, token, length as usize)
}

fn cut(name: &str, token: &str, length: usize) -> String {
    let end = token.len() - length;
    let dots = |is_dot: &dyn Fn(usize) -> bool| {
        let characters = token.chars().enumerate();
        characters.flat_map(|(at, c)| if is_dot(at) { vec!['.', c] } else { vec![c] }).collect()
    };
    match name {
        "left" => token[..length].into(),
        "right" => token[end..].into(),
        "splitfromleft" => dots(&|at| at == length),
        "splitfromright" => dots(&|at| at == end),
        "slicefromleft" => dots(&|at| at > 0 && at % length == 0),
        "slicefromright" => dots(&|at| at > 0 && (token.len() - at).is_multiple_of(length)),
        _ => panic!("{name} is not a function"),
    }
}

fn split(token: &str, delimiter: &str) -> String {
    let parts: Vec<&str> = token.split(delimiter).collect();
    let full: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
    let doubled = parts.len() > 2 && parts[0].is_empty() && parts[1].is_empty() && !full.is_empty();
    format!("{}{}", if doubled { "." } else { "" }, full.join("."))
}

fn partition(key: &str, count: u32) -> u32 {
    let mut hash: u32 = 2_166_136_261;
    for byte in key.bytes() {
        hash = (hash ^ u32::from(byte)).wrapping_mul(16_777_619);
    }
    if count == 0 { 0 } else { hash % count }
}
