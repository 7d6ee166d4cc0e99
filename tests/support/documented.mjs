// The examples that stand in the types of the package.

import { readFile } from 'node:fs/promises';

/** The one example in a file of types, as a module. */
export async function documented(file) {
    const examples = (await readFile(file, 'utf8')).split(' * @example\n').slice(1);
    if (examples.length !== 1) throw new Error(`${file} has ${examples.length} examples`);
    const [lines] = examples[0].split(/^ \*(?: @|\/)/m);
    return lines.replace(/^ \* ?/gm, '');
}
