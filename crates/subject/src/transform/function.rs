//! Reads the functions of a destination: `$1` and `{{name(arguments)}}`.

use super::action::{Cut, Knife, TokenAction};
use super::error::{DestinationFault, TransformError};

/// A function in one token of a destination.
pub(super) struct Function {
    pub(super) action: TokenAction,
    /// The wildcards that it is given, as written: counted from 1, and not yet known to exist.
    pub(super) wildcards: Vec<i64>,
}

/// A function's name, how to read its arguments, and in which order to look for it.
///
/// Compat: a token may hold several functions, or one amid other text; the first of this list that
/// is in it counts, and the text is dropped.
const NAMES: [(&str, Reader); 10] = [
    ("Wildcard", wildcard),
    ("Partition", partition),
    ("SplitFromLeft", |arguments| cut(arguments, Knife::SplitFromLeft)),
    ("SplitFromRight", |arguments| cut(arguments, Knife::SplitFromRight)),
    ("SliceFromLeft", |arguments| cut(arguments, Knife::SliceFromLeft)),
    ("SliceFromRight", |arguments| cut(arguments, Knife::SliceFromRight)),
    ("Right", |arguments| cut(arguments, Knife::Right)),
    ("Left", |arguments| cut(arguments, Knife::Left)),
    ("Split", split),
    ("Random", random),
];

type Reader = fn(&[&str]) -> Result<Function, DestinationFault>;

impl Function {
    /// The function in `token`; none if it is plain text.
    pub(super) fn parse(token: &str) -> Result<Option<Self>, TransformError> {
        if let Some(number) = token.strip_prefix('$') {
            // Subjects such as `$JS.API` are no wildcards, hence no error.
            return Ok(number.parse().ok().map(|wildcard| Self::cut(Cut::Whole, wildcard)));
        }
        if !is_function(token) {
            return Ok(None);
        }
        let (arguments, read) =
            find(token).ok_or_else(|| TransformError::at(DestinationFault::UnknownFunction, token))?;
        let arguments: Vec<&str> = split_arguments(arguments).collect();
        read(&arguments).map(Some).map_err(|fault| TransformError::at(fault, token))
    }

    fn cut(cut: Cut, wildcard: i64) -> Self {
        Self { action: TokenAction::Cut(cut), wildcards: vec![wildcard] }
    }
}

/// Checks what [`Function::parse`] does not: that the text between functions is a subject.
pub(super) fn check_destination(destination: &str) -> Result<(), TransformError> {
    let mut ended = false;
    for token in destination.split('.') {
        if token.is_empty() || ended {
            return Err(TransformError::at(DestinationFault::InvalidTransform, token));
        }
        if is_function(token) {
            if find(token).is_none() {
                return Err(TransformError::at(DestinationFault::UnknownFunction, token));
            }
        } else if token.contains(is_blank) {
            return Err(TransformError::at(DestinationFault::InvalidTransform, ""));
        }
        ended = token == ">";
    }
    Ok(())
}

/// Whether a token is meant as a function. Compat: `{{}}` is text.
fn is_function(token: &str) -> bool {
    token.len() > 4 && token.starts_with("{{") && token.ends_with("}}")
}

/// The arguments of the function in `token`, and how to read them.
fn find(token: &str) -> Option<(&str, Reader)> {
    NAMES.iter().find_map(|&(name, read)| Some((find_call(token, name)?, read)))
}

/// Text between the brackets of the first `{{name( … )}}` in `token`.
fn find_call<'a>(token: &'a str, name: &str) -> Option<&'a str> {
    // Every place where braces are, also the second of three.
    let starts = (0..token.len()).filter(|&at| token.as_bytes()[at..].starts_with(b"{{"));
    starts.map(|at| &token[at + 2..]).find_map(|text| {
        let text = strip_name(text.trim_start_matches(is_blank), name)?;
        let text = text.trim_start_matches(is_blank).strip_prefix('(')?;
        let ends = text.rmatch_indices(')').map(|(at, _)| at);
        let mut closed = ends.filter(|&at| text[at + 1..].trim_start_matches(is_blank).starts_with("}}"));
        closed.find(|&at| !text[..at].contains('\n')).map(|at| &text[..at])
    })
}

/// Rest of `text` behind `name`, whose upper case may be lower case in `text`.
fn strip_name<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (head, rest) = text.split_at_checked(name.len())?;
    let agrees = |(h, n): (u8, u8)| h == n || n.is_ascii_uppercase() && h == n.to_ascii_lowercase();
    head.bytes().zip(name.bytes()).all(agrees).then_some(rest)
}

/// Blanks after a comma belong to the comma; those before it, and other than spaces, to the
/// argument.
fn split_arguments(arguments: &str) -> impl Iterator<Item = &str> {
    let mut parts = arguments.split(',');
    let first = parts.next().unwrap_or_default();
    std::iter::once(first).chain(parts.map(|part| part.trim_start_matches(is_blank)))
}

fn wildcard(arguments: &[&str]) -> Result<Function, DestinationFault> {
    match arguments {
        [""] => Err(DestinationFault::NotEnoughArguments),
        [wildcard] => Ok(Function::cut(Cut::Whole, number(wildcard)?)),
        _ => Err(DestinationFault::TooManyArguments),
    }
}

fn partition(arguments: &[&str]) -> Result<Function, DestinationFault> {
    let [count, wildcards @ ..] = arguments else { return Err(DestinationFault::NotEnoughArguments) };
    let count = small_number(count)?;
    let wildcards = wildcards.iter().map(|wildcard| number(wildcard)).collect::<Result<_, _>>()?;
    // Compat: a negative count of partitions is a huge one.
    Ok(Function { action: TokenAction::Partition(count as u32), wildcards })
}

fn random(arguments: &[&str]) -> Result<Function, DestinationFault> {
    let [below] = arguments else { return Err(DestinationFault::NotEnoughArguments) };
    // Compat: the sign is of no consequence.
    Ok(Function { action: TokenAction::Random(small_number(below)?.unsigned_abs()), wildcards: Vec::new() })
}

fn cut(arguments: &[&str], knife: Knife) -> Result<Function, DestinationFault> {
    let (wildcard, length) = two(arguments)?;
    let wildcard = number(wildcard)?;
    let length = i32::try_from(number(length)?).map_err(|_| DestinationFault::InvalidArgument)?;
    Ok(Function::cut(Cut::By(knife, length), wildcard))
}

fn split(arguments: &[&str]) -> Result<Function, DestinationFault> {
    let (wildcard, delimiter) = two(arguments)?;
    let wildcard = number(wildcard)?;
    if delimiter.contains([' ', '.']) {
        return Err(DestinationFault::InvalidArgument);
    }
    Ok(Function::cut(Cut::Split(delimiter.as_bytes().into()), wildcard))
}

fn two<'a>(arguments: &[&'a str]) -> Result<(&'a str, &'a str), DestinationFault> {
    match *arguments {
        [first, second] => Ok((first, second)),
        [] | [_] => Err(DestinationFault::NotEnoughArguments),
        _ => Err(DestinationFault::TooManyArguments),
    }
}

fn number(text: &str) -> Result<i64, DestinationFault> {
    text.trim_matches(' ').parse().map_err(|_| DestinationFault::InvalidArgument)
}

/// A number up to 2^31 - 1. Compat: there is no lower bound, what is below loses its upper bits.
fn small_number(text: &str) -> Result<i32, DestinationFault> {
    let number = number(text)?;
    if number > i64::from(i32::MAX) { Err(DestinationFault::InvalidArgument) } else { Ok(number as i32) }
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r' | '\x0c')
}
