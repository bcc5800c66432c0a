//! API errors: the codes and texts by which clients tell what went wrong.
//!
//! The table itself is in `catalogue`; this file says what an entry is and how it is shown.

mod catalogue;

use serde::Serialize;
use std::borrow::Cow;
use std::fmt;

/// An error as the API and publishers see it. One for each entry of the catalogue:
/// [`ApiError::STREAM_NOT_FOUND`], [`ApiError::stream_wrong_last_sequence`], and so on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiError {
    /// In the manner of HTTP.
    pub code: u16,
    /// The number by which clients tell errors apart.
    pub err_code: u16,
    /// For people.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub description: Cow<'static, str>,
}

impl ApiError {
    /// `{"code":400,"err_code":10025,"description":"..."}`, escaped as the reference escapes it.
    pub fn json(&self) -> Vec<u8> {
        myelin_wire::json::compact(self)
    }
}

/// As it stands in the log and inside other errors: the text, then the number.
impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.description, self.err_code)
    }
}

impl std::error::Error for ApiError {}

#[cfg(test)]
mod tests {
    use super::catalogue::{PLAIN, WITH_PLACES};
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_number_of_the_reference_has_one_entry() {
        let numbers: BTreeSet<u16> = PLAIN.iter().chain(WITH_PLACES).map(|entry| entry.0).collect();
        assert_eq!(numbers, (10002..=10228).collect());
        assert_eq!(PLAIN.len() + WITH_PLACES.len(), 227);
    }

    #[test]
    fn places_are_filled_in_order() {
        assert_eq!(ApiError::stream_wrong_last_sequence(7).description, "wrong last sequence: 7");
        let overlap = ApiError::stream_external_del_prefix_overlaps("p", "s");
        assert_eq!(overlap.description, "stream external delivery prefix p overlaps with stream subject s");
    }

    #[test]
    fn json_is_what_go_writes() {
        let error = ApiError::invalid_json("<a>&\u{2028}\u{7f}\"");
        let expected =
            r#"{"code":400,"err_code":10025,"description":"invalid JSON: \u003ca\u003e\u0026\u2028"#;
        assert_eq!(String::from_utf8_lossy(&error.json()), format!("{expected}\u{7f}\\\"\"}}"));
        assert_eq!(ApiError::STREAM_NOT_FOUND.to_string(), "stream not found (10059)");
    }
}
