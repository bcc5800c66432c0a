//! Kinds of figures, with what tables call them.
//!
//! Pure names: knows no value.

/// A kind of figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Metric {
    /// Messages per second.
    MessageRate,
    /// Microseconds of the server's CPU time per message.
    Cpu,
    /// Median latency, in microseconds.
    LatencyMedian,
    /// 99 of 100 latencies are at most this, in microseconds.
    Latency99,
    /// Percent of the calm rate that a publisher keeps beside churn.
    RateKept,
    /// SUB/UNSUB pairs per second that were made beside the publisher.
    ChurnRate,
    /// Bytes of resident memory per subscription.
    SubscriptionMemory,
    /// Bytes of resident memory per idle connection.
    ConnectionMemory,
    /// Resident MiB of a process that has just been started.
    ProcessMemory,
    /// Milliseconds until a server greets.
    StartTime,
    /// Bytes of resident memory per subject of a stream.
    SubjectMemory,
    /// Messages published per second beside those that are counted as the row's.
    PublishRate,
    /// Consumers made per second.
    CreationRate,
    /// Bytes of resident memory per consumer.
    ConsumerMemory,
    /// Milliseconds of CPU time per second, with hardly anything to do.
    IdleCpu,
    /// Bytes of resident memory per unacknowledged delivery.
    PendingMemory,
    /// Payload, in million bytes per second.
    ByteRate,
    /// Messages per second until the server had taken the last from its publisher.
    PublishedRate,
    /// Deliveries per second, all receivers together, until the last.
    DeliveredRate,
    /// 99.9 of 100 latencies are at most this, in microseconds.
    Latency999,
    /// 99.99 of 100 latencies are at most this, in microseconds.
    Latency9999,
    /// 99.999 of 100 latencies are at most this, in microseconds.
    Latency99999,
    /// 99.9999 of 100 latencies are at most this, in microseconds.
    Latency999999,
    /// The longest latency, in microseconds.
    LatencyMost,
    /// Resident memory behind a round, with whatever the server keeps of it.
    LoadedMemory,
    /// Milliseconds from the signal until the new configuration holds.
    ReloadTime,
    /// Logins per second.
    LoginRate,
    /// Streams made per second.
    StreamCreationRate,
    /// KiB on the disk per stream without messages.
    StreamDisk,
    /// KiB on the disk of a store before its first stream.
    FreshDisk,
    /// Milliseconds from the start of the process until all streams are served.
    RestartTime,
    /// MiB of a process's memory that no file backs.
    AnonymousMemory,
    /// Milliseconds until a server that joins a cluster, or links of leaf nodes or gateways, know
    /// all interest.
    JoinTime,
    /// Bytes of messages that crossed a link.
    LinkBytes,
    /// Sessions of MQTT made per second, with their subscriptions.
    SessionRate,
    /// Bytes of resident memory per session of MQTT.
    SessionMemory,
    /// Milliseconds from SUBSCRIBE to the last of some retained messages.
    RetainedSome,
    /// Milliseconds from SUBSCRIBE to the last of all retained messages.
    RetainedAll,
    /// MiB by which a process's memory grew at most.
    PeakMemory,
}

/// All of them, in the order in which comparisons show them.
pub const ALL: [Metric; 39] = [
    Metric::MessageRate,
    Metric::ByteRate,
    Metric::PublishRate,
    Metric::PublishedRate,
    Metric::DeliveredRate,
    Metric::RateKept,
    Metric::ChurnRate,
    Metric::CreationRate,
    Metric::LatencyMedian,
    Metric::Latency99,
    Metric::Latency999,
    Metric::Latency9999,
    Metric::Latency99999,
    Metric::Latency999999,
    Metric::LatencyMost,
    Metric::Cpu,
    Metric::IdleCpu,
    Metric::LoadedMemory,
    Metric::ProcessMemory,
    Metric::SubscriptionMemory,
    Metric::ConnectionMemory,
    Metric::ConsumerMemory,
    Metric::SubjectMemory,
    Metric::PendingMemory,
    Metric::StartTime,
    Metric::ReloadTime,
    Metric::LoginRate,
    Metric::StreamCreationRate,
    Metric::StreamDisk,
    Metric::FreshDisk,
    Metric::RestartTime,
    Metric::AnonymousMemory,
    Metric::JoinTime,
    Metric::LinkBytes,
    Metric::SessionRate,
    Metric::SessionMemory,
    Metric::RetainedSome,
    Metric::RetainedAll,
    Metric::PeakMemory,
];

impl Metric {
    /// Column of the table with goals: the figure with its unit.
    pub fn label(self) -> &'static str {
        match self {
            Self::MessageRate => "msgs/s",
            Self::Cpu => "CPU us/msg",
            Self::LatencyMedian => "p50 us",
            Self::Latency99 => "p99 us",
            Self::RateKept => "rate kept %",
            Self::ChurnRate => "SUB/UNSUB pairs/s",
            Self::SubscriptionMemory => "bytes/subscription",
            Self::ConnectionMemory => "bytes/connection",
            Self::ProcessMemory => "resident MiB",
            Self::StartTime => "ms until it greets",
            Self::SubjectMemory => "bytes/subject",
            Self::PublishRate => "published/s",
            Self::CreationRate => "consumers made/s",
            Self::ConsumerMemory => "bytes/consumer",
            Self::IdleCpu => "CPU ms/s",
            Self::PendingMemory => "bytes/pending ack",
            Self::ByteRate => "MB/s",
            Self::PublishedRate => "msgs/s at publisher",
            Self::DeliveredRate => "msgs/s at subscriber",
            Self::Latency999 => "p99.9 us",
            Self::Latency9999 => "p99.99 us",
            Self::Latency99999 => "p99.999 us",
            Self::Latency999999 => "p99.9999 us",
            Self::LatencyMost => "max us",
            Self::LoadedMemory => "resident MiB after",
            Self::ReloadTime => "ms to reload",
            Self::LoginRate => "logins/s",
            Self::StreamCreationRate => "streams made/s",
            Self::StreamDisk => "KiB of disk/stream",
            Self::FreshDisk => "KiB of disk before",
            Self::RestartTime => "ms until all is served",
            Self::AnonymousMemory => "anonymous MiB",
            Self::JoinTime => "ms to join",
            Self::LinkBytes => "bytes over the link",
            Self::SessionRate => "sessions made/s",
            Self::SessionMemory => "bytes/session",
            Self::RetainedSome => "ms to read some",
            Self::RetainedAll => "ms to read all",
            Self::PeakMemory => "MiB grown at most",
        }
    }

    /// Name in comparisons, and unit.
    pub fn figure(self) -> (&'static str, &'static str) {
        match self {
            Self::MessageRate => ("rate", "msgs/s"),
            Self::Cpu => ("server CPU", "us/msg"),
            Self::LatencyMedian => ("latency p50", "us"),
            Self::Latency99 => ("latency p99", "us"),
            Self::Latency999 => ("latency p99.9", "us"),
            Self::Latency9999 => ("latency p99.99", "us"),
            Self::Latency99999 => ("latency p99.999", "us"),
            Self::Latency999999 => ("latency p99.9999", "us"),
            Self::LatencyMost => ("latency max", "us"),
            Self::RateKept => ("rate kept", "%"),
            Self::ChurnRate => ("churn", "SUB/UNSUB pairs/s"),
            Self::SubscriptionMemory => ("memory", "bytes/subscription"),
            Self::ConnectionMemory => ("memory", "bytes/connection"),
            Self::ConsumerMemory => ("memory", "bytes/consumer"),
            Self::SubjectMemory => ("memory", "bytes/subject"),
            Self::PendingMemory => ("memory", "bytes/pending ack"),
            Self::ProcessMemory => ("resident at start", "MiB"),
            Self::LoadedMemory => ("resident after", "MiB"),
            Self::StartTime => ("start", "ms"),
            Self::PublishRate | Self::PublishedRate => ("rate at publisher", "msgs/s"),
            Self::DeliveredRate => ("rate at subscriber", "msgs/s"),
            Self::CreationRate => ("creation", "consumers/s"),
            Self::IdleCpu => ("idle CPU", "ms/s"),
            Self::ByteRate => ("bytes", "MB/s"),
            Self::ReloadTime => ("reload", "ms"),
            Self::LoginRate => ("logins", "logins/s"),
            Self::StreamCreationRate => ("creation", "streams/s"),
            Self::StreamDisk => ("disk", "KiB/stream"),
            Self::FreshDisk => ("disk of a fresh store", "KiB"),
            Self::RestartTime => ("restart", "ms"),
            Self::AnonymousMemory => ("anonymous at start", "MiB"),
            Self::JoinTime => ("join", "ms"),
            Self::LinkBytes => ("over the link", "bytes"),
            Self::SessionRate => ("creation", "sessions/s"),
            Self::SessionMemory => ("memory", "bytes/session"),
            Self::RetainedSome => ("read some", "ms"),
            Self::RetainedAll => ("read all", "ms"),
            Self::PeakMemory => ("grown at most", "MiB"),
        }
    }

    /// Whether the table with goals leaves it out, because another figure of the same row says it.
    pub fn is_detail(self) -> bool {
        matches!(self, Self::ByteRate | Self::PublishedRate | Self::DeliveredRate | Self::LoadedMemory)
    }

    /// Whether a larger figure is the better one.
    pub fn more_is_better(self) -> bool {
        matches!(
            self,
            Self::MessageRate
                | Self::RateKept
                | Self::ChurnRate
                | Self::PublishRate
                | Self::CreationRate
                | Self::ByteRate
                | Self::PublishedRate
                | Self::DeliveredRate
                | Self::LoginRate
                | Self::SessionRate
                | Self::StreamCreationRate
        )
    }
}
