//! What a person sees of a panic.

use std::panic::{self, PanicHookInfo};
use std::process;

use crossterm::terminal::disable_raw_mode;

use super::ui::{AltScreen, Color, Flags, Ui};
use super::warnings::Warnings;
use crate::error::Error;

/// Reports a panic of any thread as an error, and ends the process with exit code 1. It restores the terminal first, because nothing
/// is dropped in the released program, which aborts on a panic.
#[expect(
    clippy::exit,
    reason = "an abort would add a message of the shell, and write a core file"
)]
pub fn report_panics() {
    panic::set_hook(Box::new(|info| {
        AltScreen::leave_any();
        let _ = disable_raw_mode();
        Ui::new(Color::Auto, &Flags::default(), Warnings::default()).error(&error(info));
        process::exit(1);
    }));
}

fn error(info: &PanicHookInfo<'_>) -> Error {
    let literal = info.payload().downcast_ref::<&str>().copied();
    let formatted = info.payload().downcast_ref::<String>().map(String::as_str);
    let message = literal.or(formatted).unwrap_or("no message");
    let place = info.location().map_or_else(
        || "its code".to_owned(),
        |place| format!("{}:{}", place.file(), place.line()),
    );
    Error::failed(format!("the plugin has a bug: {message}")).why(format!(
        "{place} did not expect this; please report it, with the command, at {}/issues",
        env!("CARGO_PKG_REPOSITORY")
    ))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use crossterm::terminal::enable_raw_mode;
    use terminal::Terminal;

    use super::*;

    /// Set in the process of a test that panics.
    const PANICS: &str = "APPDEPLOY_TEST_PANICS";

    #[test]
    fn panic_restores_the_terminal_and_is_reported_as_a_bug() {
        if std::env::var_os(PANICS).is_some() {
            report_panics();
            enable_raw_mode().unwrap();
            let mut ui = Ui::new(Color::Never, &Flags::default(), Warnings::default());
            let mut screen = AltScreen::new(&mut ui);
            screen.draw("a page").unwrap();
            panic!("no pods:\nnot one");
        }
        let mut plugin = Command::new("sh");
        let name = "terminal::panic::tests::panic_restores_the_terminal_and_is_reported_as_a_bug";
        let script = r#""$0" --exact "$1" --nocapture; echo "code $?"; stty --all"#;
        plugin
            .args(["-c", script])
            .arg(std::env::current_exe().unwrap())
            .arg(name)
            .env(PANICS, "");
        let (code, screen) = Terminal::start(plugin).unwrap().end().unwrap();
        let text = screen.text();
        assert_eq!(code, 0, "{text}");
        assert!(!text.contains("a page"), "{text}");
        assert!(
            text.contains("error: the plugin has a bug: no pods: not one\n"),
            "{text}"
        );
        assert!(
            text.contains("\n  why:  kubectl-appdeploy/src/terminal/panic.rs:"),
            "{text}"
        );
        assert!(text.contains("code 1\n"), "{text}");
        assert!(text.contains(" icanon "), "{text}");
    }
}
