//! Transforms: one subject rewritten into another by a source pattern and a destination.
//!
//! `orders.*.*` to `eu.{{wildcard(2)}}.{{partition(4,1)}}` turns `orders.7.berlin` into
//! `eu.berlin.3`. Account mappings (`mappings`), streams and imports all use this engine. It draws
//! no random numbers: callers pass a source of them.
//!
//! `function` reads the functions of a destination, `action` carries them out, `error` says what is
//! wrong with them.

mod action;
mod error;
mod function;
mod mappings;
mod wildcards;

#[cfg(test)]
mod tests;
#[cfg(test)]
mod twin;

use std::fmt;

use smallvec::SmallVec;

pub use error::{DestinationFault, TransformError};
pub use mappings::{MappingError, Mappings, WeightedDestination};
pub use wildcards::{numbered, prefixed, starred};

use crate::pattern::{has_empty_token, has_wildcard, matches_tokens, tokens};
use action::TokenAction;
use function::Function;

/// The tokens of one subject. Subjects of the usual depth take no allocation.
type Tokens<'a> = SmallVec<[&'a [u8]; 32]>;

/// A source pattern and a destination into which subjects are rewritten.
#[derive(Clone)]
pub struct Transform {
    source: Box<str>,
    destination: Box<str>,
    pieces: Box<[Piece]>,
}

/// Piece of a subject that one token of the destination becomes.
#[derive(Clone)]
enum Piece {
    /// Itself.
    Literal(Box<[u8]>),
    /// Tokens that `>` stands for in the source, which has this many tokens before it.
    Rest(usize),
    /// Result of a function of these source tokens, counted from 0.
    Call(TokenAction, Box<[usize]>),
}

/// Why a subject was not rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotTransformed {
    /// The subject has an empty or a wildcard token.
    InvalidSubject,
    /// The subject does not match the source.
    NoMatch,
}

impl fmt::Display for NotTransformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidSubject => "invalid subject",
            Self::NoMatch => "no matching transforms available",
        })
    }
}

impl std::error::Error for NotTransformed {}

impl Transform {
    /// A transform from `source`, where empty means `>`, to `destination`.
    ///
    /// An empty destination is an error: where it means "no transform", callers have no
    /// [`Transform`].
    ///
    /// # Errors
    /// When either is no subject, when only one ends in `>`, when the destination has a `*`, or
    /// when a function in it is unknown, has bad arguments or refers to a wildcard that the source
    /// lacks.
    pub fn new(source: &str, destination: &str) -> Result<Self, TransformError> {
        Self::build(source, destination, Demand::Any)
    }

    /// As [`new`](Self::new), for imports: the destination must use each wildcard of the source,
    /// and no function but `wildcard`.
    ///
    /// Compat: uses are counted, not compared: `$1.$1` passes for two wildcards. And a source
    /// without wildcards may still use `partition` and `random`.
    ///
    /// # Errors
    /// As [`new`](Self::new), and when the above does not hold.
    pub fn reversible(source: &str, destination: &str) -> Result<Self, TransformError> {
        Self::build(source, destination, Demand::Reversible)
    }

    /// The way back of a [`reversible`](Self::reversible) transform, which may lead from subjects
    /// and from patterns.
    ///
    /// Compat: the reference finds no way back where three wildcards or more go round, and gets
    /// such subjects wrong.
    ///
    /// # Errors
    /// When the destination does not use each wildcard of the source.
    pub fn inverse(source: &str, destination: &str) -> Result<Self, TransformError> {
        let (pattern, numbers) = starred(destination);
        let mut star = 0;
        let mut tokens = Vec::new();
        for token in source.split('.') {
            if token != "*" {
                tokens.push(token.to_owned());
                continue;
            }
            star += 1;
            let place = numbers.iter().position(|number| *number == star);
            let place = place
                .ok_or_else(|| TransformError::at(DestinationFault::NotUsingAllWildcards, destination))?;
            tokens.push(format!("${}", place + 1));
        }
        Self::new(&pattern, &tokens.join("."))
    }

    /// Checks a destination more strictly than [`new`](Self::new) does, as account mappings and
    /// streams ask for: it must also have no blanks outside of functions. An empty one passes.
    ///
    /// # Errors
    /// What [`new`](Self::new) would say, or that the destination is an invalid transform.
    pub fn validate(source: &str, destination: &str) -> Result<(), TransformError> {
        if destination.is_empty() {
            return Ok(());
        }
        function::check_destination(destination)?;
        Self::new(source, destination).map(drop)
    }

    fn build(source: &str, destination: &str, demand: Demand) -> Result<Self, TransformError> {
        let source = if source.is_empty() { ">" } else { source };
        let (from, to) = (Shape::of(source)?, Shape::of(destination)?);
        if !to.stars.is_empty() || from.has_rest != to.has_rest {
            return Err(TransformError::InvalidSubject);
        }
        let mut used = 0;
        let mut pieces = Vec::new();
        for token in destination.split('.') {
            let piece = match Function::parse(token)? {
                None if token == ">" => Piece::Rest(from.tokens - 1),
                None => Piece::Literal(token.as_bytes().into()),
                Some(function) => from.resolve(token, function, demand)?,
            };
            used += if let Piece::Call(_, indexes) = &piece { indexes.len() } else { 0 };
            pieces.push(piece);
        }
        if demand == Demand::Reversible && used < from.stars.len() {
            return Err(TransformError::at(DestinationFault::NotUsingAllWildcards, destination));
        }
        Ok(Self { source: source.into(), destination: destination.into(), pieces: pieces.into() })
    }

    /// The source pattern.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The destination as it was written.
    #[must_use]
    pub fn destination(&self) -> &str {
        &self.destination
    }

    /// Rewrites `subject` into `out`, replacing what is there, if the subject matches the source.
    ///
    /// The result may have empty tokens, where a function made nothing of a token; such a subject
    /// reaches nobody. `random` is called once for each `random` function; all 32 bits must be
    /// random.
    ///
    /// # Errors
    /// When the subject does not match. From `>` to `>` everything does, also an invalid subject.
    pub fn transform(
        &self,
        subject: &[u8],
        random: &mut impl FnMut() -> u32,
        out: &mut Vec<u8>,
    ) -> Result<(), NotTransformed> {
        let rewrites = !(&*self.source == ">" && &*self.destination == ">");
        if rewrites && (has_empty_token(subject) || has_wildcard(subject)) {
            return Err(NotTransformed::InvalidSubject);
        }
        if rewrites && !matches_tokens(self.source.as_bytes(), subject) {
            return Err(NotTransformed::NoMatch);
        }
        self.rewrite(subject, random, out);
        Ok(())
    }

    /// Rewrites `subject`, which must match the source, into `out`, replacing what is there.
    /// Nothing is checked: tokens that a subject lacks count as empty.
    pub fn rewrite(&self, subject: &[u8], random: &mut impl FnMut() -> u32, out: &mut Vec<u8>) {
        self.rewrite_tokens(subject, &tokens(subject).collect::<Tokens<'_>>(), random, out);
    }

    /// [`rewrite`](Self::rewrite) of a subject whose tokens are known. `whole` is what a partition
    /// of the whole subject hashes.
    fn rewrite_tokens(
        &self,
        whole: &[u8],
        tokens: &[&[u8]],
        random: &mut impl FnMut() -> u32,
        out: &mut Vec<u8>,
    ) {
        out.clear();
        for (at, piece) in self.pieces.iter().enumerate() {
            if at > 0 {
                out.push(b'.');
            }
            match piece {
                Piece::Literal(token) => out.extend_from_slice(token),
                Piece::Rest(skipped) => action::join(tokens.iter().skip(*skipped).copied(), out),
                Piece::Call(action, indexes) => {
                    let arguments =
                        indexes.iter().map(|&index| tokens.get(index).copied().unwrap_or_default());
                    action.apply(arguments, whole, random, out);
                }
            }
        }
    }
}

impl fmt::Debug for Transform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Transform({} -> {})", self.source, self.destination)
    }
}

/// Demand on a destination.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Demand {
    Any,
    Reversible,
}

/// Shape of the subject that a transform comes from or goes to.
struct Shape {
    tokens: usize,
    /// Which tokens are `*`, counted from 0.
    stars: Vec<usize>,
    has_rest: bool,
}

impl Shape {
    /// Compat: blanks are no error here.
    fn of(subject: &str) -> Result<Self, TransformError> {
        let mut shape = Self { tokens: 0, stars: Vec::new(), has_rest: false };
        for (at, token) in subject.split('.').enumerate() {
            match token {
                "" => return Err(TransformError::InvalidSubject),
                _ if shape.has_rest => return Err(TransformError::InvalidSubject),
                ">" => shape.has_rest = true,
                "*" => shape.stars.push(at),
                _ => {}
            }
            shape.tokens += 1;
        }
        Ok(shape)
    }

    /// Finds the source tokens that `function`, written as `token`, refers to.
    fn resolve(&self, token: &str, function: Function, demand: Demand) -> Result<Piece, TransformError> {
        let Function { action, wildcards } = function;
        if self.stars.is_empty() && !self.has_rest {
            // Compat: the tokens that a partition names are ignored, and it is one of the whole
            // subject.
            return match action {
                TokenAction::Partition(_) | TokenAction::Random(_) => Ok(Piece::Call(action, [].into())),
                TokenAction::Cut(_) => Err(TransformError::at(DestinationFault::IndexOutOfRange, token)),
            };
        }
        if demand == Demand::Reversible && !action.is_wildcard() {
            return Err(TransformError::at(DestinationFault::NotSupportedForImport, token));
        }
        let indexes = wildcards.iter().map(|&wildcard| {
            self.star(wildcard).ok_or_else(|| {
                let place = format!("{token}: [{wildcard}]");
                TransformError::at(DestinationFault::IndexOutOfRange, &place)
            })
        });
        Ok(Piece::Call(action, indexes.collect::<Result<_, _>>()?))
    }

    /// Where the wildcard of that number is, counted from 1.
    ///
    /// Compat: a number below 1 is the subject's first token, wildcard or not.
    fn star(&self, wildcard: i64) -> Option<usize> {
        match usize::try_from(wildcard) {
            Err(_) | Ok(0) => Some(0),
            Ok(number) => self.stars.get(number - 1).copied(),
        }
    }
}
