//! Transforms against what the reference did, and against their twin.

use proptest::prelude::*;

use super::twin;
use super::*;
use crate::pattern::has_empty_token;

/// Source, destination, subject published, subject that a subscriber to `>` of nats-server 2.15.2
/// saw, if any.
const OBSERVED: &[(&str, &str, &str, Option<&str>)] = &[
    ("m0.*.*", "$2.$1", "m0.a.b", Some("b.a")),
    ("m1.*.*", "x.$1", "m1.a.b", Some("x.a")),
    ("m2.*.*", "x.$0.$2", "m2.a.b", Some("x.m2.b")),
    ("m3.*.*", "x.$-1.$2", "m3.a.b", Some("x.m3.b")),
    ("m4.*.*", "x.$+2", "m4.a.b", Some("x.b")),
    ("m5.*", "x.$.$1", "m5.a", Some("x.$.a")),
    ("m6.*", "x.$foo.$1", "m6.a", Some("x.$foo.a")),
    ("m7.*", "x.$99999999999999999999.$1", "m7.a", Some("x.$99999999999999999999.a")),
    ("m8.*.*", "x.{{wildcard(2)}}.{{ Wildcard ( 1 ) }}", "m8.a.b", Some("x.b.a")),
    ("m9.*", "pre{{wildcard(1)}}post", "m9.a", Some("pre{{wildcard(1)}}post")),
    ("m10.*", "{{foo}}{{wildcard(1)}}", "m10.a", Some("a")),
    ("m11.*", "{{{wildcard(1)}}}", "m11.a", Some("a")),
    ("m12.*", "{{wildcard(1)}}x}}", "m12.a", Some("a")),
    ("m13.*", "{{split(1,-)}}{{wildcard(1)}}", "m13.a-b", Some("a-b")),
    ("m14.*.>", "y.$1.>", "m14.a.b", Some("y.a.b")),
    ("m14.*.>", "y.$1.>", "m14.a.b.c.d", Some("y.a.b.c.d")),
    ("m15.>", "y.>", "m15.a", Some("y.a")),
    ("m15.>", "y.>", "m15.a.b", Some("y.a.b")),
    ("m16.*.>", ">", "m16.a.b", Some("b")),
    ("m16.*.>", ">", "m16.a.b.c", Some("b.c")),
    ("m17.*.*", "{{partition(10,1)}}", "m17.a.b", Some("0")),
    ("m17.*.*", "{{partition(10,1)}}", "m17.foo.bar", Some("3")),
    ("m17.*.*", "{{partition(10,1)}}", "m17.hello.world", Some("3")),
    ("m18.*.*", "{{partition(10,2,1)}}", "m18.a.b", Some("8")),
    ("m18.*.*", "{{partition(10,2,1)}}", "m18.foo.bar", Some("2")),
    ("m19.*.*", "{{partition(10)}}", "m19.a.b", Some("9")),
    ("m19.*.*", "{{partition(10)}}", "m19.foo.bar", Some("3")),
    ("m20.*.*", "{{Partition( 10 , 1 , 2 )}}.x", "m20.a.b", Some("6.x")),
    ("m20.*.*", "{{Partition( 10 , 1 , 2 )}}.x", "m20.ab.", None),
    ("m21.*", "{{partition(0,1)}}", "m21.a", Some("0")),
    ("m22.*", "{{partition(-7,1)}}", "m22.a", Some("3826002220")),
    ("m22.*", "{{partition(-7,1)}}", "m22.b", Some("3876335077")),
    ("m23.*", "{{partition(10,0)}}", "m23.a", Some("7")),
    ("m23.*", "{{partition(10,0)}}", "m23.b", Some("7")),
    ("m24.*", "{{partition(2147483647,1)}}", "m24.a", Some("1678518573")),
    ("m25.*", "{{partition(-4294967296,1)}}", "m25.a", Some("0")),
    ("m26.>", "{{partition(10)}}.>", "m26.a.b", Some("1.a.b")),
    ("m27.*", "{{random(0)}}", "m27.a", Some("0")),
    ("m28.*", "{{random(1)}}", "m28.a", Some("0")),
    ("m29.*", "{{random(-1)}}", "m29.a", Some("0")),
    ("m30.*", "{{SplitFromLeft(1,3)}}", "m30.12345", Some("123.45")),
    ("m30.*", "{{SplitFromLeft(1,3)}}", "m30.123", Some("123")),
    ("m30.*", "{{SplitFromLeft(1,3)}}", "m30.12", Some("12")),
    ("m30.*", "{{SplitFromLeft(1,3)}}", "m30.1234", Some("123.4")),
    ("m31.*", "{{splitFromLeft(1,0)}}", "m31.12345", Some("12345")),
    ("m32.*", "{{splitFromleft(1,-1)}}", "m32.12345", Some("12345")),
    ("m33.*", "{{SplitFromRight(1,3)}}", "m33.12345", Some("12.345")),
    ("m33.*", "{{SplitFromRight(1,3)}}", "m33.123", Some("123")),
    ("m33.*", "{{SplitFromRight(1,3)}}", "m33.1234", Some("1.234")),
    ("m34.*", "{{SliceFromLeft(1,3)}}", "m34.1234567890", Some("123.456.789.0")),
    ("m34.*", "{{SliceFromLeft(1,3)}}", "m34.123", Some("123")),
    ("m34.*", "{{SliceFromLeft(1,3)}}", "m34.1234", Some("123.4")),
    ("m34.*", "{{SliceFromLeft(1,3)}}", "m34.123456", Some("123.456")),
    ("m35.*", "{{SliceFromLeft(1,0)}}", "m35.1234567890", Some("1234567890")),
    ("m36.*", "{{SliceFromRight(1,3)}}", "m36.1234567890", Some("1.234.567.890")),
    ("m36.*", "{{SliceFromRight(1,3)}}", "m36.123", Some("123")),
    ("m36.*", "{{SliceFromRight(1,3)}}", "m36.1234", Some("1.234")),
    ("m36.*", "{{SliceFromRight(1,3)}}", "m36.123456", Some("123.456")),
    ("m37.*", "{{Split(1,-)}}", "m37.-abc-def--ghi-", Some("abc.def.ghi")),
    ("m37.*", "{{Split(1,-)}}", "m37.a--b", Some("a.b")),
    ("m37.*", "{{Split(1,-)}}", "m37.--a", None),
    ("m37.*", "{{Split(1,-)}}", "m37.-", None),
    ("m37.*", "{{Split(1,-)}}", "m37.--", None),
    ("m37.*", "{{Split(1,-)}}", "m37.a", Some("a")),
    ("m37.*", "{{Split(1,-)}}", "m37.-a", Some("a")),
    ("m37.*", "{{Split(1,-)}}", "m37.a-", Some("a")),
    ("m37.*", "{{Split(1,-)}}", "m37.---a-b", None),
    ("m38.*", "p.{{Split(1,-)}}.q", "m38.--a", None),
    ("m38.*", "p.{{Split(1,-)}}.q", "m38.-", None),
    ("m38.*", "p.{{Split(1,-)}}.q", "m38.a-b", Some("p.a.b.q")),
    ("m39.*", "{{split(1,)}}", "m39.abc", Some("a.b.c")),
    ("m39.*", "{{split(1,)}}", "m39.hé€", Some("h.é.€")),
    ("m40.*", "{{split(1,ab)}}", "m40.xabyabz", Some("x.y.z")),
    ("m40.*", "{{split(1,ab)}}", "m40.ababx", None),
    ("m41.*", "{{Left(1,3)}}", "m41.12345", Some("123")),
    ("m41.*", "{{Left(1,3)}}", "m41.12", Some("12")),
    ("m41.*", "{{Left(1,3)}}", "m41.123", Some("123")),
    ("m42.*", "{{Right(1,3)}}", "m42.12345", Some("345")),
    ("m42.*", "{{Right(1,3)}}", "m42.12", Some("12")),
    ("m42.*", "{{Right(1,3)}}", "m42.123", Some("123")),
    ("m43.*", "{{right(1,0)}}", "m43.12345", Some("12345")),
    ("m44.*.*", "{{Left(2,1)}}.{{right(1,1)}}.$1", "m44.abc.def", Some("d.c.abc")),
    ("m45.lit", "x.{{partition(10)}}", "m45.lit", Some("x.2")),
    ("m46.lit", "x.{{partition(10,1)}}", "m46.lit", Some("x.9")),
    ("m47.lit", "x.{{random(1)}}", "m47.lit", Some("x.0")),
    ("m48.lit", "x.$.$a.b", "m48.lit", Some("x.$.$a.b")),
    ("m49.*x.b", "to.here", "m49.q.b", Some("to.here")),
    ("m49.*x.b", "to.here", "m49.zz.b", Some("to.here")),
    ("m50.*", "Z{{.$1", "m50.a", Some("Z{{.a")),
    ("m51.*.*", "{{wildcard(1)}}.*x", "m51.a.b", Some("a.*x")),
];

/// Source, destination, and with what nats-server 2.15.2 refuses it as a mapping.
const REFUSED: &[(&str, &str, &str)] = &[
    ("foo", "$1", "invalid mapping destination: wildcard index out of range in $1"),
    ("foo", "$0", "invalid mapping destination: wildcard index out of range in $0"),
    ("foo.*", "$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
    ("foo.*", "$1.$2", "invalid mapping destination: wildcard index out of range in $2: [2]"),
    ("foo.*", "bar.*", "invalid subject"),
    ("foo.*", "bar.>", "invalid subject"),
    ("foo.>", "bar", "invalid subject"),
    (
        "foo.*",
        "{{wildcard()}}",
        "invalid mapping destination: not enough arguments passed to the function in {{wildcard()}}",
    ),
    (
        "foo.*",
        "{{wildcard(1,2)}}",
        "invalid mapping destination: too many arguments passed to the function in {{wildcard(1,2)}}",
    ),
    (
        "foo.*",
        "{{wildcard(x)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{wildcard(x)}}",
    ),
    (
        "foo.*",
        "{{wildcard(2)}}",
        "invalid mapping destination: wildcard index out of range in {{wildcard(2)}}: [2]",
    ),
    (
        "foo.*",
        "{{partition()}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{partition()}}",
    ),
    (
        "foo.*",
        "{{partition(x)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{partition(x)}}",
    ),
    (
        "foo.*",
        "{{partition(10,x)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{partition(10,x)}}",
    ),
    (
        "foo.*",
        "{{partition(10,2)}}",
        "invalid mapping destination: wildcard index out of range in {{partition(10,2)}}: [2]",
    ),
    (
        "foo.*",
        "{{partition(2147483648,1)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{partition(2147483648,1)}}",
    ),
    (
        "foo.*",
        "{{split(1)}}",
        "invalid mapping destination: not enough arguments passed to the function in {{split(1)}}",
    ),
    (
        "foo.*",
        "{{split(1,-,2)}}",
        "invalid mapping destination: too many arguments passed to the function in {{split(1,-,2)}}",
    ),
    (
        "foo.*",
        "{{split(x,-)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{split(x,-)}}",
    ),
    (
        "foo.*",
        "{{split(1,a b)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{split(1,a b)}}",
    ),
    (
        "foo.*",
        "{{splitfromleft(1)}}",
        "invalid mapping destination: not enough arguments passed to the function in {{splitfromleft(1)}}",
    ),
    (
        "foo.*",
        "{{splitfromleft(1,2,3)}}",
        "invalid mapping destination: too many arguments passed to the function in {{splitfromleft(1,2,3)}}",
    ),
    (
        "foo.*",
        "{{left(1,x)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{left(1,x)}}",
    ),
    (
        "foo.*",
        "{{left(x,1)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{left(x,1)}}",
    ),
    (
        "foo.*",
        "{{left(1,2147483648)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{left(1,2147483648)}}",
    ),
    (
        "foo.*",
        "{{left(2,1)}}",
        "invalid mapping destination: wildcard index out of range in {{left(2,1)}}: [2]",
    ),
    ("foo.*", "{{unknown(1)}}", "invalid mapping destination: unknown function in {{unknown(1)}}"),
    ("foo", "{{unknown(1)}}", "invalid mapping destination: unknown function in {{unknown(1)}}"),
    ("foo", "{{wildcard(1)}}", "invalid mapping destination: wildcard index out of range in {{wildcard(1)}}"),
    ("foo", "{{left(1,1)}}", "invalid mapping destination: wildcard index out of range in {{left(1,1)}}"),
    (
        "foo.*",
        "{{random()}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{random()}}",
    ),
    (
        "foo.*",
        "{{random(1,2)}}",
        "invalid mapping destination: not enough arguments passed to the function in {{random(1,2)}}",
    ),
    (
        "foo.*",
        "{{random(x)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{random(x)}}",
    ),
    ("foo.*", "a..b", "invalid mapping destination: invalid transform"),
    ("foo.*", "a b", "invalid mapping destination: invalid transform"),
    ("foo.*", ">.b", "invalid mapping destination: invalid transform in b"),
    ("foo.>", "$1.>", "invalid mapping destination: wildcard index out of range in $1: [1]"),
    ("foo.*", "{{ }}", "invalid mapping destination: unknown function in {{ }}"),
    (
        "foo.*",
        "{{wildcard(1)}}{{wildcard(1)}}",
        "invalid mapping destination: function argument is invalid or in the wrong format in {{wildcard(1)}}{{wildcard(1)}}",
    ),
    ("foo.*", "{{PARTITION(1)}}", "invalid mapping destination: unknown function in {{PARTITION(1)}}"),
    ("foo..b", "x", "invalid subject"),
    ("foo b", "x", "invalid subject"),
    ("foo.*", "x.", "invalid mapping destination: invalid transform"),
    ("foo.>", ">.>", "invalid mapping destination: invalid transform in >"),
    ("foo.*", "x\ty.$1", "invalid mapping destination: invalid transform"),
    ("foo.*", "{{wildcard(1)}}.$3", "invalid mapping destination: wildcard index out of range in $3: [3]"),
];

fn to(subject: &str, weight: u8, cluster: &str) -> WeightedDestination {
    WeightedDestination { subject: subject.into(), weight, cluster: cluster.into() }
}

/// Result of `mappings` for `subject` on a server of `cluster`, when the random numbers are
/// `random`.
fn mapped(mappings: &Mappings, subject: &str, cluster: &str, random: u32) -> Option<String> {
    let mut out = b"left over".to_vec();
    let fits = mappings.map(subject.as_bytes(), cluster, &mut || random, &mut out);
    let out = String::from_utf8(out).expect("only whole characters are cut here");
    fits.then_some(out)
}

fn single(source: &str, destination: &str) -> Result<Mappings, MappingError> {
    let mut mappings = Mappings::default();
    mappings.insert(source, &[to(destination, 100, "")])?;
    Ok(mappings)
}

fn transformed(transform: &Transform, subject: &str, random: u32) -> Result<String, NotTransformed> {
    let mut out = b"left over".to_vec();
    transform.transform(subject.as_bytes(), &mut || random, &mut out)?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

#[test]
fn subjects_are_mapped_as_by_the_reference() {
    for &(source, destination, subject, seen) in OBSERVED {
        let mut mappings = single("not.this", "one").expect("a good mapping");
        mappings.insert(source, &[to(destination, 100, "")]).expect(destination);
        let result = mapped(&mappings, subject, "", 12345).unwrap_or_else(|| subject.into());
        let reaches = (!has_empty_token(result.as_bytes())).then_some(result.as_str());
        assert_eq!(reaches, seen, "{source} to {destination}: {subject} became {result}");
    }
}

#[test]
fn bad_mappings_are_refused_with_the_words_of_the_reference() {
    for &(source, destination, text) in REFUSED {
        let error = single(source, destination).expect_err(destination);
        assert_eq!(error.to_string(), text, "{source} to {destination}");
    }
    assert!(single("foo.*", "{{}}").is_ok());
}

#[test]
fn import_transforms_must_be_reversible() {
    let reversible =
        |source, destination| Transform::reversible(source, destination).map_err(|e| e.to_string());
    for (source, destination) in [
        ("a.*.*", "b.$2.$1"),
        ("a.>", "b.>"),
        ("a.*", "{{wildcard(1)}}"),
        ("a.*.*", "$1.$1"),
        ("a", "b.{{partition(3)}}"),
    ] {
        assert!(reversible(source, destination).is_ok(), "{source} to {destination}");
    }
    let prefix = "invalid mapping destination: ";
    for (source, destination, text) in [
        ("a.*.*", "b.$2", "not using all of the token wildcard(s) in b.$2"),
        ("a.*", "b", "not using all of the token wildcard(s) in b"),
        (
            "a.*",
            "{{left(1,2)}}.$1",
            "the only mapping function allowed for import transforms is {{Wildcard()}} in {{left(1,2)}}",
        ),
    ] {
        let error = reversible(source, destination).expect_err(destination);
        assert_eq!(error, format!("{prefix}{text}"));
    }
}

#[test]
fn a_transform_takes_only_subjects_of_its_source() {
    let transform = Transform::new("a.*", "b.$1").expect("a good transform");
    assert_eq!(transformed(&transform, "a.x", 0).as_deref(), Ok("b.x"));
    assert_eq!(transformed(&transform, "a.x.y", 0), Err(NotTransformed::NoMatch));
    for invalid in ["a.", "a.*", "a.>", "", "a..b"] {
        assert_eq!(transformed(&transform, invalid, 0), Err(NotTransformed::InvalidSubject), "{invalid}");
    }
    let all = Transform::new("", ">").expect("a good transform");
    assert_eq!((all.source(), transformed(&all, "a..*", 0).as_deref()), (">", Ok("a..*")));
    let prefixed = Transform::new("", "p.>").expect("a good transform");
    assert_eq!(transformed(&prefixed, "a.b", 0).as_deref(), Ok("p.a.b"));
    assert!(Transform::new("a", "").is_err() && Transform::validate("a", "").is_ok());
    assert!(Transform::new("a", "b c").is_ok() && Transform::validate("a", "b c").is_err());
}

#[test]
fn random_is_below_its_bound_and_drawn_for_each_use() {
    let transform = Transform::new("a", "{{random(10)}}.{{random(4)}}").expect("a good transform");
    let mut numbers = [2 * 123, 2 * 7 + 1].into_iter();
    let mut out = Vec::new();
    transform.rewrite(b"a", &mut || numbers.next().expect("two are drawn"), &mut out);
    assert_eq!((out.as_slice(), numbers.next()), (&b"3.3"[..], None));
}

#[test]
fn a_split_of_characters_takes_any_bytes() {
    let transform = Transform::new("*", "{{split(1,)}}").expect("a good transform");
    let mut out = Vec::new();
    transform.rewrite(b"a\xffb\xe2\x82", &mut || 0, &mut out);
    assert_eq!(out, b"a.\xff.b.\xe2.\x82");
}

/// How many of a hundred evenly spread random numbers lead to each result.
fn spread(mappings: &Mappings, subject: &str, cluster: &str) -> Vec<(String, usize)> {
    let mut counts = std::collections::BTreeMap::new();
    for hundredth in 0..100_u64 {
        // The middle of each hundredth of all 32-bit numbers.
        let random = u32::try_from((2 * hundredth + 1) * (1 << 31) / 100).expect("below 2^32");
        let result = mapped(mappings, subject, cluster, random).expect("a mapping fits");
        *counts.entry(result).or_default() += 1;
    }
    counts.into_iter().collect()
}

#[test]
fn weights_share_out_the_messages() {
    let mut mappings = Mappings::default();
    let results = |mappings: &Mappings, cluster: &str| {
        let spread = spread(mappings, "a.x", cluster);
        spread.iter().map(|(subject, count)| format!("{subject} {count}")).collect::<Vec<_>>().join(", ")
    };
    mappings.insert("a.*", &[to("b.$1", 20, ""), to("c", 30, "")]).expect("good");
    assert_eq!(results(&mappings, ""), "a.x 50, b.x 20, c 30");
    mappings.insert("a.*", &[to("b", 50, ""), to("c", 50, "")]).expect("good");
    assert_eq!((mappings.sources().count(), results(&mappings, "").as_str()), (1, "b 50, c 50"));
    mappings.insert("a.*", &[to("b", 10, ""), to("c", 100, "east"), to("d", 40, "west")]).expect("good");
    assert_eq!(results(&mappings, "north"), "a.x 90, b 10");
    assert_eq!(results(&mappings, "east"), "c 100");
    assert_eq!(results(&mappings, "west"), "a.x 60, d 40");
    mappings.insert("a.*", &[to("c", 100, "east")]).expect("good");
    assert_eq!(results(&mappings, ""), "a.x 100");
}

#[test]
fn a_source_among_its_destinations_means_loss() {
    let mut mappings = Mappings::default();
    mappings.insert("a", &[to("a", 30, ""), to("b", 10, "")]).expect("good");
    assert_eq!(spread(&mappings, "a", ""), [("".into(), 60), ("a".into(), 30), ("b".into(), 10)]);
}

#[test]
fn bad_weights_are_refused() {
    let refuse = |destinations: &[WeightedDestination]| {
        Mappings::default().insert("foo", destinations).expect_err("refused").to_string()
    };
    assert_eq!(refuse(&[to("a", 60, ""), to("a", 10, "x")]), "duplicate entry for \"a\"");
    assert_eq!(refuse(&[to("a", 60, ""), to("b", 50, "")]), "total weight needs to be <= 100");
    assert_eq!(refuse(&[to("a", 101, "")]), "individual weights need to be <= 100");
    assert_eq!(refuse(&[to("", 100, "")]), "invalid subject");
}

#[test]
fn the_first_mapping_that_fits_decides() {
    let mut mappings = Mappings::default();
    for (source, destination) in [("a.*", "one.$1"), ("a.b", "two"), ("a.>", "three.>"), ("a.b", "four")] {
        mappings.insert(source, &[to(destination, 100, "")]).expect("good");
    }
    let map = |mappings: &Mappings, subject| mapped(mappings, subject, "", 0);
    assert_eq!(mappings.sources().collect::<Vec<_>>(), ["a.*", "a.b", "a.>"]);
    assert_eq!(map(&mappings, "a.b").as_deref(), Some("one.b"));
    assert_eq!(map(&mappings, "a.b.c").as_deref(), Some("three.b.c"));
    assert_eq!(map(&mappings, "b"), None);
    assert!(mappings.remove("a.*") && !mappings.remove("a.*"));
    assert_eq!(mappings.sources().collect::<Vec<_>>(), ["a.>", "a.b"]);
    assert_eq!(map(&mappings, "a.b").as_deref(), Some("three.b"));
    assert!(!mappings.is_empty() && mappings.remove("a.>") && mappings.remove("a.b") && mappings.is_empty());
}

#[test]
fn a_literal_mapping_that_is_first_partitions_nothing() {
    let mappings = single("foo", "x.{{partition(10)}}").expect("good");
    assert_eq!(mapped(&mappings, "foo", "", 0).as_deref(), Some("x.1"), "as observed");
    let mut second = single("bar", "y").expect("good");
    second.insert("foo", &[to("x.{{partition(10)}}", 100, "")]).expect("good");
    let whole = Transform::new("foo", "x.{{partition(10)}}").expect("good");
    assert_eq!(mapped(&second, "foo", "", 0), transformed(&whole, "foo", 0).ok());
}

fn token() -> impl Strategy<Value = String> {
    "[ab-]{1,6}"
}

/// A destination of functions of three wildcards, some of them wrong.
fn destination() -> impl Strategy<Value = String> {
    let function = prop_oneof![
        "\\$[1-4]",
        "[ab$]{1,3}",
        "\\{\\{ ?[wW]ildcard\\( ?[1-4] ?\\) ?\\}\\}",
        "\\{\\{[sS]plit[fF]rom([lL]eft|[rR]ight)\\([1-4], ?-?[0-4]\\)\\}\\}",
        "\\{\\{[sS]lice[fF]rom([lL]eft|[rR]ight)\\([1-4],[0-4]\\)\\}\\}",
        "\\{\\{([lL]eft|[rR]ight)\\([1-4], {0,2}[0-4] ?\\)\\}\\}",
        "\\{\\{[sS]plit\\([1-4],(-|a|ab|--)\\)\\}\\}",
        "\\{\\{[pP]artition\\([0-9]{1,3}(, ?[1-4]){0,3}\\)\\}\\}",
        "\\{\\{[rR]andom\\([0-9]{1,3}\\)\\}\\}",
    ];
    (prop::collection::vec(function, 1..5), prop_oneof![Just(""), Just(".>")])
        .prop_map(|(functions, end)| format!("{}{end}", functions.join(".")))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
    #[test]
    fn transforms_agree_with_their_twin(
        source in "([ab]\\.|\\*\\.){0,4}([ab*>])",
        destination in destination(),
        filling in prop::collection::vec(token(), 12),
        random: u32,
    ) {
        let ours = Transform::new(&source, &destination);
        let stars = source.matches('*').count();
        let possible = twin::is_possible(&source, &destination);
        prop_assert_eq!(ours.is_ok(), possible, "{} wildcards: {:?}", stars, ours);
        if let Ok(transform) = ours {
            let subject = twin::fill(&source, &filling);
            let expected = twin::transform(&source, &destination, &subject, random);
            prop_assert_eq!(transformed(&transform, &subject, random), Ok(expected), "{}", subject);
        }
    }

    #[test]
    fn no_destination_panics(
        source in "[a*>.]{0,5}",
        destination in "([a$*>.{}(), 1-]|\\{\\{|\\}\\}|wildcard\\(|split\\(|left\\(){0,12}",
        subject in "[a*>.\u{e9}-]{0,6}",
    ) {
        let _ = single(&source, &destination).map(|mappings| mapped(&mappings, &subject, "", 7));
        if let Ok(transform) = Transform::new(&source, &destination) {
            let mut out = Vec::new();
            transform.rewrite(subject.as_bytes(), &mut || 7, &mut out);
        }
    }
}
