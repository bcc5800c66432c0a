//! Deliveries of consumers, as their replies name them.

/// Delivery of a consumer, as its reply says.
pub(super) struct ConsumerDelivery<'a> {
    pub(super) consumer: &'a str,
    pub(super) times: u64,
    pub(super) sequence: u64,
}

impl<'a> ConsumerDelivery<'a> {
    /// Compat: replies name a domain and an account, or not.
    pub(super) fn of(reply: &'a [u8]) -> Option<Self> {
        let tokens: Vec<&str> = std::str::from_utf8(reply).ok()?.split('.').collect();
        let at = match tokens.len() {
            9 => 4,
            11.. => 6,
            _ => return None,
        };
        let number = |at: usize| tokens.get(at)?.parse().ok();
        Some(Self { consumer: tokens.get(at - 1)?, times: number(at)?, sequence: number(at + 1)? })
    }
}
