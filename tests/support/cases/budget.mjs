// The budget of a request as a host sees it: what does not fit is handed back, and a tokenizer of the host's own counts.

import { fails, ok, same } from './check.mjs';
import { assistant, calling, rc, scripted, toText, tool } from './kit.mjs';
import { world } from './world.mjs';

const MODEL = { provider: 'p', id: 'm', contextWindow: 3000, maxTokens: 100 };
const LONG = 'word '.repeat(4000);
const sum = (parts) => Object.values(parts).reduce((sum, part) => sum + part, 0);

/** What is stored; in memory, what the session says of it, but for the estimate, which is stored nowhere. */
const kept = (at) => (typeof indexedDB === 'undefined' ? toText([at.session.header, at.session.messages]) : at.stored());

/** A world whose host counts tokens by `count`. */
const counting = (count, more = {}) => world({ countTokens: count, ...more });

export const cases = {
    async 'what does not fit is handed back as it was given, with the numbers, and nothing is kept of it'() {
        const model = scripted(assistant('Done.'));
        const at = await world({ model, session: { model: MODEL } });
        const heard = [];
        at.session.subscribe((event) => heard.push({ ...event }));
        const before = await kept(at);
        for (const content of [LONG, [{ type: 'text', text: LONG }, { type: 'image', data: new Uint8Array(3), mimeType: 'image/png' }], { role: 'user', content: LONG, own: 1 }]) {
            let thrown;
            const error = await fails(() => at.session.prompt(content).catch((error) => { throw (thrown = error); }), 'budget_exceeded');
            const budget = at.session.state.contextBudget;
            ok(thrown.data.content === content, 'the content is another');
            const { content: _, ...numbers } = error.data;
            same(numbers, { contextWindow: 3000, inputLimit: 2900, reservedOutputTokens: 100, estimatedInputTokens: budget.estimatedInputTokens });
            same(heard.splice(0), [{ type: 'budget', budget }]);
            same([budget.fits, sum(budget.parts)], [false, budget.estimatedInputTokens]);
            same(await kept(at), before);
        }
        const turn = await at.session.begin(LONG);
        const error = await fails(() => turn.request(), 'budget_exceeded');
        same(error.data.content, LONG);
        await turn.cancel();
        same([(await at.session.prompt('Hi')).outcome, model.requests.length], ['success', 1]);
        ok(at.session.state.contextBudget.fits, 'the last one does not fit');
        await at.close();
    },

    async 'a turn that grows too large ends as an error, keeps what arrived, and hands nothing back'() {
        const look = tool('look', () => LONG);
        const at = await world({ model: scripted(calling(['c1', 'look'])), tools: [look], session: { model: MODEL } });
        const result = await at.session.prompt('Hi');
        same([result.outcome, result.saved, at.session.messages.length], ['error', true, 3]);
        ok(/the request needs about \d+ tokens, and 2900 of the model's 3000 are left/.test(result.error), result.error);
        const turn = await at.session.begin('Go on');
        await fails(() => turn.request(), 'budget_exceeded');
        await turn.cancel();
        await at.close();
    },

    async 'a tokenizer of the host counts every text once'() {
        const texts = [];
        const count = (text) => (texts.push(text), text.length);
        const look = tool('look', () => 'seen');
        const model = scripted(calling(['c1', 'look']), assistant('Done.'), assistant('Well.'));
        const at = await counting(count, { model, tools: [look] });
        await at.session.prompt('Hi $demo');
        const request = JSON.parse(model.requests.at(-1));
        const [block] = request.messages[0].content.split('\n\nHi $demo');
        const call = { type: 'toolCall', id: 'c1', name: 'look', arguments: {} };
        same(at.session.state.contextBudget.parts, {
            systemPrompt: request.systemPrompt.length,
            tools: request.tools.reduce((sum, tool) => sum + JSON.stringify(tool).length, 0),
            messages: 'Hi $demo'.length + JSON.stringify(call).length + 'seen'.length,
            skills: block.length,
            legacyContext: 0,
            summary: 0,
        });
        const once = (text) => same(texts.filter((other) => other === text).length, 1, text.slice(0, 80));
        [request.systemPrompt, block, 'Hi $demo', JSON.stringify(call), 'seen', 'Done.'].forEach(once);
        // What was counted stays with the message.
        texts.length = 0;
        await at.session.prompt('More \ud83d');
        same(texts.filter((text) => text === 'seen' || text === 'Done.'), []);
        once('More \ud83d');
        await at.close();
    },

    async 'a tokenizer that throws or gives no count refuses a prompt, and changes nothing'() {
        for (const wrong of [
            () => { throw new Error('no tokenizer'); }, () => { throw undefined; }, () => NaN, () => -1, () => 1.5, () => Infinity, () => 2 ** 32,
            () => '1', () => undefined, () => null, () => 1n, () => Promise.resolve(1), () => ({ valueOf: () => 1 }),
        ]) {
            let gives = wrong;
            const at = await counting((text) => gives(text));
            const before = await kept(at);
            const refused = async (work) => {
                const error = await fails(work, 'invalid_argument');
                same(error.data, { field: 'options.countTokens' });
                ok(/^`options.countTokens` (threw: |must return how many tokens)/.test(error.message), error.message);
                same(await kept(at), before);
            };
            await refused(() => at.session.prompt('Hi'));
            await refused(() => at.session.begin('Hi'));
            // The message is counted, and the system prompt is not.
            gives = (text) => (text === 'Hi' ? 1 : wrong());
            await refused(() => at.session.prompt('Hi'));
            const turn = await at.session.begin('Hi');
            await refused(() => turn.request());
            gives = () => 1;
            same((await turn.request()).report.budget.parts.messages, 1);
            await turn.cancel();
            same((await at.session.prompt('Hi')).outcome, 'success');
            await at.close();
        }
        for (const countTokens of [1, 'x', {}]) {
            const error = await fails(() => rc.Runtime.open({ storage: 'memory', countTokens }), 'invalid_argument');
            same(error.data.field, 'options.countTokens');
        }
    },

    async 'what the model and its tools answered is kept whatever the tokenizer says'() {
        const model = scripted(calling(['c1', 'look']), assistant('Done.'));
        const answers = [/^seen$/, /^Done\.$/, /"toolCall"/];
        const count = (text) => (answers.some((answer) => answer.test(text)) ? NaN : 1);
        const at = await counting(count, { model, tools: [tool('look', () => 'seen')] });
        const result = await at.session.prompt('Hi');
        same([result.outcome, result.saved, at.session.messages.length], ['success', true, 4]);
        const { listenerErrors } = at.session.state;
        same(listenerErrors.length, 3);
        ok(listenerErrors.every((text) => text.startsWith('`options.countTokens` must return')), listenerErrors.join());
        await at.close();
    },

    async 'a tokenizer may call the session that it counts for'() {
        const again = [];
        const at = await counting((text) => {
            again.push([at?.session.state.isRunning, at?.session.messages.length, rc.estimateTokens({ role: 'user', content: text })]);
            at?.session.prompt('Again').catch(({ code }) => again.push(code));
            return 1;
        });
        same((await at.session.prompt('Hi')).outcome, 'success');
        ok(again.includes('session_busy'), again.join());
        await at.close();
    },
};
