//! Every option of `/subsz`.

use myelin_monitor::InterestSnapshot;
use serde_json::{Value, json};

use crate::fixture::{Fixed, sub};

fn source() -> Fixed {
    Fixed {
        subs: vec![sub(1, "A", "foo.*"), sub(1, "A", "bar"), sub(2, "B", "foo.x"), sub(3, "B", ">")],
        interest: InterestSnapshot {
            num_subscriptions: 4,
            cache_hit_rate: 0.75,
            ..InterestSnapshot::default()
        },
        ..Fixed::default()
    }
}

fn subjects(page: &Value) -> Vec<&str> {
    let list = page.get("subscriptions_list").and_then(Value::as_array);
    list.into_iter().flatten().map(|sub| sub["subject"].as_str().unwrap()).collect()
}

#[test]
fn subscriptions_are_listed_only_when_asked_for() {
    let page = source().page("/subsz");
    assert_eq!(page["num_subscriptions"], 4);
    assert_eq!(page["cache_hit_rate"], 0.75);
    assert_eq!(page["total"], 0);
    assert!(page.get("subscriptions_list").is_none());
    let page = source().page("/subsz?subs=true");
    assert_eq!(page["total"], 4);
    assert_eq!(subjects(&page), ["foo.*", "bar", "foo.x", ">"]);
    let first =
        json!({"account": "A", "account_tag": "A", "subject": "foo.*", "sid": "1", "msgs": 0, "cid": 1});
    assert_eq!(page["subscriptions_list"][0], first);
}

#[test]
fn account_and_test_subject_narrow_the_list() {
    assert_eq!(subjects(&source().page("/subsz?subs=1&acc=B")), ["foo.x", ">"]);
    let page = source().page("/subsz?subs=1&test=foo.x");
    assert_eq!((subjects(&page), &page["total"]), (vec!["foo.*", "foo.x", ">"], &json!(3)));
    assert_eq!(subjects(&source().page("/subsz?subs=1&test=foo.x&acc=A")), ["foo.*"]);
    let page = source().page("/subsz?subs=1&acc=nope");
    assert_eq!((&page["total"], &page["num_subscriptions"]), (&json!(0), &json!(0)));
}

#[test]
fn offset_and_limit_cut_out_a_page() {
    let page = source().page("/subsz?subs=1&offset=1&limit=2");
    assert_eq!(subjects(&page), ["bar", "foo.x"]);
    assert_eq!((&page["total"], &page["offset"], &page["limit"]), (&json!(4), &json!(1), &json!(2)));
    // The page counts what passed the filters.
    assert_eq!(subjects(&source().page("/subsz?subs=1&test=foo.x&offset=2")), [">"]);
    let page = source().page("/subsz?subs=1&offset=9223372036854775807&limit=9223372036854775807");
    assert!(page.get("subscriptions_list").is_none());
    assert_eq!(page["total"], 4);
}

#[test]
fn bad_values_are_refused() {
    for subject in ["a.*", ">", "a..b", ".a", "a."] {
        assert_eq!(
            source().refusal(&format!("/subsz?test={subject}")),
            format!("invalid test subject, must be valid publish subject: {subject}")
        );
    }
    assert_eq!(
        source().refusal("/subscriptionsz?subs=detail"),
        r#"Error decoding boolean for 'subs': strconv.ParseBool: parsing "detail": invalid syntax"#
    );
    for option in ["offset", "limit"] {
        assert_eq!(
            source().refusal(&format!("/subsz?{option}=1.5")),
            format!(r#"Error decoding int for '{option}': strconv.Atoi: parsing "1.5": invalid syntax"#)
        );
    }
}
