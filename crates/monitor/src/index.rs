//! `/`: a page for people, with a link to every page there is.

use std::fmt::Write;

use crate::answer::Answer;
use crate::snapshot::Source;

const LINKS: &[(&str, &str)] = &[
    ("/varz", "General"),
    ("/connz", "Connections"),
    ("/subsz", "Subscriptions"),
    ("/healthz", "Health Probe"),
];

/// The index of the pages under `base` (empty, or `/name` without a slash at its end).
pub(crate) fn answer(base: &str, source: &dyn Source) -> Answer {
    source.count_request("/");
    let mut html =
        String::from("<!doctype html>\n<html lang=\"en\">\n<title>Myelin</title>\n<h1>Myelin</h1>\n<ul>\n");
    for (path, label) in LINKS {
        let _ = writeln!(html, "<li><a href=\"{}{path}\">{label}</a></li>", escaped(base));
    }
    html.push_str("</ul>\n</html>\n");
    Answer::html(html)
}

/// The base path comes from the configuration file, which may hold anything.
fn escaped(base: &str) -> String {
    base.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;")
}
