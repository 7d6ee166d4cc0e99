// The disk and the tree in memory, asked the same: random trees with links are made on a real disk and as a virtual
// tree, and `nodeHost` and `virtualHost` have to give the same answer for random paths. Where there is a `realpath` that
// takes what does not exist, it is the third opinion.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { lstatSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { installed } from '../support/project.mjs';

const TREES = process.env.RUNCONTEXT_DEEP ? 1000 : 50;
const PATHS = 60;
const seed = Number(process.env.RUNCONTEXT_SEED ?? Date.now() % 2 ** 32);

let project, nodeHost, link, virtualHost, top;
before(async () => {
    project = await installed();
    ({ nodeHost } = await project.import('runcontext/hosts/node'));
    ({ link, virtualHost } = await project.import('runcontext/hosts/virtual'));
    top = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'runcontext-alike-')));
});
after(async () => {
    if (top !== undefined) rmSync(top, { recursive: true, force: true });
    await project?.remove();
});

/** Numbers from 0 to below 1 that depend on the seed alone (a xorshift). */
function random(from) {
    let state = (Math.imul(from, 2654435761) + 1) >>> 0 || 1;
    return () => {
        state ^= state << 13;
        state ^= state >>> 17;
        state ^= state << 5;
        return (state >>> 0) / 2 ** 32;
    };
}

const NAMES = ['kiwi', 'plum', 'fig', 'pear'];

/** Everything random about one tree. */
function chance(next) {
    const below = (count) => Math.floor(next() * count);
    const one = (list) => list[below(list.length)];
    const steps = () => Array.from({ length: 1 + below(4) }, () => one([...NAMES, ...NAMES, '..', '..', '.', 'gone', 'Kiwi']));
    return {
        below,
        one,
        /** A path, relative or below the root of the tree. */
        path(root) {
            const end = one(['', '', '', '', '/', '/.', '/..', '//']);
            return (below(4) === 0 ? `${root}/` : '') + steps().join(one(['/', '/', '/', '//'])) + end;
        },
    };
}

/** Makes a tree below `folder` on the disk, and gives it as a list of what was made: `[path, kind, content or target]`. */
function grow(folder, luck) {
    const made = [];
    const fill = (at, depth) => {
        for (const name of NAMES) {
            const here = `${at}/${name}`;
            const kind = luck.below(10);
            if (kind < 4 && depth < 3) {
                mkdirSync(here);
                made.push([here, 'directory']);
                fill(here, depth + 1);
            } else if (kind < 5) {
                writeFileSync(here, name);
                made.push([here, 'file', name]);
            } else if (kind < 9) {
                const target = luck.path(folder);
                symlinkSync(target, here);
                made.push([here, 'link', target]);
            }
        }
    };
    mkdirSync(folder);
    fill(folder, 0);
    return made;
}

/** The same as an object; what is in it stands below the root of the file system, as on the disk. */
function planted(folder, made) {
    const tree = {};
    const inside = (at) => at.split('/').slice(1).reduce((directory, name) => (directory[name] ??= {}), tree);
    inside(folder);
    for (const [at, kind, what] of made) {
        const value = kind === 'directory' ? {} : kind === 'file' ? what : link(what);
        inside(path.dirname(at))[path.basename(at)] = value;
    }
    return virtualHost({ tree, cwd: folder });
}

/** The same by what a host can do while it runs. */
function built(folder, made) {
    const host = virtualHost({ tree: {}, cwd: '/' });
    host.mkdir(folder);
    for (const [at, kind, what] of made) {
        if (kind === 'directory') host.mkdir(at);
        else if (kind === 'file') host.write(at, what);
        else host.link(at, what);
    }
    return host;
}

const exists = (at) => lstatSync(at, { throwIfNoEntry: false }) !== undefined;

test('the disk and the tree in memory give the same answers', async (t) => {
    t.diagnostic(`RUNCONTEXT_SEED=${seed}`);
    const count = { paths: 0, link: 0, 'not there yet': 0, 'a link, not there yet': 0, loop: 0, 'file as directory': 0, 'by realpath -m': 0 };
    for (let at = 0; at < TREES; at++) {
        const luck = chance(random(seed + at));
        const folder = `${top}/${at}`;
        const made = grow(folder, luck);
        const host = at % 2 === 0 ? planted(folder, made) : built(folder, made);
        const bases = [folder, folder, luck.path(folder), ...made.map(([at]) => at)].filter((base) => base.startsWith('/'));
        const asked = Array.from({ length: PATHS }, () => [luck.one(bases), luck.path(folder)]);
        const settled = [];
        for (const [base, name] of asked) {
            const [onDisk] = await nodeHost({ cwd: folder }).resolvePaths(base, [name]);
            const [inMemory] = host.resolvePaths(base, [name]);
            const what = `seed ${seed}, tree ${at}, ${JSON.stringify(name)} from ${base}\n${made.map((line) => line.join(' ')).join('\n')}`;
            assert.deepEqual(inMemory, onDisk, what);
            count.paths++;
            const { canonical } = onDisk;
            if (canonical === undefined) {
                if (onDisk.unresolved.includes('loop')) count.loop++;
                if (onDisk.unresolved.includes('file as')) count['file as directory']++;
                continue;
            }
            // What a link did not change counts for nothing, so that these are less than there are.
            const isLink = canonical !== path.resolve(base, name);
            const isNew = !exists(canonical);
            if (isLink) count.link++;
            if (isNew) count['not there yet']++;
            if (isLink && isNew) count['a link, not there yet']++;
            settled.push([path.isAbsolute(name) ? name : `${base}/${name}`, canonical, what]);
        }
        for (const [at, found] of thirdOpinion(settled.map(([name]) => name)).entries()) {
            const [, canonical, what] = settled[at];
            assert.equal(canonical, found, `realpath -m, ${what}`);
            count['by realpath -m']++;
        }
        rmSync(folder, { recursive: true });
    }
    t.diagnostic(JSON.stringify(count));
    const least = { paths: 1, link: 0.15, 'not there yet': 0.15, 'a link, not there yet': 0.05, loop: 0.02, 'file as directory': 0.02 };
    for (const [what, share] of Object.entries(least)) {
        assert.ok(count[what] >= share * TREES * PATHS, `seed ${seed}: only ${count[what]} of ${count.paths}: ${what}`);
    }
});

/** What GNU's `realpath` says of absolute paths; nothing where there is another one. */
function thirdOpinion(paths) {
    if (process.platform !== 'linux' || paths.length === 0) return [];
    try {
        const output = execFileSync('realpath', ['-m', '-z', '--', ...paths], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
        return output.split('\0').slice(0, -1);
    } catch (error) {
        // It answers what it can; a status says that it could not answer all, or knows no such option.
        assert.ok(!String(error.stdout).includes('\0'), 'realpath -m did not answer for every path');
        return [];
    }
}

test('the disk and the tree in memory follow as many links as each other', async () => {
    const folder = `${top}/chain`;
    mkdirSync(folder);
    const tree = { end: {} };
    mkdirSync(`${folder}/end`);
    for (let at = 1; at <= 41; at++) {
        const target = at === 1 ? 'end' : `l${at - 1}`;
        symlinkSync(target, `${folder}/l${at}`);
        tree[`l${at}`] = link(target);
    }
    const [, ...names] = folder.split('/');
    const whole = names.reverse().reduce((inner, name) => ({ [name]: inner }), tree);
    const paths = ['l30', 'l30/new', 'l20/../l9/x', ...(process.platform === 'linux' ? ['l40', 'l40/new', 'l41', 'l41/new', 'l21/../l20'] : [])];
    const onDisk = await nodeHost({ cwd: folder }).resolvePaths(folder, paths);
    assert.deepEqual(virtualHost({ tree: whole, cwd: folder }).resolvePaths(folder, paths), onDisk);
    const loop = { unresolved: 'has too many links, or a loop of them' };
    const wanted = [`${folder}/end`, `${folder}/end/new`, `${folder}/end/x`, `${folder}/end`, `${folder}/end/new`].map((canonical) => ({ canonical }));
    assert.deepEqual(onDisk, [...wanted, loop, loop, loop].slice(0, paths.length));
});
