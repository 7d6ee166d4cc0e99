// `parseSkill` and `findSkillMentions` against what was written down: the vectors that the crate's own tests read, too.

import { ok, same } from './check.mjs';
import { rc } from './kit.mjs';

export const cases = {};

async function vectors(name) {
    const address = new URL(`../vectors/${name}.json`, import.meta.url);
    if (address.protocol !== 'file:') return (await fetch(address)).json();
    const { readFile } = await import('node:fs/promises');
    return JSON.parse(await readFile(address, 'utf8'));
}

cases['files are read as the vectors say, from text and from bytes'] = async () => {
    const files = (await vectors('frontmatter')).cases;
    ok(files.length > 100);
    for (const { name, text, location, skill, diagnostics } of files) {
        const outcome = rc.parseSkill(text, location);
        same(outcome.skill ?? null, skill, name);
        same(outcome.diagnostics.map(({ code, severity }) => ({ code, severity })), diagnostics.map(({ code, severity }) => ({ code, severity })), name);
        for (const [at, { line, column }] of diagnostics.entries()) {
            // The YAML parser may choose a place that is null.
            if (line !== null) same([outcome.diagnostics[at].line, outcome.diagnostics[at].column], [line, column], name);
        }
        same(rc.parseSkill(new TextEncoder().encode(text), location), outcome, `${name} as bytes`);
    }
};

cases['mentions are found as the vectors say'] = async () => {
    const { skills, cases: texts, long } = await vectors('mentions');
    // The catalogue says in `status` which skills are shadowed.
    const told = (list) => skills[list].map(({ shadowed, ...skill }) => (shadowed ? { ...skill, status: 'shadowed' } : skill));
    ok(texts.some(({ skills: list }) => told(list).some(({ status }) => status === 'shadowed')));
    for (const { name, text, skills: list, mentions } of texts) same(rc.findSkillMentions(text, told(list)), mentions, name);
    for (const { name, repeat, times, then, skills: list, mentions } of long) {
        same(rc.findSkillMentions(repeat.repeat(times) + then, told(list)).length, mentions, name);
    }
};

cases['half of an astral character beside a name is one unit and no letter'] = async () => {
    const found = rc.findSkillMentions('\ude00$alpha\ud83d $alpha\ude00', [{ id: 'a', name: 'alpha' }]);
    same(found, [{ id: 'a', start: 1, end: 7 }, { id: 'a', start: 9, end: 15 }]);
};
