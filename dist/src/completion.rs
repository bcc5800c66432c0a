//! Completion of both programs for shells, from their own tables of flags.

use clap::{Arg, ArgAction, Command, ValueHint};
use clap_complete::Shell;
use myelin_conf::{DescribedFlag, FlagGroup, flag_groups};

use crate::tree::Tree;

/// Shells, with the path that their packages read; `@` stands for the program.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "usr/share/bash-completion/completions/@"),
    (Shell::Zsh, "usr/share/zsh/vendor-completions/_@"),
    (Shell::Fish, "usr/share/fish/vendor_completions.d/@.fish"),
];

/// Adds a file for each shell and program.
pub(crate) fn add(tree: &mut Tree) {
    for (name, command) in [("myelin", myelin_cli::command()), ("myelin-server", server())] {
        for (shell, path) in SHELLS {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut command.clone(), name, &mut script);
            tree.add(&path.replace('@', name), script);
        }
    }
}

/// The server's flags as clap knows flags, for its generators only: the server reads its own. Names
/// of more than one sign have two dashes here, which the server takes as well as one.
fn server() -> Command {
    let command = Command::new("myelin-server").disable_help_flag(true).disable_version_flag(true);
    let flags = flag_groups().into_iter().flat_map(|group: FlagGroup| group.flags);
    command.args(flags.map(|flag| argument(&flag)))
}

fn argument(flag: &DescribedFlag) -> Arg {
    let names = flag.names.iter().map(|name| name.trim_start_matches('-'));
    let (short, long): (Vec<&str>, Vec<&str>) = names.partition(|name| name.len() == 1);
    let id = long.last().or(short.first()).copied().unwrap_or_default();
    let mut argument = Arg::new(id).help(flag.about.clone()).long(id_of(&long)).visible_aliases(rest(&long));
    argument = argument.short(short.first().and_then(|name| name.chars().next()));
    if flag.takes.is_empty() {
        return argument.action(ArgAction::SetTrue);
    }
    let hint = match flag.takes {
        "<file>" => ValueHint::FilePath,
        "<dir>" => ValueHint::DirPath,
        "<host>" => ValueHint::Hostname,
        _ => ValueHint::Other,
    };
    argument.action(ArgAction::Set).value_name(flag.takes.trim_matches(['<', '>'])).value_hint(hint)
}

fn id_of(long: &[&'static str]) -> Option<&'static str> {
    long.last().copied()
}

fn rest(long: &[&'static str]) -> Vec<&'static str> {
    long.split_last().map(|(_, rest)| rest.to_vec()).unwrap_or_default()
}
