//! Manual pages and completions, given to the programs that they are for.

use std::fs;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

use crate::made::{extract, has, made, member, unpacked};
use crate::running::succeed;

fn installed() -> Option<TempDir> {
    let package = fs::read(made()?.file(".deb")).unwrap();
    let root = tempfile::tempdir().unwrap();
    extract(&unpacked(&member(&package, "data.tar.gz")), root.path());
    Some(root)
}

#[test]
fn shells_take_the_completions() {
    let Some(root) = installed() else { return };
    let share = root.path().join("usr/share");
    for name in ["myelin", "myelin-server"] {
        let files = [
            ("bash", format!("bash-completion/completions/{name}")),
            ("zsh", format!("zsh/vendor-completions/_{name}")),
            ("fish", format!("fish/vendor_completions.d/{name}.fish")),
        ];
        for (shell, file) in files {
            let file = share.join(file);
            assert!(file.is_file(), "{}", file.display());
            if has(shell) {
                succeed(Command::new(shell).arg("-n").arg(file));
            }
        }
    }
    if has("bash") {
        let offered = |name: &str, words: &str| offered(&share, name, words);
        assert_eq!(offered("myelin", "myelin str"), "stream");
        assert!(offered("myelin", "myelin server check ''").contains("ready"));
        assert_eq!(offered("myelin-server", "myelin-server --jet"), "--jetstream");
        assert_eq!(offered("myelin-server", "myelin-server --check"), "--check-reload");
    }
}

/// Words that bash offers for the last one.
fn offered(share: &Path, name: &str, words: &str) -> String {
    let file = share.join("bash-completion/completions").join(name);
    let script = format!(
        "source '{}'; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
         function=$(complete -p {name} | sed 's/.* -F \\([^ ]*\\) .*/\\1/'); \
         $function {name} \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[@]}}\"",
        file.display()
    );
    succeed(Command::new("bash").args(["-c", &script])).trim().to_owned()
}

#[test]
fn manual_pages_can_be_set() {
    let Some(root) = installed() else { return };
    let pages = root.path().join("usr/share/man");
    for page in [
        "man1/myelin.1.gz",
        "man1/myelin-stream-purge.1.gz",
        "man5/myelin.conf.5.gz",
        "man8/myelin-server.8.gz",
    ] {
        let text = unpacked(&fs::read(pages.join(page)).unwrap());
        let file = root.path().join("page");
        fs::write(&file, text).unwrap();
        if has("groff") {
            let set = Command::new("groff")
                .args(["-Kutf8", "-man", "-Tutf8", "-P-cbou", "-ww"])
                .arg(&file)
                .output()
                .unwrap();
            let complaints = String::from_utf8_lossy(&set.stderr).into_owned();
            assert_eq!(complaints, "", "{page}");
            assert!(String::from_utf8_lossy(&set.stdout).contains("NAME"), "{page}");
        }
    }
}
