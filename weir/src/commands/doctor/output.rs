//! How and where a report is written: format, language, terminal or file.

use std::fs;
use std::io::{BufWriter, ErrorKind, IsTerminal, Write, stdout};
use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use serde::Serialize;
use weir_doctor::findings::{Language, Layout};

use crate::commands::print;

/// Columns where there is no terminal.
const PAGE_WIDTH: usize = 100;

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

impl Output {
    /// The language of texts.
    pub(crate) fn language(&self) -> Language {
        match self.lang {
            Lang::En => Language::English,
            Lang::Zh => Language::Chinese,
        }
    }

    /// How text is laid out.
    pub(crate) fn layout(&self) -> Layout {
        let terminal = self.output.is_none() && stdout().is_terminal();
        let columns = if terminal { terminal_width() } else { 0 };
        let width = if columns == 0 { PAGE_WIDTH } else { columns.clamp(40, 140) };
        Layout { width, colour: terminal, language: self.language() }
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

/// Columns of the terminal; 0 if it does not say.
fn terminal_width() -> usize {
    rustix::termios::tcgetwinsize(stdout()).map_or(0, |size| usize::from(size.ws_col))
}
