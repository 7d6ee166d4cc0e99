// The skills that come with the demo: read from their files, and handed to the runtime where they are new.

import { parseSkill } from '/pkg/browser.js';

const NAMES = ['bug-report', 'code-review', 'commit-message', 'plain-language', 'release-notes'];
const SCOPE = 'bundled';

/** Makes the bundled skills of the catalogue those of this page. */
export async function bringSkills(catalog) {
    const files = await Promise.all(
        NAMES.map(async (name) => {
            const location = `/skills/${name}/SKILL.md`;
            const response = await fetch(`.${location}`);
            if (!response.ok) throw new Error(`${location}: the server answered ${response.status}`);
            return { location, content: await response.text() };
        }),
    );
    const before = catalog.list().filter(({ scope }) => scope === SCOPE);
    for (const { location, content } of files) {
        const revision = parseSkill(content, location).skill?.revision;
        const there = before.find((skill) => skill.location === location);
        if (there === undefined || there.revision !== revision) await catalog.add({ content, location, scope: SCOPE });
    }
    for (const { id, location } of before) {
        if (!files.some((file) => file.location === location)) await catalog.remove(id);
    }
}
