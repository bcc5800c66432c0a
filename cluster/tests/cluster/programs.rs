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

/// The mixes to try. Empty, and said why, where there is no program.
pub(crate) fn mixes() -> Vec<Mix> {
    let names = match env::var("MYELIN_CLUSTER_MIX") {
        Ok(name) => vec![name],
        Err(_) if env::var_os("MYELIN_SERVER").is_some() => {
            ["r", "m", "mr", "rm"].map(str::to_owned).to_vec()
        }
        Err(_) => vec!["r".to_owned()],
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
