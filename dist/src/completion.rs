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
            if name == "myelin" {
                script = with_names(shell, String::from_utf8_lossy(&script).into_owned()).into_bytes();
            }
            tree.add(&path.replace('@', name), script);
        }
    }
}

/// Arguments for which `myelin __complete` knows names.
const NAMED: [&str; 5] = ["stream", "consumer", "bucket", "key", "object"];

/// A script that asks the server for names beside what it knows of flags.
fn with_names(shell: Shell, script: String) -> String {
    match shell {
        Shell::Zsh => {
            let is_named = |line: &str| {
                let name = line.trim_start_matches(['\'', ':']).split([':', ' ']).next().unwrap_or_default();
                line.starts_with("':") && NAMED.contains(&name)
            };
            let asking = |line: &str| match is_named(line) {
                true => line.replace(":_default'", ":_myelin_names'"),
                false => line.to_owned(),
            };
            let script: String = script.split_inclusive('\n').map(asking).collect();
            match script.split_once("_myelin() {") {
                Some((head, body)) => format!("{head}{ZSH_NAMES}\n_myelin() {{{body}"),
                None => script,
            }
        }
        Shell::Fish => script + FISH_NAMES,
        _ => script + BASH_NAMES,
    }
}

const BASH_NAMES: &str = r#"
_myelin_with_names() {
    _myelin "$@"
    [[ ${COMP_WORDS[COMP_CWORD]} == -* ]] && return
    local name names=()
    while IFS= read -r name; do
        names+=("$name")
    done < <(myelin __complete -- "${COMP_WORDS[@]:0:COMP_CWORD+1}" 2>/dev/null)
    (( ${#names[@]} )) && COMPREPLY=("${names[@]}")
}

complete -F _myelin_with_names -o nosort -o bashdefault -o default myelin
"#;

const ZSH_NAMES: &str = r#"_myelin_names() {
    local -a typed names
    typed=(${(z)LBUFFER})
    [[ $LBUFFER == *' ' ]] && typed+=('')
    typed=("${(@)typed[${typed[(I)myelin]},-1]}")
    names=(${(f)"$(myelin __complete -- "${(@)typed}" 2>/dev/null)"})
    if (( $#names )); then compadd -a names; else _default; fi
}
"#;

const FISH_NAMES: &str = r#"
function __myelin_asked
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    string match -q -- '-*' "$current"; and return 1
    set -g __myelin_names (myelin __complete -- $words "$current" 2>/dev/null)
    count $__myelin_names >/dev/null
end
complete -c myelin -f -n __myelin_asked -a '$__myelin_names'
"#;

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

#[cfg(test)]
mod tests {
    use std::process::Command as Program;

    use super::*;

    #[test]
    fn names_are_asked_for_in_every_shell() {
        let made = |shell: Shell| {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut myelin_cli::command(), "myelin", &mut script);
            with_names(shell, String::from_utf8(script).unwrap())
        };
        let folder = tempfile::tempdir().unwrap();
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            assert!(made(shell).contains("myelin __complete -- "), "{shell}");
            let file = folder.path().join(shell.to_string());
            std::fs::write(&file, made(shell)).unwrap();
            match Program::new(shell.to_string()).arg("-n").arg(&file).status() {
                Ok(status) => assert!(status.success(), "{shell}"),
                Err(_) => eprintln!("not read by {shell}: it was not found"),
            }
        }
        let line = format!(
            "source {}; myelin() {{ [[ $* == '__complete -- myelin stream info O' ]] && echo ORDERS; }}; \
             COMP_WORDS=(myelin stream info O); COMP_CWORD=3; _myelin_with_names myelin O info; \
             echo \"${{COMPREPLY[*]}}\"",
            folder.path().join("bash").display()
        );
        let output = Program::new("bash").args(["-c", &line]).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ORDERS\n");
        let zsh = made(Shell::Zsh);
        assert!(zsh.find("_myelin_names() {") < zsh.find("_myelin() {"));
        assert!(zsh.contains("\n':stream:_myelin_names'"), "{zsh}");
        let left = zsh.lines().filter(|line| {
            NAMED
                .iter()
                .any(|name| line.starts_with(&format!("':{name}")) || line.starts_with(&format!("'::{name}")))
        });
        let left: Vec<&str> = left.filter(|line| !line.contains(":_myelin_names'")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
