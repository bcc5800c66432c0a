//! Text that is safe to print: strangers choose names, subjects and errors, and none of them may
//! move the cursor of a terminal, change its colours, or write what is not there.

/// Text in which nothing but line ends and tabs is more than a sign to look at.
pub fn plain(text: &str) -> String {
    escaped(text, |character| is_hostile(character) && !matches!(character, '\n' | '\t'))
}

/// Text for one place in one line.
pub fn one_line(text: &str) -> String {
    escaped(text, is_hostile)
}

fn escaped(text: &str, is_bad: impl Fn(char) -> bool) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match is_bad(character) {
            true => safe.extend(character.escape_unicode()),
            false => safe.push(character),
        }
    }
    safe
}

/// Control characters, those of eight bits included, and what turns the direction of writing.
pub fn is_hostile(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_steers_a_terminal() {
        let hostile = "a\u{1b}[2Jb\u{9b}31mc\u{7f}\u{202e}d\r\n\te\u{fc}";
        assert_eq!(plain(hostile), "a\\u{1b}[2Jb\\u{9b}31mc\\u{7f}\\u{202e}d\\u{d}\n\te\u{fc}");
        assert_eq!(one_line("a\n\tb"), "a\\u{a}\\u{9}b");
    }
}
