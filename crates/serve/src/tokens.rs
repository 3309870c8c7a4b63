//! Bearer tokens: a file of them, one a line, each with what its holder may do.

use anyhow::{Context, bail, ensure};
use ringside_core::Shown;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Longest file: some ten thousand tokens.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Longest token that is looked at.
const SECRET_BYTES_MAX: usize = 1024;
/// Longest name: it stands in the log of each download.
const NAME_CHARS_MAX: usize = 64;

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// Look at captures, ledgers, rules, and how many packets a search finds.
    Read,
    /// Get packets, and records of what they meant.
    Packets,
    /// Change rules.
    Control,
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes {
    read: bool,
    packets: bool,
    control: bool,
}

impl Scopes {
    /// Whatever there is.
    pub const ALL: Scopes = Scopes { read: true, packets: true, control: true };
    /// What is shown, and nothing else.
    pub const READ: Scopes = Scopes { read: true, packets: false, control: false };

    /// True if `scope` is among them.
    pub fn allow(self, scope: Scope) -> bool {
        match scope {
            Scope::Read => self.read,
            Scope::Packets => self.packets,
            Scope::Control => self.control,
        }
    }

    fn parse(text: &str) -> anyhow::Result<Scopes> {
        let mut scopes = Scopes::default();
        for name in text.split(',') {
            match name {
                "read" => scopes.read = true,
                "packets" => scopes.packets = true,
                "control" => scopes.control = true,
                _ => bail!("{} is no scope: write read, packets or control", name.shown()),
            }
        }
        Ok(scopes)
    }
}

impl Scope {
    /// Its name, as the file has it.
    pub fn name(self) -> &'static str {
        match self {
            Scope::Read => "read",
            Scope::Packets => "packets",
            Scope::Control => "control",
        }
    }
}

/// Tokens by the hash of each: the file holds no secret.
#[derive(Debug)]
pub struct Tokens(Vec<Token>);

/// Who has a token.
#[derive(Debug)]
pub struct Token {
    /// What the log calls it.
    pub name: String,
    /// What its holder may do.
    pub scopes: Scopes,
    hash: [u8; 32],
}

impl Tokens {
    /// Reads `NAME SCOPES SHA256` lines; empty ones and those that begin with `#` are passed over.
    ///
    /// # Errors
    /// The file cannot be read, other users can write it, or a line is wrong.
    pub fn load(path: &Path) -> anyhow::Result<Tokens> {
        Tokens::read(path).with_context(|| format!("tokens {}", path.shown()))
    }

    fn read(path: &Path) -> anyhow::Result<Tokens> {
        let file = File::open(path)?;
        let mode = file.metadata()?.mode();
        ensure!(mode & 0o022 == 0, "others can write it: chmod go-w");
        let mut text = String::new();
        file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
        ensure!(text.len() as u64 <= FILE_BYTES_MAX, "longer than {FILE_BYTES_MAX} bytes");
        Tokens::parse(&text)
    }

    fn parse(text: &str) -> anyhow::Result<Tokens> {
        let lines = text.lines().map(str::trim).enumerate();
        let used = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let tokens = used
            .map(|(index, line)| Token::parse(line).with_context(|| format!("line {}", index + 1)));
        let tokens = Tokens(tokens.collect::<anyhow::Result<_>>()?);
        ensure!(!tokens.0.is_empty(), "it holds no token: docs/serve.md shows how to make one");
        Ok(tokens)
    }

    /// The holder of `secret`. How long this takes says nothing of the tokens: hashes are compared,
    /// all of them and to the end, whether one is right, which one, or none at all.
    pub fn holder(&self, secret: &str) -> Option<&Token> {
        if secret.len() > SECRET_BYTES_MAX {
            return None;
        }
        let hash: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        self.0.iter().fold(None, |found, token| match is_equal(&token.hash, &hash) {
            true => Some(token),
            false => found,
        })
    }
}

/// Looks at every byte, however early they differ.
fn is_equal(one: &[u8; 32], other: &[u8; 32]) -> bool {
    let pairs = one.iter().zip(other);
    std::hint::black_box(pairs.fold(0, |differ, (one, other)| differ | (one ^ other))) == 0
}

impl Token {
    fn parse(line: &str) -> anyhow::Result<Token> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [name, scopes, hash] = words[..] else {
            bail!("write NAME SCOPES SHA256, as: grafana read 9f86d0…");
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        ensure!(
            name.chars().all(is_plain) && name.len() <= NAME_CHARS_MAX,
            "a name has at most {NAME_CHARS_MAX} letters, digits, dots, dashes and underscores"
        );
        let hash = parse_hash(hash).context("SHA256 is 64 hexadecimal digits, as sha256sum's")?;
        Ok(Token { name: name.to_owned(), scopes: Scopes::parse(scopes)?, hash })
    }
}

fn parse_hash(text: &str) -> Option<[u8; 32]> {
    let mut hash = [0; 32];
    let is_hex = text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    for (byte, at) in hash.iter_mut().zip((0..64).step_by(2)).filter(|_| is_hex) {
        *byte = u8::from_str_radix(&text[at..at + 2], 16).ok()?;
    }
    is_hex.then_some(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    /// `printf secret | sha256sum`
    const HASH: &str = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";

    #[test]
    fn a_token_is_known_by_its_hash_and_may_what_its_line_says() {
        let text = format!("# who\n\ngrafana read {HASH}\n");
        let tokens = Tokens::parse(&text).unwrap();
        let holder = tokens.holder("secret").unwrap();
        assert_eq!(holder.name, "grafana");
        let allowed = [Scope::Read, Scope::Packets, Scope::Control].map(|s| holder.scopes.allow(s));
        assert_eq!(allowed, [true, false, false]);
        for wrong in ["", "Secret", "secret ", HASH] {
            assert!(tokens.holder(wrong).is_none(), "{wrong}");
        }
        assert!(tokens.holder(&"x".repeat(1 << 20)).is_none());
    }

    #[test]
    fn what_is_wrong_with_a_file_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        for (text, words) in [
            (String::new(), "holds no token"),
            ("grafana read".into(), "line 1: write NAME SCOPES SHA256"),
            (format!("\ngrafana write {HASH}"), "line 2: write is no scope"),
            (format!("gra/fana read {HASH}"), "letters"),
            (format!("grafana read {}", &HASH[1..]), "64 hexadecimal digits"),
            (format!("grafana read +{}", &HASH[1..]), "64 hexadecimal digits"),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = format!("{:#}", Tokens::load(&path).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
        std::fs::write(&path, format!("a read,packets,control {HASH}")).unwrap();
        assert_eq!(Tokens::load(&path).unwrap().0[0].scopes, Scopes::ALL);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(format!("{:#}", Tokens::load(&path).unwrap_err()).contains("chmod go-w"));
    }

    #[test]
    fn no_file_makes_the_parser_panic() {
        let seeds = [format!("a read,control {HASH}\n# b\nc packets {HASH}").into_bytes()];
        ringside_testkit::fuzz("serve-tokens", 20_000, &seeds, |bytes| {
            if let Ok(tokens) = Tokens::parse(&String::from_utf8_lossy(bytes)) {
                assert!(tokens.0.iter().all(|token| token.name.len() <= NAME_CHARS_MAX));
            }
        });
    }
}
