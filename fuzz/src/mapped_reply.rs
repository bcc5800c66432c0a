//! Replies that are mapped so that they find their way back from another cluster.
//!
//! Promised for any bytes: they are taken apart or are no mapped reply; what was taken apart can be
//! put together again; and what this server puts in front of a reply comes off again.

use myelin_wire::peer::gateway::{MappedReply, ShortName, reply_prefix, short_name};

/// Any bytes as the subject of a message from another cluster, and as a reply.
pub fn mapped_reply(data: &[u8]) {
    if let Some(mapped) = MappedReply::of(data) {
        let short = |name: &[u8]| ShortName::try_from(name).expect("short names have one length");
        let whole = [&reply_prefix(short(mapped.cluster), short(mapped.server))[..], mapped.reply].concat();
        assert_eq!(whole.len(), data.len());
        assert_eq!(MappedReply::of(&whole), Some(mapped));
    }
    let (cluster, server) = (short_name("A"), short_name("NA"));
    let whole = [&reply_prefix(cluster, server)[..], data].concat();
    let expected = MappedReply { cluster: &cluster, server: &server, reply: data };
    assert_eq!(MappedReply::of(&whole), (!data.is_empty()).then_some(expected));
}
