//! How and where a report is written: format, language, terminal or file.

use std::fs;
use std::io::{BufWriter, ErrorKind, Write, stdout};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use weir_doctor::findings::{Language, Layout};

use crate::commands::print;
use crate::terminal;

/// A form of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// One page for a browser, which loads nothing.
    Html,
    /// For programs.
    Json,
}

/// A language, by its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Lang {
    /// English.
    En,
    /// Chinese.
    Zh,
}

/// Options that say how and where.
#[derive(Debug, Args)]
pub(crate) struct Output {
    /// Print text for people, one page of HTML, or JSON for programs
    #[arg(long, default_value = "text")]
    pub(crate) format: Format,
    /// Write the report to a file instead of standard output
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Language of findings and reports
    #[arg(long, default_value = "en")]
    pub(crate) lang: Lang,
}

impl Lang {
    /// The language of texts.
    pub(crate) fn language(self) -> Language {
        match self {
            Self::En => Language::English,
            Self::Zh => Language::Chinese,
        }
    }
}

/// How text is laid out, on standard output or elsewhere.
pub(crate) fn layout(to_stdout: bool, language: Language) -> Layout {
    let width = if to_stdout { terminal::width() } else { terminal::PAGE_WIDTH };
    Layout { width, colour: to_stdout && terminal::wants_colour(&stdout()), language }
}

impl Output {
    /// The language of texts.
    pub(crate) fn language(&self) -> Language {
        self.lang.language()
    }

    /// How text is laid out.
    pub(crate) fn layout(&self) -> Layout {
        layout(self.output.is_none(), self.language())
    }

    /// The files that will be written.
    pub(crate) fn files(&self) -> Vec<&Path> {
        self.output.as_deref().into_iter().collect()
    }

    /// Writes the report.
    pub(crate) fn write(&self, text: &str) -> Result<(), String> {
        match &self.output {
            None => print(text),
            Some(file) => {
                fs::write(file, text).map_err(|error| format!("cannot write {}: {error}", file.display()))
            }
        }
    }

    /// Writes the report as JSON, piece by piece.
    pub(crate) fn write_json(&self, report: &impl Serialize) -> Result<(), String> {
        let write = |out: &mut dyn Write| {
            let mut out = BufWriter::new(out);
            serde_json::to_writer_pretty(&mut out, report)?;
            out.write_all(b"\n")?;
            out.flush()
        };
        match &self.output {
            None => match write(&mut stdout().lock()) {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
                _ => Ok(()),
            },
            Some(file) => {
                let written = fs::File::create(file).and_then(|mut out| write(&mut out));
                written.map_err(|error| format!("cannot write {}: {error}", file.display()))
            }
        }
    }
}

/// The folder that a file is in, or would be.
pub(super) fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| *folder != Path::new("")).unwrap_or(Path::new("."))
}

/// Whether a file can be written, as far as that can be told without doing it: reading the evidence may take long, and is
/// for nothing if its report has no place.
pub(super) fn can_be_written(file: &Path) -> Result<(), String> {
    let refused = |why: &dyn std::fmt::Display| Err(format!("cannot write {}: {why}", file.display()));
    match fs::metadata(file) {
        Ok(data) if data.is_dir() => refused(&"it is a folder"),
        // Anything else, such as a pipe, would be waited for.
        Ok(data) if data.is_file() => match fs::OpenOptions::new().append(true).open(file) {
            Ok(_) => Ok(()),
            Err(error) => refused(&error),
        },
        Ok(_) => Ok(()),
        Err(_) => {
            let folder = folder_of(file);
            match fs::metadata(folder) {
                Ok(data) if !data.is_dir() => refused(&format!("{} is no folder", folder.display())),
                Err(error) => refused(&format!("{}: {error}", folder.display())),
                Ok(_) => match rustix::fs::access(folder, rustix::fs::Access::WRITE_OK) {
                    Ok(()) => Ok(()),
                    Err(error) => refused(&format!("{}: {}", folder.display(), std::io::Error::from(error))),
                },
            }
        }
    }
}
