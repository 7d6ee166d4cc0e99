// The example of the README, as it stands there, in an empty project with the packed package.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { installed } from '../support/project.mjs';

test('the example of the README runs as it is written', async () => {
    const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
    const [, example] = readme.match(/```js\n([\s\S]*?)```/);
    // What the example leaves to its reader. The model is a mock: it answers, and keeps what it was asked.
    const around = `
        const asked = [];
        const model = { async complete(request) {
            asked.push(request.messages);
            return { role: 'assistant', content: [{ type: 'text', text: 'Looks good.' }], stopReason: 'stop' };
        } };
        const skillMd = '---\\nname: review\\ndescription: Reviews.\\n---\\nRead twice.\\n';
    `;
    const told = `
        process.stdout.write('\\n' + JSON.stringify({ result, asked, stored: session.messages }));
    `;
    const project = await installed();
    try {
        const output = await project.node('--input-type=module', '--eval', `${around}${example}${told}`);
        const { result, asked, stored } = JSON.parse(output.split('\n').at(-1));
        assert.deepEqual(result, { outcome: 'success', saved: true });
        assert.equal(stored[0].content, 'Look at this. $review');
        assert.equal(
            asked[0][0].content,
            '<skill name="review" location="/skills/review/SKILL.md">\nRead twice.\n</skill>\n\nLook at this. $review',
        );
    } finally {
        await project.remove();
    }
});
