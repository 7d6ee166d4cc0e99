// The demo site, served as `cargo xtask demo` serves it.

import { spawn } from 'node:child_process';
import { fileURLToPath } from 'node:url';

/** Starts the server on a free port, without building. */
export async function demo() {
    const program = process.env.RUNCONTEXT_XTASK;
    const [command, ...args] = program ? [program] : ['cargo', 'xtask'];
    const child = spawn(command, [...args, 'demo', '--no-build', '--port', '0'], {
        cwd: fileURLToPath(new URL('../..', import.meta.url)),
        stdio: ['ignore', 'pipe', 'inherit'],
    });
    const exited = new Promise((resolve) => child.once('exit', resolve));
    const url = await new Promise((resolve, reject) => {
        let text = '';
        child.stdout.setEncoding('utf8').on('data', (chunk) => {
            text += chunk;
            const found = /^listening on (http:\/\/\S+)$/m.exec(text);
            if (found) resolve(found[1]);
        });
        child.once('error', reject);
        exited.then((code) => reject(new Error(`the demo server ended with ${code}: ${text}`)));
    });
    return {
        /** Without a slash at the end. */
        url,
        async close() {
            child.kill('SIGINT');
            return exited;
        },
    };
}
