//! Errors of the operating system, in the words that operators know from Go.

use std::io;

/// Words an error of the operating system as Go does: in lower case and without its number.
#[must_use]
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    if error.raw_os_error().is_none() {
        return text;
    }
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| first.to_lowercase().chain(chars).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_left_out_and_texts_of_others_stay() {
        assert_eq!(words(&io::Error::from_raw_os_error(2)), "no such file or directory");
        assert_eq!(words(&io::Error::other("Other (os error 1)")), "Other (os error 1)");
    }
}
