//! Tokens in a directory, one file for each account: `KEY.jwt`.
//!
//! Owns the files: only texts that are public nkeys are names of any, so nobody can name another
//! file. What the system account asks for (list, store, delete, compare) is a method each.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use myelin_auth::jwt;
use myelin_conf::options::DeleteMode;
use myelin_stdx::nkey;
use myelin_stdx::sync::lock;
use sha2::{Digest, Sha256};

const EXTENSION: &str = "jwt";
/// Bytes of the longest token.
const MAX_SIZE: u64 = 1024 * 1024;
/// Time between two looks at what has expired, at most.
const LOOK: Duration = Duration::from_secs(60);

/// How many tokens are kept, and how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenLimits {
    /// `None` is no limit.
    pub(super) most: Option<u64>,
    /// The one that was not used for the longest time goes for a new one; else the new one is
    /// refused.
    pub(super) evicts: bool,
    /// `None` is until a token expires.
    pub(super) ttl: Option<Duration>,
}

/// Account tokens in a directory, one file for each account.
pub(super) struct TokenDirectory {
    path: PathBuf,
    limits: TokenLimits,
    deletes: DeleteMode,
    index: Mutex<TokenIndex>,
}

#[derive(Default)]
struct TokenIndex {
    items: HashMap<String, Item>,
    /// Counts uses.
    clock: u64,
}

struct Item {
    hash: [u8; 32],
    used: u64,
    expires: Option<SystemTime>,
}

impl TokenDirectory {
    /// Opens a directory, which is made if it is not there.
    pub(super) fn open(path: &Path, limits: TokenLimits, deletes: DeleteMode) -> Result<Self, String> {
        let say = |error: io::Error| format!("{}: {}", path.display(), myelin_stdx::os_error::words(&error));
        fs::create_dir_all(path).map_err(say)?;
        let path = path.canonicalize().map_err(say)?;
        let directory = Self { path, limits, deletes, index: Mutex::default() };
        directory.reload();
        Ok(directory)
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether old tokens make room for new ones.
    pub(super) fn evicts(&self) -> bool {
        self.limits.evicts
    }

    /// How often [`expire`](Self::expire) is to be called.
    pub(super) fn sweep_interval(&self) -> Duration {
        self.limits.ttl.map_or(LOOK, |ttl| (ttl / 2).clamp(Duration::from_millis(1), LOOK))
    }

    fn index(&self) -> MutexGuard<'_, TokenIndex> {
        lock(&self.index)
    }

    /// CVE-2022-28357: what is no key is no name of a file.
    fn file_of(&self, key: &str) -> Result<PathBuf, String> {
        nkey::public_key(key).ok_or_else(|| "invalid public key".to_owned())?;
        Ok(self.path.join(format!("{key}.{EXTENSION}")))
    }

    /// The token of an account.
    pub(super) fn load(&self, key: &str) -> Result<String, String> {
        let file = self.file_of(key)?;
        let mut index = self.index();
        let token = read(&file).map_err(|error| myelin_stdx::os_error::words(&error))?;
        let clock = index.tick();
        let expires = self.limits.ttl.map(|ttl| SystemTime::now() + ttl);
        if let Some(item) = index.items.get_mut(key) {
            item.used = clock;
            item.expires = expires.or(item.expires);
        }
        Ok(token)
    }

    /// Stores a token unless the one that is there is the same or was issued later.
    pub(super) fn save_if_newer(&self, key: &str, token: &str) -> Result<bool, String> {
        let file = self.file_of(key)?;
        if let Ok(present) = read(&file)
            && let Ok(present) = jwt::account(&present)
        {
            let new = jwt::account(token)?;
            if present.id == new.id || present.issued_at > new.issued_at {
                return Ok(false);
            }
            if new.subject != key {
                return Err("jwt subject nkey and provided nkey do not match".to_owned());
            }
            if present.subject != new.subject {
                return Err("subject of existing and new jwt do not match".to_owned());
            }
        }
        self.save(key, token)
    }

    /// Stores a token; answers whether it is another one than before.
    pub(super) fn save(&self, key: &str, token: &str) -> Result<bool, String> {
        let file = self.file_of(key)?;
        if token.is_empty() {
            return Err("invalid JWT".to_owned());
        }
        let hash = hash(token);
        let mut index = self.index();
        if index.items.get(key).is_some_and(|item| item.hash == hash) {
            return Ok(false);
        }
        let is_full = self.limits.most.is_some_and(|most| index.items.len() as u64 >= most);
        if is_full && !index.items.contains_key(key) {
            if !self.limits.evicts {
                return Err("jwt store is full".to_owned());
            }
            self.evict(&mut index)?;
        }
        write(&file, token).map_err(|error| myelin_stdx::os_error::words(&error))?;
        self.enter(&mut index, key, token, hash);
        Ok(true)
    }

    fn evict(&self, index: &mut TokenIndex) -> Result<(), String> {
        let oldest = index.items.iter().min_by_key(|(_, item)| item.used).map(|(key, _)| key.clone());
        let Some(oldest) = oldest else { return Ok(()) };
        let file = self.file_of(&oldest)?;
        fs::remove_file(file).map_err(|error| myelin_stdx::os_error::words(&error))?;
        index.items.remove(&oldest);
        Ok(())
    }

    fn enter(&self, index: &mut TokenIndex, key: &str, token: &str, hash: [u8; 32]) {
        let expires = match self.limits.ttl {
            Some(ttl) => Some(SystemTime::now() + ttl),
            None => jwt::account(token).ok().and_then(|claims| {
                let at = u64::try_from(claims.expires).ok().filter(|&at| at > 0)?;
                SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(at))
            }),
        };
        let used = index.tick();
        index.items.insert(key.to_owned(), Item { hash, used, expires });
    }

    /// Takes a token away. What is not there is gone already.
    pub(super) fn delete(&self, key: &str) -> Result<(), String> {
        let file = self.file_of(key)?;
        let mut index = self.index();
        let done = match self.deletes {
            DeleteMode::Refused => return Err("store is not set up to for delete".to_owned()),
            DeleteMode::Renamed => {
                let mut gone = file.clone().into_os_string();
                gone.push(".deleted");
                fs::rename(&file, gone)
            }
            DeleteMode::Removed => fs::remove_file(&file),
        };
        match done {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(myelin_stdx::os_error::words(&error));
            }
            _ => {}
        }
        index.items.remove(key);
        Ok(())
    }

    /// Whether tokens can be taken away.
    pub(super) fn deletes(&self) -> bool {
        self.deletes != DeleteMode::Refused
    }

    /// The keys of all accounts whose tokens are kept, in the order of the alphabet.
    pub(super) fn keys(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.index().items.keys().cloned().collect();
        keys.sort_unstable();
        keys
    }

    /// Tells one set of tokens from another: the digests of all, one over the other.
    pub(super) fn digest(&self) -> [u8; 32] {
        let mut sum = [0; 32];
        for item in self.index().items.values() {
            sum.iter_mut().zip(item.hash).for_each(|(sum, byte)| *sum ^= byte);
        }
        sum
    }

    /// The token of an account as another server may have it: looking at it is no use of it.
    pub(super) fn peek(&self, key: &str) -> Result<String, String> {
        read(&self.file_of(key)?).map_err(|error| myelin_stdx::os_error::words(&error))
    }

    /// Reads the directory again; answers the keys whose tokens are others now.
    pub(super) fn reload(&self) -> Vec<String> {
        let mut index = self.index();
        let before = std::mem::take(&mut index.items);
        let mut changed = Vec::new();
        let Ok(entries) = fs::read_dir(&self.path) else { return changed };
        let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            let is_token = file.extension().is_some_and(|extension| extension == EXTENSION);
            let key = file.file_stem().and_then(|stem| stem.to_str()).map(str::to_owned);
            let Some(key) = key.filter(|key| is_token && nkey::public_key(key).is_some()) else { continue };
            let Ok(token) = read(&file) else { continue };
            let hash = hash(&token);
            // Safer than the reference, which does not look at files that were put there by hand.
            // Of a cache every token may be one that was thrown out meanwhile.
            if self.limits.evicts || before.get(&key).is_none_or(|item| item.hash != hash) {
                changed.push(key.clone());
            }
            self.enter(&mut index, &key, &token, hash);
        }
        changed
    }

    /// Takes away what has expired.
    pub(super) fn expire(&self, now: SystemTime) {
        let mut index = self.index();
        let due = index.items.iter().filter(|(_, item)| item.expires.is_some_and(|at| at <= now));
        let due: Vec<String> = due.map(|(key, _)| key.clone()).collect();
        for key in due {
            if self.file_of(&key).is_ok_and(|file| fs::remove_file(file).is_ok()) {
                index.items.remove(&key);
            }
        }
    }
}

impl TokenIndex {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token).into()
}

fn read(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.len() > MAX_SIZE {
        return Err(io::Error::other("file is too large"));
    }
    fs::read_to_string(file)
}

/// Written beside and put in place: nobody reads half a token.
fn write(file: &Path, token: &str) -> io::Result<()> {
    let draft = file.with_extension("jwt.tmp");
    fs::write(&draft, token)?;
    fs::rename(&draft, file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use myelin_stdx::nkey::Role;

    const OPEN: TokenLimits = TokenLimits { most: None, evicts: false, ttl: None };

    fn key(n: u8) -> String {
        nkey::encode(Role::Account, &[n; 32])
    }

    fn directory(limits: TokenLimits, deletes: DeleteMode) -> (tempfile::TempDir, TokenDirectory) {
        let place = tempfile::tempdir().unwrap();
        let directory = TokenDirectory::open(&place.path().join("jwt"), limits, deletes).unwrap();
        (place, directory)
    }

    #[test]
    fn what_is_stored_is_found_again() {
        let (place, directory) = directory(OPEN, DeleteMode::Refused);
        assert_eq!(directory.save(&key(1), "one"), Ok(true));
        assert_eq!(directory.save(&key(1), "one"), Ok(false));
        assert_eq!(directory.load(&key(1)).as_deref(), Ok("one"));
        let again = TokenDirectory::open(&place.path().join("jwt"), OPEN, DeleteMode::Refused).unwrap();
        assert_eq!(again.load(&key(1)).as_deref(), Ok("one"));
        assert!(again.load(&key(2)).is_err());
        fs::write(directory.path().join(format!("{}.jwt", key(1))), "two").unwrap();
        assert_eq!(directory.reload(), [key(1)]);
        assert!(directory.reload().is_empty());
    }

    /// CVE-2022-28357: names of files came from a message, and led out of the directory.
    #[test]
    fn cve_2022_28357_only_keys_are_names_of_files() {
        let (place, directory) = directory(OPEN, DeleteMode::Removed);
        let outside = place.path().join("x.jwt");
        fs::write(&outside, "theirs").unwrap();
        for name in ["../x", "", "..", "a/b", "/etc/passwd", "A", &format!("../jwt/{}", key(1))] {
            assert!(directory.load(name).is_err(), "{name}");
            assert!(directory.save(name, "ours").is_err(), "{name}");
            assert!(directory.save_if_newer(name, "ours").is_err(), "{name}");
            assert!(directory.delete(name).is_err(), "{name}");
        }
        assert_eq!(fs::read_to_string(outside).unwrap(), "theirs");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_full_directory_refuses_and_a_cache_makes_room() {
        let (_place, full) = directory(TokenLimits { most: Some(2), ..OPEN }, DeleteMode::Refused);
        let (_other, cache) =
            directory(TokenLimits { most: Some(2), evicts: true, ttl: None }, DeleteMode::Removed);
        for store in [&full, &cache] {
            store.save(&key(1), "one").unwrap();
            store.save(&key(2), "two").unwrap();
            store.load(&key(1)).unwrap();
        }
        assert_eq!(full.save(&key(3), "three"), Err("jwt store is full".to_owned()));
        assert_eq!(full.save(&key(2), "other"), Ok(true));
        assert_eq!(cache.save(&key(3), "three"), Ok(true));
        assert!(cache.load(&key(1)).is_ok() && cache.load(&key(2)).is_err());
    }

    #[test]
    fn time_takes_tokens_away() {
        let ttl = Some(Duration::from_secs(60));
        let (_place, cache) = directory(TokenLimits { most: None, evicts: true, ttl }, DeleteMode::Removed);
        cache.save(&key(1), "one").unwrap();
        let now = SystemTime::now();
        cache.expire(now);
        assert!(cache.load(&key(1)).is_ok());
        cache.expire(now + Duration::from_secs(120));
        assert!(cache.load(&key(1)).is_err());
        assert_eq!(cache.sweep_interval(), Duration::from_secs(30));
    }

    #[test]
    fn deleting_is_refused_renames_or_removes() {
        for (deletes, left) in
            [(DeleteMode::Refused, None), (DeleteMode::Renamed, Some(1)), (DeleteMode::Removed, Some(0))]
        {
            let (_place, directory) = directory(OPEN, deletes);
            directory.save(&key(1), "one").unwrap();
            assert_eq!(directory.delete(&key(1)).is_ok(), left.is_some());
            assert_eq!(directory.load(&key(1)).is_ok(), left.is_none());
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), left.unwrap_or(1));
            assert_eq!(directory.delete(&key(2)).is_ok(), left.is_some(), "gone is gone");
        }
    }
}
