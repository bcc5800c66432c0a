//! Spans of messages that another system traces, pushed to a collector by OTLP: none unless the
//! configuration wants them, the way of a message through a stream, and a collector that fails.

use super::otlp::{Collector, Mood, warnings};
use crate::eventually;
use crate::jetstream::{Asker, Home, publish};
use crate::process::Server;
use crate::raw::Raw;
use myelin_stdx::sync::lock;
use serde_json::{Value, json};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

fn header(flags: &str) -> String {
    format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\n")
}

/// Spans that a collector has got, in order.
fn spans(collector: &Collector) -> Vec<Value> {
    let posts = lock(&collector.posts);
    let bodies = posts.iter().filter(|(head, _)| head.starts_with("post /v1/traces http/1.1\r\n"));
    let lists = bodies.filter_map(|(_, body)| body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array());
    lists.flatten().cloned().collect()
}

fn named<'s>(spans: &'s [Value], name: &str) -> &'s Value {
    spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"))
}

/// Value of an attribute, as OTLP writes it.
fn attribute<'s>(of: &'s Value, name: &str) -> &'s Value {
    let all = of["attributes"].as_array().expect("a list");
    all.iter().find(|pair| pair["key"] == name).map_or(&Value::Null, |pair| &pair["value"])
}

/// Spans that a server has counted with this result.
fn counted(server: &Server, result: &str) -> Option<u64> {
    let (_, page) = server.exchange("/metrics");
    let label = format!("result=\"{result}\"");
    let row = |line: &&str| line.starts_with("myelin_otlp_spans_total{") && line.contains(&label);
    page.lines().find(row)?.rsplit(' ').next()?.parse().ok()
}

#[test]
fn the_way_of_a_message_through_a_stream_is_told() {
    let (home, collector) = (Home::new(), Collector::start(Mood::Takes));
    let otlp = collector.config("traces: true, resource { \"deployment.environment\": prod }");
    let streams = format!("jetstream {{ store_dir: {:?} }}\n", home.path());
    let server = Server::with_config(&format!("server_name: x\nmetrics: true\n{otlp}{streams}"));
    let mut asker = Asker::connect(&server);
    asker.create("S", &json!({}));
    let consumer = json!({ "stream_name": "S", "config": { "durable_name": "C", "ack_policy": "explicit" } });
    asker.api("CONSUMER.DURABLE.CREATE.S.C", &consumer);
    let mut client = Raw::connect(&server);
    client.subscribe("S.x", 1);
    client.barrier();
    asker.raw.send_bytes(&publish("S.x", "", &header("00"), b"not sampled"));
    asker.raw.send_bytes(&publish("S.x", "", &header("01"), b"sampled"));
    asker.raw.barrier();
    for (flags, text) in [("00", "not sampled"), ("01", "sampled")] {
        // Nothing of it is changed.
        assert_eq!(client.message().text(), format!("NATS/1.0\r\n{}\r\n{text}", header(flags)));
    }
    let reply = asker.reply();
    let pull = "$JS.API.CONSUMER.MSG.NEXT.S.C";
    asker.raw.send_bytes(&publish(pull, &reply, "", br#"{"batch":2,"expires":60000000000}"#));
    let got = [asker.raw.message(), asker.raw.message()];
    assert!(got[1].text().ends_with("\r\nsampled"), "{got:?}");
    eventually("all spans have come", || spans(&collector).len() >= 4);
    let spans = spans(&collector);
    assert_eq!(spans.len(), 4, "{spans:#?}");
    let published = named(&spans, "publish");
    assert_eq!((&published["traceId"], &published["parentSpanId"]), (&TRACE.into(), &PARENT.into()));
    assert_eq!(published["kind"], 5);
    assert_eq!(attribute(published, "messaging.system"), &json!({ "stringValue": "nats" }));
    assert_eq!(attribute(published, "messaging.destination.name"), &json!({ "stringValue": "S.x" }));
    let stored = named(&spans, "store S");
    assert_eq!((&stored["parentSpanId"], &stored["kind"]), (&published["spanId"], &1.into()));
    let by_consumer = |span: &&Value| !attribute(span, "myelin.sequence").is_null();
    let (of_consumer, plain): (Vec<_>, Vec<_>) =
        spans.iter().filter(|span| span["name"] == "deliver").partition(by_consumer);
    assert_eq!((&plain[0]["parentSpanId"], &plain[0]["kind"]), (&published["spanId"], &4.into()));
    // The publisher's span is what the message carries.
    assert_eq!(of_consumer[0]["parentSpanId"], PARENT);
    assert_eq!(attribute(of_consumer[0], "myelin.sequence"), &json!({ "intValue": "2" }));
    assert_eq!(attribute(of_consumer[0], "messaging.consumer.group.name"), &json!({ "stringValue": "C" }));
    let nanos = |span: &Value, name: &str| span[name].as_str().and_then(|text| text.parse::<u64>().ok());
    for span in &spans {
        let [start, end] = ["startTimeUnixNano", "endTimeUnixNano"].map(|name| nanos(span, name));
        assert!(start.is_some_and(|start| start > 1_700_000_000_000_000_000) && start <= end, "{span}");
        assert!(span.get("status").is_none(), "{span}");
    }
    eventually("they are counted", || counted(&server, "sent") == Some(4));
    let posts = lock(&collector.posts);
    let resource = &posts.iter().find(|(head, _)| head.contains("/v1/traces")).expect("a request").1;
    let resource = &resource["resourceSpans"][0]["resource"];
    assert_eq!(attribute(resource, "service.name"), &json!({ "stringValue": "myelin" }));
    assert_eq!(attribute(resource, "deployment.environment"), &json!({ "stringValue": "prod" }));
}

#[test]
fn spans_begin_and_end_with_a_reload() {
    let collector = Collector::start(Mood::Takes);
    let config = |more: &str| format!("server_name: x\nmetrics: true\n{}", collector.config(more));
    let server = Server::with_config(&config(""));
    let mut client = Raw::connect(&server);
    let mut say = || {
        client.send_bytes(&publish("a", "", &header("01"), b"m"));
        client.barrier();
    };
    say();
    assert_eq!(counted(&server, "sent"), None);
    server.reload(&config("traces: true"));
    say();
    eventually("a span has come", || spans(&collector).len() == 1);
    server.reload(&config(""));
    say();
    assert_eq!(counted(&server, "sent"), None);
    server.reload(&config("traces: true"));
    say();
    eventually("another span has come", || spans(&collector).len() >= 2);
    assert_eq!(spans(&collector).len(), 2, "what came meanwhile has none");
}

#[test]
fn a_collector_that_takes_no_spans_costs_these_alone() {
    let unavailable = "HTTP/1.1 503 Service Unavailable\r\ncontent-length: 0\r\n\r\n";
    let collector = Collector::start(Mood::Answers(unavailable));
    let server = Server::with_config(&format!("metrics: true\n{}", collector.config("traces: true")));
    let mut client = Raw::connect(&server);
    client.subscribe("a", 1);
    for failed in 1..=2 {
        client.send_bytes(&publish("a", "", &header("01"), b"m"));
        assert!(client.message().text().ends_with("\r\nm"));
        eventually("they have failed", || counted(&server, "failed") == Some(2 * failed));
    }
    server.wait_for_log("/v1/traces: the collector answered 503 Service Unavailable");
    collector.turns(Mood::Takes);
    client.send_bytes(&publish("a", "", &header("01"), b"m"));
    eventually("they are taken", || counted(&server, "sent") == Some(2));
    server.wait_for_log("/v1/traces again, after 2 failures");
    let told = warnings(&server);
    let told: Vec<_> = told.iter().filter(|line| line.starts_with("traces ")).collect();
    assert_eq!(told.len(), 3, "it is told once: {told:#?}");
    assert_eq!(counted(&server, "dropped"), Some(0));
}
