//! Subject transforms and mappings. The lines of the input are a source, a destination, a subject,
//! and a second destination.
//!
//! Promised for any text: what is refused is refused with a reason on one line; a subject is
//! rewritten exactly if it matches the source; a destination without functions is the result
//! itself; nothing depends on anything but the arguments and the random numbers.

use myelin_subject::{
    Mappings, NotTransformed, Transform, WeightedDestination, has_wildcard, is_well_formed, matches,
};

/// Any text as a transform and a subject for it.
pub fn transform(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default();
    let (source, destination, subject, second) = (line(), line(), line(), line());
    match Transform::new(source, destination) {
        Ok(made) => {
            assert_eq!((made.source(), made.destination()), (or_rest(source), destination));
            check_result(&made, subject.as_bytes());
        }
        Err(error) => {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            assert!(Transform::reversible(source, destination).is_err(), "reversible, but no transform");
            let passes = Transform::validate(source, destination).is_ok();
            assert!(!passes || destination.is_empty(), "valid, but no transform");
        }
    }
    check_mappings(source, &[destination, second], subject.as_bytes());
}

fn or_rest(source: &str) -> &str {
    if source.is_empty() { ">" } else { source }
}

/// Random numbers that are the same each time.
fn numbers() -> impl FnMut() -> u32 {
    let mut last = 0_u32;
    move || {
        last = last.wrapping_add(0x9e37_79b9);
        last
    }
}

fn check_result(made: &Transform, subject: &[u8]) {
    let (source, destination) = (made.source().as_bytes(), made.destination());
    let mut out = b"left over".to_vec();
    let result = made.transform(subject, &mut numbers(), &mut out);
    if source == b">" && destination == ">" {
        assert_eq!((result, &out[..]), (Ok(()), subject), "from all to all nothing changes");
        return;
    }
    let valid = is_well_formed(subject) && !has_wildcard(subject);
    match result {
        Ok(()) => assert!(valid && matches(source, subject), "rewritten without a match"),
        Err(NotTransformed::NoMatch) => assert!(!matches(source, subject), "a match was not rewritten"),
        Err(NotTransformed::InvalidSubject) => assert!(!valid, "a valid subject was refused"),
    }
    if result.is_ok() && !destination.contains(['$', '{', '>']) {
        assert_eq!(out, destination.as_bytes());
    }
    let mut again = Vec::new();
    made.rewrite(subject, &mut numbers(), &mut again);
    assert!(result.is_err() || again == out, "the same subject, another result");
}

fn check_mappings(source: &str, destinations: &[&str], subject: &[u8]) {
    let destinations: Vec<_> = destinations
        .iter()
        .zip([30, 50])
        .map(|(to, weight)| WeightedDestination { subject: (*to).into(), weight, cluster: String::new() })
        .collect();
    let mut mappings = Mappings::default();
    // The second may be refused where the first alone is fine.
    for list in [&destinations[..1], &destinations[..]] {
        if let Err(error) = mappings.insert(source, list) {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            continue;
        }
        let (mut once, mut twice) = (Vec::new(), Vec::new());
        let mapped = mappings.map(subject, "", &mut numbers(), &mut once);
        assert_eq!(mappings.map(subject, "", &mut numbers(), &mut twice), mapped);
        assert!(once == twice, "the same subject, another result");
        assert!(mapped || once.is_empty(), "not mapped, but something was written");
    }
}
