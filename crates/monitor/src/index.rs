//! `/`: a page for people, with a link to every page that they may want to look at.

use std::fmt::Write;

use crate::response::PageResponse;
use crate::snapshot::SnapshotSource;

/// The links in the reference's order and words.
const LINKS: [(&str, &str); 12] = [
    ("/varz", "General"),
    ("/jsz", "JetStream"),
    ("/connz", "Connections"),
    ("/accountz", "Accounts"),
    ("/accstatz", "Account Stats"),
    ("/subsz", "Subscriptions"),
    ("/routez", "Routes"),
    ("/leafz", "LeafNodes"),
    ("/gatewayz", "Gateways"),
    ("/raftz", "Raft Groups"),
    ("/healthz", "Health Probe"),
    ("/debug/vars", "Expvar"),
];

const STYLE: &str = "body{font:16px/1.7 system-ui,sans-serif;margin:2rem}a{color:#245}\
    a:not(:hover) code{visibility:hidden}code{color:#888}ul{list-style:none;padding:0}";

const HELP: &str = "https://docs.nats.io/running-a-nats-service/nats_admin/monitoring";

/// The index of the pages under `base` (empty, or `/name` without a slash at its end).
pub(crate) fn answer(base: &str, source: &dyn SnapshotSource) -> PageResponse {
    source.count_request("/");
    let identity = source.server().identity;
    let (name, version) = (escaped(&identity.server_name), escaped(&identity.version));
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{name} v{version}</title>\n\
         <style>{STYLE}</style>\n</head>\n<body>\n<h1>{name}</h1>\n<p class=\"version\">v{version}</p>\n<ul>\n"
    );
    for (path, label) in LINKS {
        let _ = writeln!(html, "<li><a href=\"{}\">{label} <code>{path}</code></a></li>", link(base, path));
    }
    let _ = write!(html, "</ul>\n<p><a href=\"{HELP}\" class=\"help\">Help</a></p>\n</body>\n</html>\n");
    PageResponse::html(html)
}

/// A link from the index to a page beside it, relative so that it works behind a proxy that adds a
/// path.
///
/// Compat: the reference's links are the same for a base path of one name and lead nowhere for a
/// longer one.
fn link(base: &str, path: &str) -> String {
    match base.rsplit_once('/') {
        Some((_, name)) => format!("./{}{path}", escaped(name)),
        None => format!(".{path}"),
    }
}

/// Names and paths come from the configuration file, which may hold anything.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}
