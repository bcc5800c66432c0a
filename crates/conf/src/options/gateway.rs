//! `gateway{}`: links to other clusters.

use std::time::Duration;

use super::Options;
use super::cluster::cluster_name;
use super::field::{Diagnostics, Field, Read, diagnostic_at, read_block};
use super::limits::WriteTimeout;
use super::link::{LinkAuthorization, read_url, read_urls};
use super::listener::ListenerOptions;
use super::table::BlockKind;
use super::tls::{TlsOptions, TlsUse};
use crate::url::Url;
use crate::value::{Node, Value};

/// Another cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoteGatewayOptions {
    /// The name of its gateway. Never empty in options that run.
    pub name: String,
    /// Its servers. Never empty in options that run.
    pub urls: Vec<Url>,
    /// `None` is that of the gateway itself.
    pub tls: Option<TlsOptions>,
}

/// This cluster's gateway, and the others that it connects to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GatewayOptions {
    /// The cluster's name for other clusters, without blanks; `None` when there is no gateway.
    pub name: Option<String>,
    /// Where gateways are accepted; always with a port in options that run with a name.
    pub listener: ListenerOptions,
    /// How the other side logs in, and how we do when a URL names no user.
    pub authorization: LinkAuthorization,
    /// TLS in both directions; peers always have to show a certificate.
    pub tls: Option<TlsOptions>,
    /// `host` or `host:port` that other servers are told instead of the bound address.
    pub advertise: Option<String>,
    /// How often a gateway that another server told us of is tried again after a failure.
    pub connect_retries: u32,
    /// Wait longer after each failed attempt, up to 30 s.
    pub connect_backoff: bool,
    /// The other clusters.
    pub gateways: Vec<RemoteGatewayOptions>,
    /// Refuse clusters that are not among `gateways`.
    pub reject_unknown_cluster: bool,
    /// `None` is that of clients.
    pub write_deadline: Option<Duration>,
    /// Reaction when the write deadline passes. By default the write is tried again.
    pub write_timeout: WriteTimeout,
}

impl GatewayOptions {
    /// Reads one top-level field; answers whether it belongs to this group.
    pub(super) fn set(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        if field.name() != "gateway" {
            return Ok(false);
        }
        let map = field.block("Expected gateway to be a map")?;
        read_block(map, BlockKind::Gateway, report, |inner, report| {
            Ok(self.listener.set(inner, report)? || self.set_inner(inner, report)?)
        });
        Ok(true)
    }

    fn set_inner(&mut self, field: &Field<'_>, report: &mut Diagnostics) -> Read<bool> {
        match field.name() {
            "name" => self.name = cluster_name(field, "gateway name cannot contain spaces")?,
            "authorization" => self.authorization = LinkAuthorization::read(field, "Gateway", report)?.0,
            "tls" => self.tls = Some(TlsOptions::read(field, TlsUse::Gateway, report)?),
            "advertise" => self.advertise = field.optional_text()?,
            "connect_retries" => self.connect_retries = field.limit()?.unwrap_or(0),
            "connect_backoff" => self.connect_backoff = field.boolean()?,
            "gateways" => self.gateways = read_gateways(field, report)?,
            "reject_unknown" | "reject_unknown_cluster" => self.reject_unknown_cluster = field.boolean()?,
            "write_deadline" => self.write_deadline = field.chosen_duration("write_deadline", report)?,
            "write_timeout" => self.write_timeout = WriteTimeout::read(field)?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Whether this server has a gateway.
    pub fn is_configured(&self) -> bool {
        self.name.is_some() || self.listener.port.is_some()
    }

    /// The first reason why these options cannot run.
    pub(super) fn check(&self, _: &Options) -> Result<(), String> {
        if !self.is_configured() {
            return Ok(());
        }
        let Some(name) = &self.name else { return Err("gateway has no name".to_owned()) };
        if self.listener.port.is_none() {
            return Err(format!("gateway {name:?} has no port specified (select -1 for random port)"));
        }
        for (at, remote) in self.gateways.iter().enumerate() {
            if remote.name.is_empty() {
                return Err(format!("gateway in the list {at} has no name"));
            }
            if remote.urls.is_empty() {
                return Err(format!("gateway {:?} has no URL", remote.name));
            }
        }
        Ok(())
    }
}

fn read_gateways(field: &Field<'_>, report: &mut Diagnostics) -> Read<Vec<RemoteGatewayOptions>> {
    let Value::Array(items) = field.value() else {
        let found = field.value().go_type();
        return Err(field.diagnostic(format!("Expected gateways field to be an array, got {found}")));
    };
    let remotes = items.iter().filter_map(|item| {
        let remote = read_gateway(item, report);
        report.keep(remote)
    });
    Ok(remotes.collect())
}

fn read_gateway(node: &Node, report: &mut Diagnostics) -> Read<RemoteGatewayOptions> {
    let Value::Map(map) = &node.value else {
        let message = format!("Expected gateway entry to be a map/struct, got {}", node.value.shown());
        return Err(diagnostic_at(&node.position, message));
    };
    let mut remote = RemoteGatewayOptions::default();
    read_block(map, BlockKind::RemoteGateway, report, |field, report| {
        match field.name() {
            "name" => field.text()?.clone_into(&mut remote.name),
            "tls" => remote.tls = Some(TlsOptions::read(field, TlsUse::Gateway, report)?),
            "url" => remote.urls.push(read_url(field.text()?, "gateway", field.node())?),
            "urls" => remote.urls = read_urls(field.items()?, "gateway", report),
            _ => return Ok(false),
        }
        Ok(true)
    });
    Ok(remote)
}
