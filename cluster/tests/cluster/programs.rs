//! Which programs form the clusters.

use myelin_compat::implementation;
use std::env;
use std::path::PathBuf;

/// Programs of a cluster, used in turns.
pub(crate) struct Mix {
    /// `r` and `m`, as `MYELIN_CLUSTER_MIX` has them.
    pub(crate) name: String,
    pub(crate) programs: Vec<PathBuf>,
}

impl Mix {
    /// Whether none of its programs sends a message twice while links come up.
    pub(crate) fn is_strict(&self) -> bool {
        !self.name.contains('r')
    }
}

/// Modes of compression for clusters that live at random.
pub(crate) fn modes() -> Vec<String> {
    ["accept", "off", "s2_fast", "s2_better", "s2_auto"].map(str::to_owned).to_vec()
}

/// The mixes for clusters that are joined: each program has each place.
pub(crate) fn mixes_of_three() -> Vec<Mix> {
    match env::var("MYELIN_CLUSTER_MIX") {
        Ok(_) => mixes(),
        Err(_) => ["mrm", "rmr"].map(str::to_owned).into_iter().filter_map(mix).collect(),
    }
}

/// The mixes to try. Empty, and said why, where there is no program.
pub(crate) fn mixes() -> Vec<Mix> {
    let names = match env::var("MYELIN_CLUSTER_MIX") {
        Ok(name) => vec![name],
        Err(_) => ["r", "m", "mr"].map(str::to_owned).to_vec(),
    };
    names.into_iter().filter_map(mix).collect()
}

fn mix(name: String) -> Option<Mix> {
    let program = |letter: char| match letter {
        'r' => implementation::reference(),
        'm' => implementation::myelin(),
        other => Err(format!("no program is called {other:?}")),
    };
    let programs = name.chars().map(|letter| program(letter).map(|found| found.program)).collect();
    match programs {
        Ok(programs) => Some(Mix { name, programs }),
        Err(why) => {
            println!("skipped {name}: {why}");
            None
        }
    }
}
