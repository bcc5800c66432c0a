//! Changes of `gateway{}`.

use super::{Changes, NotReloadable};
use crate::options::Options;

impl Changes<'_> {
    /// Nothing of it is reloaded.
    pub(super) fn gateway(&mut self) {
        if self.old.gateway == self.new.gateway {
            return;
        }
        let shown = |options: &Options| {
            let gateway = &options.gateway;
            let port = gateway.listener.port.map_or(0, super::Port::to_number);
            format!("{{{} {} {port}}}", gateway.name.as_deref().unwrap_or_default(), gateway.listener.host)
        };
        let (old, new) = (shown(self.old), shown(self.new));
        self.refuse(NotReloadable::Field { field: "Gateway", old, new });
    }
}
