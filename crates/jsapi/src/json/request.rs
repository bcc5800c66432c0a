//! A request as a whole: a row of values that are read one on top of the other.

use super::decode::{Decode, JsonReader};
use myelin_wire::json::Value;
use myelin_wire::json::syntax::SyntaxFault;

/// Reads `text` into a new `T`, which Go calls `go_type`. Nothing but blanks leaves it as it is.
///
/// Compat: the reference reads value after value into the same thing until the text ends, so
/// `{"a":1}{"b":2}` counts as one object. When that fails and it is not `strict`, it reads once
/// more, as one document, without minding unknown fields; what the first attempt has read stays.
///
/// # Errors
/// In Go's words, for errors 10025.
pub(crate) fn request<T: Decode + Default>(text: &[u8], go_type: &str, strict: bool) -> Result<T, String> {
    let mut target = T::default();
    match values(text, go_type, &mut target) {
        Err(_) if !strict => lenient(text, go_type, &mut target).map(|()| target),
        done => done.map(|()| target),
    }
}

/// Reads one document on top of `target`, which Go calls `go_type`, unknown fields allowed.
///
/// # Errors
/// In Go's words.
pub fn lenient<T: Decode>(text: &[u8], go_type: &str, target: &mut T) -> Result<(), String> {
    let value = Value::parse(text).map_err(|fault| fault.to_string())?;
    JsonReader::new(false).read(target, value, go_type)
}

fn values<T: Decode>(text: &[u8], go_type: &str, target: &mut T) -> Result<(), String> {
    let mut at = 0;
    while let Some(value) = Value::next(text, &mut at).map_err(|fault| go_error(&fault))? {
        JsonReader::new(true).read(target, value, go_type)?;
    }
    Ok(())
}

/// Compat: a text that ends too early is told as by Go's reader of streams, other faults with their
/// place.
fn go_error(fault: &SyntaxFault) -> String {
    match fault.offset() {
        None => "unexpected EOF".to_owned(),
        Some(offset) => format!("{fault} at offset {offset}"),
    }
}
