import type { Host, ResolvedPath } from '../index.js';

export interface OpfsHostOptions {
    /** What `/` is. By default the whole Origin Private File System. */
    root?: FileSystemDirectoryHandle | null;
    /** Absolute; by default `/`. */
    cwd?: string | null;
    /** Absolute; by default `cwd`. */
    workspaceRoot?: string | null;
}

export interface OpfsHost extends Host {
    readonly pathStyle: 'posix';
    /** Never rejects: what cannot be resolved is `unresolved`, with the reason. */
    resolvePaths(base: string, paths: readonly string[]): Promise<ResolvedPath[]>;
}

/**
 * A host whose paths are those of the browser's Origin Private File System, in windows and in workers.
 *
 * Paths begin at `/` and are written as on posix. There are no links, so that `..` is taken out by the text alone, and
 * nothing is above `/`. Names are looked up in the case that they are written in. An empty path is its base. A file
 * used as a directory and a name that the browser refuses are `unresolved`, and so is everything where the browser
 * gives no access to the file system. The answer is of the moment when it was asked for.
 *
 * @example
 * import { opfsHost } from 'runcontext/hosts/opfs';
 *
 * const host = opfsHost({ cwd: '/notes' });
 * const [draft, above, refused] = await host.resolvePaths(host.cwd, ['draft.txt', '../../shared/', 'a\\b']);
 * console.log(draft); // { canonical: '/notes/draft.txt' }
 * console.log(above); // { canonical: '/shared' }
 * console.log('unresolved' in refused); // true
 *
 * @throws {RunContextError} `invalid_argument` for options of the wrong type, and for paths that are not absolute
 */
export function opfsHost(options?: OpfsHostOptions | null): OpfsHost;
