//! The version of a package, and its time: both are the commit's.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use myelin_stdx::rfc3339;

use crate::error::DistError;
use crate::tool;

/// Version of what is packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    /// As in `1.2.3`, or `1.2.3-dev.45+g0123abcd` between tags.
    text: String,
    /// Commit in full.
    commit: String,
    /// Seconds since 1970 that every file has for its time.
    seconds: u64,
}

/// State of a repository, as far as versions depend on it.
struct Repository<'a> {
    /// Tag of the commit, if it has one.
    tag: Option<&'a str>,
    commit: &'a str,
    /// Commits up to this one.
    count: &'a str,
    /// Whether files differ from the commit's.
    is_changed: bool,
}

impl Version {
    /// Asks git about the commit in `root`. A tag `vX.Y.Z` has to be the version of the workspace;
    /// a commit without one is a version before the next.
    ///
    /// # Errors
    ///
    /// There is no git or no repository, or the tag is not the version of the workspace.
    pub fn of(root: &Path) -> Result<Self, DistError> {
        let git = |arguments: &[&str]| {
            let text = tool::output(Command::new("git").arg("-C").arg(root).args(arguments))?;
            Ok::<_, DistError>(text.trim().to_owned())
        };
        let tags = git(&["tag", "--points-at", "HEAD", "--list", "v[0-9]*"])?;
        let (commit, count) = (git(&["rev-parse", "HEAD"])?, git(&["rev-list", "--count", "HEAD"])?);
        let changes = git(&["status", "--porcelain", "--untracked-files=no"])?;
        let of_commit = git(&["log", "-1", "--format=%ct"])?;
        let wanted = std::env::var("SOURCE_DATE_EPOCH").ok();
        let seconds = wanted.as_deref().unwrap_or(&of_commit).parse();
        let seconds = seconds.map_err(|_| DistError::Unexpected("SOURCE_DATE_EPOCH: no number".into()))?;
        let repository = Repository {
            tag: tags.lines().next(),
            commit: &commit,
            count: &count,
            is_changed: !changes.is_empty(),
        };
        Self::named(&repository, env!("CARGO_PKG_VERSION"), seconds)
    }

    fn named(repository: &Repository<'_>, workspace: &str, seconds: u64) -> Result<Self, DistError> {
        let Repository { tag, commit, count, is_changed } = *repository;
        let short = commit.get(..8).unwrap_or(commit);
        let mut text = match tag.map(|tag| tag.trim_start_matches('v')) {
            Some(tag) if tag == workspace => tag.to_owned(),
            Some(tag) => {
                return Err(DistError::Tag { tag: tag.to_owned(), workspace: workspace.to_owned() });
            }
            None => format!("{workspace}-dev.{count}+g{short}"),
        };
        if is_changed {
            text.push_str(if text.contains('+') { ".changed" } else { "+changed" });
        }
        Ok(Self { text, commit: commit.to_owned(), seconds })
    }

    /// The version as programs say it.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The version as Debian orders versions: one before `1.2.3` is `1.2.3~…`.
    pub(crate) fn debian(&self) -> String {
        self.text.replacen('-', "~", 1)
    }

    /// The version as the tag of an image, which has no `+`.
    pub(crate) fn image_tag(&self) -> String {
        self.text.replace('+', "-")
    }

    pub(crate) fn commit(&self) -> &str {
        &self.commit
    }

    /// Time of every file, in seconds since 1970.
    pub(crate) fn seconds(&self) -> u64 {
        self.seconds
    }

    /// Time of every file in RFC 3339.
    pub(crate) fn time(&self) -> String {
        rfc3339::of_system_time(SystemTime::UNIX_EPOCH + Duration::from_secs(self.seconds))
    }

    /// Day of that time, for manual pages.
    pub(crate) fn day(&self) -> String {
        self.time().split('T').next().unwrap_or_default().to_owned()
    }

    pub(crate) fn is_changed(&self) -> bool {
        self.text.ends_with("changed")
    }

    #[cfg(test)]
    pub(crate) fn of_test() -> Self {
        Self { text: "1.2.3".to_owned(), commit: "0123456789abcdef".to_owned(), seconds: 1_795_961_101 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(tag: Option<&str>, is_changed: bool) -> Result<Version, DistError> {
        let repository = Repository { tag, commit: "0123456789abcdef", count: "45", is_changed };
        Version::named(&repository, "1.2.3", 1_795_961_101)
    }

    #[test]
    fn a_tag_is_the_version_and_other_commits_come_before_it() {
        let tagged = version(Some("v1.2.3"), false).unwrap();
        assert_eq!((tagged.text(), &*tagged.debian(), &*tagged.image_tag()), ("1.2.3", "1.2.3", "1.2.3"));
        assert_eq!(tagged.time(), "2026-11-29T14:05:01Z");
        let between = version(None, false).unwrap();
        assert_eq!(between.text(), "1.2.3-dev.45+g01234567");
        assert_eq!(between.debian(), "1.2.3~dev.45+g01234567");
        assert_eq!(between.image_tag(), "1.2.3-dev.45-g01234567");
        assert!(matches!(version(Some("v1.2.4"), false), Err(DistError::Tag { .. })));
    }

    #[test]
    fn changes_are_said() {
        assert_eq!(version(Some("v1.2.3"), true).unwrap().text(), "1.2.3+changed");
        let between = version(None, true).unwrap();
        assert_eq!(between.text(), "1.2.3-dev.45+g01234567.changed");
        assert!(between.is_changed());
    }
}
