//! The command line.
//!
//! Promised for any arguments, one per line: reading them ends, without a panic, in something to do
//! or in an error that says something and has an exit code; twice the same. Without its secrets a
//! command line has as many arguments, and taking them out twice changes nothing. Files stay shut:
//! slashes are taken out of the arguments, so that nothing outside of the current directory has a
//! name.

use myelin_conf::{load, redacted_args};

/// Any bytes as a command line.
pub fn flags(data: &[u8]) {
    let text = String::from_utf8_lossy(data).replace('/', "_");
    let args: Vec<String> = text.split('\n').map(str::to_owned).collect();
    let env = |_: &str| None;
    let command = load(&args, &env);
    assert_eq!(command, load(&args, &env), "twice the same");
    if let Err(error) = command {
        assert!(matches!(error.exit_code(), 0 | 1));
        assert!(!error.to_string().trim().is_empty(), "an empty message");
    }
    let redacted = redacted_args(&args);
    assert_eq!(redacted.len(), args.len());
    assert_eq!(redacted_args(&redacted), redacted, "nothing is left to take out");
}
