//! States of the links between servers, which the proxies obey.

use myelin_stdx::sync::lock;
use std::collections::HashMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// State of the link between two servers, for all connections between them and both directions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkState {
    /// Bytes pass.
    #[default]
    Whole,
    /// Bytes wait.
    Stalled,
    /// Connections end, and new ones do not come about.
    Cut,
}

/// All links of a cluster. Servers are numbers from 0.
#[derive(Debug, Default)]
pub struct Links {
    table: Mutex<Table>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    states: HashMap<(usize, usize), LinkState>,
    connections: Vec<(usize, usize, Arc<ProxiedConnection>)>,
}

/// The two sockets of a connection that a proxy passes on.
#[derive(Debug)]
pub(crate) struct ProxiedConnection {
    pub(crate) dialer: TcpStream,
    pub(crate) acceptor: TcpStream,
}

impl ProxiedConnection {
    pub(crate) fn close(&self) {
        // They may be closed already.
        let _ = self.dialer.shutdown(Shutdown::Both);
        let _ = self.acceptor.shutdown(Shutdown::Both);
    }
}

fn pair(one: usize, other: usize) -> (usize, usize) {
    (one.min(other), one.max(other))
}

impl Links {
    fn table(&self) -> MutexGuard<'_, Table> {
        lock(&self.table)
    }

    /// State of the link between two servers.
    pub fn state(&self, one: usize, other: usize) -> LinkState {
        self.table().states.get(&pair(one, other)).copied().unwrap_or_default()
    }

    /// Changes the link between two servers.
    pub fn set(&self, one: usize, other: usize, state: LinkState) {
        let mut table = self.table();
        table.states.insert(pair(one, other), state);
        if state == LinkState::Cut {
            table.connections.retain(|(dialer, acceptor, connection)| {
                let is_cut = pair(*dialer, *acceptor) == pair(one, other);
                if is_cut {
                    connection.close();
                }
                !is_cut
            });
        }
        self.changed.notify_all();
    }

    /// Enters a connection between two servers. `false`: they are cut off.
    pub(crate) fn enter(&self, dialer: usize, acceptor: usize, connection: &Arc<ProxiedConnection>) -> bool {
        let mut table = self.table();
        if table.states.get(&pair(dialer, acceptor)) == Some(&LinkState::Cut) {
            return false;
        }
        table.connections.push((dialer, acceptor, Arc::clone(connection)));
        true
    }

    pub(crate) fn leave(&self, connection: &Arc<ProxiedConnection>) {
        self.table().connections.retain(|(_, _, one)| !Arc::ptr_eq(one, connection));
    }

    /// Waits until bytes may pass. `false`: never.
    pub(crate) fn pass(&self, dialer: usize, acceptor: usize) -> bool {
        let mut table = self.table();
        loop {
            match table.states.get(&pair(dialer, acceptor)).copied().unwrap_or_default() {
                LinkState::Whole => return true,
                LinkState::Cut => return false,
                LinkState::Stalled => {
                    table = self.changed.wait(table).unwrap_or_else(PoisonError::into_inner);
                }
            }
        }
    }
}
