//! Options of `/connz`.

use crate::connz::sort::SortKey;
use crate::query::{BadQuery, Query, Subs};
use crate::snapshot::ConnSnapshot;
use crate::window::PageWindow;

#[derive(Debug)]
pub(super) struct ConnzOptions {
    sort: String,
    pub(super) auth: bool,
    /// Ours alone: whether refusals by permissions are shown.
    pub(super) refused: bool,
    pub(super) subs: Subs,
    pub(super) offset: u64,
    pub(super) limit: u64,
    cid: u64,
    pub(super) state: ConnState,
    user: String,
    pub(super) account: String,
    mqtt_client: String,
}

/// Which connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ConnState {
    Open,
    Closed,
    Any,
}

impl ConnzOptions {
    /// The options are looked at in the reference's order, so that of two bad ones the same is
    /// reported.
    pub(super) fn read(query: &Query) -> Result<Self, BadQuery> {
        let auth = query.flag("auth")?;
        let subs = Subs::read(query)?;
        let mut window = PageWindow::read(query)?;
        let cid = query.uint("cid")?;
        if cid > 0 {
            window.limit = 1;
        }
        Ok(Self {
            sort: query.text("sort").to_owned(),
            auth,
            // What the reference does not know it does not look at either.
            refused: matches!(query.text("refused"), "1" | "true"),
            subs,
            offset: window.offset,
            limit: window.limit,
            cid,
            state: ConnState::read(query.text("state"))?,
            user: query.text("user").to_owned(),
            account: query.text("acc").to_owned(),
            mqtt_client: query.text("mqtt_client").to_owned(),
        })
    }

    /// The order to sort by, if it exists and fits the state.
    pub(super) fn order(&self) -> Result<SortKey, BadQuery> {
        let order = SortKey::named(&self.sort).ok_or_else(|| BadQuery::Sort(self.sort.clone()))?;
        match order.needs_closed() {
            Some(key) if self.state != ConnState::Closed => Err(BadQuery::NeedsClosed(key)),
            _ => Ok(order),
        }
    }

    pub(super) fn window(&self) -> PageWindow {
        PageWindow { offset: self.offset, limit: self.limit }
    }

    /// Whether a connection passes the filters on id, user and MQTT client.
    pub(super) fn wants(&self, conn: &ConnSnapshot) -> bool {
        let same = |wanted: &str, has: &str| wanted.is_empty() || wanted == has;
        (self.cid == 0 || self.cid == conn.cid)
            && same(&self.user, &conn.authorized_user)
            && same(&self.mqtt_client, &conn.mqtt_client)
    }
}

impl ConnState {
    fn read(text: &str) -> Result<Self, BadQuery> {
        match text.to_lowercase().as_str() {
            "" | "open" => Ok(Self::Open),
            "closed" => Ok(Self::Closed),
            "any" | "all" => Ok(Self::Any),
            _ => Err(BadQuery::ConnState(text.to_owned())),
        }
    }

    pub(super) fn has_open(self) -> bool {
        self != Self::Closed
    }

    pub(super) fn has_closed(self) -> bool {
        self != Self::Open
    }
}
