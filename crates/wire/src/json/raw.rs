//! JSON that is encoded already, laid out again.
//!
//! A page may hold pieces that another room has encoded on one line. They are not parsed into
//! values and written anew: their tokens go through the page's layout as they are, so that numbers
//! and escapes stay what they were.

use std::io;

use serde_json::ser::Formatter;

/// Writes `text`, one valid JSON value, in the layout of `formatter`. How deep it is nested does
/// not matter: nothing here calls itself.
pub(super) fn write<F, W>(formatter: &mut F, writer: &mut W, text: &str) -> io::Result<()>
where
    F: Formatter,
    W: ?Sized + io::Write,
{
    let mut rest = text;
    // Whether the last token opened a list or an object: what follows is its first value or its
    // end.
    let mut opened = false;
    while let Some((token, after)) = next(rest) {
        rest = after;
        let ends = matches!(token, "]" | "}");
        match (opened, ends) {
            (true, false) => formatter.begin_array_value(writer, true)?,
            // Tells the layout that there was something inside.
            (false, true) => formatter.end_array_value(writer)?,
            _ => {}
        }
        opened = matches!(token, "[" | "{");
        match token {
            "[" => formatter.begin_array(writer)?,
            "]" => formatter.end_array(writer)?,
            "{" => formatter.begin_object(writer)?,
            "}" => formatter.end_object(writer)?,
            "," => formatter.begin_array_value(writer, false)?,
            ":" => formatter.begin_object_value(writer)?,
            // Also right for the quotes around a string and for numbers: there is nothing to escape
            // in them.
            _ => formatter.write_string_fragment(writer, token)?,
        }
    }
    Ok(())
}

/// The next token and what follows it; `None` at the end.
fn next(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let length = match text.as_bytes().first()? {
        b'"' => string(text),
        b'[' | b']' | b'{' | b'}' | b',' | b':' => 1,
        _ => text.find([',', ']', '}', ' ', '\n', '\r', '\t']).unwrap_or(text.len()),
    };
    Some(text.split_at(length))
}

/// The length of the string that `text` begins with, its quotes included.
fn string(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use crate::json::{compact, pretty};
    use serde::Serialize;
    use serde_json::value::RawValue;

    #[derive(Serialize)]
    struct Page<'a> {
        before: u8,
        raw: &'a RawValue,
        after: [&'a RawValue; 1],
    }

    fn both(text: &str) -> (String, String) {
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        let page = Page { before: 1, raw, after: [raw] };
        let parsed: serde_json::Value = serde_json::from_str(text).unwrap();
        let expected = serde_json::json!({"before": 1, "raw": parsed, "after": [parsed]});
        (String::from_utf8(pretty(&page)).unwrap(), String::from_utf8(pretty(&expected)).unwrap())
    }

    #[test]
    fn encoded_pieces_look_like_the_rest_of_the_page() {
        for text in [
            r#"{"a":1,"b":[],"c":{},"d":[1,[2,[]],{"e":null}],"f":{"g":{"h":{}}}}"#,
            "{ \"a\" :\n [ 1 ,\t2 ] ,\r\n \"b\" : { } , \"c\": [ ] }",
            r#"["a,b]}:{[","\\","\"","\\\"x",-1.5,true,false,null,""]"#,
            r#""<>&""#,
            "17",
            "[]",
            "{}",
        ] {
            let (raw, parsed) = both(text);
            assert_eq!(raw, parsed, "{text}");
        }
    }

    #[test]
    fn numbers_and_escapes_stay_as_they_are() {
        let text = r#"[1e3,18446744073709551616,0.10,"\u00e9\u003c\/"]"#;
        let raw: &RawValue = serde_json::from_str(text).unwrap();
        assert_eq!(String::from_utf8(compact(&raw)).unwrap(), text);
    }

    #[test]
    fn strings_become_safe_inside_html() {
        let raw: &RawValue = serde_json::from_str("[\"one.> &\u{2028}\"]").unwrap();
        assert_eq!(compact(&raw), br#"["one.\u003e \u0026\u2028"]"#);
    }

    #[test]
    fn depth_is_no_danger() {
        let deep = format!("{}{}", "[".repeat(20_000), "]".repeat(20_000));
        let raw = RawValue::from_string(deep.clone()).unwrap();
        assert_eq!(compact(&raw), deep.as_bytes());
    }
}
