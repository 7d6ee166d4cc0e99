//! Prints the OpenAPI description of the HTTP routes: `cargo xtask build` puts it into the package.

fn main() {
    println!("{:#}", runcontext::http::openapi::description());
}
