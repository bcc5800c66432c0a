//! Files of a stream that was removed. Nobody finds them by their name any more, and they go one
//! after the other: a removal of many takes a device seconds.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crate::stream::StoreEnv;

/// Files of a slice.
const SLICE: usize = 8;

/// Files of a stream that was removed, which wait for whoever removes them. The next start of the
/// store removes those that are left.
#[must_use = "files that nobody removes take room until the next start"]
pub struct RemovedFiles {
    store_env: Arc<StoreEnv>,
    /// Directory under the name under which its files were opened, and the present one.
    before: PathBuf,
    now: PathBuf,
    /// Whether the directory is there, under its present name.
    is_hidden: bool,
    names: Vec<String>,
}

impl RemovedFiles {
    /// Takes a stream's directory out of everybody's sight.
    pub(super) fn hide(store_env: &Arc<StoreEnv>, directory: PathBuf) -> Self {
        let (before, now) = (directory.clone(), directory.with_extension("tmp"));
        let disk = &store_env.disk;
        // A stream without files has no directory; what cannot be renamed is removed at a start.
        let listed = disk.rename(&before, &now).and_then(|()| disk.list(&now));
        let is_hidden = listed.is_ok();
        let names = listed.unwrap_or_default().into_iter().map(|entry| entry.name).collect();
        Self { store_env: Arc::clone(store_env), before, now, is_hidden, names }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Removes the next few. Answers whether there are more.
    pub fn remove_some(&mut self) -> bool {
        // What cannot be removed now is removed at the next start.
        self.is_hidden && self.remove_slice().is_ok_and(|()| !self.is_empty())
    }

    /// Removes all of them.
    pub fn remove_all(mut self) {
        while self.remove_some() {}
    }

    fn remove_slice(&mut self) -> io::Result<()> {
        let disk = &*self.store_env.disk;
        for _ in 0..SLICE {
            let Some(name) = self.names.pop() else { break };
            // It was opened under its old name.
            self.store_env.handles.forget(&self.before.join(&name));
            disk.remove_file(&self.now.join(&name))?;
        }
        if self.is_empty() { disk.remove_directory(&self.now) } else { Ok(()) }
    }
}
