//! Where wasm-bindgen's runner serves the page with the tests, and what keeps the page from standing still.
//!
//! The runner's server hands a connection to one of its waiting threads, and counts a thread as waiting until it has woken up. Where a
//! browser opens several connections at once, one may go to nobody, and a script of the page is not answered before another
//! connection ends. The server begins with four threads: as long as each of them holds a connection, every further one gets a
//! thread of its own.

use std::io::Read;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Result, bail};

/// How many threads the server begins with.
const THREADS: usize = 4;

/// An address for the runner's servers, one after another. While this lives, each of them has its first threads in use.
#[derive(Debug)]
pub struct PageServer {
    pub address: SocketAddr,
    over: Arc<AtomicBool>,
}

impl PageServer {
    pub fn new() -> Result<Self> {
        let address = free()?;
        let over = Arc::new(AtomicBool::new(false));
        for _ in 0..THREADS {
            let over = Arc::clone(&over);
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    hold(address, &over);
                    thread::sleep(Duration::from_millis(20));
                }
            });
        }
        Ok(Self { address, over })
    }
}

impl Drop for PageServer {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// An address that nobody uses. Its port is none that the system gives to connections: one that is tried while no server is there
/// could otherwise be connected with itself.
fn free() -> Result<SocketAddr> {
    let first = 20_000 + std::process::id() % 10_000;
    for port in (first..30_000).chain(20_000..first) {
        let address = SocketAddr::from(([127, 0, 0, 1], u16::try_from(port)?));
        if TcpListener::bind(address).is_ok() {
            return Ok(address);
        }
    }
    bail!("no port from 20000 to 30000 is free")
}

/// Holds a connection until the server ends, where there is one.
fn hold(address: SocketAddr, over: &AtomicBool) {
    let Ok(mut connection) = TcpStream::connect(address) else {
        return;
    };
    if connection
        .set_read_timeout(Some(Duration::from_millis(200)))
        .is_err()
    {
        return;
    }
    while !over.load(Ordering::Relaxed) {
        match connection.read(&mut [0]) {
            Ok(_) => return,
            // It says nothing, as it should.
            Err(error)
                if matches!(
                    error.kind(),
                    std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut
                ) => {}
            Err(_) => return,
        }
    }
}
