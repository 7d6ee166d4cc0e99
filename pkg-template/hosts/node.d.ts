import type { Host, ResolvedPath } from '../index.js';

/** The folders of a {@link nodeHost}: absolute paths, written as this system writes them. */
export interface NodeHostOptions {
    /** By default the working directory of the process, as it is now. */
    cwd?: string | null;
    /** By default `cwd`. */
    workspaceRoot?: string | null;
    /** The user's data directory. */
    dataDir?: string | null;
}

export interface NodeHost extends Host {
    readonly pathStyle: 'posix' | 'windows';
    /** Never rejects: what cannot be resolved is `unresolved`, with the reason. */
    resolvePaths(base: string, paths: readonly string[]): Promise<ResolvedPath[]>;
    /** The same at once, for what exists; anything else is `unresolved`. */
    resolvePathsSync(base: string, paths: readonly string[]): ResolvedPath[];
}

/**
 * A host whose paths are those of the disk, for Node.
 *
 * What exists is resolved by the system itself, in its own spelling: `..` after a link is where the link led (Windows
 * takes `..` out first). For what does not exist yet it is the nearest directory above it, resolved, plus the rest;
 * a link to something that does not exist leads there, not to its own place. An empty path is its base. `~`, `%2e`
 * and `file://` mean nothing special. Loops of links, files used as directories, directories that may not be searched,
 * names that are too long or no Unicode, and a NUL are `unresolved`.
 *
 * The answer is of the moment when it was asked for. Nothing is locked: whoever acts on it later, beside others who
 * may move files or links, has to hold them off or open the canonical path without following links.
 *
 * @example
 * import { symlink } from 'node:fs/promises';
 * import { nodeHost } from 'runcontext/hosts/node';
 *
 * const host = nodeHost(); // or with `cwd`, `workspaceRoot`, `dataDir`
 * await symlink('/etc', 'settings');
 * const [inside, outside] = await host.resolvePaths(host.cwd, ['notes/new.txt', 'settings/passwd']);
 * console.log(inside); // { canonical: '<cwd>/notes/new.txt' }
 * console.log(outside); // { canonical: '/etc/passwd' }
 *
 * @throws {RunContextError} `invalid_argument` for options of the wrong type, and for paths that are not absolute
 */
export function nodeHost(options?: NodeHostOptions | null): NodeHost;
