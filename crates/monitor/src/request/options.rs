//! The options of a request: a JSON object, read as Go would read it into the reference's types.
//!
//! They become the options of the page of the same name ([`Query`]), so that a page is decided in
//! one place. What Go would complain of is complained of in its words, the first thing first.

use super::Topic;
use crate::query::Query;
use myelin_wire::json::{Value, ValueKind};

/// Which servers are meant. An empty field is no condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// By the server's name.
    pub name: String,
    /// By the name of its cluster.
    pub cluster: String,
    /// By the host it listens on.
    pub host: String,
    /// Names have to be equal, not to contain what is asked for.
    pub exact: bool,
    /// Labels that it must have, all of them.
    pub tags: Vec<String>,
    /// By JetStream's domain.
    pub domain: String,
}

/// Type of an option in Go.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Bool,
    Int,
    Uint,
    Text,
    /// A kind of text with a name of its own.
    Named(&'static str),
    /// Which connections, by number.
    State,
    /// Nanoseconds.
    Duration,
    Texts,
}

impl Type {
    fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint64",
            Self::Text => "string",
            Self::Named(name) => name,
            Self::State => "server.ConnState",
            Self::Duration => "time.Duration",
            Self::Texts => "[]string",
        }
    }
}

/// An option: its name in JSON, its type, and what the page calls it.
type Field = (&'static str, Type, &'static str);

const FILTER: &[Field] = &[
    ("server_name", Type::Text, ""),
    ("cluster", Type::Text, ""),
    ("host", Type::Text, ""),
    ("exact_match", Type::Bool, ""),
    ("tags", Type::Texts, ""),
    ("domain", Type::Text, ""),
];

/// Options of connections; `refused` is ours.
const CONNZ: &[Field] = {
    use Type::{Bool, Int, Named, State, Text, Uint};
    &[
        ("sort", Named("server.SortOpt"), "sort"),
        ("auth", Bool, "auth"),
        ("refused", Bool, "refused"),
        ("subscriptions", Bool, "subs"),
        ("subscriptions_detail", Bool, DETAIL),
        ("offset", Int, "offset"),
        ("limit", Int, "limit"),
        ("cid", Uint, "cid"),
        ("mqtt_client", Text, "mqtt_client"),
        ("state", State, "state"),
        ("user", Text, "user"),
        ("acc", Text, "acc"),
        ("filter_subject", Text, FILTER_SUBJECT),
    ]
};

impl Topic {
    /// Go's names of the type, and of what is embedded in it, with the options there.
    fn fields(self) -> (&'static str, &'static str, &'static [Field]) {
        use Type::{Bool, Duration, Int, Text, Texts};
        match self {
            Self::Statsz => ("StatszEventOptions", "", &[]),
            Self::Varz => ("VarzEventOptions", "VarzOptions", &[]),
            Self::Subsz => (
                "SubszEventOptions",
                "SubszOptions",
                &[
                    ("offset", Int, "offset"),
                    ("limit", Int, "limit"),
                    ("subscriptions", Bool, "subs"),
                    ("account", Text, "acc"),
                    ("test", Text, "test"),
                ],
            ),
            Self::Connz => ("ConnzEventOptions", "ConnzOptions", CONNZ),
            Self::Routez => (
                "RoutezEventOptions",
                "RoutezOptions",
                &[("subscriptions", Bool, "subs"), ("subscriptions_detail", Bool, DETAIL)],
            ),
            Self::Gatewayz => (
                "GatewayzEventOptions",
                "GatewayzOptions",
                &[
                    ("name", Text, "gw_name"),
                    ("accounts", Bool, "accs"),
                    ("account_name", Text, "acc_name"),
                    ("subscriptions", Bool, "subs"),
                    ("subscriptions_detail", Bool, DETAIL),
                ],
            ),
            Self::Leafz => (
                "LeafzEventOptions",
                "LeafzOptions",
                &[("subscriptions", Bool, "subs"), ("account", Text, "acc")],
            ),
            Self::Accountz => ("AccountzEventOptions", "AccountzOptions", &[("account", Text, "acc")]),
            Self::Accstatz => (
                "AccountStatzEventOptions",
                "AccountStatzOptions",
                &[("accounts", Texts, ACCOUNTS), ("include_unused", Bool, "unused")],
            ),
            Self::AccountInfo => ("AccInfoEventOptions", "", &[]),
            Self::Jsz => (
                "JszEventOptions",
                "JSzOptions",
                &[
                    ("account", Text, "acc"),
                    ("accounts", Bool, "accounts"),
                    ("streams", Bool, "streams"),
                    ("consumer", Bool, "consumers"),
                    ("direct_consumer", Bool, "direct-consumers"),
                    ("config", Bool, "config"),
                    ("leader_only", Bool, "leader-only"),
                    ("offset", Int, "offset"),
                    ("limit", Int, "limit"),
                    ("raft", Bool, "raft"),
                    ("stream_leader_only", Bool, "stream-leader-only"),
                ],
            ),
            Self::Healthz => (
                "HealthzEventOptions",
                "HealthzOptions",
                &[
                    ("js-enabled", Bool, "js-enabled"),
                    ("js-enabled-only", Bool, "js-enabled-only"),
                    ("js-server-only", Bool, "js-server-only"),
                    ("js-meta-only", Bool, "js-meta-only"),
                    ("account", Text, "account"),
                    ("stream", Text, "stream"),
                    ("consumer", Text, "consumer"),
                    ("details", Bool, "details"),
                ],
            ),
            Self::Profilez => (
                "ProfilezEventOptions",
                "ProfilezOptions",
                &[("name", Text, "name"), ("debug", Int, "debug"), ("duration", Duration, "duration")],
            ),
            Self::Expvarz => ("ExpvarzEventOptions", "", &[]),
            Self::Ipqueuesz => (
                "IpqueueszEventOptions",
                "IpqueueszOptions",
                &[("all", Bool, "all"), ("filter", Text, "queues")],
            ),
            Self::Raftz => {
                ("RaftzEventOptions", "RaftzOptions", &[("account", Text, "acc"), ("group", Text, "group")])
            }
            // Compat: reads nothing but which server is meant, into the filter itself.
            Self::Control => ("EventFilterOptions", "", &[]),
        }
    }
}

/// Of a page's `subs`: more than the subjects.
const DETAIL: &str = "subs=detail";
/// No option of a page over HTTP.
pub(super) const FILTER_SUBJECT: &str = "filter_subject";
/// Nor is this.
pub(super) const ACCOUNTS: &str = "accounts";

/// Options of a request: which servers, and the page's.
#[derive(Debug, Default)]
pub(super) struct RequestOptions {
    pub(super) filter: Filter,
    pub(super) query: Query,
}

impl RequestOptions {
    /// Reads the body of a request; an empty one asks for nothing special.
    pub(super) fn read(topic: Topic, body: &[u8]) -> Result<Self, String> {
        let mut options = Self { query: Query::of_message(), ..Self::default() };
        if body.is_empty() {
            return Ok(options);
        }
        let value = Value::parse(body).map_err(|fault| fault.to_string())?;
        let (owner, embedded, own) = topic.fields();
        match value.kind() {
            ValueKind::Null => return Ok(options),
            ValueKind::Object => {}
            other => {
                let what = other.name();
                return Err(format!("json: cannot unmarshal {what} into Go value of type server.{owner}"));
            }
        }
        let mut fault = None;
        for (key, value) in value.members() {
            let key = key.string();
            let of = |fields: &'static [Field]| fields.iter().find(|(name, ..)| same_name(name, &key));
            let (field, embedded) = match (of(own), of(FILTER)) {
                (Some(field), _) => (field, embedded),
                (None, Some(field)) if owner == "EventFilterOptions" => (field, ""),
                (None, Some(field)) => (field, "EventFilterOptions"),
                (None, None) => continue,
            };
            if let Err((shown, go_type)) = options.set(field, value) {
                let dot = if embedded.is_empty() { "" } else { "." };
                let place = format!("{owner}.{embedded}{dot}{}", field.0);
                fault.get_or_insert_with(|| {
                    format!("json: cannot unmarshal {shown} into Go struct field {place} of type {go_type}")
                });
            }
        }
        fault.map_or(Ok(options), Err)
    }

    /// Takes one value; else what it is and what it should be.
    fn set(&mut self, field: &Field, value: Value<'_>) -> Result<(), (String, &'static str)> {
        let (name, kind, option) = *field;
        if value.kind() == ValueKind::Null {
            return Ok(());
        }
        let text = match (kind, value.kind()) {
            (Type::Texts, ValueKind::Array) => return self.set_texts(name, option, value),
            (Type::Bool, ValueKind::Bool) => (if value.text() == b"true" { "1" } else { "0" }).to_owned(),
            (Type::Text | Type::Named(_), ValueKind::String) => value.string().into_owned(),
            (Type::Int | Type::Uint | Type::State | Type::Duration, ValueKind::Number) => {
                let text = String::from_utf8_lossy(value.text()).into_owned();
                let fits = match kind {
                    Type::Uint => text.parse::<u64>().is_ok(),
                    _ => text.parse::<i64>().is_ok(),
                };
                if !fits {
                    return Err((format!("number {text}"), kind.name()));
                }
                text
            }
            (_, other) => return Err((other.name().to_owned(), kind.name())),
        };
        let text = match kind {
            Type::State => ["open", "closed", "any"]
                .iter()
                .zip(0..)
                .find(|(_, n): &(_, i64)| n.to_string() == text)
                .map_or("open", |(state, _)| *state)
                .to_owned(),
            _ => text,
        };
        match (option, name) {
            (DETAIL, _) => {
                if text == "1" {
                    self.query.set("subs", "detail".to_owned());
                }
            }
            ("subs", _) if self.query.text("subs") == "detail" => {}
            ("", "server_name") => self.filter.name = text,
            ("", "cluster") => self.filter.cluster = text,
            ("", "host") => self.filter.host = text,
            ("", "exact_match") => self.filter.exact = text == "1",
            ("", _) => self.filter.domain = text,
            (FILTER_SUBJECT, _) => self.query.filter_subject = text,
            (option, _) => self.query.set(option, text),
        }
        Ok(())
    }

    fn set_texts(
        &mut self,
        name: &str,
        option: &str,
        value: Value<'_>,
    ) -> Result<(), (String, &'static str)> {
        let mut texts = Vec::new();
        for element in value.elements() {
            match element.kind() {
                ValueKind::String | ValueKind::Null => texts.push(element.string().into_owned()),
                other => return Err((other.name().to_owned(), "string")),
            }
        }
        if option == ACCOUNTS && name == ACCOUNTS {
            self.query.accounts = texts;
        } else {
            self.filter.tags = texts;
        }
        Ok(())
    }
}

/// Whether `key` names the field: case does not count.
fn same_name(name: &str, key: &str) -> bool {
    name.eq_ignore_ascii_case(key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(topic: Topic, body: &str) -> String {
        RequestOptions::read(topic, body.as_bytes()).unwrap_err()
    }

    #[test]
    fn options_become_those_of_the_page() {
        let body = br#"{"sort":"subs","LIMIT":5,"state":2,"subscriptions":true,"subscriptions_detail":true,
            "filter_subject":"a.>","server_name":"x","exact_match":true,"tags":["a","b"],"other":1}"#;
        let options = RequestOptions::read(Topic::Connz, body).unwrap();
        let shown = ["sort", "limit", "state", "subs"].map(|name| options.query.text(name).to_owned());
        assert_eq!(shown, ["subs", "5", "any", "detail"]);
        assert_eq!(options.query.filter_subject, "a.>");
        assert_eq!((options.filter.name.as_str(), options.filter.exact), ("x", true));
        assert_eq!(options.filter.tags, ["a", "b"]);
        assert!(
            RequestOptions::read(Topic::Connz, b"").is_ok()
                && RequestOptions::read(Topic::Connz, b"null").is_ok()
        );
    }

    /// Answers of nats-server 2.15.2.
    #[test]
    fn faults_are_gos() {
        assert_eq!(fault(Topic::Connz, "{"), "unexpected end of JSON input");
        assert_eq!(
            fault(Topic::Connz, "[]"),
            "json: cannot unmarshal array into Go value of type server.ConnzEventOptions"
        );
        assert_eq!(
            fault(Topic::Connz, r#"{"limit":"x","sort":1}"#),
            "json: cannot unmarshal string into Go struct field ConnzEventOptions.ConnzOptions.limit of type int"
        );
        assert_eq!(
            fault(Topic::Connz, r#"{"state":"x"}"#),
            "json: cannot unmarshal string into Go struct field ConnzEventOptions.ConnzOptions.state of type \
             server.ConnState"
        );
    }
}
