// What cannot be stored in a message of a running turn becomes null and is listed, and nothing beside it changes.

import { fails, ok, same } from './check.mjs';
import { assistant, calling, scripted, tool } from './kit.mjs';
import { world } from './world.mjs';

const MIB = 1024 * 1024;
const large = 'x'.repeat(33 * MIB);
const half = 'y'.repeat(17 * MIB);

/** What became of a model's answer: the result of its turn, and the message as it is stored. */
async function answered(...answers) {
    const at = await world({ model: scripted(...answers) });
    const result = await at.session.prompt('Hi');
    const stored = at.session.messages[1];
    await at.close();
    return { result, stored };
}

const placesOf = ({ degraded = [] }) => degraded.map(({ path }) => path);

export const cases = {
    async 'a text over 32 MiB becomes null, and everything behind it stays'() {
        const { result, stored } = await answered({
            role: 'assistant', content: [{ type: 'text', text: large }, { type: 'text', text: 'kept' }], list: [1, 2, 3],
            stopReason: 'error', errorMessage: 'failed', id: 'm1',
        });
        same([result.outcome, result.error, placesOf(result)], ['error', 'failed', ['content[0].text']]);
        same(JSON.stringify(stored), JSON.stringify({
            role: 'assistant', content: [{ type: 'text', text: null }, { type: 'text', text: 'kept' }], list: [1, 2, 3],
            stopReason: 'error', errorMessage: 'failed', id: 'm1',
        }));
    },

    async 'bytes over 32 MiB become null, and everything behind them stays'() {
        const { result, stored } = await answered({ role: 'assistant', content: 'kept', data: new Uint8Array(33 * MIB), stopReason: 'stop' });
        same([result.outcome, placesOf(result)], ['success', ['data']]);
        same(JSON.stringify(stored), '{"role":"assistant","content":"kept","data":null,"stopReason":"stop"}');
    },

    async 'of two texts that are too large together, the one that no longer fits becomes null'() {
        const { result, stored } = await answered({ role: 'assistant', content: [{ text: half }, { text: half }, { text: 'z' }], stopReason: 'error' });
        same([result.outcome, placesOf(result)], ['error', ['content[1].text']]);
        same(stored.content.map(({ text }) => text?.length), [17 * MIB, undefined, 1]);
        same([stored.content[1].text, stored.stopReason], [null, 'error']);
    },

    async 'where everything else fills 32 MiB, the stop reason still fits'() {
        const { result, stored } = await answered({ role: 'assistant', content: 'x'.repeat(32 * MIB - 60), stopReason: 'error', errorMessage: 'full' });
        same([result.outcome, result.error, placesOf(result)], ['error', 'full', []]);
        same([stored.stopReason, stored.content.length], ['error', 32 * MIB - 60]);
    },

    async 'a list of millions of numbers becomes null itself, and nothing beside it'() {
        const { result, stored } = await answered({ role: 'assistant', content: [{ type: 'text', text: 'a' }, { type: 'data', list: Array(5e6).fill(1) }], stopReason: 'stop' });
        same([result.outcome, placesOf(result)], ['success', ['content[1].list']]);
        same(JSON.stringify(stored.content), '[{"type":"text","text":"a"},{"type":"data","list":null}]');
    },

    async 'a message that is itself made of too many members is refused, with what to do'() {
        const many = { role: 'assistant', content: 'x' };
        for (let at = 0; at < 20_000; at++) many[`member${at}`] = () => {};
        const { result, stored } = await answered(many);
        same([result.outcome, result.degraded, stored], ['error', undefined, undefined]);
        ok(/holds too many values/.test(result.error), result.error);
    },

    async 'the smallest object or list with more than a thousand places that cannot be stored becomes null itself'() {
        const bad = (count) => Array(count).fill(undefined);
        const message = { role: 'assistant', content: [{ type: 'data', few: bad(2), many: bad(1001), name: 'kept' }], stopReason: 'stop' };
        const { result, stored } = await answered(message);
        same([result.outcome, placesOf(result)], ['success', ['content[0].few[0]', 'content[0].few[1]', 'content[0].many']]);
        same(JSON.stringify(stored.content), '[{"type":"data","few":[null,null],"many":null,"name":"kept"}]');
        const endless = Object.assign([], { length: 2 ** 32 - 1 });
        const other = await answered({ role: 'assistant', content: 'kept', list: endless, all: bad(1000), stopReason: 'error' });
        same([other.result.outcome, placesOf(other.result).length, placesOf(other.result)[0]], ['error', 1001, 'list']);
        same([other.stored.list, other.stored.all.length, other.stored.stopReason], [null, 1000, 'error']);
    },

    async 'bytes that were handed to somebody else become null themselves'() {
        const gone = new Uint8Array(4);
        structuredClone(gone, { transfer: [gone.buffer] });
        const { result, stored } = await answered(assistant('kept', { list: [{ type: 'image', data: gone, mimeType: 'image/png' }] }));
        same([result.outcome, placesOf(result)], ['success', ['list[0].data']]);
        same(JSON.stringify(stored.list), '[{"type":"image","data":null,"mimeType":"image/png"}]');
        const at = await world();
        const error = await fails(() => at.session.prompt([{ type: 'image', data: gone }]), 'message_not_storable');
        same(error.data, { path: 'content[0].data' });
        await fails(() => at.runtime.skills.add({ content: gone, location: '/gone' }), 'skill_invalid');
        await at.close();
    },

    async 'what a tool gave that cannot be stored is listed where it stands in the stored result'() {
        const given = [{ content: [{ type: 'text', text: 'a', odd: () => {} }], details: { n: NaN }, gone: [() => {}] }, { odd: () => {} }, large];
        const tools = [tool('look', () => given.shift())];
        const model = scripted(calling(['c1', 'look']), calling(['c2', 'look']), calling(['c3', 'look']), assistant('Done.'));
        const at = await world({ model, tools });
        const { degraded } = await at.session.prompt('Hi');
        same(degraded.map(({ messageIndex, path }) => [messageIndex, path]), [
            [2, 'content[0].odd'], [2, 'details.n'], [4, 'content[0].text'], [6, 'content'],
        ]);
        await at.close();
    },

    async 'a message that is appended right behind dispatched() is of the turn, also where values become null'() {
        const at = await world();
        const turn = await at.session.begin('Hi');
        await turn.request();
        const dispatched = turn.dispatched();
        await turn.append(assistant('kept', { odd: () => {} }));
        await dispatched;
        const { outcome, degraded } = await turn.finish();
        same([outcome, degraded], ['success', Object.freeze([Object.freeze({ messageIndex: 1, path: 'odd' })])]);
        same(at.session.messages[1], Object.freeze({ ...at.session.messages[1], odd: null }));
        await at.close();
    },

    async 'the text of an error that a tool throws stays, code unit for code unit'() {
        const tools = [tool('look', () => {
            throw new Error('half \ud83d end');
        })];
        const at = await world({ model: scripted(calling(['c1', 'look']), assistant('Done.')), tools });
        await at.session.prompt('Hi');
        same(at.session.messages[2].content[0].text, 'half \ud83d end');
        same(at.session.messages[2].isError, true);
        await at.close();
    },
};
