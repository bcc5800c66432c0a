//! What the operating system said, in the words that operators know from Go.

use std::io;

/// An error of the operating system as Go words it: in small letters and without its number.
#[must_use]
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    if error.raw_os_error().is_none() {
        return text;
    }
    let text = text.split(" (os error").next().unwrap_or_default();
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_lowercase().chain(letters).collect())
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
