//! `tls{}`.

use super::{BlockTable, Class, OptionEntry};

const WINDOWS: Class = Class::NoMeaning("certificates come from files on this system");

pub(super) static TLS: BlockTable = BlockTable {
    title: "tls",
    entries: &[
        OptionEntry::new(&["cert_file"], "path", "", "Certificate with its chain, PEM.").live(),
        OptionEntry::new(&["key_file"], "path", "", "Its private key, PEM.").live(),
        OptionEntry::new(
            &["certs", "certificates"],
            "list of blocks",
            "",
            "Several of `cert_file`, `key_file`.",
        )
        .live(),
        OptionEntry::new(&["ca_file"], "path", "", "Who may sign the certificates of peers, PEM.").live(),
        OptionEntry::new(&["insecure"], "boolean", "false", "When connecting: take any certificate.").live(),
        OptionEntry::new(&["verify"], "boolean", "false", "Peers must show a certificate.").live(),
        OptionEntry::new(
            &["verify_and_map"],
            "boolean",
            "false",
            "A certificate names the user; sets `verify`.",
        )
        .live(),
        OptionEntry::new(
            &["verify_cert_and_check_known_urls"],
            "boolean",
            "false",
            "A certificate names a configured URL; cluster and gateway only.",
        )
        .live(),
        OptionEntry::new(&["timeout"], "seconds or duration", "2", "Time for the handshake.").live(),
        OptionEntry::new(&["connection_rate_limit"], "number", "0", "Handshakes per second; 0 is no limit.")
            .live(),
        OptionEntry::new(&["min_version"], "`1.2` or `1.3`", "1.2", "Oldest version.").live(),
        OptionEntry::new(&["cipher_suites"], "list", "", "Suites for TLS 1.2.").live(),
        OptionEntry::new(
            &["allow_insecure_cipher_suites"],
            "boolean",
            "false",
            "Accept the names of suites that are broken.",
        )
        .live(),
        OptionEntry::new(&["curve_preferences"], "list", "", "Key exchanges.").live(),
        OptionEntry::new(
            &["pinned_certs"],
            "list",
            "",
            "SHA-256 of the public keys that are accepted, in hex.",
        )
        .live(),
        OptionEntry::new(
            &["handshake_first", "first", "immediate"],
            "boolean, `auto` or duration",
            "false",
            "Handshake before INFO.",
        )
        .live(),
        OptionEntry::new(&["ocsp_peer"], "boolean or block", "", "Ask CAs about the certificates of peers.")
            .live(),
        OptionEntry::new(&["cert_store"], "text", "", "Certificate store of Windows."),
        OptionEntry::new(
            &["cert_match_by"],
            "`issuer`, `subject` or `thumbprint`",
            "",
            "How to search there.",
        )
        .class(WINDOWS),
        OptionEntry::new(&["cert_match"], "text", "", "What to search there.").class(WINDOWS),
        OptionEntry::new(&["cert_match_skip_invalid"], "boolean", "false", "Skip what has expired there.")
            .class(WINDOWS),
        OptionEntry::new(&["ca_certs_match"], "text or list", "", "CAs to search there.").class(WINDOWS),
    ],
};

pub(super) static OCSP_PEER: BlockTable = BlockTable {
    title: "tls.ocsp_peer",
    entries: &[
        OptionEntry::new(&["verify"], "boolean", "false", "Whether to ask."),
        OptionEntry::new(&["ca_timeout"], "seconds or duration", "2", "Time for a CA to answer."),
        OptionEntry::new(&["allowed_clockskew"], "seconds or duration", "30", "How far clocks may differ."),
        OptionEntry::new(&["warn_only"], "boolean", "false", "Log a bad certificate and accept it."),
        OptionEntry::new(&["unknown_is_good"], "boolean", "false", "Accept what the CA does not know."),
        OptionEntry::new(&["allow_when_ca_unreachable"], "boolean", "false", "Accept when the CA is silent."),
        OptionEntry::new(
            &["cache_ttl_when_next_update_unset"],
            "seconds or duration",
            "3600",
            "How long to keep an answer that does not say it.",
        ),
    ],
};
