//! Whole numbers of any size, as their digits.
//!
//! Counters are added up and shown, nothing else: on digits both cost what reading them costs. A
//! library of large numbers would have to turn each text into words and back, which takes quadratic
//! time for the 65,000 digits that a header holds.

use std::cmp::Ordering;
use std::fmt;

/// Whole number of any size, as its decimal digits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decimal {
    is_negative: bool,
    /// From 0 to 9, the last one first, without zeros at the end: nothing stands for zero.
    digits: Vec<u8>,
}

impl Decimal {
    /// Reads a sign, or none, and digits; nothing else may be there.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (is_negative, digits) = sign(text);
        let is_whole = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        is_whole.then(|| Self::of(is_negative, digits))
    }

    /// Reads the digits at the beginning; what has none is zero.
    #[must_use]
    pub fn parse_beginning(text: &[u8]) -> Self {
        let (is_negative, digits) = sign(text);
        let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
        Self::of(is_negative, &digits[..end])
    }

    fn of(is_negative: bool, digits: &[u8]) -> Self {
        let digits = digits.iter().rev().map(|byte| byte - b'0').collect();
        Self { is_negative, digits }.trimmed()
    }

    fn trimmed(mut self) -> Self {
        let len = self.digits.iter().rposition(|&digit| digit != 0).map_or(0, |at| at + 1);
        self.digits.truncate(len);
        self.is_negative &= len > 0;
        self
    }

    /// Negates the number.
    #[must_use]
    pub fn negated(mut self) -> Self {
        self.is_negative = !self.is_negative && !self.digits.is_empty();
        self
    }

    /// The sum.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        if self.is_negative == other.is_negative {
            return Self { is_negative: self.is_negative, digits: sum(&self.digits, &other.digits) };
        }
        let (larger, smaller) = match by_size(&self.digits, &other.digits) {
            Ordering::Less => (other, self),
            _ => (self, other),
        };
        let digits = difference(&larger.digits, &smaller.digits);
        Self { is_negative: larger.is_negative, digits }.trimmed()
    }

    /// The difference.
    #[must_use]
    pub fn minus(&self, other: &Self) -> Self {
        self.plus(&other.clone().negated())
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.digits.is_empty() {
            return f.write_str("0");
        }
        let sign = if self.is_negative { "-" } else { "" };
        let digits: String = self.digits.iter().rev().map(|digit| char::from(b'0' + digit)).collect();
        write!(f, "{sign}{digits}")
    }
}

fn sign(text: &[u8]) -> (bool, &[u8]) {
    match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, text),
    }
}

fn by_size(a: &[u8], b: &[u8]) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.iter().rev().cmp(b.iter().rev()))
}

fn sum(a: &[u8], b: &[u8]) -> Vec<u8> {
    let (longer, shorter) = if a.len() < b.len() { (b, a) } else { (a, b) };
    let mut carry = 0;
    let others = shorter.iter().copied().chain(std::iter::repeat(0));
    let mut digits = Vec::with_capacity(longer.len() + 1);
    for (digit, other) in longer.iter().zip(others) {
        let added = digit + other + carry;
        carry = u8::from(added > 9);
        digits.push(added - 10 * carry);
    }
    if carry > 0 {
        digits.push(carry);
    }
    digits
}

/// `larger` must not be the smaller one.
fn difference(larger: &[u8], smaller: &[u8]) -> Vec<u8> {
    let mut borrowed = 0;
    let others = smaller.iter().copied().chain(std::iter::repeat(0));
    let take = |(digit, other): (&u8, u8)| {
        let left = 10 + digit - other - borrowed;
        borrowed = u8::from(left < 10);
        left % 10
    };
    larger.iter().zip(others).map(take).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Decimal {
        Decimal::parse(text.as_bytes()).expect("a number")
    }

    #[test]
    fn what_is_no_whole_number_is_refused() {
        for text in ["", "+", "-", "x", "1.5", " 1", "1 ", "1_000", "--1", "+-1", "0x1", "1e5", "١"] {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn signs_and_zeros_in_front_are_not_shown() {
        for (text, shown) in [("+5", "5"), ("007", "7"), ("-0", "0"), ("000", "0"), ("-012", "-12")] {
            assert_eq!(read(text).to_string(), shown);
        }
    }

    #[test]
    fn digits_at_the_beginning_count() {
        for (text, shown) in [("12x", "12"), ("", "0"), ("-", "0"), ("abc", "0"), ("-3.5", "-3")] {
            assert_eq!(Decimal::parse_beginning(text.as_bytes()).to_string(), shown, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn sums_are_those_of_machine_numbers(a in any::<i64>(), b in any::<i64>()) {
            let (left, right) = (read(&a.to_string()), read(&b.to_string()));
            let (a, b) = (i128::from(a), i128::from(b));
            prop_assert_eq!(left.plus(&right).to_string(), (a + b).to_string());
            prop_assert_eq!(left.minus(&right).to_string(), (a - b).to_string());
        }

        #[test]
        fn what_was_added_can_be_taken_away(a in "-?[1-9][0-9]{0,90}", b in "-?[1-9][0-9]{0,90}") {
            let (a, b) = (read(&a), read(&b));
            prop_assert_eq!(a.plus(&b), b.plus(&a));
            prop_assert_eq!(a.plus(&b).minus(&b), a.clone());
            prop_assert_eq!(a.minus(&a), Decimal::default());
            prop_assert_eq!(read(&a.to_string()), a);
        }
    }
}
