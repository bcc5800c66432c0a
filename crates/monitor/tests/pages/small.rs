//! `/varz`, `/healthz`, `/`, unknown paths and the base path.

use myelin_monitor::{Health, Pages};

use crate::fixture::{Fixed, text};

#[test]
fn varz_writes_values_as_the_reference_does() {
    let source = Fixed::default();
    let answer = source.ask("/varz");
    let body = text(&answer);
    for line in [
        "\n  \"cluster\": {},\n  \"gateway\": {},\n  \"leaf\": {},\n",
        "\n  \"ping_interval\": 120000000000,\n",
        "\n  \"auth_timeout\": 2,\n",
        "\n  \"now\": \"2026-11-20T12:00:00.5Z\",\n",
        "\n  \"uptime\": \"1d2h3m4s\",\n",
        "\n  \"cpu\": 0.5,\n",
        "\n  \"http_req_stats\": {\n    \"/varz\": 1\n  },\n",
    ] {
        assert!(body.contains(line), "{line} is not in {body}");
    }
    assert!(body.ends_with("\n}"), "no newline at the end");
    assert_eq!(answer.headers[1], ("access-control-allow-origin", "*"));
}

#[test]
fn healthz_is_ok_on_one_line() {
    let source = Fixed::default();
    for request in ["/healthz", "/healthz?details=true", "/healthz?js-enabled-only=1&js-server-only=0"] {
        let answer = source.ask(request);
        assert_eq!((answer.status, text(&answer).as_str()), (200, r#"{"status":"ok"}"#), "{request}");
    }
    assert!(source.warnings.lock().unwrap().is_empty());
}

#[test]
fn healthz_misses_the_names_that_a_check_needs() {
    let source = Fixed::default();
    let expected = [
        (
            "/healthz?stream=x",
            r#"{"status":"error","error":"\"account\" must not be empty when checking stream health"}"#,
        ),
        (
            "/healthz?stream=x&details=1",
            r#"{"status":"error","errors":[{"type":"BAD_REQUEST","error":"\"account\" must not be empty when checking stream health"}]}"#,
        ),
        (
            "/healthz?consumer=x&account=a",
            r#"{"status":"error","error":"\"stream\" must not be empty when checking consumer health"}"#,
        ),
    ];
    for (request, body) in expected {
        assert_eq!(source.refusal(request), body, "{request}");
        assert_eq!(source.ask(request).headers[0].1, "application/json");
    }
    assert_eq!(
        source.warnings.lock().unwrap()[0],
        r#"Healthcheck failed: "\"account\" must not be empty when checking stream health""#
    );
}

#[test]
fn healthz_reports_a_server_that_does_not_listen() {
    let source = Fixed { health: Health::NotReady("no listener".to_owned()), ..Fixed::default() };
    let answer = source.ask("/healthz");
    assert_eq!((answer.status, text(&answer).as_str()), (500, r#"{"status":"error","error":"no listener"}"#));
    let answer = source.ask("/healthz?details=1");
    assert_eq!(text(&answer), r#"{"status":"error","errors":[{"type":"CONNECTION","error":"no listener"}]}"#);
}

#[test]
fn healthz_misses_a_jetstream_that_was_asked_for() {
    let source = Fixed { health: Health::WithoutJetStream, ..Fixed::default() };
    let answer = source.ask("/healthz?js-enabled-only=1");
    let body = r#"{"status":"unavailable","error":"JetStream not enabled (10076)"}"#;
    assert_eq!((answer.status, text(&answer).as_str()), (503, body));
    let answer = source.ask("/healthz?details=1");
    let body =
        r#"{"status":"error","errors":[{"type":"JETSTREAM","error":"JetStream not enabled (10076)"}]}"#;
    assert_eq!((answer.status, text(&answer).as_str()), (503, body));
    assert_eq!(source.ask("/healthz?js-server-only=1").status, 200);
}

#[test]
fn healthz_checks_values_and_warns_of_the_old_switch() {
    let source = Fixed::default();
    assert_eq!(
        source.refusal("/healthz?js-meta-only=x"),
        r#"Error decoding boolean for 'js-meta-only': strconv.ParseBool: parsing "x": invalid syntax"#
    );
    source.page("/healthz?js-enabled=1");
    assert_eq!(
        *source.warnings.lock().unwrap(),
        ["Healthcheck: js-enabled deprecated, use js-enabled-only instead"]
    );
}

#[test]
fn unknown_paths_are_not_found() {
    let source = Fixed::default();
    for path in ["/nope", "/connz/", "//connz", "", "/debug", "/debug/vars/", "/%zz"] {
        let answer = source.ask(path);
        let expected = if path.is_empty() { 200 } else { 404 };
        assert_eq!(answer.status, expected, "{path}");
    }
    let answer = source.ask("/nope");
    assert_eq!(text(&answer), "404 page not found\n");
    assert_eq!(answer.headers[1], ("x-content-type-options", "nosniff"));
}

#[test]
fn paths_may_be_percent_encoded() {
    assert_eq!(Fixed::default().ask("/%76arz").status, 200);
}

#[test]
fn a_base_path_is_asked_for() {
    let source = Fixed::default();
    for configured in ["mon", "/mon", "/mon/", "//mon"] {
        let pages = Pages::under(configured);
        let status = |path| pages.respond(path, "", &source).status;
        assert_eq!((status("/mon"), status("/mon/varz")), (200, 200), "{configured}");
        assert_eq!((status("/varz"), status("/"), status("/mon/"), status("/monvarz")), (404, 404, 404, 404));
    }
}

#[test]
fn links_of_the_index_are_relative_to_it() {
    let source = Fixed::default();
    for (configured, path, link) in
        [("", "/", "./varz"), ("mon", "/mon", "./mon/varz"), ("a/b&", "/a/b&", "./b&amp;/varz")]
    {
        let index = Pages::under(configured).respond(path, "", &source);
        assert!(text(&index).contains(&format!("<a href=\"{link}\">General")), "{}", text(&index));
    }
}

#[test]
fn the_index_links_to_pages_that_answer() {
    let source = Fixed::default();
    let index = source.ask("/");
    assert_eq!(index.headers, [("content-type", "text/html; charset=utf-8")]);
    let body = text(&index);
    let links: Vec<_> = body.split("href=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
    let expected = "varz jsz connz accountz accstatz subsz routez leafz gatewayz raftz healthz debug/vars";
    let expected: Vec<_> = expected.split(' ').map(|page| format!("./{page}")).collect();
    assert_eq!(links[..12], expected);
    assert!(links[12].ends_with("/monitoring") && links.len() == 13);
    for link in &links[..12] {
        let status = if *link == "./raftz" { 404 } else { 200 };
        assert_eq!(source.ask(link.trim_start_matches('.')).status, status, "{link}");
    }
    assert!(body.contains("<title>NSERVER v2.15.2</title>"), "{body}");
}

#[test]
fn requests_are_counted_by_page() {
    let source = Fixed::default();
    for request in ["/", "/subsz", "/subscriptionsz", "/subsz?subs=x", "/healthz?details=x", "/nope"] {
        source.ask(request);
    }
    // These count also a request that cannot be understood.
    for page in ["gatewayz", "leafz", "accountz", "accstatz", "jsz"] {
        source.ask(&format!("/{page}?subs=x&unused=x&streams=x&acc=nope"));
    }
    // These are never counted.
    for page in ["raftz", "ipqueuesz", "stacksz", "debug/vars"] {
        source.ask(&format!("/{page}"));
    }
    source.ask("/routez");
    source.ask("/routez?subs=x");
    // An unreadable value keeps a connz request from being counted, a bad sort key does not.
    for request in ["/connz", "/connz?sort=x", "/connz?auth=x", "/connz?acc=nope"] {
        source.ask(request);
    }
    let counted = source.requests.lock().unwrap().clone();
    let counted: Vec<_> = counted.iter().map(|(page, count)| (page.as_str(), *count)).collect();
    let expected = [
        ("/", 1),
        ("/accountz", 1),
        ("/accstatz", 1),
        ("/connz", 3),
        ("/gatewayz", 1),
        ("/healthz", 1),
        ("/jsz", 1),
        ("/leafz", 1),
        ("/routez", 1),
        ("/subsz", 3),
    ];
    assert_eq!(counted, expected);
}
