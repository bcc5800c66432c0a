//! The configuration file.
//!
//! Promised for any bytes: reading ends, without a panic, in options or in errors that each say
//! something on one line. Reading is a function of the text: twice the same. Files stay shut: where
//! the text speaks of including, slashes are taken out of it, so that nothing outside of the
//! current directory has a name.

use myelin_conf::{Diagnostic, LoadError, load_text};

/// Any bytes as a configuration file.
pub fn configuration(data: &[u8]) {
    let text = without_far_files(data);
    let env = |name: &str| match name {
        "WORD" => Some("word".to_owned()),
        "NUMBER" => Some("4222".to_owned()),
        "LOOP" => Some("$LOOP".to_owned()),
        "LIST" => Some("[a, $WORD, {b: $NUMBER}]".to_owned()),
        _ => None,
    };
    let loaded = load_text(&text, &env);
    assert_eq!(loaded, load_text(&text, &env), "twice the same");
    match loaded {
        Ok(loaded) => {
            let digest = loaded.config_digest.expect("a text that was read has a digest");
            assert!(digest.len() == 71 && digest.starts_with("sha256:"), "{digest}");
            loaded.warnings.iter().for_each(says_something);
        }
        Err(error) => {
            assert_eq!(error.exit_code(), 1, "{error}");
            match &error {
                LoadError::Grammar(diagnostic) => says_something(diagnostic),
                LoadError::Config(diagnostics) => {
                    assert!(!diagnostics.is_empty(), "refused without a reason");
                    diagnostics.iter().for_each(says_something);
                }
                _ => {}
            }
        }
    }
}

fn without_far_files(data: &[u8]) -> Vec<u8> {
    let includes = data.windows(7).any(|word| word.eq_ignore_ascii_case(b"include"));
    data.iter().map(|byte| if includes && *byte == b'/' { b'_' } else { *byte }).collect()
}

fn says_something(diagnostic: &Diagnostic) {
    let message = &diagnostic.message;
    assert!(!message.trim().is_empty(), "an empty message");
    assert!(!message.contains(['\r', '\n']), "a message of several lines: {message:?}");
}
