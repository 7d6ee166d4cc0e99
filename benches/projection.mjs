// What a request costs in Node after one new message, in conversations of 1,000, 20,000 and 100,000 messages, beside the first one
// after opening (cold), and beside `convertToModelMessages` of the AI SDK, which makes the same messages anew each time. What is
// compared is done in turns, and the best of each is compared: whatever else the machine does only makes it slower. Ratios within one
// run: absolute times say more of the machine. `cargo xtask bench projection`.

import { deepStrictEqual } from 'node:assert/strict';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

import { convertToModelMessages } from 'ai';

// Text crosses between JavaScript and the module by these two alone; each counts what crosses, in bytes.
const crossed = { in: 0, out: 0 };
const { encodeInto } = TextEncoder.prototype;
TextEncoder.prototype.encodeInto = function (text, bytes) {
    const done = encodeInto.call(this, text, bytes);
    crossed.in += done.written;
    return done;
};
const { decode } = TextDecoder.prototype;
TextDecoder.prototype.decode = function (bytes, options) {
    crossed.out += bytes?.byteLength ?? 0;
    return decode.call(this, bytes, options);
};

const folder = process.env.RUNCONTEXT_PKG ?? path.join(import.meta.dirname, '..', 'pkg');
const { Runtime } = await import(pathToFileURL(path.join(folder, 'node.js')).href);
const runtime = await Runtime.open({ storage: 'memory', strict: false });

const text = (length) => 'word '.repeat(length / 5);
const call = (at) => ({
    role: 'assistant',
    content: [{ type: 'tool-call', toolCallId: `c${at}`, toolName: 'look', input: { at } }],
});
const result = (at, length) => ({
    role: 'tool',
    content: [{ type: 'tool-result', toolCallId: `c${at}`, toolName: 'look', output: { type: 'text', value: text(length) } }],
});
const says = (text) => ({ role: 'assistant', content: [{ type: 'text', text }] });

/** A session of so many messages, calls with their results, in a turn that goes on. */
async function filled(count, length) {
    const session = await runtime.createSession({ dialect: 'ai-sdk' });
    const turn = await session.begin([{ type: 'text', text: 'Go' }]);
    await turn.request();
    await turn.dispatched();
    for (let at = 1; at < count; at += 1000) {
        const pairs = Array.from({ length: Math.min(1000, count - at) / 2 }, (_, pair) => [call(at + pair), result(at + pair, length)]);
        await turn.append(...pairs.flat());
    }
    return { session, turn };
}

/** The same as the AI SDK keeps it: one answer of many steps. */
function kept(count, length) {
    const parts = [];
    for (let at = 1; at < count; at += 1000) {
        for (let pair = 0; pair < Math.floor(Math.min(1000, count - at) / 2); pair++) {
            const [toolCallId, input] = [`c${at + pair}`, { at: at + pair }];
            parts.push({ type: 'step-start' }, { type: 'tool-look', toolCallId, state: 'output-available', input, output: text(length) });
        }
    }
    return [{ id: 'u', role: 'user', parts: [{ type: 'text', text: 'Go' }] }, { id: 'a', role: 'assistant', parts }];
}

/** Milliseconds. */
async function took(work) {
    const start = performance.now();
    await work();
    return performance.now() - start;
}

const best = {};
for (const count of [1_001, 20_001, 100_001]) {
    const { session, turn } = await filled(count, 100);
    const theirs = kept(count, 100);
    const ours = (await turn.request()).request.messages;
    deepStrictEqual(JSON.parse(JSON.stringify(await convertToModelMessages(theirs))), ours.map((message) => ({ ...message })));
    const times = { ours: Infinity, theirs: Infinity };
    for (let round = 0; round < 15; round++) {
        await turn.append(says(`so ${round}`));
        theirs[1].parts.push({ type: 'step-start' }, { type: 'text', text: `so ${round}` });
        times.ours = Math.min(times.ours, await took(() => turn.request()));
        times.theirs = Math.min(times.theirs, await took(() => convertToModelMessages(theirs)));
    }
    const stored = session.messages;
    const { request, report } = await turn.request();
    const map = await took(() => report.projection.sources.length + report.tokens.length);
    const shared = request.messages.filter((message, at) => message === stored[at]).length;
    await turn.finish();
    const { id } = session;
    await session.dispose();
    let cold;
    const opening = await took(async () => {
        const again = await runtime.openSession(id);
        cold = await took(async () => (await again.begin('On')).request());
        await again.abort();
    });
    best[count] = times.ours;
    const inTheirs = (time) => `${(time / times.theirs).toFixed(time < times.theirs ? 3 : 1)} of the time of one \`convertToModelMessages\``;
    console.log(`Node, ${count} messages: ${times.ours.toFixed(2)} ms a request after one new message, ${inTheirs(times.ours)} of the AI SDK`);
    console.log(`Node, ${count} messages: whoever reads its map and tokens waits for ${inTheirs(map)}`);
    console.log(`Node, ${count} messages: cold, begin and the first request in ${inTheirs(cold)}; opening too in ${inTheirs(opening)}`);
    console.log(`Node, ${count} messages: ${shared} of ${request.messages.length} model messages are the stored ones, in one new array`);
}
console.log(`Node, 20,000 messages against 1,000: ${(best[20_001] / best[1_001]).toFixed(1)}; 100,000 against 1,000: ${(best[100_001] / best[1_001]).toFixed(1)}`);

// Bodies a hundred times as long: what crosses stays the same where none is copied.
for (const length of [100, 10_000]) {
    const { session, turn } = await filled(1_001, length);
    await turn.append(says('so'));
    const before = { ...crossed };
    await turn.request();
    const [inward, outward] = [crossed.in - before.in, crossed.out - before.out];
    console.log(`Node, 1,000 messages, results of ${length} characters: ${inward} bytes of text went in for a request, ${outward} came out`);
    await turn.finish();
    await session.dispose();
}
