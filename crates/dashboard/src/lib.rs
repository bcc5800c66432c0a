//! The dashboard: the files of a page that speaks to the server as a client does.
//!
//! Owns what a browser loads (the folder `assets`) and the headers that go with it. There is no
//! logic here and none for the page in the server: the page opens a WebSocket to where it comes
//! from, signs in with a user of the server, and asks what every client may ask, so that
//! permissions, limits and accounts are those of that user. It loads nothing from elsewhere and
//! needs no build step: modules are served as they lie here.
//!
//! `docs/dashboard.md` says what the page shows and which subjects it uses.

use std::hash::{DefaultHasher, Hasher};
use std::sync::LazyLock;

/// Name under which the page opens its WebSocket, beside its files.
pub const SOCKET: &str = "nats";

/// Headers of every answer below the page, errors included.
///
/// The policy admits what the page itself serves and nothing else: no inline script or style, no
/// frame around it, no form that leaves it, no address of another origin.
pub const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()"),
    ("referrer-policy", "no-referrer"),
    ("x-content-type-options", "nosniff"),
    ("x-frame-options", "DENY"),
];

/// A file of the page.
#[derive(Debug)]
pub struct Asset {
    /// Path below the page; empty for the page itself.
    pub name: &'static str,
    /// Its media type.
    pub content_type: &'static str,
    /// Bytes of the file.
    pub body: &'static [u8],
}

macro_rules! assets {
    ($($name:literal, $file:literal, $content_type:expr;)*) => {
        &[$(Asset {
            name: $name,
            content_type: $content_type,
            body: include_bytes!(concat!("../assets/", $file)),
        }),*]
    };
}

const SCRIPT: &str = "text/javascript; charset=utf-8";

/// All files of the page.
pub const ASSETS: &[Asset] = assets! {
    "", "index.html", "text/html; charset=utf-8";
    "style.css", "style.css", "text/css; charset=utf-8";
    "icon.svg", "icon.svg", "image/svg+xml";
    "app.js", "app.js", SCRIPT;
    "api.js", "api.js", SCRIPT;
    "chart.js", "chart.js", SCRIPT;
    "dom.js", "dom.js", SCRIPT;
    "format.js", "format.js", SCRIPT;
    "letter.js", "letter.js", SCRIPT;
    "nats.js", "nats.js", SCRIPT;
    "nkeys.js", "nkeys.js", SCRIPT;
    "table.js", "table.js", SCRIPT;
    "views/accounts.js", "views/accounts.js", SCRIPT;
    "views/connections.js", "views/connections.js", SCRIPT;
    "views/consumer.js", "views/consumer.js", SCRIPT;
    "views/letters.js", "views/letters.js", SCRIPT;
    "views/log.js", "views/log.js", SCRIPT;
    "views/overview.js", "views/overview.js", SCRIPT;
    "views/server.js", "views/server.js", SCRIPT;
    "views/signin.js", "views/signin.js", SCRIPT;
    "views/stream.js", "views/stream.js", SCRIPT;
    "views/streams.js", "views/streams.js", SCRIPT;
    "views/tail.js", "views/tail.js", SCRIPT;
};

/// The file of this name. Names are compared byte by byte: what is encoded otherwise, or leads
/// elsewhere, is none.
#[must_use]
pub fn asset(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

/// Tag of all files together, quoted as `ETag` has it: they change together, with the program.
#[must_use]
pub fn tag() -> &'static str {
    static TAG: LazyLock<String> = LazyLock::new(|| {
        // Keyed the same in every process, as it has to be: servers behind one name serve one page.
        let mut hasher = DefaultHasher::new();
        ASSETS.iter().for_each(|asset| hasher.write(asset.body));
        format!("\"{:016x}\"", hasher.finish())
    });
    &TAG
}
