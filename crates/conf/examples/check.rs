//! temporary
use myelin_conf::{Command, LoadError, load};
fn main() {
    for f in std::env::args().skip(1) {
        match load(&["-t".into(), "-c".into(), f.clone()], &|n| std::env::var(n).ok()) {
            Ok(Command::TestConfig { digest, .. }) => println!("{f}\tV\t{digest}"),
            Ok(_) => println!("{f}\t?"),
            Err(LoadError::Config(d)) => {
                let t: Vec<String> = d.iter().map(|d| d.to_string().replace('\n', "\\n")).collect();
                println!("{f}\tE\t{}", t.join("\u{1}"));
            }
            Err(e) => println!("{f}\tC\t{e}"),
        }
    }
}
