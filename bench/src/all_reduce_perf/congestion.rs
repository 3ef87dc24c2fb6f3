//! Which congestion control the lanes get. The library asks for one and goes on where the system
//! refuses it, so what was asked for need not be in force.

use std::io;

/// What a connection over loopback has in force once `name` was asked for, as lanes do. `None`: this
/// system does not tell.
#[cfg(target_os = "linux")]
pub(crate) fn in_force(name: &str) -> io::Result<Option<String>> {
    use std::net::{TcpListener, TcpStream};

    let listener = TcpListener::bind("127.0.0.1:0")?;
    let stream = TcpStream::connect(listener.local_addr()?)?;
    let socket = socket2::SockRef::from(&stream);
    // Refused: the system's own stays.
    socket.set_tcp_congestion(name.as_bytes()).ok();
    let used = socket.tcp_congestion()?;
    let used = String::from_utf8_lossy(&used);
    Ok(Some(used.trim_end_matches('\0').to_owned()))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn in_force(_name: &str) -> io::Result<Option<String>> {
    Ok(None)
}
