//! Account resolvers and trusted proxies.

use super::{BlockTable, OptionEntry};

pub(super) static RESOLVER: BlockTable = BlockTable {
    title: "resolver",
    entries: &[
        OptionEntry::new(&["type"], "`full`, `cache` or `mem`", "", "What the resolver keeps; required."),
        OptionEntry::new(&["dir"], "path", "", "Directory of account JWTs."),
        OptionEntry::new(&["allow_delete"], "boolean", "false", "`full`: accounts may be deleted."),
        OptionEntry::new(&["hard_delete"], "boolean", "false", "`full`: then their files are removed."),
        OptionEntry::new(&["limit"], "number", "1000 in a cache", "Most JWTs to keep."),
        OptionEntry::new(&["ttl"], "duration", "", "`cache`: how long a JWT is kept."),
        OptionEntry::new(
            &["interval"],
            "duration",
            "1m",
            "`full`: how often servers compare what they have.",
        ),
        OptionEntry::new(&["timeout"], "duration", "1.9s", "How long to wait for other servers."),
    ],
};

pub(super) static PROXIES: BlockTable = BlockTable {
    title: "proxies",
    entries: &[OptionEntry::new(&["trusted"], "list", "", "Proxies whose word about their clients counts.")],
};

pub(super) static TRUSTED_PROXY: BlockTable = BlockTable {
    title: "proxies.trusted[]",
    entries: &[OptionEntry::new(&["key", "public_key"], "public key", "", "The key the proxy signs with.")],
};
