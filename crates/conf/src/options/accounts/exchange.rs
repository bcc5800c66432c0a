//! Whether the exports and imports of all accounts fit each other: names exist, importers are
//! allowed, nothing is imported twice or in a circle.
//!
//! Owns the order and the texts of these diagnostics: exports before imports, streams before
//! services.
//! Compat: where the reference looks through a hash table and takes what comes first, what stands
//! first in the file is taken here.

use std::collections::HashMap;

use myelin_subject::{
    Transform, has_wildcard, is_literal, is_subset, is_valid_pattern, numbered, overlaps, prefixed, starred,
};

use super::AccountOptions;
use super::exports::{ExportAccess, ExportOptions, ResponseType, ServiceExport, StreamExport};
use super::imports::{ImportOptions, ServiceImport, StreamImport, StreamName};

/// How many accounts a chain of imports may go through.
const MAX_CHAIN: usize = 1024;

/// All diagnostics about what accounts want from each other.
pub(super) fn check(accounts: &[AccountOptions], no_system_account: bool) -> Vec<String> {
    let mut market = Market::new(accounts, no_system_account);
    let mut complaints = Vec::new();
    for (at, export) in in_order(accounts, |account| &account.exports, is_stream_export) {
        match export {
            ExportOptions::Stream(stream) => market.export_stream(at, stream, &mut complaints),
            ExportOptions::Service(service) => market.export_service(at, service, &mut complaints),
        }
    }
    for (at, import) in in_order(accounts, |account| &account.imports, is_stream_import) {
        let imported = match import {
            ImportOptions::Stream(stream) => market.import_stream(at, stream),
            ImportOptions::Service(service) => market.import_service(at, service),
        };
        complaints.extend(imported.err());
    }
    complaints
}

/// The items of all accounts with the number of their account, those that come `first` before the
/// others.
fn in_order<'a, T>(
    accounts: &'a [AccountOptions],
    items: impl Fn(&'a AccountOptions) -> &'a Vec<T>,
    first: impl Fn(&T) -> bool,
) -> Vec<(usize, &'a T)> {
    let all = accounts.iter().enumerate();
    let all = all.flat_map(|(at, account)| items(account).iter().map(move |item| (at, item)));
    let (mut before, after): (Vec<_>, Vec<_>) = all.partition(|(_, item)| first(item));
    before.extend(after);
    before
}

fn is_stream_export(export: &ExportOptions) -> bool {
    matches!(export, ExportOptions::Stream(_))
}

fn is_stream_import(import: &ImportOptions) -> bool {
    matches!(import, ImportOptions::Stream(_))
}

/// All accounts while they are connected to each other.
struct Market<'a> {
    traders: Vec<Trader<'a>>,
    /// Numbers by name. Compat: of accounts of one name the last counts.
    names: HashMap<&'a str, usize>,
    no_system_account: bool,
}

/// Account with what it offers and has taken so far.
struct Trader<'a> {
    name: &'a str,
    streams: Vec<Offer<'a>>,
    services: Vec<Offer<'a>>,
    stream_imports: Vec<ImportEdge>,
    service_imports: Vec<ImportEdge>,
}

/// An export.
struct Offer<'a> {
    subject: &'a str,
    /// Names of those who may import it; none is everybody.
    approved: Vec<&'a str>,
    token_position: Option<usize>,
    response: ResponseType,
}

/// An import, in the terms of the reference: messages come `from` one subject and go `to` another.
struct ImportEdge {
    /// The number of the account that exports it.
    account: usize,
    from: String,
    to: String,
}

impl<'a> Trader<'a> {
    fn new(account: &'a AccountOptions) -> Self {
        Self {
            name: &account.name,
            streams: Vec::new(),
            services: Vec::new(),
            stream_imports: Vec::new(),
            service_imports: Vec::new(),
        }
    }
}

/// Adds to the offer of that subject, or makes one.
fn offer<'a, 'o>(
    offers: &'o mut Vec<Offer<'a>>,
    subject: &'a str,
    approved: Vec<&'a str>,
    token_position: Option<usize>,
) -> Result<&'o mut Offer<'a>, String> {
    if let Some(position) = token_position
        && subject.split('.').nth(position - 1) != Some("*")
    {
        return Err("sublist: invalid subject".to_owned());
    }
    let at = offers.iter().position(|offer| offer.subject == subject).unwrap_or_else(|| {
        let response = ResponseType::Single;
        offers.push(Offer { subject, approved: Vec::new(), token_position: None, response });
        offers.len() - 1
    });
    let offer = &mut offers[at];
    if !approved.is_empty() || token_position.is_some() {
        offer.token_position = token_position;
        offer.approved.extend(approved);
    }
    Ok(offer)
}

/// Whether `importer` may take `subject` from what is offered.
fn is_approved(offers: &[Offer<'_>], importer: &str, subject: &str) -> bool {
    if let Some(exact) = offers.iter().find(|offer| offer.subject == subject) {
        return exact.approves(importer, None);
    }
    let covering = offers.iter().find(|offer| is_subset(subject.as_bytes(), offer.subject.as_bytes()));
    covering.is_some_and(|offer| offer.approves(importer, Some(subject)))
}

impl Offer<'_> {
    /// `subject` is what is imported, when it is not the very subject of the offer.
    fn approves(&self, importer: &str, subject: Option<&str>) -> bool {
        match (self.token_position, subject) {
            (Some(position), Some(subject)) => subject.split('.').nth(position - 1) == Some(importer),
            (Some(_), None) => false,
            (None, _) => self.approved.is_empty() || self.approved.contains(&importer),
        }
    }
}

impl<'a> Market<'a> {
    fn new(accounts: &'a [AccountOptions], no_system_account: bool) -> Self {
        let names = accounts.iter().enumerate().map(|(at, account)| (account.name.as_str(), at)).collect();
        Self { traders: accounts.iter().map(Trader::new).collect(), names, no_system_account }
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.names.get(name).copied()
    }

    fn known(&self, access: &'a ExportAccess, kind: &str, complaints: &mut Vec<String>) -> Vec<&'a str> {
        let (known, unknown): (Vec<_>, Vec<_>) =
            access.accounts.iter().map(String::as_str).partition(|name| self.find(name).is_some());
        let complain = |name| format!("{name:?} account not defined for {kind} export");
        complaints.extend(unknown.into_iter().map(complain));
        known
    }

    fn export_stream(&mut self, at: usize, export: &'a StreamExport, complaints: &mut Vec<String>) {
        let approved = self.known(&export.access, "stream", complaints);
        let position = export.access.account_token_position;
        if let Err(error) = offer(&mut self.traders[at].streams, &export.subject, approved, position) {
            complaints.push(format!("Error adding stream export {:?}: {error}", export.subject));
        }
    }

    fn export_service(&mut self, at: usize, export: &'a ServiceExport, complaints: &mut Vec<String>) {
        let subject = &export.subject;
        let approved = self.known(&export.access, "service", complaints);
        let position = export.access.account_token_position;
        match offer(&mut self.traders[at].services, subject, approved, position) {
            Ok(offer) if export.response != ResponseType::Single => offer.response = export.response,
            Ok(_) => {}
            Err(error) => {
                complaints.push(format!("Error adding service export {subject:?}: {error}"));
                return;
            }
        }
        complaints.extend(self.latency_fault(at, export));
    }

    /// Fault of the reports on latency of a service.
    fn latency_fault(&self, at: usize, export: &ServiceExport) -> Option<String> {
        let (subject, results) = (&export.subject, &export.latency.as_ref()?.subject);
        let failed = format!("Error adding service latency sampling for {subject:?}");
        if self.no_system_account {
            return Some(format!("{failed}: system account not setup"));
        }
        let services = &self.traders[at].services;
        let covers = |offer: &Offer<'_>| {
            offer.subject == results || is_subset(results.as_bytes(), offer.subject.as_bytes())
        };
        let own = services.iter().find(|offer| offer.subject == subject);
        let fault = if !is_literal(results.as_bytes()) || services.iter().any(covers) {
            "invalid publish subject"
        } else if own.is_some_and(|offer| offer.response != ResponseType::Single) {
            "bad service response type"
        } else {
            return None;
        };
        Some(format!("{failed} on subject {results:?}: {fault}"))
    }

    fn import_stream(&mut self, at: usize, import: &StreamImport) -> Result<(), String> {
        let StreamImport { account, subject, name, .. } = import;
        let from =
            self.find(account).ok_or_else(|| format!("{account:?} account not defined for stream import"))?;
        self.add_stream_import(at, from, subject, name)
            .map_err(|error| format!("Error adding stream import {subject:?}: {error}"))
    }

    fn add_stream_import(
        &mut self,
        at: usize,
        account: usize,
        from: &str,
        name: &StreamName,
    ) -> Result<(), String> {
        let is_allowed = is_valid_pattern(from.as_bytes())
            && is_approved(&self.traders[account].streams, self.traders[at].name, from);
        if !is_allowed {
            return Err("stream import not authorized".to_owned());
        }
        let to = match name {
            StreamName::Same => from.to_owned(),
            StreamName::Mapped(to) => to.clone(),
            StreamName::Prefixed(prefix) if has_wildcard(prefix.as_bytes()) => {
                return Err("stream import prefix can not contain wildcard tokens".to_owned());
            }
            StreamName::Prefixed(prefix) => prefixed(prefix, from),
        };
        self.check_streams(account, &to, &mut vec![at])?;
        self.check_streams(account, from, &mut vec![at])?;
        let mut stands_as = to.clone();
        if has_wildcard(from.as_bytes()) && to != from {
            Transform::reversible(from, &numbered(&to)).map_err(|error| {
                format!(
                    "failed to create mapping transform for stream import subject from {from:?} to {to:?}: {error}"
                )
            })?;
            stands_as = starred(&to).0;
        }
        let imports = &mut self.traders[at].stream_imports;
        if imports.iter().any(|import| import.account == account && import.from == from) {
            return Err("stream import already exists".to_owned());
        }
        imports.push(ImportEdge { account, from: from.to_owned(), to: stands_as });
        Ok(())
    }

    fn import_service(&mut self, at: usize, import: &ServiceImport) -> Result<(), String> {
        let ServiceImport { account, subject, to, .. } = import;
        let from = self
            .find(account)
            .ok_or_else(|| format!("{account:?} account not defined for service import"))?;
        self.add_service_import(at, from, to, subject)
            .map_err(|error| format!("Error adding service import {subject:?}: {error}"))?;
        // Compat: a service that was renamed by its wildcards is not found again.
        let imports = &self.traders[at].service_imports;
        if imports.iter().any(|import| import.account == from && import.to == *subject) {
            return Ok(());
        }
        Err(format!("Error setting service import sharing {subject:?}: service import not found"))
    }

    /// Requests come `from` a subject here and go `to` one of the other account.
    fn add_service_import(&mut self, at: usize, account: usize, from: &str, to: &str) -> Result<(), String> {
        if !is_valid_pattern(from.as_bytes()) || !is_valid_pattern(to.as_bytes()) {
            return Err("sublist: invalid subject".to_owned());
        }
        if !is_approved(&self.traders[account].services, self.traders[at].name, to) {
            return Err("service import not authorized".to_owned());
        }
        let is_renamed = has_wildcard(to.as_bytes());
        let asked = if is_renamed { starred(from).0 } else { from.to_owned() };
        self.check_services(account, &asked, &mut vec![at])?;
        let is_same = |import: &&ImportEdge| import.account == account && import.from == from;
        if let Some(before) = self.traders[at].service_imports.iter().find(is_same) {
            return Err(format!(
                "duplicate service import subject {from:?}, previously used in import for account {:?}, subject {:?}",
                self.traders[account].name, before.to
            ));
        }
        let mut taken = ImportEdge { account, from: from.to_owned(), to: to.to_owned() };
        if is_renamed && to != from {
            let target = starred(to).0;
            Transform::reversible(&target, &numbered(from)).map_err(|error| {
                format!(
                    "failed to create mapping transform for service import subject from {from:?} to {target:?}: {error}"
                )
            })?;
            taken = ImportEdge { account, from: asked, to: target };
        }
        self.traders[at].service_imports.push(taken);
        Ok(())
    }

    // Circles. `visited` are the accounts of the chain so far.

    fn check_streams(&self, at: usize, subject: &str, visited: &mut Vec<usize>) -> Result<(), String> {
        check_length(visited)?;
        let trader = &self.traders[at];
        if !trader.streams.iter().any(|offer| is_subset(subject.as_bytes(), offer.subject.as_bytes())) {
            return Ok(());
        }
        for import in &trader.stream_imports {
            if overlap(subject, &import.to) {
                enter(at, import.account, visited)?;
                let narrower = is_subset(import.to.as_bytes(), subject.as_bytes());
                let subject = if narrower { &import.to } else { subject };
                self.check_streams(import.account, subject, visited)?;
            }
        }
        Ok(())
    }

    fn check_services(&self, at: usize, subject: &str, visited: &mut Vec<usize>) -> Result<(), String> {
        check_length(visited)?;
        for import in &self.traders[at].service_imports {
            if overlap(subject, &import.to) {
                enter(at, import.account, visited)?;
                let narrower = is_subset(import.from.as_bytes(), subject.as_bytes());
                let subject = if narrower { &import.from } else { subject };
                self.check_services(import.account, subject, visited)?;
            }
        }
        Ok(())
    }
}

fn check_length(visited: &[usize]) -> Result<(), String> {
    if visited.len() >= MAX_CHAIN { Err("search cycle depth exhausted".to_owned()) } else { Ok(()) }
}

/// Goes on from account `at` to `next`.
///
/// Compat: an account stays visited when the search comes back from it, so that two ways to the
/// same account may count as a circle.
fn enter(at: usize, next: usize, visited: &mut Vec<usize>) -> Result<(), String> {
    if visited.contains(&next) {
        return Err("import forms a cycle".to_owned());
    }
    if !visited.contains(&at) {
        visited.push(at);
    }
    Ok(())
}

fn overlap(a: &str, b: &str) -> bool {
    a == b || overlaps(a.as_bytes(), b.as_bytes())
}
