//! Errors of a transform, in the words of the reference.

use std::fmt;

/// Why a transform cannot be made. Displays as the reference's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TransformError {
    /// Source or destination is no subject, or they do not fit together.
    InvalidSubject,
    /// The destination is wrong.
    InvalidDestination {
        /// In which way.
        fault: DestinationFault,
        /// The token that is wrong; empty when none can be named.
        place: String,
    },
}

/// Fault of a destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DestinationFault {
    /// The destination is no subject.
    InvalidTransform,
    /// The destination must use all wildcards of the source and does not.
    NotUsingAllWildcards,
    /// There is no such function.
    UnknownFunction,
    /// The source has no such wildcard.
    IndexOutOfRange,
    /// A function lacks arguments.
    NotEnoughArguments,
    /// An argument is no number, too large, or no delimiter.
    InvalidArgument,
    /// A function has more arguments than it takes.
    TooManyArguments,
    /// An import may use no other function than `wildcard`.
    NotSupportedForImport,
}

impl TransformError {
    pub(super) fn at(fault: DestinationFault, place: &str) -> Self {
        Self::InvalidDestination { fault, place: place.into() }
    }
}

impl fmt::Display for TransformError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidSubject => f.write_str("invalid subject"),
            Self::InvalidDestination { fault, place } if place.is_empty() => {
                write!(f, "invalid mapping destination: {fault}")
            }
            Self::InvalidDestination { fault, place } => {
                write!(f, "invalid mapping destination: {fault} in {place}")
            }
        }
    }
}

impl std::error::Error for TransformError {}

impl fmt::Display for DestinationFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidTransform => "invalid transform",
            Self::NotUsingAllWildcards => "not using all of the token wildcard(s)",
            Self::UnknownFunction => "unknown function",
            Self::IndexOutOfRange => "wildcard index out of range",
            Self::NotEnoughArguments => "not enough arguments passed to the function",
            Self::InvalidArgument => "function argument is invalid or in the wrong format",
            Self::TooManyArguments => "too many arguments passed to the function",
            Self::NotSupportedForImport => {
                "the only mapping function allowed for import transforms is {{Wildcard()}}"
            }
        })
    }
}
