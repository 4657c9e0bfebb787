//! Tests with a shell on a terminal, whose behavior is known.

use std::process::Command;

use terminal::{CTRL_C, Color, ENTER, Error, Terminal};

fn shell(script: &str) -> Result<Terminal, Error> {
    // A shell can't trap a signal that was ignored at its start, as SIGINT is in background jobs of a script.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", "sh", "-c", script]);
    Terminal::start(command)
}

#[test]
fn screen_is_read_and_input_is_sent() -> Result<(), Error> {
    let terminal =
        shell("printf 'name? '; read name; printf '\\033[31m%s\\033[0m' \"hello $name\"; stty size; exit 3")?;
    let screen = terminal.shows("name?")?;
    assert_eq!((screen.text().as_str(), screen.cursor()), ("name?", (0, 6)));
    terminal.send("jane")?;
    terminal.send(ENTER)?;
    let (code, screen) = terminal.end()?;
    assert_eq!((code, screen.text().as_str()), (3, "name? jane\nhello jane24 80"));
    assert_eq!(screen.cells()[1][0].fgcolor(), Color::Idx(1));
    Ok(())
}

#[test]
fn ctrl_c_is_a_signal() -> Result<(), Error> {
    let terminal = shell("trap 'echo caught; exit 130' INT; echo ready; while :; do read line; done")?;
    terminal.shows("ready")?;
    terminal.send(CTRL_C)?;
    let (code, screen) = terminal.end()?;
    assert_eq!(code, 130);
    assert_eq!(screen.line_of("caught"), Some(1), "{}", screen.text());
    Ok(())
}

#[test]
fn line_is_overwritten_and_a_new_size_is_signaled() -> Result<(), Error> {
    let terminal = shell(
        "trap 'stty size' WINCH; printf 'one of two'; read line; printf '\\rdone\\033[K\\n'; while :; do sleep 0.05; done",
    )?;
    terminal.shows("one of two")?;
    terminal.send(ENTER)?;
    terminal.shows("done")?;
    terminal.resize(10, 40)?;
    let screen = terminal.shows("10 40")?;
    assert!(terminal.written().contains("one of two"));
    assert_eq!(
        screen.line_of("one of two"),
        Some(0),
        "Enter went to the next line: {}",
        screen.text()
    );
    Ok(())
}

#[test]
fn missing_text_is_an_error_with_the_screen() -> Result<(), Error> {
    let terminal = shell("echo nothing")?;
    let error = terminal.shows("something").map(|screen| screen.text());
    assert_eq!(
        error.map_err(|error| error.to_string()),
        Err("the program ended without something; the screen:\nnothing".to_owned())
    );
    Ok(())
}
