//! Commands that were here before `myelin-lab` was a program of its own: say what to call instead.

use std::process::ExitCode;

use clap::Args;

/// Exit code of such a command, as for a command line that is wrong.
const MOVED: u8 = 2;

/// Whatever stands behind the command.
#[derive(Debug, Args)]
pub(crate) struct MovedArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

impl MovedArguments {
    /// Says what to call instead of `myelin bench COMMAND`.
    pub(crate) fn refuse(&self, command: &str) -> ExitCode {
        eprintln!("{}", self.advice(command));
        ExitCode::from(MOVED)
    }

    fn advice(&self, command: &str) -> String {
        let quoted =
            |word: &String| match word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=,:@".contains(c)) {
                true => format!(" {word}"),
                false => format!(" '{word}'"),
            };
        let rest: String = self.rest.iter().map(quoted).collect();
        format!(
            "myelin: `myelin bench {command}` is a program of its own now, call: myelin-lab {command}{rest}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_advice_can_be_pasted() {
        let rest = ["--rows", "pub-*", "--quick"].map(str::to_owned).to_vec();
        let advice = MovedArguments { rest }.advice("table");
        assert!(advice.ends_with(", call: myelin-lab table --rows 'pub-*' --quick"), "{advice}");
    }
}
