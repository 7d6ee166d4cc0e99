// A host made of a table: what a file system would say about a path, link by link, on posix and on windows style.

/** Root and segments of a path; no root where it is relative. */
const cut = {
    posix: (path) => [path.startsWith('/') ? '/' : undefined, path.split('/')],
    windows(path) {
        const plain = path.replaceAll('/', '\\');
        const [root] = /^\\\\[^\\]+\\[^\\]+|^[A-Za-z]:(?=\\|$)|^\\/.exec(plain) ?? [];
        return [root === undefined || root === '\\' ? root : `${root}\\`, plain.slice(root?.length ?? 0).split('\\')];
    },
};

/**
 * Where a path leads.
 *
 * @param {object} at
 * @param {'posix' | 'windows'} [at.pathStyle]
 * @param {Record<string, string | null | false | object>} [at.resolves] an absolute path to where it leads, to null (it
 *   cannot be resolved), to false (there is no answer), or to an object that is the answer
 * @returns {object | undefined} the answer, or undefined where there is none
 */
export function resolvePath({ pathStyle = 'posix', resolves = {} }, base, path) {
    const separator = pathStyle === 'windows' ? '\\' : '/';
    const listed = new Map(Object.entries(resolves));
    const below = (folder, name) => (folder.endsWith(separator) ? folder + name : folder + separator + name);
    const above = (folder) => {
        const [root, names] = cut[pathStyle](folder);
        return names.filter((name) => name !== '').slice(0, -1).reduce(below, root);
    };

    let [root, segments] = cut[pathStyle](path);
    const [baseRoot, baseSegments] = cut[pathStyle](base);
    if (root === undefined) segments = [...baseSegments, ...segments];
    // `\x` is on the drive or share of the base.
    if (root === undefined || root === '\\') root = baseRoot;
    if (root === undefined) return { unresolved: `${base} is not absolute` };

    let named = root;
    let answer = { canonical: root };
    for (const segment of segments) {
        if (segment === '' || segment === '.') continue;
        const known = typeof answer?.canonical === 'string';
        if (segment === '..') {
            if (known) named = above(answer.canonical);
            if (known) answer = { canonical: named };
            continue;
        }
        named = below(named, segment);
        const entry = listed.get(named);
        if (typeof entry === 'string') answer = { canonical: entry };
        else if (entry === null) answer = { unresolved: `${named} is nowhere` };
        else if (entry === false) answer = undefined;
        else if (entry !== undefined) answer = entry;
        else if (known) answer = { canonical: below(answer.canonical, segment) };
    }
    return answer;
}
