// A small static server for tests: folders mounted at prefixes, pages given as text, one policy for all.

import { createServer } from 'node:http';
import { readFile } from 'node:fs/promises';
import path from 'node:path';

/** The strictest policy under which WebAssembly runs. */
export const STRICT = "default-src 'self'; script-src 'self' 'wasm-unsafe-eval'; object-src 'none'; base-uri 'none'";

const KINDS = {
    '.html': 'text/html; charset=utf-8',
    '.js': 'text/javascript; charset=utf-8',
    '.mjs': 'text/javascript; charset=utf-8',
    '.json': 'application/json',
    '.wasm': 'application/wasm',
    '.css': 'text/css; charset=utf-8',
};

/**
 * @param {object} options
 * @param {Record<string, string>} [options.folders] prefix (`/pkg/`) to folder
 * @param {Record<string, string>} [options.pages] path to content
 * @param {string | null} [options.policy] Content-Security-Policy
 * @param {(request: import('node:http').IncomingMessage, response: import('node:http').ServerResponse) => boolean | Promise<boolean>} [options.first]
 *   sees every request first; true means that it has answered
 */
export async function serve({ folders = {}, pages = {}, policy = STRICT, first } = {}) {
    const requests = [];
    const server = createServer(async (request, response) => {
        const { pathname } = new URL(request.url, 'http://localhost');
        requests.push(pathname);
        if (policy !== null) response.setHeader('Content-Security-Policy', policy);
        if (first && (await first(request, response))) return;
        const body = pages[pathname] ?? (await file(folders, pathname));
        if (body === undefined) {
            response.writeHead(404, { 'Content-Type': 'text/plain' }).end('not found');
            return;
        }
        const kind = KINDS[path.extname(pathname)] ?? (pathname.endsWith('/') ? KINDS['.html'] : 'application/octet-stream');
        response.writeHead(200, { 'Content-Type': kind, 'Cache-Control': 'no-store' }).end(body);
    });
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    return {
        /** Without a slash at the end. */
        url: `http://127.0.0.1:${server.address().port}`,
        /** Paths that were asked for, in order. */
        requests,
        async close() {
            server.closeAllConnections();
            await new Promise((resolve) => server.close(resolve));
        },
    };
}

async function file(folders, pathname) {
    for (const [prefix, folder] of Object.entries(folders)) {
        if (!pathname.startsWith(prefix)) continue;
        const found = path.join(folder, decodeURIComponent(pathname.slice(prefix.length)));
        if (!found.startsWith(path.resolve(folder) + path.sep)) continue;
        const body = await readFile(found).catch(() => undefined);
        if (body !== undefined) return body;
    }
    return undefined;
}
