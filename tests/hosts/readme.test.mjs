// The example of the README, as it stands there, in an empty project with the packed package.

import assert from 'node:assert/strict';
import { readFile } from 'node:fs/promises';
import { test } from 'node:test';

import { installed } from '../support/project.mjs';

test('the example of the README runs as it is written', async () => {
    const readme = await readFile(new URL('../../README.md', import.meta.url), 'utf8');
    const [, example] = readme.match(/```js\n([\s\S]*?)```/);
    // What the example leaves to its reader. The model is a mock: it calls tools, answers, and keeps what it was asked. The
    // person says yes.
    const around = `
        const asked = [];
        const call = (id, name, args) => ({ type: 'toolCall', id, name, arguments: args });
        const model = { async complete(request) {
            asked.push(request.messages);
            if (asked.length > 1) return { role: 'assistant', content: [{ type: 'text', text: 'Looks good.' }], stopReason: 'stop' };
            return { role: 'assistant', stopReason: 'toolUse', content: [
                call('c1', 'clock', {}),
                call('c2', 'write_file', { path: 'a/../notes.md', content: 'Done.' }),
                call('c3', 'write_file', { path: 'private/key', content: 'x' }),
            ] };
        } };
        const questions = [];
        const ask = async ({ toolName, paths }) => {
            questions.push([toolName, paths[0].requested, paths[0].canonical]);
            return true;
        };
        const skillMd = '---\\nname: review\\ndescription: Reviews.\\n---\\nRead twice.\\n';
    `;
    const told = `
        const [notes, names] = [files.read('notes.md'), files.list('.')];
        process.stdout.write('\\n' + JSON.stringify({ result, asked, stored: session.messages, questions, notes, names }));
    `;
    const project = await installed();
    try {
        const output = await project.node('--input-type=module', '--eval', `${around}${example}${told}`);
        const { result, asked, stored, questions, notes, names } = JSON.parse(output.split('\n').at(-1));
        assert.deepEqual(result, { outcome: 'success', saved: true });
        assert.equal(stored[0].content, 'Look at this. $review');
        assert.equal(
            asked[0][0].content,
            '<skill name="review" location="/skills/review/SKILL.md">\nRead twice.\n</skill>\n\nLook at this. $review',
        );
        // A rule allows the clock and forbids what is private; the other write was asked about, and ran.
        assert.deepEqual(questions, [['write_file', 'a/../notes.md', '/work/notes.md']]);
        assert.deepEqual([notes, names], ['Done.', ['notes.md']]);
        const results = Object.fromEntries(stored.filter(({ role }) => role === 'toolResult').map((it) => [it.toolCallId, it]));
        assert.deepEqual(['c1', 'c2', 'c3'].map((id) => results[id].isError), [false, false, true]);
        assert.equal(results.c3.content[0].text, '`write_file` on `private/key` is denied: a rule says so');
    } finally {
        await project.remove();
    }
});
