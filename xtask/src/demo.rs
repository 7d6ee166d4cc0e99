//! The demo site: `www/` and the package, served on this machine only.

use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::{build, places, setup};

const USUAL_PORT: u16 = 8080;
/// Bytes that a request may have before its body.
const LONGEST_HEAD: usize = 16 * 1024;
/// How long a client may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);

/// The strictest policy under which WebAssembly runs: the package promises to work under it.
const POLICY: &str = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; img-src 'self' data: blob:; \
    object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// The `demo` command.
pub fn command(arguments: &[String]) -> Result<()> {
    let mut port = None;
    let mut with_build = true;
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--no-build" => with_build = false,
            "--port" => {
                let number = rest.next().context("--port needs a number")?;
                port = Some(number.parse().with_context(|| format!("`{number}` is no port"))?);
            }
            other => bail!("unexpected argument `{other}`: demo takes --port N and --no-build"),
        }
    }
    if with_build {
        build::make(&setup::for_build()?)?;
    }
    let site = Arc::new(Site::new()?);
    let listener = listen(port)?;
    println!("listening on http://{}", listener.local_addr()?);
    io::stdout().flush()?;
    for stream in listener.incoming() {
        let Ok(stream) = stream else { continue };
        let site = Arc::clone(&site);
        // A client that is gone, or that never says what it wants, is its own business.
        thread::spawn(move || converse(&site, stream).ok());
    }
    Ok(())
}

/// A port that was asked for, or the usual one, or any when that is taken.
fn listen(port: Option<u16>) -> Result<TcpListener> {
    let open = |port: u16| {
        TcpListener::bind((Ipv4Addr::LOCALHOST, port))
            .with_context(|| format!("cannot listen on port {port}"))
    };
    match port {
        Some(port) => open(port),
        None => open(USUAL_PORT).or_else(|_| open(0)),
    }
}

/// One request, one reply, and the connection is closed: simple, and no client can keep another one waiting.
fn converse(site: &Site, mut stream: TcpStream) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let Some(head) = read_head(&mut stream)? else {
        return Ok(());
    };
    let mut words = head.split(' ');
    let method = words.next().unwrap_or_default();
    let reply = site.reply(method, words.next().unwrap_or_default());
    write!(
        stream,
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nContent-Security-Policy: {POLICY}\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\nCache-Control: no-cache\r\n\
         Connection: close\r\n\r\n",
        reply.status,
        reply.kind,
        reply.body.len()
    )?;
    if method != "HEAD" {
        stream.write_all(&reply.body)?;
    }
    // Closing with something unread would take the reply away from the client.
    stream.shutdown(Shutdown::Write)?;
    io::copy(&mut (&stream).take(1 << 20), &mut io::sink())?;
    Ok(())
}

/// The first line of a request, read together with its headers. Nothing when there is no whole request.
fn read_head(stream: &mut TcpStream) -> io::Result<Option<String>> {
    let mut head = Vec::new();
    let mut buffer = [0; 1024];
    while !head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let length = stream.read(&mut buffer)?;
        let Some(bytes) = buffer.get(..length).filter(|bytes| !bytes.is_empty()) else {
            return Ok(None);
        };
        head.extend_from_slice(bytes);
        if head.len() > LONGEST_HEAD {
            return Ok(None);
        }
    }
    Ok(String::from_utf8_lossy(&head).lines().next().map(str::to_owned))
}

struct Reply {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
}

impl Reply {
    fn text(status: &'static str, text: &str) -> Self {
        Self {
            status,
            kind: "text/plain; charset=utf-8",
            body: format!("{text}\n").into_bytes(),
        }
    }
}

/// The two folders that are served, with their real paths.
struct Site {
    pages: PathBuf,
    package: PathBuf,
}

impl Site {
    fn new() -> Result<Self> {
        let pages = places::root().join("www");
        let package = places::package();
        ensure!(
            package.join("package.json").is_file(),
            "there is no pkg/: run `cargo xtask build`, or leave out --no-build"
        );
        Ok(Self {
            pages: fs::canonicalize(&pages).with_context(|| format!("there is no {}", pages.display()))?,
            package: fs::canonicalize(package)?,
        })
    }

    fn reply(&self, method: &str, url: &str) -> Reply {
        if !matches!(method, "GET" | "HEAD") {
            return Reply::text("405 Method Not Allowed", "only GET and HEAD");
        }
        let Some(path) = decoded_path(url) else {
            return Reply::text("400 Bad Request", "malformed address");
        };
        match self
            .file(&path)
            .and_then(|file| Some((fs::read(&file).ok()?, kind(&file))))
        {
            Some((body, kind)) => Reply {
                status: "200 OK",
                kind,
                body,
            },
            None => Reply::text("404 Not Found", "not found"),
        }
    }

    /// The file that a path names. Its real path has to be below the folder, so that neither `..` nor a link leads out.
    fn file(&self, path: &str) -> Option<PathBuf> {
        let (folder, rest) = match path.strip_prefix("/pkg/") {
            Some(rest) => (&self.package, rest),
            None => (&self.pages, path.strip_prefix('/')?),
        };
        if rest.contains(['\\', '\0']) || rest.split('/').any(|segment| segment == "..") {
            return None;
        }
        let mut file = fs::canonicalize(folder.join(rest)).ok()?;
        if file.is_dir() {
            file = fs::canonicalize(file.join("index.html")).ok()?;
        }
        (file.starts_with(folder) && file.is_file()).then_some(file)
    }
}

/// The path of a request, without its query, percent-decoded. Nothing when it is not well formed.
fn decoded_path(url: &str) -> Option<String> {
    let path = url.split(['?', '#']).next()?;
    let mut bytes = Vec::new();
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digits = [rest.next()?, rest.next()?];
            let digits = std::str::from_utf8(&digits).ok()?;
            bytes.push(u8::from_str_radix(digits, 16).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|path| path.starts_with('/'))
}

fn kind(file: &Path) -> &'static str {
    match file
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default()
    {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "wasm" => "application/wasm",
        "json" | "map" => "application/json",
        "md" => "text/markdown; charset=utf-8",
        "ts" | "txt" => "text/plain; charset=utf-8",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_decoded_and_malformed_ones_refused() {
        assert_eq!(decoded_path("/a%20b?c=%zz").as_deref(), Some("/a b"));
        for bad in ["/%", "/%4", "/%zz", "/%ff", "a", ""] {
            assert_eq!(decoded_path(bad), None, "{bad}");
        }
    }

    #[test]
    fn nothing_outside_the_two_folders_is_served() {
        let site = Site {
            pages: fs::canonicalize(places::root().join("xtask/src")).unwrap(),
            package: fs::canonicalize(places::root().join("pkg-template")).unwrap(),
        };
        let status = |path: &str| site.reply("GET", path).status;
        assert_eq!(status("/main.rs"), "200 OK");
        assert_eq!(status("/pkg/package.json"), "200 OK");
        for outside in [
            "/../Cargo.toml",
            "/%2e%2e/Cargo.toml",
            "/..%2fCargo.toml",
            "/..%5cCargo.toml",
            "//etc/passwd",
            "/pkg/../Cargo.toml",
            "/pkg//etc/passwd",
            "/",
        ] {
            assert_eq!(status(outside), "404 Not Found", "{outside}");
        }
        assert_eq!(site.reply("POST", "/main.rs").status, "405 Method Not Allowed");
    }
}
