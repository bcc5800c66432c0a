//! Account resolvers and trusted proxies.

use super::{Block, Entry};

pub(super) static RESOLVER: Block = Block {
    title: "resolver",
    entries: &[
        Entry::new(&["type"], "`full`, `cache` or `mem`", "", "What the resolver keeps; required."),
        Entry::new(&["dir"], "path", "", "Directory of account JWTs."),
        Entry::new(&["allow_delete"], "boolean", "false", "`full`: accounts may be deleted."),
        Entry::new(&["hard_delete"], "boolean", "false", "`full`: then their files are removed."),
        Entry::new(&["limit"], "number", "1000 in a cache", "Most JWTs to keep."),
        Entry::new(&["ttl"], "duration", "", "`cache`: how long a JWT is kept."),
        Entry::new(&["interval"], "duration", "1m", "`full`: how often servers compare what they have."),
        Entry::new(&["timeout"], "duration", "1.9s", "How long to wait for other servers."),
    ],
};

pub(super) static PROXIES: Block = Block {
    title: "proxies",
    entries: &[Entry::new(&["trusted"], "list", "", "Proxies whose word about their clients counts.")],
};

pub(super) static TRUSTED_PROXY: Block = Block {
    title: "proxies.trusted[]",
    entries: &[Entry::new(&["key", "public_key"], "public key", "", "The key the proxy signs with.")],
};
