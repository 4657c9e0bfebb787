//! `[LOCAL:]REMOTE`, as kubectl has it.

/// A port of this machine and one of the pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// The port of this machine; 0 is any that is free.
    pub local: u16,
    /// The port of the pods.
    pub remote: u16,
}

impl Ports {
    /// Returns the ports where none is named: the same on both sides, or 8000 more on this machine where the same one needs
    /// more rights.
    pub const fn unnamed(remote: u16) -> Self {
        let local = if remote < 1024 { remote + 8000 } else { remote };
        Self { local, remote }
    }
}

/// Reads `9090`, `9000:9090` or `:9090`, as kubectl does.
pub fn parse(text: &str) -> Result<Ports, String> {
    let port = |text: &str| match text.parse::<u16>() {
        Ok(port @ 1..) => Ok(port),
        _ => Err(format!("{text:?} is not a port like 8080, 8080:80 or :80")),
    };
    match text.split_once(':') {
        None => port(text).map(|port| Ports {
            local: port,
            remote: port,
        }),
        Some(("", remote)) => Ok(Ports {
            local: 0,
            remote: port(remote)?,
        }),
        Some((local, remote)) => Ok(Ports {
            local: port(local)?,
            remote: port(remote)?,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_port_is_the_named_one_or_free() {
        let ports = |local, remote| Ok(Ports { local, remote });
        assert_eq!(parse("9090"), ports(9090, 9090));
        assert_eq!(parse("80"), ports(80, 80));
        assert_eq!(Ok(Ports::unnamed(80)), ports(8080, 80));
        assert_eq!(Ok(Ports::unnamed(9090)), ports(9090, 9090));
        assert_eq!(parse("9000:80"), ports(9000, 80));
        assert_eq!(parse(":80"), ports(0, 80));
        for wrong in ["", "x", "0", "70000", "80:", "a:80"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
