//! Reads the command line of a benchmark: `DIR --counts 1000,10000 --json PATH`.

use std::path::PathBuf;

/// The arguments of one benchmark. A bad one ends the program with a line that says so.
#[derive(Clone, Debug, Default)]
pub struct Arguments {
    positional: Vec<String>,
    named: Vec<(String, String)>,
}

impl Arguments {
    /// The arguments of this program. Each `--name` of `allowed` takes a value; `--bench` comes from cargo.
    #[must_use]
    pub fn from_env(allowed: &[&str]) -> Self {
        let mut arguments = Self::default();
        let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else {
                arguments.positional.push(word);
                continue;
            };
            if !allowed.contains(&name) {
                fail(&format!("unknown argument --{name}; there are: {}", allowed.join(", ")));
            }
            let value = words.next().unwrap_or_else(|| fail(&format!("--{name} needs a value")));
            arguments.named.push((name.to_owned(), value));
        }
        arguments
    }

    /// The folder of a workload, the one argument without a name.
    #[must_use]
    pub fn directory(&self) -> Option<PathBuf> {
        self.positional.first().map(|text| from_caller(text))
    }

    /// The arguments in words: the name of the workload's folder, and all numbers and names but `--json`.
    #[must_use]
    pub fn summary(&self) -> String {
        let folder = self.directory().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        let named = self.named.iter().filter(|(name, _)| name != "json");
        let words = folder.into_iter().chain(named.map(|(name, value)| format!("--{name} {value}")));
        words.collect::<Vec<_>>().join(" ")
    }

    /// The path given as `--name`.
    #[must_use]
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(from_caller)
    }

    /// The text given as `--name`.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.named.iter().rev().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// The number given as `--name`, else `default`.
    #[must_use]
    pub fn number(&self, name: &str, default: usize) -> usize {
        self.text(name).map_or(default, |text| number(name, text))
    }

    /// The numbers given as `--name 10,20`, else `default`.
    #[must_use]
    pub fn numbers(&self, name: &str, default: &[usize]) -> Vec<usize> {
        self.text(name).map_or_else(|| default.to_vec(), |text| text.split(',').map(|one| number(name, one)).collect())
    }
}

/// Cargo starts benchmarks in the folder of their crate; a relative path is meant from where cargo was called.
fn from_caller(text: &str) -> PathBuf {
    std::env::var_os("PWD").map(PathBuf::from).unwrap_or_default().join(text)
}

fn number(name: &str, text: &str) -> usize {
    text.replace('_', "").parse().unwrap_or_else(|_| fail(&format!("--{name}: '{text}' is no number")))
}

fn fail(message: &str) -> ! {
    eprintln!("error: {message}");
    std::process::exit(2)
}
