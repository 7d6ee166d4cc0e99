// A session's life in a page that is reloaded: what was said before is there behind it, to the last code unit and byte.

import assert from 'node:assert/strict';

import { units } from './page.mjs';

const TYPED = 'Half \ud83d, whole \u{1f980}, NUL \u0000, half \udc00';

/** @param {() => Promise<any>} open loads the page, anew where it is loaded */
export async function outlivesThePage(open) {
    const first = await open();
    const before = await first.run(async (typed) => {
        const look = kit.tool('look', () => 'seen');
        const model = kit.scripted(kit.calling(['c1', 'look', { at: 0.1 }]), kit.assistant('Done.'));
        const runtime = await rc.Runtime.open({ model, tools: [look], now: kit.clock() });
        const session = await runtime.createSession({ id: 's', cwd: '/w' });
        session.bypass('all');
        const results = [await session.prompt([{ type: 'text', text: typed }, { type: 'image', data: new Uint8Array([0, 128, 255]) }])];
        results.push(await session.prompt('More'));
        return { info: runtime.storageInfo, results, counts: [model.calls, look.runs], messages: session.messages };
    }, TYPED);
    assert.deepEqual(before.info, { kind: 'indexeddb', persistent: true });
    assert.deepEqual(before.results, [{ outcome: 'success', saved: true }, { outcome: 'success', saved: true }]);
    assert.deepEqual(before.counts, [3, 1]);
    assert.deepEqual(await first.unhandled(), []);

    const second = await open();
    const after = await second.run(async () => {
        const runtime = await rc.Runtime.open({ model: kit.scripted(kit.assistant('Again.')) });
        const session = await runtime.openSession('s');
        const { messages, interrupted } = session;
        const result = await session.prompt('And more');
        return { messages, interrupted, result, listed: (await runtime.listSessions()).map(({ id }) => id) };
    });
    assert.deepEqual(after.messages, before.messages);
    assert.deepEqual(after.messages.map(({ role }) => role), ['user', 'assistant', 'toolResult', 'assistant', 'user', 'assistant']);
    const [text, image] = after.messages[0].content;
    assert.deepEqual(units(text.text), units(TYPED));
    assert.deepEqual(image.data, Uint8Array.from([0, 128, 255]));
    assert.deepEqual(after.interrupted, { $: 'undefined' });
    assert.deepEqual(after.result, { outcome: 'success', saved: true });
    assert.deepEqual(after.listed, ['s']);
    assert.deepEqual(await second.unhandled(), []);
}
