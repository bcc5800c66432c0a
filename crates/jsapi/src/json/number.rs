//! Whole numbers in texts, as Go's `strconv.Atoi` reads them.

use myelin_wire::error::Quoted;

/// Reads a number with or without a sign.
///
/// # Errors
/// In Go's words.
pub(crate) fn atoi(text: &[u8]) -> Result<i64, String> {
    let fault = |what: &str| format!("strconv.Atoi: parsing {}: {what}", Quoted(text));
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    if digits.is_empty() {
        return Err(fault("invalid syntax"));
    }
    let mut sum = 0_u64;
    for digit in digits {
        if !digit.is_ascii_digit() {
            return Err(fault("invalid syntax"));
        }
        // Compat: what is too large even for 64 bits is told before what is wrong behind it.
        let grown = sum.checked_mul(10).and_then(|sum| sum.checked_add(u64::from(digit - b'0')));
        sum = grown.ok_or_else(|| fault("value out of range"))?;
    }
    let number = if negative { 0_i64.checked_sub_unsigned(sum) } else { i64::try_from(sum).ok() };
    number.ok_or_else(|| fault("value out of range"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_to_both_ends() {
        for (text, number) in [("7", 7), ("+07", 7), ("-0", 0), ("-9223372036854775808", i64::MIN)] {
            assert_eq!(atoi(text.as_bytes()), Ok(number), "{text}");
        }
    }

    #[test]
    fn faults_are_gos() {
        let long = "99999999999999999999x";
        for (text, fault) in [
            ("", r#""": invalid syntax"#),
            ("-", r#""-": invalid syntax"#),
            ("1_0", r#""1_0": invalid syntax"#),
            ("9223372036854775808", r#""9223372036854775808": value out of range"#),
            (long, r#""99999999999999999999x": value out of range"#),
        ] {
            assert_eq!(atoi(text.as_bytes()), Err(format!("strconv.Atoi: parsing {fault}")));
        }
    }
}
