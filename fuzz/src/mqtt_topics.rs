//! Topics and filters of MQTT, and subjects. The input is a topic, a filter and a subject at once.
//!
//! Promised: no topic and no filter becomes a subject with a blank or a control character in it, or
//! with an empty token; the pattern of a filter is well formed; a topic comes back from its
//! subject; a subject has a topic of the length that was said; and the groups of shared
//! subscriptions are names.

use myelin_mqtt::sparkplug::{Lifecycle, dated_death};
use myelin_mqtt::topic;
use myelin_subject::{has_empty_token, is_well_formed};

/// Any bytes as a topic, a filter, a subject and the payload of a death.
pub fn mqtt_topics(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let mut subject = Vec::new();
    if topic::name_to_subject(&text, &mut subject).is_ok() {
        check_subject(&subject);
        assert_eq!(topic_of(&subject), text.as_bytes());
        assert!(topic::is_topic(&subject));
        assert!(!topic::has_misplaced_wildcard(&text));
        let _ = Lifecycle::of_subject(&subject);
    } else {
        assert!(subject.is_empty());
    }
    let mut pattern = Vec::new();
    if topic::filter_to_subject(&text, &mut pattern).is_ok() {
        for pattern in [Some(&pattern[..]), topic::level_above(&pattern)].into_iter().flatten() {
            check_subject(pattern);
            assert!(is_well_formed(pattern));
        }
    }
    if let Ok(Some(shared)) = topic::shared(&text) {
        check_characters(shared.group.as_bytes());
        assert_eq!(format!("{}{}/{}", topic::SHARED, shared.group, shared.filter), text);
    }
    topic_of(data);
    let mut dated = Vec::new();
    dated_death(data, 1, &mut dated);
    let mut again = Vec::new();
    dated_death(&dated, 1, &mut again);
    assert!(dated == data || again == dated);
}

fn check_subject(subject: &[u8]) {
    check_characters(subject);
    assert!(!has_empty_token(subject));
}

/// Checks what stands in a line of the NATS protocol.
fn check_characters(word: &[u8]) {
    assert!(!word.is_empty() && word.iter().all(|byte| *byte > b' ' && *byte != 0x7f));
}

fn topic_of(subject: &[u8]) -> Vec<u8> {
    let mut topic = Vec::new();
    topic::subject_to_topic(subject, &mut topic);
    assert_eq!(topic.len(), topic::topic_len(subject));
    topic
}
