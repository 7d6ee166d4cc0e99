// The types of the package, seen by the TypeScript compiler in strict mode.

import { cp, mkdir, symlink, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { installed, testPackages } from '../support/project.mjs';

const CONSUMER = `
import { init, version, Runtime, RunContextError, renderSystemPrompt, type RunContextErrorCode } from 'runcontext';

export async function use(): Promise<string> {
    await init();
    await init(new URL('https://example.com/runcontext.wasm'));
    await init(fetch('https://example.com/runcontext.wasm'));
    await init(new Uint8Array(3));
    const runtime: Runtime = await Runtime.open({ storage: 'memory' });
    await runtime.close();
    const text: string = renderSystemPrompt([{ name: 'preamble', content: version }]);
    return text;
}

export function codeOf(error: unknown): RunContextErrorCode | undefined {
    if (error instanceof RunContextError) {
        const busy: boolean = error.code === 'session_busy';
        const numbers: unknown = error.data['numbers'];
        return busy && numbers ? error.code : undefined;
    }
    return undefined;
}
`;

const WRONG = `
import { init, RunContextError, renderSystemPrompt } from 'runcontext';
// @ts-expect-error null is no module
void init(null);
// @ts-expect-error sections are a list
renderSystemPrompt('text');
// @ts-expect-error the code is read-only
export const change = (error: RunContextError) => { error.code = 'conflict'; };
// @ts-expect-error no such code
export const compare = (error: RunContextError) => error.code === 'typing_mistake';
`;

const settings = (options) =>
    JSON.stringify({
        compilerOptions: { strict: true, noEmit: true, skipLibCheck: false, target: 'ES2022', types: [], ...options },
        include: ['*.ts'],
    });

let project;
before(async () => {
    project = await installed({ 'consumer.ts': CONSUMER, 'wrong.ts': WRONG });
});
after(() => project?.remove());

for (const [module, moduleResolution] of [['NodeNext', 'NodeNext'], ['ESNext', 'Bundler']]) {
    test(`a strict consumer compiles, and misuse does not, with module resolution ${moduleResolution}`, async () => {
        const options = { module, moduleResolution, lib: ['ES2022', 'DOM'] };
        await writeFile(path.join(project.folder, 'tsconfig.json'), settings(options));
        await project.tsc('-p', '.');
    });
}

test('the hand-written loaders are right by their own types', async () => {
    const folder = path.join(project.folder, 'loaders');
    await cp(path.join(project.folder, 'node_modules/runcontext'), folder, { recursive: true });
    await mkdir(path.join(folder, 'node_modules'));
    await symlink(path.join(testPackages, '@types'), path.join(folder, 'node_modules/@types'));
    await symlink(path.join(testPackages, 'undici-types'), path.join(folder, 'node_modules/undici-types'));
    const compilerOptions = {
        strict: true, noEmit: true, allowJs: true, checkJs: false, target: 'ES2022', module: 'NodeNext',
        lib: ['ES2022', 'DOM', 'DOM.Iterable'], types: ['node'], skipLibCheck: true,
    };
    // Files that say // @ts-check are checked; the generated glue does not.
    await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.js'] }));
    await project.tsc('-p', folder);
});
