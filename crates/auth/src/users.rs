//! The configured users: by name, by key, and by the distinguished names that some are called.

use std::collections::HashMap;
use std::sync::Arc;

use crate::account_name::AccountName;
use crate::connection_type::ConnectionTypes;
use crate::distinguished::DistinguishedName;
use crate::permissions::Permissions;
use crate::secret::StoredSecret;

/// The configured users, by name and by key.
#[derive(Clone, Debug)]
pub struct Users {
    by_name: HashMap<String, User>,
    by_nkey: HashMap<String, NkeyUser>,
    /// Password that those of unknown names are compared with: nothing agrees with it, and finding
    /// that out is as slow as for the slowest user, so that names cannot be probed by time.
    dummy_password: StoredSecret,
    subjects: UsersBySubject,
}

/// One configured user.
#[derive(Clone, Debug)]
pub struct User {
    /// Its name in CONNECT.
    pub name: String,
    /// Its password. A user with an empty one cannot log in, but may be the `no_auth_user`.
    pub password: StoredSecret,
    /// The account it lives in.
    pub account: AccountName,
    /// Permissions of the user; `None` allows everything.
    pub permissions: Option<Arc<Permissions>>,
    /// The ways in that it may take.
    pub connection_types: ConnectionTypes,
    /// Whether the user must come through a trusted proxy.
    pub proxy_required: bool,
}

/// One configured user who has a key instead of a password.
#[derive(Clone, Debug)]
pub struct NkeyUser {
    /// Its public key.
    pub nkey: String,
    /// The account it lives in.
    pub account: AccountName,
    /// Permissions of the user; `None` allows everything.
    pub permissions: Option<Arc<Permissions>>,
    /// The ways in that it may take.
    pub connection_types: ConnectionTypes,
    /// Whether the user must come through a trusted proxy.
    pub proxy_required: bool,
}

impl Users {
    /// The users of a configuration. Of two with one name the later counts.
    #[must_use]
    pub fn new(users: impl IntoIterator<Item = User>) -> Self {
        let by_name: HashMap<_, _> = users.into_iter().map(|user| (user.name.clone(), user)).collect();
        let slowest = by_name.values().filter_map(|user| user.password.cost()).max();
        let subjects = UsersBySubject::of(by_name.keys().map(String::as_str));
        Self {
            by_name,
            by_nkey: HashMap::new(),
            dummy_password: StoredSecret::dummy_password(slowest),
            subjects,
        }
    }

    /// Adds the users with keys.
    #[must_use]
    pub fn with_nkeys(mut self, users: impl IntoIterator<Item = NkeyUser>) -> Self {
        self.by_nkey = users.into_iter().map(|user| (user.nkey.clone(), user)).collect();
        self
    }

    /// The user with this public key.
    #[must_use]
    pub fn by_nkey(&self, nkey: &str) -> Option<&NkeyUser> {
        self.by_nkey.get(nkey)
    }

    /// Whether any user has a key.
    #[must_use]
    pub fn have_nkeys(&self) -> bool {
        !self.by_nkey.is_empty()
    }

    /// The user called `name`.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&User> {
        self.by_name.get(name)
    }

    /// Password to compare that of an unknown user with.
    pub(crate) fn dummy_password(&self) -> &StoredSecret {
        &self.dummy_password
    }

    /// The users that are called as the subjects of certificates are.
    pub(crate) fn subjects(&self) -> &UsersBySubject {
        &self.subjects
    }
}

/// Users by their distinguished names: those whose name reads like one.
#[derive(Clone, Debug, Default)]
pub(crate) struct UsersBySubject(HashMap<DistinguishedName, Vec<(DistinguishedName, String)>>);

impl UsersBySubject {
    pub(crate) fn of<'u>(names: impl Iterator<Item = &'u str>) -> Self {
        let mut subjects = HashMap::<_, Vec<_>>::new();
        for name in names {
            if let Some(subject) = DistinguishedName::parse(name) {
                subjects.entry(subject.sorted()).or_default().push((subject, name.to_owned()));
            }
        }
        subjects.values_mut().for_each(|list| list.sort_unstable_by(|a, b| a.1.cmp(&b.1)));
        Self(subjects)
    }

    /// User with this subject: one who writes it in this order, else one who writes it in another.
    pub(crate) fn find<'u>(
        &'u self,
        subject: &DistinguishedName,
        may: impl Fn(&str) -> bool,
    ) -> Option<&'u str> {
        let allowed = || self.0.get(&subject.sorted()).into_iter().flatten().filter(|(_, name)| may(name));
        let found = allowed().find(|(written, _)| written == subject).or_else(|| allowed().next());
        found.map(|(_, name)| name.as_str())
    }
}
