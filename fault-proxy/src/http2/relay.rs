//! Copies frames between a client and the server of h2, and sends others in between: h2 follows the protocol.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, DuplexStream, copy, split};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::frame::{Frame, HEAD, payload};

/// Copies until a side closes the connection. Frames that others send into the channel are sent to the client, too.
pub(super) async fn relay<S>(
    client: S,
    server: DuplexStream,
    frames: UnboundedSender<Frame>,
    mut sent: UnboundedReceiver<Frame>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (mut from_client, mut to_client) = split(client);
    let (mut from_server, mut to_server) = split(server);
    // The settings, before which a server must send nothing.
    let first = next(&mut from_server).await?;
    to_client.write_all(first.bytes()).await?;
    to_client.flush().await?;
    let requests = async {
        copy(&mut from_client, &mut to_server).await?;
        // The server ends then.
        to_server.shutdown().await?;
        std::future::pending().await
    };
    let answers = async {
        loop {
            // It is received below.
            let _ = frames.send(next(&mut from_server).await?);
        }
    };
    let writes = async {
        while let Some(frame) = sent.recv().await {
            to_client.write_all(frame.bytes()).await?;
            to_client.flush().await?;
        }
        Ok(())
    };
    tokio::select! {
        ended = requests => ended,
        ended = answers => ended,
        ended = writes => ended,
    }
}

/// Reads a frame of the server.
async fn next(from_server: &mut (impl AsyncRead + Unpin)) -> io::Result<Frame> {
    let mut head = [0; HEAD];
    from_server.read_exact(&mut head).await?;
    let mut bytes = head.to_vec();
    bytes.resize(HEAD + payload(head), 0);
    from_server.read_exact(&mut bytes[HEAD..]).await?;
    Ok(Frame::without_windows(bytes))
}
