// Each call of the model is answered exactly once, whatever ids it came with.

import { fails, ok, same } from './check.mjs';
import { aborted, assistant, calling, rc, resultOf, scripted, tool } from './kit.mjs';
import { world } from './world.mjs';

const USER = { role: 'user', content: 'Hi' };
const named = (messages) => messages.filter(({ role }) => role === 'toolResult').map(({ toolCallId, toolName, isError }) => [toolCallId, toolName, isError]);
const call = (id) => ({ role: 'assistant', content: [{ type: 'toolCall', name: 'look', arguments: {}, ...(id === undefined ? {} : { id }) }], stopReason: 'toolUse' });
const UNUSABLE = [undefined, 5, null, '', 'half \ud83d', {}];

export const cases = {
    async 'an answer with a call whose id cannot be used is not shown, and said so'() {
        for (const id of UNUSABLE) {
            const { messages, notices } = rc.projectModelInput([USER, call(id), USER], []);
            same(messages.map(({ role }) => role), ['user', 'user'], String(id));
            same(notices, [{ code: 'result_left_out', messageIndex: 1 }], String(id));
        }
    },

    async 'in a turn an answer with a call whose id cannot be used is kept as one that failed'() {
        for (const id of UNUSABLE) {
            const look = tool('look', () => 'seen');
            const model = scripted(call(id), assistant('Done.'));
            const at = await world({ model, tools: [look] });
            const result = await at.session.prompt('Hi');
            same([result.outcome, result.saved, look.runs, at.session.messages.length], ['error', true, 0, 2], String(id));
            ok(/tool call without an `id`/.test(result.error), result.error);
            same([at.session.messages[1].stopReason, at.session.messages[1].errorMessage], ['error', result.error]);
            same((await at.session.prompt('Again')).outcome, 'success');
            same(JSON.parse(model.requests[1]).messages.map(({ role }) => role), ['user', 'user']);
            await at.close();
        }
    },

    async 'a turn of the host cannot succeed with an answer whose call has no id'() {
        const at = await world();
        const turn = await at.session.begin('Hi');
        await turn.request();
        await turn.dispatched();
        await turn.append(call(undefined));
        same(turn.openCalls, Object.freeze([]));
        same((await turn.finish()).outcome, 'error');
        same([at.session.state.outcome, at.session.messages[1].stopReason], ['error', 'error']);
        await at.close();
    },

    async 'of two calls with one id, a result answers that of its tool, and the other gets the made-up result'() {
        const calls = calling(['x', 'first'], ['x', 'second']);
        for (const [answers, open] of [['first', 'second'], ['second', 'first'], ['third', 'second']]) {
            const { messages, notices } = rc.projectModelInput([USER, calls, resultOf('x', answers, 'done')], []);
            same(named(messages), [['x', answers, false], ['x', open, true]]);
            same(notices, []);
        }
        same(named(rc.projectModelInput([USER, calls], []).messages), [['x', 'first', true], ['x', 'second', true]]);
    },

    async 'of two calls with one id, the one that was aborted gets the interrupted result'() {
        const tools = [tool('slow', (args, { signal }) => aborted(signal)), tool('fast', () => 'done')];
        const at = await world({ model: scripted(calling(['x', 'slow'], ['x', 'fast'])), tools });
        at.session.subscribe((event) => event.messageIndex === 1 && setTimeout(() => at.session.abort(), 20));
        same((await at.session.prompt('Hi')).outcome, 'cancelled');
        same(named(at.session.messages), [['x', 'fast', false], ['x', 'slow', true]]);
        await at.close();
    },

    async 'a result is refused for the call that it answers, and where it may answer several, for each of them'() {
        const tools = [{ name: 'safe', access: 'none' }, { name: 'rm', access: 'execute' }];
        const at = await world({ tools });
        const turn = await at.session.begin('Hi');
        await turn.request();
        await turn.dispatched();
        await turn.append(calling(['x', 'safe'], ['x', 'rm']));
        same((await turn.gate({ toolCallId: 'x', toolName: 'safe', arguments: {} })).outcome, 'allow');
        const { toolName, ...unnamed } = resultOf('x', 'rm', 'gone');
        for (const result of [resultOf('x', 'rm', 'gone'), unnamed, resultOf('x', 'other', 'gone')]) {
            same((await fails(() => turn.append(result), 'tool_not_gated')).data.toolName, 'rm', result.toolName);
        }
        await turn.append(resultOf('x', 'safe', 'done'));
        same(turn.openCalls.map((open) => open.toolName), ['rm']);
        await fails(() => turn.append(resultOf('x', 'safe', 'done')), 'tool_not_gated');
        await turn.append(resultOf('x', 'rm', 'no', { isError: true }));
        same((await turn.finish()).outcome, 'success');
        await at.close();
    },

    async 'content that is neither text nor a list stays behind the skills that are shown in front of it'() {
        const snapshot = { userTurn: 0, content: '<skill>x</skill>', timestamp: 1, placement: 'user' };
        for (const [content, shown] of [[{ custom: 1 }, [{ custom: 1 }]], [7, [7]], [null, undefined]]) {
            const { messages } = rc.projectModelInput([{ role: 'user', content }], [snapshot]);
            const text = { type: 'text', text: snapshot.content };
            same(JSON.stringify(messages[0].content), JSON.stringify(shown ? [text, ...shown] : snapshot.content));
        }
    },
};
