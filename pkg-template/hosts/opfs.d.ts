import type { Host, ResolvedPath } from '../index.js';

export interface OpfsHostOptions {
    /** What `/` is: a directory in the Origin Private File System. By default all of it. */
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
    /**
     * The same by the text alone, since there are no links: so `isHidden` shows what a listing may show. Nothing is looked
     * at: a path below a file has an answer too. With a `root` everything is `unresolved` until `resolvePaths` has found it.
     */
    resolvePathsSync(base: string, paths: readonly string[]): ResolvedPath[];
}

/**
 * A host whose paths are those of the browser's Origin Private File System, in windows and in workers.
 *
 * Paths begin at `/` and are written as on posix. There are no links, so that `..` is taken out by the text alone, and
 * nothing is above `/`. Names are looked up in the case that they are written in. An empty path is its base. A file
 * used as a directory and a name that the browser refuses are `unresolved`, and so is everything where the browser
 * gives no access to the file system, and where `root` is a directory outside of it, such as one that a person picked from a
 * disk: that may hold links. The answer is of the moment when it was asked for.
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
