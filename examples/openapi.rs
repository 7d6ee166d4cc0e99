//! Prints the OpenAPI description of the HTTP routes: `cargo xtask build` puts it into the package.

fn main() {
    // The module has none.
    #[cfg(not(target_family = "wasm"))]
    println!("{:#}", runcontext::http::openapi::description());
}
