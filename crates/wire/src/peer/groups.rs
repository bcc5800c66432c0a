//! Servers that take part in groups of replicas: what their INFO says of that, and the accounts of
//! the links between them.
//!
//! The field `myelin` of INFO is `{"v":1,"store":"<id>","incarnation":<n>,"raft":true}`; between
//! clusters it has `"servers":[{"id":"<id>","url":"<host:port>"}]` besides. Other servers do not
//! know it and leave it aside.

use serde::ser::SerializeStruct;
use serde::{Deserialize, Serialize, Serializer};

/// The internal account of consensus and liveness: small frames that wait for nothing large.
pub const RAFT_ACCOUNT: &str = "$RAFT";

/// The internal account of what is large: installs and repairs.
pub const BULK_ACCOUNT: &str = "$BULK";

/// Internal accounts of a server that takes part in groups. Two such servers have a link of its own
/// for each of them.
pub const INTERNAL_ACCOUNTS: [&str; 2] = [RAFT_ACCOUNT, BULK_ACCOUNT];

/// Version of the field of INFO, and of what members of groups say to each other.
const VERSION: u64 = 1;

/// Longest id of a store in bytes.
const LONGEST_STORE: usize = 64;

/// A server that takes part in groups, as its INFO says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct GroupServer {
    /// Id of its store, which it keeps from one life to the next: 1 to 64 characters from `a` to
    /// `z`, `A` to `Z` and `0` to `9`.
    pub store: String,
    /// Number of its life: greater with each start on that store.
    pub incarnation: u64,
    /// Servers of its cluster that take part, itself among them: said between clusters only.
    pub servers: Vec<GroupAddress>,
}

impl Serialize for GroupServer {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut said = serializer.serialize_struct("GroupServer", 5)?;
        said.serialize_field("v", &VERSION)?;
        said.serialize_field("store", &self.store)?;
        said.serialize_field("incarnation", &self.incarnation)?;
        said.serialize_field("raft", &true)?;
        if !self.servers.is_empty() {
            said.serialize_field("servers", &self.servers)?;
        }
        said.end()
    }
}

/// A server of a cluster that takes part in groups, as servers of other clusters are told of it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GroupAddress {
    /// Id of the server.
    pub id: String,
    /// `host:port` of its gateway.
    pub url: String,
}

/// INFO, but for all of it that is not Myelin's.
#[derive(Deserialize)]
struct SaidInfo {
    myelin: SaidGroups,
}

#[derive(Deserialize)]
struct SaidGroups {
    v: u64,
    store: String,
    incarnation: u64,
    raft: bool,
    #[serde(default)]
    servers: Vec<GroupAddress>,
}

/// The field of an INFO whose JSON this is; `None` where that is absent or makes no sense.
pub(super) fn read(json: &[u8]) -> Option<GroupServer> {
    let SaidGroups { v, store, incarnation, raft, servers } =
        serde_json::from_slice::<SaidInfo>(json).ok()?.myelin;
    let is_id =
        (1..=LONGEST_STORE).contains(&store.len()) && store.bytes().all(|b| b.is_ascii_alphanumeric());
    (v == VERSION && raft && is_id).then_some(GroupServer { store, incarnation, servers })
}

#[cfg(test)]
mod tests {
    use super::{GroupAddress, GroupServer};
    use crate::peer::info::PeerInfo;

    fn read(field: &str) -> Option<GroupServer> {
        let json = format!(r#"{{"server_id":"NA","name_of_another":{{"x":[1]}},{field}"port":1}}"#);
        let info = PeerInfo::parse(json.as_bytes()).expect("what is wrong there is no error of INFO");
        assert_eq!((info.id.as_str(), info.port), ("NA", 1));
        info.myelin
    }

    #[test]
    fn what_is_said_is_read_again() {
        let server = GroupServer { store: "0Az9".into(), incarnation: u64::MAX, servers: Vec::new() };
        let info = PeerInfo { myelin: Some(server.clone()), ..PeerInfo::default() };
        let line = String::from_utf8(info.line()).expect("JSON is text");
        let field = r#""myelin":{"v":1,"store":"0Az9","incarnation":18446744073709551615,"raft":true}"#;
        assert!(line.contains(field), "{line}");
        let json = line.strip_prefix("INFO ").expect("it is INFO");
        assert_eq!(PeerInfo::parse(json.as_bytes()).expect("it was written here"), info);
        assert!(!String::from_utf8_lossy(&PeerInfo::default().line()).contains("myelin"));
    }

    #[test]
    fn servers_of_a_cluster_are_read_again() {
        let servers = vec![GroupAddress { id: "NA".into(), url: "h:7222".into() }];
        let server = GroupServer { store: "S".into(), incarnation: 7, servers };
        let info = PeerInfo { myelin: Some(server), ..PeerInfo::default() };
        let line = String::from_utf8(info.line()).expect("JSON is text");
        assert!(line.contains(r#""raft":true,"servers":[{"id":"NA","url":"h:7222"}]"#), "{line}");
        let json = line.strip_prefix("INFO ").expect("it is INFO");
        assert_eq!(PeerInfo::parse(json.as_bytes()).expect("it was written here"), info);
        for wrong in ["null", "1", "[1]", r#"[{"id":"NA"}]"#, r#"{"id":"NA","url":"h:1"}"#] {
            let good = r#""v":1,"store":"S","incarnation":7,"raft":true"#;
            assert_eq!(read(&format!(r#""myelin":{{{good},"servers":{wrong}}},"#)), None, "{wrong}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_no_member_and_no_error() {
        let good = r#""v":1,"store":"S","incarnation":7,"raft":true"#;
        let server = GroupServer { store: "S".into(), incarnation: 7, servers: Vec::new() };
        assert_eq!(read(&format!(r#""myelin":{{{good},"later":{{}}}},"#)), Some(server));
        assert_eq!(read(""), None);
        for (from, to) in [
            (r#""v":1"#, r#""v":2"#),
            (r#""v":1"#, r#""v":"1""#),
            (r#""v":1,"#, ""),
            (r#""S""#, r#""""#),
            (r#""S""#, r#""a.b""#),
            (r#""S""#, "[]"),
            ("7", "-7"),
            ("7", "1e999"),
            ("7", r#""7""#),
            (r#""raft":true"#, r#""raft":false"#),
            (r#","raft":true"#, ""),
        ] {
            assert!(good.contains(from));
            assert_eq!(read(&format!(r#""myelin":{{{}}},"#, good.replacen(from, to, 1))), None, "{to}");
        }
        for field in ["null", "1", "true", "[]", r#""v1""#, "{}"] {
            assert_eq!(read(&format!(r#""myelin":{field},"#)), None, "{field}");
        }
        let twice = format!(r#""myelin":{{{good}}},"myelin":{{{good}}},"#);
        assert_eq!(read(&twice), None);
        let long = good.replace(r#""S""#, &format!(r#""{}""#, "s".repeat(65)));
        assert_eq!(read(&format!(r#""myelin":{{{long}}},"#)), None);
    }
}
