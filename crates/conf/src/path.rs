//! Lexical paths, cleaned the way Go does it, because file names in messages and `http_base_path`
//! depend on it. Never touches the file system.

/// The shortest path that names the same: no `.`, no doubled `/`, `..` resolved. Empty becomes `.`.
pub(crate) fn clean(path: &str) -> String {
    let is_rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|&last| last != "..") => {
                parts.pop();
            }
            ".." if is_rooted => {}
            _ => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (is_rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// The directory part of a path; `.` when it has none.
pub(crate) fn directory(path: &str) -> String {
    clean(path.rfind('/').map_or("", |slash| &path[..=slash]))
}

/// `name` seen from `directory`.
///
/// Compat: a rooted name is also taken relative to the directory.
pub(crate) fn join(directory: &str, name: &str) -> String {
    clean(&[directory, name].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleans_lexically() {
        for (path, cleaned) in [
            ("", "."),
            (".", "."),
            ("/", "/"),
            ("//a//b/", "/a/b"),
            ("a/./b/../c", "a/c"),
            ("../../a", "../../a"),
            ("a/../..", ".."),
            ("/../a", "/a"),
        ] {
            assert_eq!(clean(path), cleaned, "{path}");
        }
    }

    #[test]
    fn splits_and_joins() {
        assert_eq!(directory("server.conf"), ".");
        assert_eq!(directory("./etc/server.conf"), "etc");
        assert_eq!(directory("/server.conf"), "/");
        assert_eq!(join(".", "users.conf"), "users.conf");
        assert_eq!(join("/etc", "/users.conf"), "/etc/users.conf");
        assert_eq!(join("/etc/nats", "../users.conf"), "/etc/users.conf");
    }
}
