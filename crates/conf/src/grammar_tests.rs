//! Tests of lexer and parser together: what text becomes which tree, where things are, and that no
//! input whatever makes them panic.

use proptest::prelude::*;

use crate::diagnostic::Diagnostic;
use crate::parser::Sources;
use crate::value::{Map, Value};

fn parse(text: &[u8]) -> Result<Map, Diagnostic> {
    Sources::new(&|_| None).parse_text(text, "f")
}

/// The tree in a compact notation that shows types: `a=1 b=[s"x" 1.5 true] c={d=@2006-…}`.
fn outline(map: &Map) -> String {
    let entries: Vec<_> = map.iter().map(|(key, node)| format!("{key}={}", show(&node.value))).collect();
    entries.join(" ")
}

fn show(value: &Value) -> String {
    match value {
        Value::Boolean(boolean) => boolean.to_string(),
        Value::Integer(integer) => integer.to_string(),
        Value::Float(float) => format!("{float:?}"),
        Value::Text(text) => format!("s{text:?}"),
        Value::DateTime(text) => format!("@{text}"),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(|node| show(&node.value)).collect::<Vec<_>>().join(" "))
        }
        Value::Map(map) => format!("{{{}}}", outline(map)),
    }
}

#[test]
fn text_becomes_a_tree() {
    for (text, tree) in [
        ("a=1", "a=1"),
        ("a: 1\nb 2", "a=1 b=2"),
        ("a=1; b=2, c=3", "a=1 b=2 c=3"),
        ("a = 1\na = 2", "a=2"),
        ("a = 1\nA = 2", "a=1 A=2"),
        ("\"a b\": 'c \"d\"'", "a b=s\"c \\\"d\\\"\""),
        ("a = 2k, b = 2kb, c = -2m", "a=2000 b=2048 c=-2000000"),
        ("a = 1.5, b = 1.5.2.1, c = 10.0.0.1:4222", "a=1.5 b=s\"1.5.2.1\" c=s\"10.0.0.1:4222\""),
        ("a = 2020-01-02T03:04:05Z", "a=@2020-01-02T03:04:05Z"),
        ("a = TRUE, b = 'true', c = trueish", "a=true b=s\"true\" c=s\"trueish\""),
        ("a = [1, 'b'\n c\n 1.5 ]", "a=[1 s\"b\" s\"c\" 1.5]"),
        ("a = [1,2k]", "a=[1 2000]"),
        ("a {b {c: d}}", "a={b={c=s\"d\"}}"),
        ("{\"a\": {\"b\": []}}", "a={b=[]}"),
        ("a = (\n x )\n  y\n)\nb = 1", "a=s\"\\n x )\\n  y\\n\" b=1"),
        ("# c\na: 1 # c\n// d\nb: x#y // z", "a=1 b=s\"x#y\""),
        ("a = \"\\t\\n\\r\\\"\\\\\\x41\"", "a=s\"\\t\\n\\r\\\"\\\\A\""),
        ("a = b\\tc", "a=s\"b\\tc\""),
        ("v = 1, a = $v, v = 2, b = $v", "v=2 a=1 b=2"),
        ("v = 1, a { v = 2, b = $v, c { d = $v } }", "v=1 a={v=2 b=2 c={d=2}}"),
        ("a = $2a$11$abc", "a=s\"$2a$11$abc\""),
        ("a = '$v', b = \"$v\"", "a=s\"$v\" b=s\"$v\""),
    ] {
        let parsed = parse(text.as_bytes()).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        assert_eq!(outline(&parsed), tree, "{text:?}");
    }
}

#[test]
fn errors_say_where_and_what() {
    for (text, error) in [
        ("a = \n", "f:2:1: Parse error on line 2: 'expected a value, found a new line'"),
        ("a: 1\nb: [1, 2", "f:2:9: Parse error on line 2: 'an array is not closed, expected ']''"),
        ("a: 1\n b: {c: 1", "f:2:10: Parse error on line 2: 'a map is not closed, expected '}''"),
        ("a: 1 b", "f:1:5: Parse error on line 1: 'expected a new line after the value, found 'b''"),
        ("a: {b: [c d]}", "f:1:10: Parse error on line 1: 'expected ',' or ']', found 'd''"),
        ("a: \"x", "f:1:5: Parse error on line 1: 'a quoted string is not closed'"),
        (
            "a: \"\\q\"",
            "f:1:6: Parse error on line 1: 'unknown escape; allowed are \\t \\n \\r \\\" \\\\ and \\xHH'",
        ),
        ("a: 1\n= 2", "f:2:1: Parse error on line 2: 'expected a key, found '=''"),
        ("a: 12-1", "f:1:6: Parse error on line 1: 'a date is written like 2006-01-02T15:04:05Z'"),
        ("a: -x", "f:1:5: Parse error on line 1: 'expected a digit after '-''"),
        ("a", "f:1:1: config is invalid: \"a\" has no value"),
        ("\na: 99999999999999999999", "f:2:4: integer '99999999999999999999' is out of the range"),
        ("a: 1\nb: \0", "f:2:4: Parse error on line 2: 'unexpected NUL byte'"),
        ("a: $B", "f:1:4: variable reference for 'B' on line 1 can not be found"),
    ] {
        let complaint = parse(text.as_bytes()).expect_err(text).to_string();
        assert_eq!(complaint, error, "{text:?}");
    }
}

#[test]
fn nodes_know_their_places() {
    let map = parse(b"a: 1\n  b: [x, \"y\",\n {c: d}]\n\"e\": $a").expect("valid");
    let places: Vec<_> = map.iter().map(|(key, node)| format!("{key}@{}", node.position)).collect();
    assert_eq!(places, ["a@f:1:0", "b@f:2:3", "e@f:4:2"]);
    let used: Vec<_> = map.iter().map(|(_, node)| node.is_used_variable).collect();
    assert_eq!(used, [true, false, false]);
    let Some((_, node)) = map.iter().nth(1) else { panic!("b is there") };
    let Value::Array(items) = &node.value else { panic!("b is an array") };
    let places: Vec<_> = items.iter().map(|node| (node.position.line, node.position.column)).collect();
    assert_eq!(places, [(2, 7), (2, 11), (3, 8)], "a map in an array is placed behind its brace");
}

/// A value as it could be written, without anything that writing cannot keep.
#[derive(Debug, Clone)]
enum Written {
    Scalar(Value),
    Array(Vec<Written>),
    Map(Vec<(String, Written)>),
}

fn written() -> impl Strategy<Value = Written> {
    let scalar = prop_oneof![
        any::<bool>().prop_map(Value::Boolean),
        any::<i64>().prop_map(Value::Integer),
        (-1e15..1e15_f64).prop_map(Value::Float),
        "[^\0]{0,12}".prop_map(Value::Text),
    ];
    scalar.prop_map(Written::Scalar).prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Written::Array),
            prop::collection::btree_map("[^\0\"]{0,6}", inner, 0..5)
                .prop_map(|map| Written::Map(map.into_iter().collect())),
        ]
    })
}

fn print(written: &Written) -> String {
    match written {
        Written::Scalar(Value::Text(text)) => format!("\"{}\"", escape(text)),
        Written::Scalar(Value::Float(float)) => format!("{float:.6}"),
        Written::Scalar(other) => show(other),
        Written::Array(items) => format!("[{}]", items.iter().map(print).collect::<Vec<_>>().join(", ")),
        Written::Map(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("\"{key}\": {}", print(value))).collect();
            format!("{{{}}}", entries.join("\n"))
        }
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\t', "\\t")
        .replace('\n', "\\n")
        .replace('\r', "\\r")
}

fn read_back(written: &Written) -> String {
    match written {
        Written::Scalar(Value::Float(float)) => {
            show(&Value::Float(format!("{float:.6}").parse().expect("it is a number")))
        }
        Written::Scalar(scalar) => show(scalar),
        Written::Array(items) => format!("[{}]", items.iter().map(read_back).collect::<Vec<_>>().join(" ")),
        Written::Map(entries) => {
            let entries: Vec<_> =
                entries.iter().map(|(key, value)| format!("{key}={}", read_back(value))).collect();
            format!("{{{}}}", entries.join(" "))
        }
    }
}

/// Pieces of the grammar in any order, to get further into it than random bytes do.
fn soup() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "a",
        "b:",
        "include",
        "$a",
        "$",
        "1",
        "-",
        "5k",
        "1.5",
        ".",
        "true",
        "\"",
        "'",
        "\\",
        "\\x4",
        "{",
        "}",
        "[",
        "]",
        "(",
        ")",
        "\n",
        "\n)\n",
        "\r",
        " ",
        "\t",
        "=",
        ":",
        ",",
        ";",
        "#",
        "/",
        "//",
        "é",
        "\u{2028}",
        "2020-01-02T03:04:05Z",
    ]);
    prop::collection::vec(pieces, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_bytes_are_parsed_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn any_soup_is_parsed_or_refused_at_a_place_inside(text in soup()) {
        if let Err(error) = parse(text.as_bytes()) {
            let place = error.position.expect("an error of the text has a place");
            let lines = text.matches('\n').count() + 1;
            prop_assert!((1..=lines).contains(&(place.line as usize)), "{text:?}: {place}");
            prop_assert!(place.column as usize <= text.len(), "{text:?}: {place}");
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(value in written()) {
        let text = format!("value: {}\n", print(&value));
        let map = parse(text.as_bytes()).map_err(|error| TestCaseError::fail(format!("{text:?}: {error}")))?;
        prop_assert_eq!(outline(&map), format!("value={}", read_back(&value)), "{}", text);
    }
}
