//! Accounts and trust: what their options mean, in which words they are refused, and what they
//! forbid each other. Where they are refused is in the corpus.

use std::collections::BTreeSet;
use std::fs;
use std::time::Duration;

use myelin_auth::ConnectionType;
use myelin_conf::options::{
    AccountJetStreamOptions, AccountResolver, CacheResolver, ClusterTraffic, DeleteMode, ExportAccess,
    ExportOptions, FullResolver, ImportOptions, LatencyOptions, LatencySampling, MappingDestination,
    MappingOptions, MessageTraceOptions, Options, ResponseType, ServiceExport, ServiceImport, StreamExport,
    StreamImport, StreamName,
};
use myelin_conf::{Loaded, load_text};

use crate::{ConfigFile, load, reference};

const USER: &str = "UCSSYGSLBNWEIM6YFFE75VZXSSLTRVAOHCMK3LUHKZBPX5H447TIZ3MR";
const ACCOUNT: &str = "AAWABJYWLI526WXJE4QTO3Z76IJXNNW53EMAHHPURTXYSCSKNCACFMMP";
const CURVE: &str = "XBII4VJDE2O3ZOL3MYT3LW6NYT3P5BDICT5RE5F6LGLFKKCV74KUFK34";
const OPERATOR: &str = "OCT3BVOPUYX43THNLFDGRESQ3PN2WTZWL35S5GQVU7E7U4242QJBI3NE";
/// Tokens made with Go's library. All are signed by `OPERATOR` or `ACCOUNT`.
const OPERATOR_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJNQVlOT1hKQ05VVUcyNUc3SFpQMzJKTVU0TkVLU1pZVk9BUFRWWVhDNkpNNVBWNTdXU0NBIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJPQ1QzQlZPUFVZWDQzVEhOTEZER1JFU1EzUE4yV1RaV0wzNVM1R1FWVTdFN1U0MjQyUUpCSTNORSIsIm5hbWUiOiJPIiwic3ViIjoiT0NUM0JWT1BVWVg0M1RITkxGREdSRVNRM1BOMldUWldMMzVTNUdRVlU3RTdVNDI0MlFKQkkzTkUiLCJuYXRzIjp7InR5cGUiOiJvcGVyYXRvciIsInZlcnNpb24iOjJ9fQ.2aAO8wMK3y-wmD_o7h6mSNYmSdOD8SZfmFPWvhrD0mpVKs3bf2-ZVV3dDhbiYAvee4hiO5K2a7pkKfiwSrdIAQ";
/// Names a system account, signing keys that alone may be used, and version 2.15.2.
const STRICT_OPERATOR_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJJNzdNVk1PQTdHTllDS1pHVEhINDRHRVlCWldNSTZHN01OSlpTUzNSVVNHVTVVWEFRUVJRIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJPQ1QzQlZPUFVZWDQzVEhOTEZER1JFU1EzUE4yV1RaV0wzNVM1R1FWVTdFN1U0MjQyUUpCSTNORSIsIm5hbWUiOiJTIiwic3ViIjoiT0NUM0JWT1BVWVg0M1RITkxGREdSRVNRM1BOMldUWldMMzVTNUdRVlU3RTdVNDI0MlFKQkkzTkUiLCJuYXRzIjp7InNpZ25pbmdfa2V5cyI6WyJPQkZSM041QkJQNlpaR0NXVzNBRzRTQ0syMzJQSzQyQ0FHWjRLU1JEWUNRT0tHS1pPN1lKUVo2TyJdLCJhY2NvdW50X3NlcnZlcl91cmwiOiJodHRwOi8vMTI3LjAuMC4xOjkvand0L3YxIiwic3lzdGVtX2FjY291bnQiOiJBQVdBQkpZV0xJNTI2V1hKRTRRVE8zWjc2SUpYTk5XNTNFTUFISFBVUlRYWVNDU0tOQ0FDRk1NUCIsImFzc2VydF9zZXJ2ZXJfdmVyc2lvbiI6IjIuMTUuMiIsInN0cmljdF9zaWduaW5nX2tleV91c2FnZSI6dHJ1ZSwidHlwZSI6Im9wZXJhdG9yIiwidmVyc2lvbiI6Mn19.-snGQqMw7QBfgkDLtmnG_RvuxsqLuHHYKsWW7bZXc5A-TNj5vSfLH8JxkSJW62HxORse6NJh8xgAuui0pqvPCw";
const OTHER_OPERATOR_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiIzMkdCVk9RWE5HUkpURzI3VVpEVExNSTIzSkRYWlNENFRUWkREV1pOVDY2UVBOTFFOVDZBIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJPQkNPQjVRVkI1V1NUR05TUTVFV1pFT0RVWDJWN1JLTUJBS0k0QURDV0VQTkxOWVhLVDVTNEVMTyIsIm5hbWUiOiJQIiwic3ViIjoiT0JDT0I1UVZCNVdTVEdOU1E1RVdaRU9EVVgyVjdSS01CQUtJNEFEQ1dFUE5MTllYS1Q1UzRFTE8iLCJuYXRzIjp7InR5cGUiOiJvcGVyYXRvciIsInZlcnNpb24iOjJ9fQ.n5euGdHxZydsN6zwZVzCC9vMggwsJ1crVeUrK8RZvJenT1-zxhrGXXYEAOT-bFWkQuJaZmWG8IrtlD85OFiCCQ";
/// Asks for version 2.16.0.
const NEWER_OPERATOR_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJUVU5VWUlIR1M0NVFLWkU0WTdFMjZLWjVHR1RWSzdLUTdLWkkySlRJUjZPREpLSEpSUVRRIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJPQ1QzQlZPUFVZWDQzVEhOTEZER1JFU1EzUE4yV1RaV0wzNVM1R1FWVTdFN1U0MjQyUUpCSTNORSIsInN1YiI6Ik9DVDNCVk9QVVlYNDNUSE5MRkRHUkVTUTNQTjJXVFpXTDM1UzVHUVZVN0U3VTQyNDJRSkJJM05FIiwibmF0cyI6eyJhc3NlcnRfc2VydmVyX3ZlcnNpb24iOiIyLjE2LjAiLCJ0eXBlIjoib3BlcmF0b3IiLCJ2ZXJzaW9uIjoyfX0.osiK3GiNNtrm2U9-ERtfWEt9OVdeIfDlIaWyv_S4K9kiIN7hsOPEBD25IA3b8o5Jw4dvoNlE0WDnDe6AUKYdAg";
const ODD_VERSION_OPERATOR_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJUVU5VWUlIR1M0NVFLWkU0WTdFMjZLWjVHR1RWSzdLUTdLWkkySlRJUjZPREpLSEpSUVRRIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJPQ1QzQlZPUFVZWDQzVEhOTEZER1JFU1EzUE4yV1RaV0wzNVM1R1FWVTdFN1U0MjQyUUpCSTNORSIsInN1YiI6Ik9DVDNCVk9QVVlYNDNUSE5MRkRHUkVTUTNQTjJXVFpXTDM1UzVHUVZVN0U3VTQyNDJRSkJJM05FIiwibmF0cyI6eyJhc3NlcnRfc2VydmVyX3ZlcnNpb24iOiJ4LjEuMiIsInR5cGUiOiJvcGVyYXRvciIsInZlcnNpb24iOjJ9fQ.CG_dwdTMz6uxkbs3GprRHbSCrQU8jeQgSK8Jo7haLP07o20Ffjpc2KkzWQGdzXnw3QcggwnSY2gc2PFDrOwtBQ";
const BAD_KEY_OPERATOR_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJUVU5VWUlIR1M0NVFLWkU0WTdFMjZLWjVHR1RWSzdLUTdLWkkySlRJUjZPREpLSEpSUVRRIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJPQ1QzQlZPUFVZWDQzVEhOTEZER1JFU1EzUE4yV1RaV0wzNVM1R1FWVTdFN1U0MjQyUUpCSTNORSIsInN1YiI6Ik9DVDNCVk9QVVlYNDNUSE5MRkRHUkVTUTNQTjJXVFpXTDM1UzVHUVZVN0U3VTQyNDJRSkJJM05FIiwibmF0cyI6eyJzaWduaW5nX2tleXMiOlsiVUNTU1lHU0xCTldFSU02WUZGRTc1VlpYU1NMVFJWQU9IQ01LM0xVSEtaQlBYNUg0NDdUSVozTVIiXSwidHlwZSI6Im9wZXJhdG9yIiwidmVyc2lvbiI6Mn19.VdGUk5fAjJlNzqJcZzqKzEcsymehSpYC90EBIauEisSh8SYdbACQBRhr78j_HQiZv-aiaIZoBHrMKluzMCrlAA";
const ACCOUNT_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiI1WkxTQkVDQlBNS0lZNzMzUFpHT0dTM1JLWFRMUkNUNE9FU1QyNU9JRUZKSjNKNk9LUzJBIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJPQ1QzQlZPUFVZWDQzVEhOTEZER1JFU1EzUE4yV1RaV0wzNVM1R1FWVTdFN1U0MjQyUUpCSTNORSIsIm5hbWUiOiJBIiwic3ViIjoiQUFXQUJKWVdMSTUyNldYSkU0UVRPM1o3NklKWE5OVzUzRU1BSEhQVVJUWFlTQ1NLTkNBQ0ZNTVAiLCJuYXRzIjp7ImxpbWl0cyI6eyJzdWJzIjotMSwiZGF0YSI6LTEsInBheWxvYWQiOi0xLCJpbXBvcnRzIjotMSwiZXhwb3J0cyI6LTEsIndpbGRjYXJkcyI6dHJ1ZSwiY29ubiI6LTEsImxlYWYiOi0xfSwiZGVmYXVsdF9wZXJtaXNzaW9ucyI6eyJwdWIiOnt9LCJzdWIiOnt9fSwiYXV0aG9yaXphdGlvbiI6e30sInR5cGUiOiJhY2NvdW50IiwidmVyc2lvbiI6Mn19.H-Ixe02eX-GPjrRwIbCOraeut8SgjnsKcTqdKea4UznT582abd-Y8dO2eanIfiR5NJaUwZ-QVOyc06FIx44zBw";
const BEARER_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJZTElSM1FXUTNNRkU3UlU2UjRUWTRaRkE0UEdEV1NVWE5FSVFJVE1KNEtCWEZLTlJNV1hRIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJBQVdBQkpZV0xJNTI2V1hKRTRRVE8zWjc2SUpYTk5XNTNFTUFISFBVUlRYWVNDU0tOQ0FDRk1NUCIsIm5hbWUiOiJVIiwic3ViIjoiVUNTU1lHU0xCTldFSU02WUZGRTc1VlpYU1NMVFJWQU9IQ01LM0xVSEtaQlBYNUg0NDdUSVozTVIiLCJuYXRzIjp7InB1YiI6e30sInN1YiI6e30sInN1YnMiOi0xLCJkYXRhIjotMSwicGF5bG9hZCI6LTEsImJlYXJlcl90b2tlbiI6dHJ1ZSwidHlwZSI6InVzZXIiLCJ2ZXJzaW9uIjoyfX0.JlraDJqTWY-iHqbeIyRpfmpj0W32WULTOEKEdOM4b-WEV-Bwpbo3Z3OOxwF1luBJeuAExGu0Ahof3NmWR9XECw";
const PLAIN_USER_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJZTElSM1FXUTNNRkU3UlU2UjRUWTRaRkE0UEdEV1NVWE5FSVFJVE1KNEtCWEZLTlJNV1hRIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJBQVdBQkpZV0xJNTI2V1hKRTRRVE8zWjc2SUpYTk5XNTNFTUFISFBVUlRYWVNDU0tOQ0FDRk1NUCIsIm5hbWUiOiJVIiwic3ViIjoiVUNTU1lHU0xCTldFSU02WUZGRTc1VlpYU1NMVFJWQU9IQ01LM0xVSEtaQlBYNUg0NDdUSVozTVIiLCJuYXRzIjp7InB1YiI6e30sInN1YiI6e30sInN1YnMiOi0xLCJkYXRhIjotMSwicGF5bG9hZCI6LTEsInR5cGUiOiJ1c2VyIiwidmVyc2lvbiI6Mn19.4cC4s3lvv-rp_vRLYsrUZDrohyk_19-VcZloTG8TE0TZ_K3PYHl_U_kTyNTKepYLShTEh1SA0IGbFf1iWh4DDw";
const SCOPED_USER_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJLNlM0WVFXSzQ1M0lTM01IVDZIM1JFREpNV1lBVldCM1ZDWlNBQkQ3UE1OSFBaWFVSMkdRIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJBQVdBQkpZV0xJNTI2V1hKRTRRVE8zWjc2SUpYTk5XNTNFTUFISFBVUlRYWVNDU0tOQ0FDRk1NUCIsInN1YiI6IlVDU1NZR1NMQk5XRUlNNllGRkU3NVZaWFNTTFRSVkFPSENNSzNMVUhLWkJQWDVINDQ3VElaM01SIiwibmF0cyI6eyJwdWIiOnt9LCJzdWIiOnt9LCJpc3N1ZXJfYWNjb3VudCI6IkFBV0FCSllXTEk1MjZXWEpFNFFUTzNaNzZJSlhOTlc1M0VNQUhIUFVSVFhZU0NTS05DQUNGTU1QIiwidHlwZSI6InVzZXIiLCJ2ZXJzaW9uIjoyfX0.PcqPykz1BWQylIl4KbPD_HcptJt8aBKhDJjgpxaWqROBUM5FA4rICByeLtKzzXpOz6K8t2vTCYu8tjbTAHgmBw";
const LIMITED_USER_JWT: &str = "eyJ0eXAiOiJKV1QiLCJhbGciOiJlZDI1NTE5LW5rZXkifQ.eyJqdGkiOiJLNlM0WVFXSzQ1M0lTM01IVDZIM1JFREpNV1lBVldCM1ZDWlNBQkQ3UE1OSFBaWFVSMkdRIiwiaWF0IjoxNzk1MjY0MTIzLCJpc3MiOiJBQVdBQkpZV0xJNTI2V1hKRTRRVE8zWjc2SUpYTk5XNTNFTUFISFBVUlRYWVNDU0tOQ0FDRk1NUCIsInN1YiI6IlVDU1NZR1NMQk5XRUlNNllGRkU3NVZaWFNTTFRSVkFPSENNSzNMVUhLWkJQWDVINDQ3VElaM01SIiwibmF0cyI6eyJwdWIiOnsiYWxsb3ciOlsiYSJdfSwic3ViIjp7fSwiaXNzdWVyX2FjY291bnQiOiJBQVdBQkpZV0xJNTI2V1hKRTRRVE8zWjc2SUpYTk5XNTNFTUFISFBVUlRYWVNDU0tOQ0FDRk1NUCIsInR5cGUiOiJ1c2VyIiwidmVyc2lvbiI6Mn19.aDg3fiImZBMP0gGrGQgWPJz1hPw8XLmuquP5kBWc0cgznBmItT0rGnDbWIJf3pR5qPvvT9XdFNoE4DVLxVJODQ";

fn loaded(text: &str) -> Loaded {
    load_text(text.as_bytes(), &|_| None).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn options(text: &str) -> Options {
    loaded(text).options
}

// What the options mean.

#[test]
fn users_have_names_or_nkeys_and_ways_in() {
    let text = format!(
        "authorization {{ proxy_required: false, users: [\
           {{user: a, password: b, clients: [standard, Mqtt_Ws], proxy_required: true}},\
           {{nkey: {USER}, permissions: {{publish: x}}, allowed_connection_types: LEAFNODE}} ] }}"
    );
    let authorization = options(&text).authorization;
    assert_eq!(authorization.users[0].connection_types, [ConnectionType::Standard, ConnectionType::MqttWs]);
    assert!(authorization.users[0].proxy_required);
    let [nkey] = &authorization.nkeys[..] else { panic!("one nkey") };
    assert_eq!((nkey.nkey.as_str(), &nkey.account), (USER, &None));
    assert_eq!(nkey.connection_types, [ConnectionType::Leafnode]);
    assert!(nkey.permissions.is_some());
    assert!(authorization.is_required());
}

#[test]
fn users_of_an_account_belong_to_it_and_get_its_permissions() {
    let text = format!(
        "accounts {{ A {{ users: [{{nkey: {USER}}}, {{user: u, password: p}}], \
         default_permissions: {{subscribe: x}} }} }}, no_auth_user: {USER}"
    );
    let authorization = options(&text).authorization;
    assert_eq!(authorization.nkeys[0].account.as_deref(), Some("A"));
    assert_eq!(authorization.nkeys[0].permissions, authorization.users[0].permissions);
    assert!(authorization.nkeys[0].permissions.is_some());
}

#[test]
fn a_callout_listens_in_the_global_account_unless_told() {
    let text = |more: &str| {
        format!("authorization {{ auth_callout {{ issuer: {ACCOUNT}, auth_users: [a, b] {more} }} }}")
    };
    let callout = |more: &str| options(&text(more)).authorization.callout.expect("a callout");
    assert_eq!(callout("").account, "$G");
    assert_eq!(callout("").auth_users, ["a", "b"]);
    let full = callout(&format!(", account: AUTH, xkey: {CURVE}"));
    assert_eq!((full.account.as_str(), full.xkey.as_deref()), ("AUTH", Some(CURVE)));
}

#[test]
fn exports_say_what_and_for_whom() {
    let text = "accounts { B {}, A { exports: [\
        {stream: \"s.*\", accounts: [B]}, {stream: \"t.*\", account_token_position: 2},\
        {service: q, response: chunk, response_time: \"5s\", allow_trace: true},\
        {service: r, latency: {subject: lat, sampling: headers}}, {service: z, latency: lat}, {} ] } }";
    let exports = &options(text).accounts.list[1].exports;
    let service = |subject: &str| ServiceExport {
        subject: subject.to_owned(),
        access: ExportAccess::default(),
        response: ResponseType::Single,
        threshold: None,
        latency: None,
        allow_trace: false,
    };
    let stream = |subject: &str, access| StreamExport { subject: subject.to_owned(), access };
    let latency = |sampling| Some(LatencyOptions { subject: "lat".to_owned(), sampling });
    let for_b = ExportAccess { accounts: vec!["B".to_owned()], account_token_position: None };
    let by_token = ExportAccess { accounts: Vec::new(), account_token_position: Some(2) };
    let expected = [
        ExportOptions::Stream(stream("s.*", for_b)),
        ExportOptions::Stream(stream("t.*", by_token)),
        ExportOptions::Service(ServiceExport {
            response: ResponseType::Chunked,
            threshold: Some(Duration::from_secs(5)),
            allow_trace: true,
            ..service("q")
        }),
        ExportOptions::Service(ServiceExport { latency: latency(LatencySampling::Headers), ..service("r") }),
        ExportOptions::Service(ServiceExport {
            latency: latency(LatencySampling::Percent(100)),
            ..service("z")
        }),
    ];
    assert_eq!(exports[..], expected);
}

#[test]
fn imports_say_from_whom_and_under_which_name() {
    let text = "accounts { A { exports: [{stream: \">\"}, {service: \">\"}] }, B { imports: [\
        {stream: {account: A, subject: a}}, {stream: {account: A, subject: b}, prefix: p, allow_trace: true},\
        {to: \"c.$1\", stream: {account: A, subject: \"b.*\"}},\
        {service: {account: A, subject: q}, share: true}, {service: {account: A, subject: r}, to: x} ] } }";
    let imports = &options(text).accounts.list[1].imports;
    let stream = |subject: &str, name, allow_trace| {
        ImportOptions::Stream(StreamImport {
            account: "A".to_owned(),
            subject: subject.to_owned(),
            name,
            allow_trace,
        })
    };
    let service = |subject: &str, to: &str, share| {
        let (account, subject, to) = ("A".to_owned(), subject.to_owned(), to.to_owned());
        ImportOptions::Service(ServiceImport { account, subject, to, share })
    };
    let expected = [
        stream("a", StreamName::Same, false),
        stream("b", StreamName::Prefixed("p".to_owned()), true),
        stream("b.*", StreamName::Mapped("c.$1".to_owned()), false),
        service("q", "q", true),
        service("r", "x", false),
    ];
    assert_eq!(imports[..], expected);
}

#[test]
fn mappings_have_weights_and_clusters() {
    let text = "mappings { a: b, \"c.*\": [{dest: \"d.$1\", weight: 20%}, \
                {destination: e, weight: 100, cluster: east}] }, accounts { A { maps { f: g } } }";
    let accounts = options(text).accounts;
    let destination = |subject: &str, weight, cluster: &str| MappingDestination {
        subject: subject.to_owned(),
        weight,
        cluster: cluster.to_owned(),
    };
    let mapping = |subject: &str, destinations: &[MappingDestination]| MappingOptions {
        subject: subject.to_owned(),
        destinations: destinations.to_vec(),
    };
    let global = [
        mapping("a", &[destination("b", 100, "")]),
        mapping("c.*", &[destination("d.$1", 20, ""), destination("e", 100, "east")]),
    ];
    assert_eq!(accounts.global_mappings.as_deref(), Some(&global[..]));
    assert_eq!(accounts.list[0].mappings, [mapping("f", &[destination("g", 100, "")])]);
}

#[test]
fn an_account_has_limits_traces_and_jetstream_of_its_own() {
    let text = format!(
        "accounts {{ A {{ nkey: {ACCOUNT}, limits {{ max_leafs: 3 }}, msg_trace: {{dest: t, sampling: 5%}}, \
         jetstream {{ mem: 1KB, disk: -1, streams: 2, max_bytes: true, cluster_traffic: owner }} }}, \
         B {{ trace_dest: u, jetstream: disabled }}, C {{ jetstream: enabled }} }}"
    );
    let list = options(&text).accounts.list;
    assert_eq!(list[0].nkey.as_deref(), Some(ACCOUNT));
    assert_eq!(list[0].limits.max_leafnodes, Some(3));
    let trace = |destination: &str, sampling| {
        Some(MessageTraceOptions { destination: destination.to_owned(), sampling })
    };
    assert_eq!(list[0].message_trace, trace("t", 5));
    assert_eq!(list[1].message_trace, trace("u", 100));
    let jetstream = AccountJetStreamOptions {
        max_memory: Some(1024),
        max_streams: Some(2),
        max_bytes_required: true,
        cluster_traffic: ClusterTraffic::Owner,
        ..AccountJetStreamOptions::default()
    };
    assert_eq!(list[0].jetstream, Some(jetstream));
    assert_eq!((list[1].jetstream, list[2].jetstream), (None, Some(AccountJetStreamOptions::default())));
}

#[test]
fn resolvers_come_in_four_kinds() {
    let resolver = |text: &str| options(&format!("resolver: {text}")).resolver.resolver;
    assert_eq!(resolver("memory"), Some(AccountResolver::Memory));
    let url = Some(AccountResolver::Url("http://a:1/x/".to_owned()));
    assert_eq!(resolver("URL(http://a:1/x/)"), url);
    assert_eq!(resolver("\"url( \\\"http://a:1/x/\\\" )\""), url);
    let full = FullResolver {
        dir: "jwt".into(),
        deletes: DeleteMode::Renamed,
        limit: None,
        interval: Duration::from_secs(60),
        timeout: Duration::from_millis(1900),
    };
    let text = "{ type: full, dir: jwt, allow_delete: true }";
    assert_eq!(resolver(text), Some(AccountResolver::Full(full)));
    let cache = CacheResolver {
        dir: "jwt".into(),
        limit: 1000,
        ttl: Some(Duration::from_secs(3600)),
        timeout: Duration::from_secs(1),
    };
    let text = "{ type: CACHE, dir: jwt, ttl: \"1h\", timeout: \"1s\" }";
    assert_eq!(resolver(text), Some(AccountResolver::Cache(cache)));
    assert!(!fs::exists("jwt").expect("a look"), "a check makes no directory");
    assert!(load_text(b"resolver: { type: cache, dir: jwt, ttl: \"-1s\" }", &|_| None).is_err());
}

#[test]
fn an_operator_comes_from_a_file_or_stands_in_the_configuration() {
    let dir = tempfile::tempdir().expect("a folder");
    let path = dir.path().join("operator.jwt");
    let framed =
        format!("-----BEGIN NATS OPERATOR JWT-----\r\n{STRICT_OPERATOR_JWT}\r\n------END JWT------\r\n");
    for content in [framed, STRICT_OPERATOR_JWT.to_owned(), format!("{STRICT_OPERATOR_JWT}\n")] {
        fs::write(&path, content).expect("a file");
        let operators = options(&format!("operator: {:?}", path.to_str().expect("plain"))).operators;
        let [operator] = &operators.list[..] else { panic!("one operator") };
        assert_eq!(operator.key, OPERATOR);
        assert_eq!(operator.system_account.as_deref(), Some(ACCOUNT));
        assert_eq!(operator.required_version.as_deref(), Some("2.15.2"));
        assert_eq!((operator.signing_keys.len(), operator.strict_signing_keys), (1, true));
    }
    let inline = options(&format!("operators: [{OPERATOR_JWT}]")).operators;
    assert_eq!(inline.list[0].jwt, OPERATOR_JWT);
}

#[test]
fn trusted_proxies_and_preloads_are_kept() {
    let text = format!(
        "proxies {{ trusted: [{{key: {USER}}}] }}, resolver: MEM, \
         resolver_preload {{ {ACCOUNT}: {ACCOUNT_JWT} }}, resolver_pinned_accounts: [{ACCOUNT}], \
         trusted: {OPERATOR}"
    );
    let options = options(&text);
    assert_eq!(options.proxies.trusted, [USER]);
    assert_eq!(options.resolver.preload, [(ACCOUNT.to_owned(), ACCOUNT_JWT.to_owned())]);
    assert_eq!(options.resolver.pinned_accounts, [ACCOUNT]);
    assert_eq!(options.operators.trusted_keys, [OPERATOR]);
}

#[test]
fn what_does_not_exist_yet_stops_the_start() {
    let file = ConfigFile::new("jetstream { tpm { keys_file: a } }");
    assert!(load(&["-t", "-c", &file.path()]).is_ok());
    let error = load(&["-c", &file.path()]).expect_err("needs what is not there").to_string();
    assert!(error.contains("1:12: \"tpm\" needs"), "{error}");
    let off = "accounts { A { exports: [], jetstream: false, mappings {} } }, authorization { proxy_required: yes }";
    assert!(loaded(off).missing.is_empty());
}

// The reference's words.

/// The complaints in one answer of `-t`: without the program's name, without the place (which the
/// corpus compares, and the reference forgets at times) and without what Go calls a value.
fn complaints(text: &str, path: &str) -> BTreeSet<String> {
    const VALUES: &[&str] =
        &[", got", "unsupported type", "for an account:", "for weight of", "wrong type", " base64 data"];
    let text = text.replace("nats-server: ", "").replace("myelin-server: ", "");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let words = lines.map(|line| {
        let line = line.strip_prefix(path).and_then(|line| line.splitn(4, ':').nth(3)).unwrap_or(line).trim();
        VALUES.iter().fold(line, |line, value| line.split(value).next().unwrap_or_default()).to_owned()
    });
    words.collect()
}

/// Errors of the reference that we do not have: what its own libraries find out, and a circle of
/// imports that it enters where its hash table happens to begin.
const NOT_OURS: &[&str] = &[
    "interface conversion",
    "runtime error",
    "Parse error",
    "json: ",
    "mkdir ",
    "import forms a cycle",
    "operator JWT: illegal",
];

#[test]
fn the_reference_complains_in_the_same_words() {
    let Some(program) = reference::find() else { return };
    let cases = fs::read_to_string("tests/corpus/accounts.cases").expect("the corpus is there");
    let mut compared = 0;
    for case in cases.lines() {
        let file = ConfigFile::new(case.replace('⏎', "\n"));
        let Err(ours) = load(&["-t", "-c", &file.path()]) else { continue };
        let output = reference::run(&program, &["-t", "-c", &file.path()]);
        let theirs = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            continue;
        }
        let ours = complaints(&ours.to_string(), &file.path());
        let mut theirs = complaints(&theirs, &file.path());
        theirs.retain(|line| !NOT_OURS.iter().any(|text| line.contains(text)));
        assert!(theirs.is_subset(&ours), "{case}\n theirs {theirs:?}\n ours   {ours:?}");
        compared += theirs.len();
    }
    assert!(compared > 300, "only {compared} complaints were compared");
}

// What options forbid each other.

fn conflicts() -> Vec<(String, String)> {
    let operator = |more: &str| format!("operator: {OPERATOR_JWT}\nresolver: MEM\n{more}");
    let pair = |text: String, message: &str| (text, message.to_owned());
    vec![
        pair(format!("default_sentinel: {BEARER_JWT}"), "default sentinel requires operators and accounts"),
        pair(operator("default_sentinel: x"), "default sentinel JWT not valid"),
        pair(operator(&format!("default_sentinel: {ACCOUNT_JWT}")), "default sentinel JWT not valid"),
        pair(
            operator(&format!("default_sentinel: {PLAIN_USER_JWT}")),
            "default sentinel must be a bearer token",
        ),
        pair(
            operator(&format!("default_sentinel: {LIMITED_USER_JWT}")),
            "default sentinel must be a bearer token",
        ),
        pair(
            format!("operators: [{OPERATOR_JWT}, {OTHER_OPERATOR_JWT}]"),
            "operators require an account resolver to be configured",
        ),
        pair(operator("accounts: [A]"), "operators do not allow Accounts to be configured directly"),
        pair(operator("mappings { a: b }"), "operators do not allow Accounts to be configured directly"),
        pair(
            operator("authorization { users: [{user: a, password: b}] }"),
            "operators do not allow users to be configured directly",
        ),
        pair(
            operator(&format!("authorization {{ users: [{{nkey: {USER}}}] }}")),
            "operators do not allow users to be configured directly",
        ),
        pair(
            operator(&format!("trusted: {OPERATOR}")),
            "conflicting options for 'TrustedKeys' and 'TrustedOperators'",
        ),
        pair(
            format!("operator: {STRICT_OPERATOR_JWT}\nsystem_account: A\nresolver: MEM"),
            "system_account in config and operator JWT must be identical",
        ),
        pair(
            format!("operator: {OPERATOR_JWT}\nresolver: {{type: full, dir: tests}}"),
            "using nats based account resolver - the system account needs to be specified in configuration or \
             the operator jwt",
        ),
        pair(
            format!("operator: {NEWER_OPERATOR_JWT}"),
            &format!("operator {OPERATOR} expected minor version 16 > server minor version 15"),
        ),
        pair(
            format!("operator: {ODD_VERSION_OPERATOR_JWT}"),
            &format!(
                "operator {OPERATOR} expects version x.1.2 got error instead: asserted server version cant \
                 parse x to int"
            ),
        ),
        pair(
            format!("operator: {BAD_KEY_OPERATOR_JWT}"),
            &format!("trusted Keys {USER:?} are required to be a valid public operator nkey"),
        ),
        pair(
            operator("resolver_pinned_accounts: x"),
            "pinned account key \"x\" is not a valid public account nkey",
        ),
        pair(
            operator(&format!("authorization {{ auth_callout {{ issuer: {ACCOUNT}, users: [a] }} }}")),
            "operators do not allow authorization callouts to be configured directly",
        ),
        pair(operator("no_auth_user: a"), "no_auth_user not compatible with Trusted Operator"),
        pair("proxies { trusted: [{}] }".to_owned(), "proxy trusted key \"\" is invalid"),
        pair(
            format!("resolver: URL(http://127.0.0.1:9/)\nresolver_preload {{ {ACCOUNT}: {ACCOUNT_JWT} }}"),
            "resolver preloads only available for writeable resolver types MEM/DIR/CACHE_DIR",
        ),
        pair(
            format!("authorization {{ users: [{{nkey: {USER}}}] }}\nno_auth_user: a"),
            "no_auth_user: \"a\" not present as user or nkey in authorization block or account configuration",
        ),
    ]
}

#[test]
fn conflicts_are_named_when_the_server_starts() {
    for (text, message) in conflicts() {
        let file = ConfigFile::new(&text);
        let error = load(&["-c", &file.path()]).expect_err(&text);
        assert_eq!(error.to_string(), format!("myelin-server: {message}"), "{text}");
        assert!(load(&["-t", "-c", &file.path()]).is_ok(), "-t looks at the file alone: {text}");
    }
}

#[test]
fn the_reference_names_the_same_conflicts() {
    let Some(program) = reference::find() else { return };
    for (text, message) in conflicts() {
        let file = ConfigFile::new(&text);
        let output = reference::run(&program, &["-a", "127.0.0.1", "-p", "-1", "-c", &file.path()]);
        assert_eq!(String::from_utf8_lossy(&output.stderr), format!("nats-server: {message}\n"), "{text}");
    }
}

#[test]
fn operators_that_agree_with_the_rest_are_no_conflict() {
    for text in [
        format!("operator: {STRICT_OPERATOR_JWT}\nsystem_account: {ACCOUNT}"),
        format!("operator: {STRICT_OPERATOR_JWT}\nresolver: {{type: full, dir: tests}}"),
        format!("operator: {OPERATOR_JWT}\nresolver: MEM\ndefault_sentinel: {BEARER_JWT}"),
        format!("operator: {OPERATOR_JWT}\nresolver: MEM\ndefault_sentinel: {SCOPED_USER_JWT}"),
        format!("operators: [{OPERATOR_JWT}, {OTHER_OPERATOR_JWT}]\nresolver: MEM"),
    ] {
        assert!(loaded(&text).missing.is_empty(), "{text}");
    }
}
