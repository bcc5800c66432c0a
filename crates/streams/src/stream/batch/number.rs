//! Numbers in headers and reply subjects, read as the reference reads them.

/// Decimal digits and nothing else. `None` also for what does not fit.
pub(super) fn checked(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// Decimal digits, or -1 for anything else.
///
/// Compat: more digits than fit wrap around.
pub(super) fn wrapping(digits: &[u8]) -> i64 {
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return -1;
    }
    digits.iter().fold(0i64, |number, digit| number.wrapping_mul(10).wrapping_add(i64::from(digit - b'0')))
}

/// With a sign, as Go's `strconv.Atoi` takes it. `None` also for what does not fit.
pub(super) fn signed(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let magnitude = i128::from(checked(digits)?);
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checked_numbers_fit_or_are_none() {
        assert_eq!(checked(b"18446744073709551615"), Some(u64::MAX));
        for wrong in ["", "18446744073709551616", "+1", "-1", " 1", "1x"] {
            assert_eq!(checked(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn wrapping_numbers_wrap_and_are_minus_one_if_they_are_none() {
        assert_eq!([wrapping(b"007"), wrapping(b""), wrapping(b"1x"), wrapping(b"-1")], [7, -1, -1, -1]);
        assert_eq!(wrapping(b"18446744073709551618"), 2);
        assert_eq!(wrapping(b"9223372036854775808"), i64::MIN);
    }

    #[test]
    fn signed_numbers_may_have_either_sign() {
        assert_eq!([signed(b"-3"), signed(b"+3"), signed(b"3")], [Some(-3), Some(3), Some(3)]);
        assert_eq!(signed(b"-9223372036854775808"), Some(i64::MIN));
        assert_eq!([signed(b"9223372036854775808"), signed(b"--1"), signed(b"")], [None; 3]);
    }
}
