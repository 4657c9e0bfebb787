//! The questions of `create`. Each has a default that a person would guess, and refuses at once what the
//! server would refuse in the end.

use std::io;

use crd::AppDeploy;
use dialoguer::console::Term;
use dialoguer::{Confirm, Input};

use super::spec::{SpecArgs, validate};
use crate::error::{Error, Kind, Result};
use crate::output::DryRun;
use crate::ui::Look;
use crate::yaml;

/// Asks for the name, unless it is known.
pub fn name(known: Option<&str>, namespace: &str) -> Result<String> {
    if let Some(name) = known {
        return match acceptable(name, "nginx", |_| {}) {
            Ok(()) => Ok(name.to_owned()),
            Err(why) => Err(Error::usage(why)),
        };
    }
    answer(
        Input::<String>::new()
            .with_prompt(format!("Name of the app (in namespace {namespace})"))
            .validate_with(|name: &String| acceptable(name, "nginx", |_| {}))
            .interact_text_on(&Term::stderr()),
    )
}

/// Asks for what an app is made of.
pub fn spec(name: &str, namespace: &str, args: &mut SpecArgs) -> Result<()> {
    let image: String = answer(
        Input::new()
            .with_prompt("Image")
            .validate_with(|image: &String| acceptable(name, image, |_| {}))
            .interact_text_on(&Term::stderr()),
    )?;
    let port: String = answer(
        Input::new()
            .with_prompt("Port it listens on (empty: none, a worker)")
            .allow_empty(true)
            .validate_with(|port: &String| match port.trim() {
                "" => Ok(()),
                port => match port.parse::<u16>() {
                    Ok(1..) => Ok(()),
                    _ => Err("a port is a number from 1 to 65535".to_owned()),
                },
            })
            .interact_text_on(&Term::stderr()),
    )?;
    args.port = port.trim().parse().ok();
    if args.port.is_some() {
        let usual = format!("{name}.{namespace}");
        let host: String = answer(
            Input::new()
                .with_prompt("Host")
                .default(usual.clone())
                .validate_with(|host: &String| {
                    acceptable(name, &image, |args| {
                        (args.port, args.host) = (Some(80), Some(host.clone()));
                    })
                })
                .interact_text_on(&Term::stderr()),
        )?;
        // The default is computed by the operator and stored nowhere.
        args.host = Some(host).filter(|host| *host != usual);
    }
    let replicas = answer(
        Input::<i32>::new()
            .with_prompt("Number of pods")
            .default(1)
            .validate_with(|n: &i32| {
                if (0..=1000).contains(n) {
                    Ok(())
                } else {
                    Err("take a number from 0 to 1000")
                }
            })
            .interact_text_on(&Term::stderr()),
    )?;
    args.replicas = Some(replicas);
    args.image = Some(image);
    Ok(())
}

/// Shows the app and asks whether to create it.
pub fn confirm(app: &AppDeploy, dry_run: DryRun) -> Result<bool> {
    if !dry_run.is_real() {
        return Ok(true);
    }
    let term = Term::stderr();
    let text = yaml::write(&super::plain(app)?)?;
    let shown = text.lines().try_for_each(|line| term.write_line(&format!("  {line}")));
    shown.and_then(|()| term.write_line("")).map_err(stopped)?;
    answer(
        Confirm::new()
            .with_prompt("Create it?")
            .default(true)
            .interact_on(&term),
    )
}

/// Checks one answer with the rules of the schema, everything else being fine.
fn acceptable(name: &str, image: &str, change: impl FnOnce(&mut SpecArgs)) -> std::result::Result<(), String> {
    let mut args = SpecArgs::default();
    change(&mut args);
    args.app(name, image, None)
        .and_then(|app| validate(&app))
        .map_err(|error| {
            let reasons = error.reasons();
            // The question says which field it is.
            let rule = reasons.split_once(": ").map_or(reasons.as_str(), |(_, rule)| rule);
            broken_up(rule)
        })
}

/// Breaks a sentence where the terminal ends: dialoguer takes away as many lines as it wrote.
fn broken_up(sentence: &str) -> String {
    let look = Look {
        width: Some(usize::from(Term::stderr().size().1)),
        ..Look::default()
    };
    let text = look.sentence("", "error:", sentence);
    text.trim_start_matches("error:").trim_start().to_owned()
}

fn answer<T>(given: dialoguer::Result<T>) -> Result<T> {
    given.map_err(|dialoguer::Error::IO(source)| stopped(source))
}

fn stopped(source: io::Error) -> Error {
    // A question hides the cursor and Ctrl-C leaves it hidden.
    let term = Term::stderr();
    let _ = term.show_cursor().and_then(|()| term.write_line(""));
    match source.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::UnexpectedEof => {
            Error::new(Kind::Interrupted, "interrupted: nothing was created")
        }
        _ => Error::failed(format!("cannot ask: {source}")),
    }
}
