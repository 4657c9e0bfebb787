//! The prompts of `create`. Each has a default, and rejects immediately what the
//! server would reject.

use std::io;

use dialoguer::console::Term;
use dialoguer::{Confirm, Input};
use kube::core::ObjectMeta;
use serde_json::Value;

use super::Spec;
use crate::cluster::kind_info;
use crate::error::{Error, Kind, Result, system_error};
use crate::output::formats::DryRun;
use crate::output::yaml;
use crate::terminal::prompt;
use crate::terminal::ui::RenderOptions;

/// Prompts for the name, unless it is known.
pub fn name<S: Spec>(known: Option<&str>, namespace: &str) -> Result<String> {
    let check = |name: &str| acceptable(name, S::default());
    if let Some(name) = known {
        return check(name).map(|()| name.to_owned()).map_err(Error::usage);
    }
    let one = kind_info::of(S::KIND).one;
    answer(|| {
        Input::<String>::new()
            .with_prompt(format!("Name of the {one} (in namespace {namespace})"))
            .validate_with(|name: &String| check(name))
            .interact_text_on(&Term::stderr())
    })
}

/// Prompts for the image. If it is optional, an empty answer means no image.
pub fn image<S: Spec>(name: &str, prompt: &str) -> Result<Option<String>> {
    let image: String = answer(|| {
        Input::new()
            .with_prompt(prompt)
            .allow_empty(!S::NEEDS_IMAGE)
            .validate_with(|image: &String| {
                let mut spec = S::default();
                spec.pod().image = Some(image.clone()).filter(|image| S::NEEDS_IMAGE || !image.is_empty());
                acceptable(name, spec)
            })
            .interact_text_on(&Term::stderr())
    })?;
    Ok(Some(image).filter(|image| !image.is_empty()))
}

/// Prompts for the port.
pub fn port() -> Result<Option<i32>> {
    let port: String = answer(|| {
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
            .interact_text_on(&Term::stderr())
    })?;
    Ok(port.trim().parse().ok())
}

/// Prompts for the host of an app. `with` returns the flags with a host.
pub fn host<S: Spec>(name: &str, namespace: &str, with: impl Fn(String) -> S) -> Result<Option<String>> {
    let usual = format!("{name}.{namespace}");
    let host: String = answer(|| {
        Input::new()
            .with_prompt("Host")
            .default(usual.clone())
            .validate_with(|host: &String| acceptable(name, with(host.clone())))
            .interact_text_on(&Term::stderr())
    })?;
    // The default is computed by the operator and stored nowhere.
    Ok(Some(host).filter(|host| *host != usual))
}

/// Prompts for the number of pods.
pub fn replicas() -> Result<i32> {
    answer(|| {
        Input::<i32>::new()
            .with_prompt("Number of pods")
            .default(1)
            .validate_with(|n: &i32| {
                if (0..=1000).contains(n) {
                    Ok(())
                } else {
                    Err("must be a number from 0 to 1000")
                }
            })
            .interact_text_on(&Term::stderr())
    })
}

/// Shows the object and prompts for confirmation.
pub fn confirm(object: &Value, dry_run: DryRun) -> Result<bool> {
    if !dry_run.is_real() {
        return Ok(true);
    }
    let term = Term::stderr();
    let text = yaml::write(object)?;
    let shown = text.lines().try_for_each(|line| term.write_line(&format!("  {line}")));
    shown.and_then(|()| term.write_line("")).map_err(stopped)?;
    answer(|| {
        Confirm::new()
            .with_prompt("Create it?")
            .default(true)
            .interact_on(&term)
    })
}

/// Checks one answer with the rules of the schema, everything else being fine.
fn acceptable<S: Spec>(name: &str, mut spec: S) -> std::result::Result<(), String> {
    if S::NEEDS_IMAGE {
        spec.pod().image.get_or_insert_with(|| "nginx".to_owned());
    }
    let metadata = ObjectMeta {
        name: Some(name.to_owned()),
        ..ObjectMeta::default()
    };
    spec.object(metadata).map(drop).map_err(|error| {
        let reasons = error.reasons();
        // The prompt names the field.
        let rule = reasons.split_once(": ").map_or(reasons.as_str(), |(_, rule)| rule);
        broken_up(rule)
    })
}

/// Breaks a sentence where the terminal ends: dialoguer takes away as many lines as it wrote.
fn broken_up(sentence: &str) -> String {
    let render = RenderOptions {
        width: Some(usize::from(Term::stderr().size().1)),
        ..RenderOptions::default()
    };
    let text = render.sentence("", "error:", sentence);
    text.trim_start_matches("error:").trim_start().to_owned()
}

/// What an interrupted prompt did not change.
const KEPT: &str = "nothing was created";

fn answer<T>(ask: impl FnOnce() -> dialoguer::Result<T>) -> Result<T> {
    prompt::interruptible(KEPT, ask).map_err(|dialoguer::Error::IO(source)| stopped(source))
}

fn stopped(source: io::Error) -> Error {
    // A prompt hides the cursor, and Ctrl-C would leave it hidden.
    let term = Term::stderr();
    let _ = term.show_cursor().and_then(|()| term.write_line(""));
    match source.kind() {
        io::ErrorKind::Interrupted | io::ErrorKind::UnexpectedEof => {
            Error::new(Kind::Interrupted, format!("interrupted: {KEPT}"))
        }
        _ => Error::failed(format!("cannot prompt: {}", system_error(&source))),
    }
}
