//! Header blocks of messages: the status in the first line, and values of the lines behind it.

/// The status in the first line: 503 when nobody answers, 404, 408, 100 …
pub(crate) fn status(header: &[u8]) -> Option<u16> {
    let digits = header.strip_prefix(b"NATS/1.0 ")?.get(..3)?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// The first line without the version, for people.
pub(crate) fn status_line(header: &[u8]) -> String {
    let line = header.split(|&byte| byte == b'\r').next().unwrap_or_default();
    String::from_utf8_lossy(line.strip_prefix(b"NATS/1.0 ").unwrap_or(line)).into_owned()
}

/// The value of the first line of this name.
pub(crate) fn value<'h>(header: &'h [u8], name: &str) -> Option<&'h str> {
    let header = std::str::from_utf8(header).ok()?;
    header.split("\r\n").skip(1).find_map(|line| line.strip_prefix(name)?.strip_prefix(':').map(str::trim))
}
