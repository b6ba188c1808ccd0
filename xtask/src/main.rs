//! `cargo xtask generate [--check]`: the message code of the protocol crate. `cargo xtask corpus`: its fuzz seeds.
//! `cargo xtask docs`: the pages that are made from tables.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let result = match args.as_slice() {
        ["generate"] => xtask::generate::write(),
        ["generate", "--check"] => xtask::generate::check(),
        ["corpus"] => xtask::corpus::write(),
        ["docs"] => xtask::docs::write(),
        _ => Err("usage: cargo xtask generate [--check] | corpus | docs".into()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::FAILURE
        }
    }
}
