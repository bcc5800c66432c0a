//! Properties of MQTT 5: which there are, which packets may have them, and what they may say.

use super::exchange::Qos;
use super::fault::{PacketFault, PacketField};
use super::fields::Fields;
use super::level::ProtocolLevel;
use super::write;
use std::num::{NonZeroU16, NonZeroU32};

/// Part of a packet that has properties: a bit, so that a row of the table is a set of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub(super) enum PropertyPlace {
    Connect = 1,
    Will = 1 << 1,
    ConnAck = 1 << 2,
    /// PUBLISH of a client.
    Publish = 1 << 3,
    /// PUBLISH of a server.
    Deliver = 1 << 4,
    /// PUBACK, PUBREC, PUBREL and PUBCOMP.
    Ack = 1 << 5,
    Subscribe = 1 << 6,
    SubAck = 1 << 7,
    Unsubscribe = 1 << 8,
    UnsubAck = 1 << 9,
    /// DISCONNECT of a client.
    Leave = 1 << 10,
    /// DISCONNECT of a server.
    Dismiss = 1 << 11,
    Auth = 1 << 12,
}

/// Number of a subscription that its subscriber has chosen: 1 to 268,435,455.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SubscriptionId(NonZeroU32);

impl SubscriptionId {
    /// The subscription with this number; `None` if no packet can say it.
    pub fn new(number: u32) -> Option<Self> {
        NonZeroU32::new(number).filter(|_| number <= write::MAX_VARINT).map(Self)
    }

    /// The number.
    pub fn get(self) -> u32 {
        self.0.get()
    }
}

/// A value in a property: how it is read and written.
trait PropertyForm<'a>: Sized {
    /// Reads the value; `None` inside if no property can have it.
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault>;
    fn write(self, out: &mut Vec<u8>);
    /// Whether the value has a form on the wire.
    fn fits(self) -> bool {
        true
    }
}

/// Number of the topic alias, whose bad value has a reason code of its own.
const TOPIC_ALIAS: u8 = 0x23;

const FIELD: PacketField = PacketField::Property;
/// The longest string, and the longest binary data.
const LONGEST: usize = u16::MAX as usize;

impl<'a> PropertyForm<'a> for bool {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        Ok(match fields.byte(FIELD)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        })
    }

    fn write(self, out: &mut Vec<u8>) {
        out.push(u8::from(self));
    }
}

/// The Maximum QoS of a server: one that takes QoS 2 does not say it.
impl<'a> PropertyForm<'a> for Qos {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        Ok(Qos::new(fields.byte(FIELD)?).filter(|qos| *qos < Qos::ExactlyOnce))
    }

    fn write(self, out: &mut Vec<u8>) {
        out.push(self as u8);
    }

    fn fits(self) -> bool {
        self < Qos::ExactlyOnce
    }
}

impl<'a> PropertyForm<'a> for u16 {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        fields.short(FIELD).map(Some)
    }

    fn write(self, out: &mut Vec<u8>) {
        write::short(self, out);
    }
}

impl<'a> PropertyForm<'a> for NonZeroU16 {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        fields.short(FIELD).map(Self::new)
    }

    fn write(self, out: &mut Vec<u8>) {
        write::short(self.get(), out);
    }
}

impl<'a> PropertyForm<'a> for u32 {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        fields.long(FIELD).map(Some)
    }

    fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_be_bytes());
    }
}

impl<'a> PropertyForm<'a> for NonZeroU32 {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        fields.long(FIELD).map(Self::new)
    }

    fn write(self, out: &mut Vec<u8>) {
        self.get().write(out);
    }
}

impl<'a> PropertyForm<'a> for SubscriptionId {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        fields.varint(FIELD).map(Self::new)
    }

    fn write(self, out: &mut Vec<u8>) {
        write::varint(self.get() as usize, out);
    }
}

impl<'a> PropertyForm<'a> for &'a str {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        fields.text(FIELD).map(Some)
    }

    fn write(self, out: &mut Vec<u8>) {
        write::bytes(self.as_bytes(), out);
    }

    fn fits(self) -> bool {
        self.len() <= LONGEST && !self.contains('\0')
    }
}

impl<'a> PropertyForm<'a> for &'a [u8] {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        fields.bytes(FIELD).map(Some)
    }

    fn write(self, out: &mut Vec<u8>) {
        write::bytes(self, out);
    }

    fn fits(self) -> bool {
        self.len() <= LONGEST
    }
}

impl<'a> PropertyForm<'a> for (&'a str, &'a str) {
    fn read(fields: &mut Fields<'a>) -> Result<Option<Self>, PacketFault> {
        Ok(Some((fields.text(FIELD)?, fields.text(FIELD)?)))
    }

    fn write(self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn fits(self) -> bool {
        self.0.fits() && self.1.fits()
    }
}

macro_rules! properties {
    ($($(#[$doc:meta])* $name:ident($value:ty) = $id:literal [$($place:ident)*],)*) => {
        /// One property with its value.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Property<'a> {
            $($(#[$doc])* $name($value),)*
        }

        impl<'a> Property<'a> {
            /// Number of the property on the wire.
            pub fn id(&self) -> u8 {
                match self {
                    $(Self::$name(_) => $id,)*
                }
            }

            /// Reads one property.
            fn read(fields: &mut Fields<'a>) -> Result<Self, PacketFault> {
                // Perf: all numbers that exist have one byte; longer ones are none.
                let id = fields.byte(FIELD)?;
                let property = match id {
                    $($id => <$value>::read(fields)?.map(Self::$name),)*
                    _ => return Err(PacketFault::PropertyKind(id)),
                };
                property.ok_or_else(|| match id {
                    TOPIC_ALIAS => PacketFault::TopicAliasZero,
                    _ => PacketFault::PropertyValue(id),
                })
            }

            fn write(self, out: &mut Vec<u8>) {
                out.push(self.id());
                match self {
                    $(Self::$name(value) => value.write(out),)*
                }
            }

            fn fits(self) -> bool {
                match self {
                    $(Self::$name(value) => value.fits(),)*
                }
            }

            /// Places that may have the property: bits of [`PropertyPlace`].
            pub(super) fn places(&self) -> u16 {
                match self {
                    $(Self::$name(_) => 0 $(| PropertyPlace::$place as u16)*,)*
                }
            }
        }
    };
}

properties! {
    /// Whether the payload is UTF-8.
    PayloadFormat(bool) = 0x01 [Publish Deliver Will],
    /// Seconds that the message is kept for subscribers.
    MessageExpiry(u32) = 0x02 [Publish Deliver Will],
    /// Media type of the payload, or another word for it.
    ContentType(&'a str) = 0x03 [Publish Deliver Will],
    /// Topic that an answer goes to; without wildcards.
    ResponseTopic(&'a str) = 0x08 [Publish Deliver Will],
    /// Data that an answer brings back.
    CorrelationData(&'a [u8]) = 0x09 [Publish Deliver Will],
    /// Subscription that a message is for; in a PUBLISH there may be several.
    SubscriptionId(SubscriptionId) = 0x0b [Deliver Subscribe],
    /// Seconds that the session outlives its connection; the largest number is for ever.
    SessionExpiry(u32) = 0x11 [Connect ConnAck Leave],
    /// Client id that the server has chosen.
    AssignedClientId(&'a str) = 0x12 [ConnAck],
    /// Seconds that replace the client's keep-alive.
    ServerKeepAlive(u16) = 0x13 [ConnAck],
    /// Name of an enhanced authentication.
    AuthMethod(&'a str) = 0x15 [Connect ConnAck Auth],
    /// Data of an enhanced authentication.
    AuthData(&'a [u8]) = 0x16 [Connect ConnAck Auth],
    /// Whether answers may have reason strings and user properties (they may by default).
    RequestProblemInformation(bool) = 0x17 [Connect],
    /// Seconds between the end of a connection and its will.
    WillDelay(u32) = 0x18 [Will],
    /// Whether the CONNACK should have response information.
    RequestResponseInformation(bool) = 0x19 [Connect],
    /// Beginning for response topics.
    ResponseInformation(&'a str) = 0x1a [ConnAck],
    /// Another server.
    ServerReference(&'a str) = 0x1c [ConnAck Dismiss],
    /// Reason, for people.
    ReasonString(&'a str) = 0x1f [ConnAck Ack SubAck UnsubAck Leave Dismiss Auth],
    /// Messages of QoS 1 and 2 that may be unacknowledged.
    ReceiveMaximum(NonZeroU16) = 0x21 [Connect ConnAck],
    /// The highest topic alias that the sender takes.
    TopicAliasMaximum(u16) = 0x22 [Connect ConnAck],
    /// Number that stands for the topic.
    TopicAlias(NonZeroU16) = 0x23 [Publish Deliver],
    /// The surest QoS of a server that does not take QoS 2.
    MaximumQos(Qos) = 0x24 [ConnAck],
    /// Whether the server retains messages.
    RetainAvailable(bool) = 0x25 [ConnAck],
    /// Name and value, of which there may be several.
    User((&'a str, &'a str)) = 0x26
        [Connect Will ConnAck Publish Deliver Ack Subscribe SubAck Unsubscribe UnsubAck Leave Dismiss Auth],
    /// The longest packet that the sender takes, in bytes.
    MaximumPacketSize(NonZeroU32) = 0x27 [Connect ConnAck],
    /// Whether the server takes wildcards.
    WildcardAvailable(bool) = 0x28 [ConnAck],
    /// Whether the server takes subscription identifiers.
    SubscriptionIdAvailable(bool) = 0x29 [ConnAck],
    /// Whether the server takes shared subscriptions.
    SharedAvailable(bool) = 0x2a [ConnAck],
}

impl Property<'_> {
    /// Whether the property may be there more than once.
    fn repeats(&self, place: PropertyPlace) -> bool {
        match self {
            Self::User(_) => true,
            Self::SubscriptionId(_) => place == PropertyPlace::Deliver,
            _ => false,
        }
    }
}

/// Properties of a packet, as they stand in it. They are checked: each is one that the packet may
/// have, and those that may be there once are there once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Properties<'a> {
    raw: &'a [u8],
}

impl<'a> Properties<'a> {
    /// No properties.
    pub const EMPTY: Self = Self { raw: &[] };

    /// Reads the properties of `place`, with the length in front of them; version 3.1.1 has none.
    #[inline]
    pub(super) fn read(
        fields: &mut Fields<'a>,
        level: ProtocolLevel,
        place: PropertyPlace,
    ) -> Result<Self, PacketFault> {
        if level == ProtocolLevel::V3 {
            return Ok(Self::EMPTY);
        }
        let len = fields.varint(PacketField::PropertyLength)?;
        let raw = fields.take(len as usize, FIELD)?;
        if !raw.is_empty() {
            check(raw, place)?;
        }
        Ok(Self { raw })
    }

    /// Appends the properties where the version has some, with the length in front of them.
    pub(super) fn write(self, level: ProtocolLevel, out: &mut Vec<u8>) {
        if level == ProtocolLevel::V5 {
            write::varint(self.raw.len(), out);
            out.extend_from_slice(self.raw);
        }
    }

    /// Bytes that [`Self::write`] appends.
    pub(super) fn len(self, level: ProtocolLevel) -> usize {
        match level {
            ProtocolLevel::V3 => 0,
            ProtocolLevel::V5 => write::varint_len(self.raw.len()) + self.raw.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// Bytes of the properties, without the length in front of them.
    pub fn raw(&self) -> &'a [u8] {
        self.raw
    }

    /// The properties, in order.
    pub fn iter(&self) -> impl Iterator<Item = Property<'a>> + use<'a> {
        let mut fields = Fields::new(self.raw);
        std::iter::from_fn(move || if fields.is_empty() { None } else { Property::read(&mut fields).ok() })
    }

    /// The user properties, in order.
    pub fn user(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.iter().filter_map(|property| match property {
            Property::User(pair) => Some(pair),
            _ => None,
        })
    }
}

/// Checks the properties of `place`.
fn check(raw: &[u8], place: PropertyPlace) -> Result<(), PacketFault> {
    let mut fields = Fields::new(raw);
    // A bit for each number: they are below 64.
    let mut seen = 0u64;
    while !fields.is_empty() {
        let property = Property::read(&mut fields)?;
        let id = property.id();
        if property.places() & place as u16 == 0 {
            return Err(PacketFault::PropertyPlace(id));
        }
        let bit = 1u64 << id;
        if seen & bit != 0 && !property.repeats(place) {
            return Err(PacketFault::PropertyTwice(id));
        }
        seen |= bit;
        if matches!(property, Property::ResponseTopic(topic) if topic.contains(['+', '#'])) {
            return Err(PacketFault::PropertyValue(id));
        }
    }
    let (method, data) = (1u64 << Property::AuthMethod("").id(), 1u64 << Property::AuthData(&[]).id());
    if seen & (method | data) == data { Err(PacketFault::DataWithoutMethod) } else { Ok(()) }
}

/// Properties that are being written; used again without a new allocation.
#[derive(Debug, Clone, Default)]
pub struct PropertyBuf {
    bytes: Vec<u8>,
}

impl PropertyBuf {
    /// Removes all.
    pub fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Adds a property, and says whether it has a form on the wire: strings and data have at most
    /// 65,535 bytes, and no string has U+0000.
    #[must_use]
    pub fn push(&mut self, property: Property<'_>) -> bool {
        let fits = property.fits();
        if fits {
            property.write(&mut self.bytes);
        }
        fits
    }

    /// The properties, for the packet that they belong to: the caller knows which may have them.
    pub fn properties(&self) -> Properties<'_> {
        Properties { raw: &self.bytes }
    }
}
