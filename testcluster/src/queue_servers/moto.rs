//! moto, which plays AWS: its SQS checks the signature and the permissions of each call with its IAM. It needs Python 3.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpStream};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

use super::QueueServer;
use super::install::{ensure_installed, run};
use crate::http::Request;

/// The Python packages and their hashes.
const PACKAGES: &str = include_str!("../../queue_servers/moto.txt");
/// The user and the role.
const NAME: &str = "appdeploy";
/// Everything of SQS, encoded for a URL.
const ALLOW: &str = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C\
                     %22Action%22%3A%22sqs%3A%2A%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";
/// How often a call is tried. Other calls can use up its exception from authentication.
const TRIES: usize = 20;

/// An access key of moto's IAM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessKey {
    /// The ID.
    pub id: String,
    /// The secret key.
    pub secret: String,
    /// The session token of a temporary key.
    pub token: Option<String>,
}

/// A running moto with one user, who may do everything in SQS and nothing else.
#[derive(Debug)]
pub struct Moto {
    server: QueueServer,
    key: AccessKey,
}

impl Moto {
    /// Starts it on a free port of `ip`. Returns when the user and its key exist.
    ///
    /// # Errors
    /// When it can't be installed or started.
    pub fn start(ip: IpAddr) -> Result<Self> {
        let folder = ensure_installed("moto", PACKAGES, install)?;
        let server = QueueServer::start(ip, "/moto-api/", |address, _| {
            let mut python = Command::new(folder.join("venv/bin/python"));
            python
                .args(["-m", "moto.server", "--host", &address.ip().to_string()])
                .args(["--port", &address.port().to_string()])
                .env("INITIAL_NO_AUTH_ACTION_COUNT", "0");
            Ok(python)
        })
        .context("failed to start moto")?;
        iam(&server, &format!("CreateUser&UserName={NAME}"))?;
        let key = create_key(&server)?;
        let moto = Self { server, key };
        moto.allow()?;
        Ok(moto)
    }

    /// Returns the access key of the user.
    #[must_use]
    pub fn key(&self) -> &AccessKey {
        &self.key
    }

    /// Permits the user everything in SQS, as from the start.
    ///
    /// # Errors
    /// When moto does not answer.
    pub fn allow(&self) -> Result<()> {
        let policy = format!("PutUserPolicy&UserName={NAME}&PolicyName=sqs&PolicyDocument={ALLOW}");
        iam(&self.server, &policy).map(drop)
    }

    /// Denies the user everything (`AccessDenied`).
    ///
    /// # Errors
    /// When moto does not answer, or it was denied already.
    pub fn deny(&self) -> Result<()> {
        iam(
            &self.server,
            &format!("DeleteUserPolicy&UserName={NAME}&PolicyName=sqs"),
        )
        .map(drop)
    }

    /// Replaces the access key of the user. The old one is invalid from now on (`InvalidClientTokenId`).
    ///
    /// # Errors
    /// When moto does not answer.
    pub fn rotate_key(&mut self) -> Result<()> {
        let delete = format!("DeleteAccessKey&UserName={NAME}&AccessKeyId={}", self.key.id);
        iam(&self.server, &delete)?;
        self.key = create_key(&self.server)?;
        Ok(())
    }

    /// Returns a temporary key, with a session token, of a role that may do everything in SQS.
    ///
    /// # Errors
    /// When moto does not answer.
    pub fn temporary_key(&self) -> Result<AccessKey> {
        // An existing role is fine.
        let role = format!("CreateRole&RoleName={NAME}&AssumeRolePolicyDocument={ALLOW}");
        let _ = iam(&self.server, &role);
        let policy = format!("PutRolePolicy&RoleName={NAME}&PolicyName=sqs&PolicyDocument={ALLOW}");
        iam(&self.server, &policy)?;
        let assume = format!(
            "Version=2011-06-15&Action=AssumeRole&RoleArn=arn:aws:iam::123456789012:role/{NAME}&RoleSessionName=test"
        );
        read_key(&call(&self.server, "sts", &assume)?)
    }
}

impl Deref for Moto {
    type Target = QueueServer;

    fn deref(&self) -> &QueueServer {
        &self.server
    }
}

impl DerefMut for Moto {
    fn deref_mut(&mut self) -> &mut QueueServer {
        &mut self.server
    }
}

fn install(folder: &Path) -> Result<()> {
    let packages = folder.join("packages.txt");
    fs::write(&packages, PACKAGES).context("failed to write the list of packages")?;
    run(Command::new("python3")
        .args(["-m", "venv", "--clear"])
        .arg(folder.join("venv")))
    .context("moto needs Python 3 with venv (Debian: apt install python3-venv)")?;
    run(Command::new(folder.join("venv/bin/python"))
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"])
        .args(["--only-binary=:all:", "--require-hashes", "--requirement"])
        .arg(&packages))
}

/// Creates an access key of the user.
fn create_key(server: &QueueServer) -> Result<AccessKey> {
    read_key(&iam(server, &format!("CreateAccessKey&UserName={NAME}"))?)
}

/// Calls an action of IAM.
fn iam(server: &QueueServer, action: &str) -> Result<String> {
    call(server, "iam", &format!("Version=2010-05-08&Action={action}"))
}

/// Makes a call that moto exempts from authentication.
fn call(server: &QueueServer, service: &str, form: &str) -> Result<String> {
    for _ in 0..TRIES {
        let exempt = Request {
            method: "POST",
            path: "/moto-api/reset-auth",
            body: "1",
            ..Request::default()
        };
        exempt.send(server.address()).context("moto does not answer")?;
        let (status, answer) = post(server, service, form).context("moto does not answer")?;
        match status {
            200 => return Ok(answer),
            403 => {}
            _ => bail!("moto answers {status} to {form}: {answer}"),
        }
    }
    bail!("moto did not exempt a call from authentication: {form}")
}

/// Sends a form. The service is in the header for the signature.
fn post(server: &QueueServer, service: &str, form: &str) -> Result<(u16, String)> {
    let mut stream = TcpStream::connect(server.address())?;
    stream.set_read_timeout(Some(Duration::from_secs(60)))?;
    write!(
        stream,
        "POST / HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Authorization: AWS4-HMAC-SHA256 Credential=none/20150830/us-east-1/{service}/aws4_request\r\n\
         Content-Length: {}\r\n\r\n{form}",
        form.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("the answer is not HTTP")?;
    let status = head.split(' ').nth(1).context("the answer has no status")?;
    Ok((status.parse()?, body.to_owned()))
}

/// Reads an access key from an answer in XML.
fn read_key(answer: &str) -> Result<AccessKey> {
    let element = |name: &str| {
        let (_, rest) = answer.split_once(&format!("<{name}>"))?;
        Some(rest.split_once('<')?.0.to_owned())
    };
    let (id, secret) = (element("AccessKeyId"), element("SecretAccessKey"));
    ensure!(
        id.is_some() && secret.is_some(),
        "moto's answer has no access key: {answer}"
    );
    Ok(AccessKey {
        id: id.unwrap_or_default(),
        secret: secret.unwrap_or_default(),
        token: element("SessionToken"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn access_key_is_read_from_the_answer() {
        let answer =
            "<A><AccessKeyId>AKIA1</AccessKeyId><Status>Active</Status><SecretAccessKey>a/b+c</SecretAccessKey></A>";
        let expected = AccessKey {
            id: "AKIA1".to_owned(),
            secret: "a/b+c".to_owned(),
            token: None,
        };
        assert_eq!(read_key(answer).unwrap(), expected);
        assert!(read_key("<Error/>").is_err());
    }
}
