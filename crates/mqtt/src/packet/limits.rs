//! Limits that packets are read with.

/// Limits of a connection that the codec needs to know.
#[derive(Debug, Clone, Copy)]
pub struct PacketLimits {
    /// Longest CONNECT, in bytes, its fixed header included.
    pub max_connect: u32,
    /// Longest packet of another kind; `None` is unlimited.
    pub max_packet: Option<u32>,
    /// Whether a CONNECT of MQTT 5 is read, or refused as nats-server refuses it.
    pub accepts_5: bool,
    /// Whether wills and messages of QoS 2 are taken (not with `reject_qos2_publish`).
    pub accepts_qos2: bool,
}
