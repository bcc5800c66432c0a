//! Compares two JSON values by shape: keys, their order, and the types of the values.

use serde_json::Value;

/// Where two values differ in shape, as one line per difference; empty when they do not.
///
/// Objects must have the same keys in the same order, lists the same length. Values of the same
/// JSON type are taken as equal, and so are all numbers.
pub(crate) fn differences(a: &Value, b: &Value) -> Vec<String> {
    let mut found = Vec::new();
    compare("", a, b, &mut found);
    found
}

/// Whether [`differences`] finds none.
pub(crate) fn same_shape(a: &Value, b: &Value) -> bool {
    differences(a, b).is_empty()
}

fn compare(path: &str, a: &Value, b: &Value, found: &mut Vec<String>) {
    match (a, b) {
        (Value::Object(a), Value::Object(b)) => {
            let (names, other): (Vec<_>, Vec<_>) = (a.keys().collect(), b.keys().collect());
            if names != other {
                found.push(format!("{path}: keys {names:?} and {other:?}"));
            }
            for (name, value) in a {
                if let Some(other) = b.get(name) {
                    compare(&format!("{path}/{name}"), value, other, found);
                }
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            if a.len() != b.len() {
                found.push(format!("{path}: {} and {} items", a.len(), b.len()));
            }
            for (index, (a, b)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}/{index}"), a, b, found);
            }
        }
        _ if kind(a) != kind(b) => found.push(format!("{path}: {} and {}", kind(a), kind(b))),
        _ => {}
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[test]
fn shape_sees_keys_order_types_and_lengths() {
    let parse = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    let value = parse(r#"{"a": 1, "b": [{"c": "x"}]}"#);
    assert!(same_shape(&value, &parse(r#"{"a": 2.5, "b": [{"c": "y"}]}"#)));
    for (other, expected) in [
        (r#"{"b": [{"c": "x"}], "a": 1}"#, r#": keys ["a", "b"] and ["b", "a"]"#),
        (r#"{"a": "1", "b": [{"c": "x"}]}"#, "/a: a number and a string"),
        (r#"{"a": 1, "b": []}"#, "/b: 1 and 0 items"),
        (r#"{"a": 1, "b": [{"c": null}]}"#, "/b/0/c: a string and null"),
        (r#"{"a": 1, "b": [{"c": "x", "d": 1}]}"#, r#"/b/0: keys ["c"] and ["c", "d"]"#),
    ] {
        assert_eq!(differences(&value, &parse(other)), [expected]);
    }
}
