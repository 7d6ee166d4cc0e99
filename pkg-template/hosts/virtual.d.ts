import type { Host, ResolvedPath } from '../index.js';

/** A link in a tree, made by {@link link}. */
export interface VirtualLink {
    readonly target: string;
}

/** A directory: a text or bytes are a file, an object is a directory. */
export interface VirtualDirectory {
    [name: string]: string | Uint8Array | VirtualLink | VirtualDirectory;
}

export interface VirtualHostOptions {
    /** What is in `/`. On windows style what is in each root, by its name: `C:`, or `\\server\share`. */
    tree: VirtualDirectory;
    /** Absolute, in the style of `pathStyle`, as the other folders are. */
    cwd: string;
    /** By default `cwd`. */
    workspaceRoot?: string | null;
    /** The user's data directory. */
    dataDir?: string | null;
    /** How paths are written; by default `posix`. */
    pathStyle?: 'posix' | 'windows' | null;
    /** Whether `a` and `A` are two names. By default they are on posix style, and are not on windows style. */
    caseSensitive?: boolean | null;
}

/** Paths that the methods take are absolute, or relative to `cwd`. */
export interface VirtualHost extends Host {
    readonly pathStyle: 'posix' | 'windows';
    /** Never throws: what cannot be resolved is `unresolved`, with the reason. */
    resolvePaths(base: string, paths: readonly string[]): ResolvedPath[];
    /** The same: a tree in memory answers at once. */
    resolvePathsSync(base: string, paths: readonly string[]): ResolvedPath[];
    /** Writes a file where the path leads, through links, and makes the directories that are missing above it. */
    write(path: string, content: string | Uint8Array): void;
    /** Makes a directory, and those that are missing above it. One that is there is left as it is. */
    mkdir(path: string): void;
    /** Makes a link, or points one that is there elsewhere. The target need not exist. */
    link(path: string, target: string): void;
    /** Removes a file, a link (not what it leads to), or a directory with all that is in it. */
    remove(path: string): void;
    /** What is in a file, as it was written; bytes are a copy. Throws `not_found` where there is none. */
    read(path: string): string | Uint8Array;
    /** The names in a directory, sorted. Throws `not_found` where there is none. */
    list(path: string): string[];
}

/** A link, for a tree: `target` is absolute, or relative to the directory that the link is in. */
export function link(target: string): VirtualLink;

/**
 * A host whose files are in memory, for tests and demos.
 *
 * It resolves paths as the system of its style does. On posix style `..` after a link is where the link led; on windows
 * style `..` is taken out first, both separators count, and device paths, paths relative to a drive's working directory and
 * names that Windows refuses or changes are `unresolved`. What does not exist yet is where it would be made: a link
 * to nothing leads to what is missing. More than 40 links in one path are `unresolved`. An empty path is its base.
 * Where case does not count, what exists comes back in the spelling that it was made with.
 *
 * @example
 * import { link, virtualHost } from 'runcontext/hosts/virtual';
 *
 * const host = virtualHost({
 *     tree: { ws: { 'notes.txt': 'a note', logs: link('/var/log') }, var: { log: {} } },
 *     cwd: '/ws',
 * });
 * console.log(host.resolvePaths('/ws', ['notes.txt', 'logs/today', 'logs/../secret']));
 * // [{ canonical: '/ws/notes.txt' }, { canonical: '/var/log/today' }, { canonical: '/var/secret' }]
 * host.link('logs', '/etc');
 * host.write('logs/today', 'all quiet');
 * console.log(host.read('/etc/today')); // 'all quiet'
 *
 * @throws {RunContextError} `invalid_argument` for options of the wrong type, for paths that are not absolute, and for
 * names that no file can have
 */
export function virtualHost(options: VirtualHostOptions): VirtualHost;
