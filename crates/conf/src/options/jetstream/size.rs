//! Sizes of a `jetstream` block, which may be numbers or texts like `"10G"`.

use crate::options::field::{Field, Read};
use crate::value::Value;

/// A number of bytes. Diagnostics begin with `name`.
pub(super) fn bytes(field: &Field<'_>, name: &str) -> Read<i64> {
    let text = match field.value() {
        Value::Integer(number) => return Ok(*number),
        Value::Text(text) => text.as_str(),
        _ => return Err(field.diagnostic(format!("{name} must be int64 or string"))),
    };
    from_text(text).map_err(|error| field.diagnostic(format!("{name} {error}")))
}

/// Compat: the unit is one capital character and is binary, unlike those of numbers.
fn from_text(text: &str) -> Result<i64, String> {
    let Some(last) = text.char_indices().next_back().map(|(at, _)| at) else { return Ok(0) };
    let (number, unit) = text.split_at(last);
    let is_integer = number.strip_prefix(['-', '+']).unwrap_or(number).bytes().all(|b| b.is_ascii_digit());
    let parsed = number.parse::<i64>().map_err(|_| {
        let is_large = is_integer && number.len() > 1;
        let reason = if is_large { "value out of range" } else { "invalid syntax" };
        format!("strconv.ParseInt: parsing {number:?}: {reason}")
    })?;
    let shift = match unit {
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("sizes defined as strings must end in K, M, G, T".to_owned()),
    };
    // Compat: the reference overflows silently.
    parsed.checked_mul(1 << shift).ok_or_else(|| format!("{text:?} is out of the range"))
}

/// A limit that negative numbers leave open; 0 allows nothing.
pub(super) fn limit(field: &Field<'_>, name: &str) -> Read<Option<u64>> {
    Ok(u64::try_from(bytes(field, name)?).ok())
}

/// A size for which 0 and less mean that none was chosen.
pub(super) fn chosen(field: &Field<'_>, name: &str) -> Read<Option<u64>> {
    Ok(limit(field, name)?.filter(|&bytes| bytes > 0))
}

/// A number.
pub(super) fn parseable(field: &Field<'_>) -> Read<i64> {
    match field.value() {
        Value::Integer(number) => Ok(*number),
        other => Err(field.diagnostic(format!(
            "Expected a parseable size for {:?}, got {}",
            field.written(),
            other.shown()
        ))),
    }
}

/// A number from zero.
pub(super) fn absolute(field: &Field<'_>, value: &Value) -> Read<u64> {
    let number = if let Value::Integer(number) = value { u64::try_from(*number).ok() } else { None };
    number.ok_or_else(|| {
        let found = field.value().shown();
        field.diagnostic(format!("Expected an absolute size for {:?}, got {found}", field.written()))
    })
}

/// From 4 to 8192.
pub(super) fn concurrent_io(field: &Field<'_>) -> Read<u16> {
    match field.value() {
        Value::Integer(number @ 4..=8192) => Ok(u16::try_from(*number).expect("at most 8192")),
        other => Err(field.diagnostic(format!(
            "Expected an absolute size for {:?} between 4 and 8192, got {}",
            field.written(),
            other.shown()
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::from_text;

    #[test]
    fn texts_have_a_binary_unit() {
        assert_eq!(from_text(""), Ok(0));
        assert_eq!(from_text("10K"), Ok(10 << 10));
        assert_eq!(from_text("-1M"), Ok(-1 << 20));
        assert_eq!(from_text("2T"), Ok(2 << 40));
        for (text, error) in [
            ("5", "strconv.ParseInt: parsing \"\": invalid syntax"),
            ("10GB", "strconv.ParseInt: parsing \"10G\": invalid syntax"),
            ("10k", "sizes defined as strings must end in K, M, G, T"),
            (
                "99999999999999999999K",
                "strconv.ParseInt: parsing \"99999999999999999999\": value out of range",
            ),
            ("9999999999T", "\"9999999999T\" is out of the range"),
        ] {
            assert_eq!(from_text(text), Err(error.to_owned()), "{text}");
        }
    }
}
