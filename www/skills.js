// Where the skills of the demo come from: files of the page, and files that somebody adds.

import { parseSkill } from '/pkg/browser.js';

const NAMES = ['bug-report', 'code-review', 'commit-message', 'plain-language', 'release-notes'];

/** The skills that come with the demo, read from their files whenever one is chosen. */
export const bundled = {
    scope: 'bundled',
    list: () => NAMES.map((name) => ({ location: `/skills/${name}/SKILL.md`, read: () => fetched(`./skills/${name}/SKILL.md`) })),
};

async function fetched(address) {
    const response = await fetch(address);
    if (!response.ok) throw new Error(`the server answered ${response.status}`);
    return response.text();
}

/** The most that is read of a file that somebody adds: more than the library takes, so that it says so. */
const MOST = 32 * 1024 * 1024 + 1;

/**
 * Adds a skill from a file. Many are called `SKILL.md`, so that one stands under the name that it gives itself, and a file with
 * the same name takes its place.
 *
 * @param {File} file
 */
export async function addFromFile(catalog, file) {
    const content = new Uint8Array(await file.slice(0, MOST).arrayBuffer());
    const name = content.length < MOST ? parseSkill(content).skill?.name : undefined;
    return catalog.add({ content, location: name === undefined ? file.name : `/my-skills/${name}/SKILL.md` });
}
