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

const HOSTS = `
import { Runtime, type Host, type ResolvedPath } from 'runcontext';
import { nodeHost, type NodeHost, type NodeHostOptions } from 'runcontext/hosts/node';
import { opfsHost, type OpfsHost, type OpfsHostOptions } from 'runcontext/hosts/opfs';
import { link, virtualHost, type VirtualDirectory, type VirtualHost, type VirtualHostOptions, type VirtualLink } from 'runcontext/hosts/virtual';

export async function use(root: FileSystemDirectoryHandle): Promise<string> {
    const settings: NodeHostOptions = { cwd: '/w', workspaceRoot: '/w', dataDir: null };
    const disk: NodeHost[] = [nodeHost(), nodeHost(null), nodeHost(settings)];
    const place: OpfsHostOptions = { root, cwd: '/w', workspaceRoot: null };
    const browser: OpfsHost[] = [opfsHost(), opfsHost(place)];
    const docs: VirtualLink = link('../docs');
    const tree: VirtualDirectory = { w: { 'a.txt': 'a', bytes: new Uint8Array(1), docs }, docs: {} };
    const options: VirtualHostOptions = { tree, cwd: '/w', workspaceRoot: '/', dataDir: '/d', pathStyle: 'posix', caseSensitive: true };
    const memory: VirtualHost = virtualHost(options);
    memory.write('a.txt', 'b');
    memory.write('bytes', new Uint8Array(1));
    memory.mkdir('c');
    memory.link('d', '/w');
    memory.remove('c');
    const content: string | Uint8Array = memory.read('a.txt');
    const names: string[] = memory.list('/w');
    // In memory there is nothing to wait for.
    const [now]: ResolvedPath[] = memory.resolvePaths('/w', ['a.txt'] as const);
    const hosts: Host[] = [...disk, ...browser, memory];
    for (const host of hosts) await Runtime.open({ host });
    const later: ResolvedPath[] = await disk[0]!.resolvePaths('/w', ['a.txt']);
    const style: 'posix' = browser[0]!.pathStyle;
    return now !== undefined && 'canonical' in now ? now.canonical : String([content, names, later, style, docs.target]);
}
`;

const WRONG_HOSTS = `
import { nodeHost } from 'runcontext/hosts/node';
import { opfsHost } from 'runcontext/hosts/opfs';
import { link, virtualHost } from 'runcontext/hosts/virtual';
// @ts-expect-error a folder is a text
nodeHost({ cwd: 7 });
// @ts-expect-error no such option
nodeHost({ root: '/' });
// @ts-expect-error a root is a handle
opfsHost({ root: '/' });
// @ts-expect-error no such option
opfsHost({ dataDir: '/' });
// @ts-expect-error a tree is needed
virtualHost({ cwd: '/' });
// @ts-expect-error a working directory is needed
virtualHost({ tree: {} });
// @ts-expect-error no such style
virtualHost({ tree: {}, cwd: '/', pathStyle: 'win32' });
// @ts-expect-error a number is no file
virtualHost({ tree: { a: 7 }, cwd: '/' });
// @ts-expect-error a link has a target
link();
// @ts-expect-error an answer may be unresolved
export const text: string = virtualHost({ tree: {}, cwd: '/' }).resolvePaths('/', ['a'])[0]!.canonical;
// @ts-expect-error there is no such host
import 'runcontext/hosts/walk';
`;

const STORAGE = `
import { memoryStorage, type StorageAdapter } from 'runcontext';
import { conformance, type Case, type Place } from 'runcontext/storage/conformance';
import { DirectoryObject, durableObjects, SessionObject, SharedObject, type DurableObjectsOptions, type Namespace } from 'runcontext/storage/durable-objects';

/** As the types of Cloudflare's workers have it, in short. */
interface Binding { idFromName(name: string): { toString(): string }; get(id: { toString(): string }): { fetch(input: Request | string, init?: RequestInit): Promise<Response> } }
class Mine extends SessionObject {}
export const objects = [DirectoryObject, SharedObject, Mine].map((made) => new made({}, {}));

export async function remote(binding: Binding): Promise<StorageAdapter[]> {
    const namespace: Namespace = binding;
    const options: DurableObjectsOptions = { sessions: namespace, shared: binding, directory: binding };
    return [durableObjects(options), durableObjects({ ...options, space: 'mine' })];
}

export async function use(mine: StorageAdapter): Promise<string[]> {
    const places: Place[] = [{ open: memoryStorage }, { open: async () => mine, reopen: async (adapter: StorageAdapter) => adapter }];
    const cases: Case[] = places.flatMap((place) => conformance(place));
    for (const { run } of cases) await run();
    return cases.map(({ name }) => name);
}
`;

const WRONG_STORAGE = `
import { conformance } from 'runcontext/storage/conformance';
import { durableObjects } from 'runcontext/storage/durable-objects';
// @ts-expect-error a place opens adapters
conformance({});
// @ts-expect-error an adapter has three parts
conformance({ open: () => ({ kind: 'mine', persistent: true }) });
// @ts-expect-error three namespaces are needed
durableObjects({});
// @ts-expect-error what the adapters have in common is no part of the package's interface
import 'runcontext/storage/commit';
`;

const settings = (options) =>
    JSON.stringify({
        compilerOptions: { strict: true, noEmit: true, skipLibCheck: false, target: 'ES2022', types: [], ...options },
        include: ['*.ts'],
    });

let project;
before(async () => {
    project = await installed({
        'consumer.ts': CONSUMER, 'wrong.ts': WRONG, 'hosts.ts': HOSTS, 'wrong_hosts.ts': WRONG_HOSTS, 'storage.ts': STORAGE, 'wrong_storage.ts': WRONG_STORAGE,
    });
});
after(() => project?.remove());

for (const [module, moduleResolution] of [['NodeNext', 'NodeNext'], ['ESNext', 'Bundler']]) {
    test(`a strict consumer compiles, and misuse does not, with module resolution ${moduleResolution}`, async () => {
        const options = { module, moduleResolution, lib: ['ES2022', 'DOM'] };
        await writeFile(path.join(project.folder, 'tsconfig.json'), settings(options));
        await project.tsc('-p', '.');
    });
}

test('the hand-written loaders, hosts and storage are right by their own types', async () => {
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
    await writeFile(path.join(folder, 'tsconfig.json'), JSON.stringify({ compilerOptions, include: ['*.js', 'hosts/*.js', 'integrations/*.js', 'storage/*.js'] }));
    await project.tsc('-p', folder);
});
