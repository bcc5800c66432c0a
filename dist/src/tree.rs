//! Files where they are installed, before they are written into any archive.

use std::collections::BTreeMap;

/// Kind of an entry, with what it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Node {
    Folder,
    File(Vec<u8>),
}

/// A file or folder with its rights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    pub(crate) node: Node,
    pub(crate) mode: u32,
    /// User and group.
    pub(crate) owner: u32,
}

/// A tree of files, by paths without a slash in front, in their order: a folder stands before what
/// is in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tree(BTreeMap<String, TreeEntry>);

impl Tree {
    /// A file that everybody may read.
    pub(crate) fn add(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.put(path, TreeEntry { node: Node::File(bytes.into()), mode: 0o644, owner: 0 });
    }

    /// A file that everybody may run.
    pub(crate) fn add_program(&mut self, path: &str, bytes: impl Into<Vec<u8>>) {
        self.put(path, TreeEntry { node: Node::File(bytes.into()), mode: 0o755, owner: 0 });
    }

    /// A folder.
    pub(crate) fn add_folder(&mut self, path: &str, mode: u32, owner: u32) {
        self.put(path, TreeEntry { node: Node::Folder, mode, owner });
    }

    fn put(&mut self, path: &str, entry: TreeEntry) {
        for (at, _) in path.match_indices('/') {
            let folder = TreeEntry { node: Node::Folder, mode: 0o755, owner: 0 };
            self.0.entry(path[..at].to_owned()).or_insert(folder);
        }
        self.0.insert(path.to_owned(), entry);
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = (&str, &TreeEntry)> {
        self.0.iter().map(|(path, entry)| (path.as_str(), entry))
    }

    /// The tree with other paths; where there is none, the entry is left out.
    pub(crate) fn moved(&self, path: impl Fn(&str) -> Option<String>) -> Self {
        let mut moved = Self::default();
        for (old, entry) in self.entries() {
            if let Some(new) = path(old) {
                moved.put(&new, entry.clone());
            }
        }
        moved
    }

    /// Bytes of all files.
    pub(crate) fn size(&self) -> usize {
        let size = |entry: &TreeEntry| match &entry.node {
            Node::File(bytes) => bytes.len(),
            Node::Folder => 0,
        };
        self.0.values().map(size).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_stand_before_their_files_and_keep_their_rights() {
        let mut tree = Tree::default();
        tree.add("a/b/c", "x");
        tree.add_folder("a", 0o700, 7);
        tree.add("a/b/d", "yy");
        let paths: Vec<_> = tree.entries().map(|(path, entry)| (path, entry.mode)).collect();
        assert_eq!(paths, [("a", 0o700), ("a/b", 0o755), ("a/b/c", 0o644), ("a/b/d", 0o644)]);
        assert_eq!(tree.size(), 3);
        let moved = tree.moved(|path| path.strip_prefix("a/").map(str::to_owned));
        assert_eq!(moved.entries().map(|(path, _)| path).collect::<Vec<_>>(), ["b", "b/c", "b/d"]);
    }
}
