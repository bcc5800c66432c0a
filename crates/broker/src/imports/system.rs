//! Services that the system account offers to every account, and every account imports without
//! being told to.
//!
//! Requests about one's own: who am I, who is connected to my account, what has it moved. The
//! account's name is part of the subject there, and the export's position sees to it that it is the
//! asker's own.

use super::{
    Access, AccountConfig, DEFAULT_RESPONSE_THRESHOLD, Export, Import, ResponseType, ServiceExport,
    ServiceImport,
};
use myelin_subject::is_subset;
use std::sync::Arc;

/// Where an account asks, and what it asks for there.
const OF_ACCOUNT: [(&str, &str); 3] = [
    ("$SYS.REQ.ACCOUNT.PING.CONNZ", "CONNZ"),
    ("$SYS.REQ.SERVER.PING.CONNZ", "CONNZ"),
    ("$SYS.REQ.ACCOUNT.PING.STATZ", "STATZ"),
];

/// Where a user asks about itself.
const USER_INFO: &str = "$SYS.REQ.USER.INFO";

/// Adds to `config` what is not said in it: exports to the system account, imports to all.
pub(crate) fn furnish(config: &mut AccountConfig, system: Option<&str>) {
    let Some(system) = system else { return };
    if system == config.name {
        offer(config);
    }
    take(config, system);
}

/// Compat: what the account itself exports comes first.
fn offer(config: &mut AccountConfig) {
    let positioned = |what: &str| ServiceExport {
        access: Access { account_token_position: Some(4), ..Access::default() },
        response: ResponseType::Streamed,
        threshold: DEFAULT_RESPONSE_THRESHOLD,
        ..ServiceExport::public(&format!("$SYS.REQ.ACCOUNT.*.{what}"))
    };
    let offers = [
        positioned("CONNZ"),
        positioned("STATZ"),
        ServiceExport::public("$SYS.DEBUG.SUBSCRIBERS"),
        ServiceExport::public("$SYS.REQ.USER.*.INFO"),
    ];
    for offer in offers {
        let covers = |export: &Export| match export {
            Export::Service(service) => is_subset(offer.subject.as_bytes(), service.subject.as_bytes()),
            Export::Stream(_) => false,
        };
        if !config.exports.iter().any(covers) {
            config.exports.push(Export::Service(Arc::new(offer)));
        }
    }
}

fn take(config: &mut AccountConfig, system: &str) {
    let name = config.name.clone();
    // A name that is more than a token cannot stand in a subject.
    if name.is_empty() || name.contains(['.', ' ', '\t', '*', '>']) {
        return;
    }
    if name != system {
        for (to, what) in OF_ACCOUNT {
            import(config, system, to, format!("$SYS.REQ.ACCOUNT.{name}.{what}"), false);
        }
    }
    // Compat: by this one the system account asks itself.
    import(config, system, USER_INFO, format!("$SYS.REQ.USER.{name}.INFO"), true);
}

/// Adds an import unless there is one of that name.
fn import(config: &mut AccountConfig, system: &str, to: &str, subject: String, share: bool) {
    let is_there = |other: &Import| match other {
        Import::Service(other) => other.account == system && other.to == to,
        Import::Stream(_) => false,
    };
    if !config.imports.iter().any(is_there) {
        config.imports.push(Import::Service(Arc::new(ServiceImport {
            account: system.to_owned(),
            subject,
            to: to.to_owned(),
            share,
            is_activated: false,
        })));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_ask_about_themselves_and_the_system_account_answers() {
        let (mut account, mut system) = (AccountConfig::named("A"), AccountConfig::named("S"));
        furnish(&mut account, Some("S"));
        furnish(&mut system, Some("S"));
        assert_eq!((account.exports.len(), account.imports.len()), (0, 4));
        assert_eq!((system.exports.len(), system.imports.len()), (4, 1));
        let again = account.clone();
        furnish(&mut account, Some("S"));
        assert_eq!(account.imports, again.imports, "it is there already");
        let mut alone = AccountConfig::named("A");
        furnish(&mut alone, None);
        assert!(alone.imports.is_empty());
    }

    #[test]
    fn what_is_configured_comes_first() {
        let mut system = AccountConfig::named("S");
        let broad = ServiceExport::public("$SYS.REQ.ACCOUNT.*.*");
        system.exports.push(Export::Service(Arc::new(broad)));
        furnish(&mut system, Some("S"));
        assert_eq!(system.exports.len(), 3);
        let mut odd = AccountConfig::named("a.b");
        furnish(&mut odd, Some("S"));
        assert!(odd.imports.is_empty(), "no subject can name it");
    }
}
