// What calls come to: results and their exact members, errors and their class, promises that nobody has to catch.

import { CODES, fails, ok, same, soon } from './check.mjs';
import { aborted, assistant, calling, deferred, outcome, rc, scripted, tool } from './kit.mjs';
import { world } from './world.mjs';

const SUCCESS = Object.freeze({ outcome: 'success', saved: true });
const tasks = async (count = 3) => {
    for (let turn = 0; turn < count; turn++) await new Promise((resolve) => setTimeout(resolve));
};

export const cases = {
    async 'a text or file beyond 32 MiB is refused before it is copied'() {
        const long = 'x'.repeat(33 * 1024 * 1024);
        const attempts = [
            () => rc.splitSystemPrompt(long),
            () => rc.parseSkill(long),
            () => rc.parseSkill(new Uint8Array(33 * 1024 * 1024)),
            () => rc.findSkillMentions(long, []),
        ];
        for (const attempt of attempts) await fails(async () => attempt(), 'invalid_argument');
    },

    async 'a message whose time is no integer from 0 up is refused'() {
        const at = await world({});
        for (const timestamp of [1.5, -5, 1e300]) {
            await fails(() => at.session.begin({ role: 'user', content: 'x', timestamp }), 'invalid_argument');
        }
        await at.close();
    },

    async 'results of turns have exactly their members, in every outcome'() {
        const at = await world({
            model: scripted(
                assistant('Done.'),
                () => Promise.reject(new Error('overloaded')),
                { role: 'assistant', content: [], stopReason: 'error', errorMessage: 'too long' },
                { role: 'assistant', content: [], stopReason: 'error' },
                { role: 'assistant', content: [], stopReason: 'aborted' },
                { role: 'assistant', content: 'x', bad: [() => {}], worse: new Map() },
                { role: 'user', content: 'x' },
                'text', null, undefined, 5,
            ),
        });
        const results = [];
        for (let round = 0; round < 11; round++) results.push(await at.session.prompt('Hi'));
        const error = (text) => Object.freeze({ outcome: 'error', error: text, saved: true });
        same(results.slice(0, 5), [
            SUCCESS, error('overloaded'), error('too long'), error('the model failed'), Object.freeze({ outcome: 'cancelled', saved: true }),
        ]);
        const places = ['bad[0]', 'worse'].map((path) => Object.freeze({ messageIndex: 10, path }));
        same(results[5], Object.freeze({ outcome: 'success', saved: true, degraded: Object.freeze(places) }));
        same(at.session.messages[10], Object.freeze({ role: 'assistant', content: 'x', bad: Object.freeze([null]), worse: null }));
        for (const result of results.slice(6)) {
            same(Object.keys(result), ['outcome', 'error', 'saved']);
            same([result.outcome, result.saved], ['error', true]);
        }
        same(at.session.state.messageCount, 11 + 5);
        await at.close();
    },

    async 'prompt() rejects before the message is on its way, and resolves from then on'() {
        const thrown = new Error('no');
        const reject = async () => {
            throw thrown;
        };
        for (const [code, options, work] of [
            ['invalid_argument', { model: undefined }],
            ['model_failed', { model: { check: reject, complete: reject } }],
            ['skill_unavailable', {}, (session) => session.prompt('Hi', { skills: ['no'] })],
            ['aborted', {}, (session) => session.prompt('Hi', { signal: AbortSignal.abort() })],
            ['message_not_storable', {}, (session) => session.prompt([() => {}])],
            ['invalid_argument', {}, (session) => session.prompt({ role: 'assistant' })],
        ]) {
            const at = await world(options);
            await fails(() => (work ?? ((session) => session.prompt('Hi')))(at.session), code);
            same(at.session.state.messageCount, 0);
            await at.close();
        }
        for (const complete of [
            reject, () => {
                throw thrown;
            }, () => undefined, () => 'x', () => Promise.reject(), () => ({ then: 5 }), () => new Promise((resolve, no) => no(Symbol('x'))),
        ]) {
            const at = await world({ model: { complete } });
            const result = await at.session.prompt('Hi');
            same([result.outcome, result.saved, typeof result.error], ['error', true, 'string']);
            same(at.session.state.messageCount, 1);
            await at.close();
        }
    },

    async 'what a model or a tool throws becomes a text, whatever it is'() {
        const things = [
            [new Error('words'), 'words'], ['words', 'words'], [new TypeError(''), 'TypeError'], [{ code: 5 }, '{"code":5}'],
            [5, '5'], [null, 'null'],
        ];
        for (const [thing, text] of things) {
            const at = await world({ model: { complete: () => Promise.reject(thing) } });
            same((await at.session.prompt('Hi')).error, text);
            await at.close();
        }
        for (const thing of [undefined, Symbol('x'), 10n, () => {}, Object.create(null), new Proxy({}, { get() { throw 1; }, getPrototypeOf() { throw 1; } })]) {
            const at = await world({
                tools: [tool('look', () => Promise.reject(thing))],
                model: scripted(calling(['c1', 'look']), assistant('Done.')),
            });
            same(await at.session.prompt('Hi'), SUCCESS);
            const [, , result] = at.session.messages;
            same([result.isError, result.content.length, typeof result.content[0].text], [true, 1, 'string']);
            await at.close();
        }
    },

    async 'what a tool gives becomes its result'() {
        const gifts = [
            ['text', [{ type: 'text', text: 'text' }]], ['', [{ type: 'text', text: '' }]], ['\ud83d', [{ type: 'text', text: '\ud83d' }]],
            [undefined, []], [null, []], [5, [{ type: 'text', text: '5' }]], [{ a: [1, null] }, [{ type: 'text', text: '{"a":[1,null]}' }]],
            [[1, 2], [{ type: 'text', text: '[1,2]' }]], [{ content: 'text' }, [{ type: 'text', text: '{"content":"text"}' }]],
            [{ content: [{ type: 'image', data: 'x' }] }, [{ type: 'image', data: 'x' }]],
        ];
        for (const [gift, content] of gifts) {
            const at = await world({ tools: [tool('look', () => gift)], model: scripted(calling(['c1', 'look']), assistant('Done.')) });
            await at.session.prompt('Hi');
            const found = at.session.messages[2];
            same(JSON.stringify(found), JSON.stringify({ role: 'toolResult', toolCallId: 'c1', toolName: 'look', content, isError: false, timestamp: 1000 }));
            await at.close();
        }
        const at = await world({
            tools: [tool('look', () => ({ content: [], details: { a: 1 }, isError: true, more: 'dropped' }))],
            model: scripted(calling(['c1', 'look']), assistant('Done.')),
        });
        await at.session.prompt('Hi');
        same(JSON.stringify(at.session.messages[2]), JSON.stringify({
            role: 'toolResult', toolCallId: 'c1', toolName: 'look', content: [], details: { a: 1 }, isError: true, timestamp: 1000,
        }));
        await at.close();
    },

    async 'a getter that throws costs its own value and no other, and is named'() {
        const odd = (name) => ({
            role: 'assistant', content: [{ type: 'text', text: 'kept', get extra() {
                throw new Error(`no ${name}`);
            } }], list: new Proxy([1, 2], {
                get(list, key) {
                    if (key === '1') throw new Error('no second');
                    return list[key];
                },
            }),
        });
        const at = await world({ model: scripted(odd('extra')) });
        const result = await at.session.prompt('Hi');
        same(JSON.stringify(result.degraded), '[{"messageIndex":1,"path":"content[0].extra"},{"messageIndex":1,"path":"list[1]"}]');
        same(JSON.stringify(at.session.messages[1]), '{"role":"assistant","content":[{"type":"text","text":"kept","extra":null}],"list":[1,null]}');
        const error = await fails(() => at.session.prompt({ ...odd('x'), role: 'user', get content() {
            throw new Error('no content');
        } }), 'message_not_storable');
        same([error.data, error.message], [{ path: 'content.content' }, '`content.content` cannot be read: no content']);
        await at.close();
    },

    async 'a request has three members, the options of the model three, those of a tool four'() {
        const seen = {};
        const at = await world({
            tools: [tool('look', (...given) => (seen.tool = given) && 'seen', { description: 'Looks.', parameters: { type: 'object' } })],
            model: {
                check(...given) {
                    seen.check = given;
                },
                async complete(...given) {
                    seen.complete ??= given;
                    return given[0].messages.length === 1 ? calling(['c1', 'look', { at: [1] }]) : assistant('Done.');
                },
            },
            host: { cwd: '/home/ada' },
            session: { model: { provider: 'p', id: 'm', contextWindow: 9000, maxTokens: 100 } },
        });
        await at.session.prompt('Hi');
        same(seen.check, [{ provider: 'p', id: 'm', contextWindow: 9000, maxTokens: 100 }]);
        const [request, options] = seen.complete;
        same([seen.complete.length, Object.keys(request), Object.keys(options)], [2, ['systemPrompt', 'messages', 'tools'], ['signal', 'onUpdate', 'report']]);
        ok(options.signal instanceof AbortSignal && !options.signal.aborted, 'signal');
        same(JSON.stringify(request.tools[0]), '{"name":"look","description":"Looks.","parameters":{"type":"object"}}');
        // There is a skill to load.
        same(request.tools.slice(1).map(({ name }) => name), ['load_skill']);
        same(Object.keys(options.report), ['budget', 'divergence', 'notices', 'projection', 'tokens']);
        same(JSON.stringify(options.report.projection), '{"historyMessageCount":1,"sources":[{"type":"history","messageIndex":0}]}');
        same(options.report.divergence, { class: 'none', index: -1, events: [] });
        const [args, context] = seen.tool;
        same([seen.tool.length, JSON.stringify(args), Object.keys(context), context.workingDirectory], [
            2, '{"at":[1]}', ['signal', 'decision', 'workingDirectory', 'isHidden'], '/w',
        ]);
        await at.close();
    },

    async 'model and tools are called as methods of their objects'() {
        class Client {
            #answer = assistant('Done.');
            #checked = 0;
            check() {
                this.#checked++;
            }
            async complete() {
                return this.#checked === 1 && this.#answer;
            }
        }
        const at = await world({ model: new Client() });
        same(await at.session.prompt('Hi'), SUCCESS);
        await at.close();
    },

    async 'every error is a RunContextError with its own class, a code of the list and data'() {
        const at = await world();
        const error = await at.runtime.openSession('nobody').catch((error) => error);
        ok(error instanceof rc.RunContextError && error instanceof Error, 'class');
        same([error.name, error.code, error.data, String(error)], [
            'RunContextError', 'not_found', { id: 'nobody' }, 'RunContextError: there is no session `nobody`; list them with `listSessions`',
        ]);
        ok(CODES.has(error.code) && typeof error.stack === 'string', 'code and stack');
        let refused = 0;
        for (const name of ['code', 'data']) {
            try {
                error[name] = 'other';
            } catch {
                refused++;
            }
        }
        same([refused, error.code], [2, 'not_found']);
        await at.close();
    },

    async 'a model that fails, updates or answers after its turn was stopped bothers nobody'() {
        const late = [];
        const gates = [deferred(), deferred()];
        const asked = [deferred(), deferred()];
        const at = await world({
            model: scripted(
                async (request, { onUpdate }) => {
                    asked[0].resolve();
                    await gates[0].promise;
                    late.push(await outcome(() => onUpdate(assistant('late'))));
                    throw new Error('too late');
                },
                async () => {
                    asked[1].resolve();
                    await gates[1].promise;
                    return assistant('too late');
                },
                assistant('Done.'),
            ),
        });
        for (const [round, gate] of gates.slice(0, 2).entries()) {
            const running = at.session.prompt('Hi');
            await soon(asked[round].promise, 'the question');
            at.session.abort();
            same(await soon(running, 'the end of the turn'), Object.freeze({ outcome: 'cancelled', saved: true }));
            const before = await at.stored();
            gate.resolve();
            await tasks();
            same(await at.stored(), before);
        }
        same(late.map((found) => found.threw?.code), ['invalid_argument']);
        same(await at.session.prompt('Hi'), SUCCESS);
        await at.close();
    },

    async 'tools and preflights that fail after they were stopped bother nobody'() {
        const gate = deferred();
        let check;
        const at = await world({
            tools: [tool('wait', async () => {
                setTimeout(() => at.session.abort());
                await gate.promise;
                throw new Error('too late');
            })],
            model: { check: () => check?.(), complete: async () => calling(['c1', 'wait'], ['c2', 'wait']) },
        });
        same((await at.session.prompt('Hi')).outcome, 'cancelled');
        check = async () => {
            setTimeout(() => at.session.abort());
            await gate.promise;
            throw new Error('too late');
        };
        await fails(() => at.session.prompt('Hi'), 'aborted');
        const before = await at.stored();
        gate.resolve();
        await tasks();
        same(await at.stored(), before);
        await at.close();
    },

    async 'a turn that its signal cancels, and one that was forgotten, leave no rejection behind'() {
        const at = await world();
        const controller = new AbortController();
        const turn = await at.session.begin('Hi', { signal: controller.signal });
        await turn.request();
        await turn.dispatched();
        controller.abort();
        await soon(at.session.abort(), 'the end of the turn');
        await fails(() => turn.append(assistant('late')), 'invalid_argument');
        await fails(() => turn.finish(), 'invalid_argument');
        same([at.session.state.outcome, at.session.state.messageCount], ['cancelled', 1]);
        at.session.begin('Forgotten');
        at.session.begin('Refused').catch(() => {});
        await tasks();
        await at.session.abort();
        same(at.session.state.isRunning, false);
        await at.close();
    },

    async 'a signal is listened to while its prompt runs, and let go of afterwards'() {
        const at = await world();
        const { signal } = new AbortController();
        const listening = new Set();
        for (const [name, change] of [['addEventListener', 'add'], ['removeEventListener', 'delete']]) {
            signal[name] = function (type, listener, ...rest) {
                same(type, 'abort');
                listening[change](listener);
                return EventTarget.prototype[name].call(this, type, listener, ...rest);
            };
        }
        for (let round = 0; round < 20; round++) {
            const running = at.session.prompt('Hi', { signal });
            same(listening.size, 1);
            await running;
            same(listening.size, 0);
        }
        await fails(() => at.session.prompt('Hi', { signal, skills: ['nobody'] }), 'skill_unavailable');
        same(listening.size, 0);
        const turn = await at.session.begin('Hi', { signal });
        same(listening.size, 1);
        await turn.cancel();
        same(listening.size, 0);
        const other = await at.session.begin('Hi', { signal });
        await other.request();
        await other.dispatched();
        await other.finish();
        same(listening.size, 0);
        await at.close();
    },

    async 'promises with a constructor or a `then` of their own are waited for like others'() {
        const odd = (value) => {
            const constructed = Promise.resolve(value);
            Object.defineProperty(constructed, 'constructor', { get() { throw new RangeError('no constructor'); } });
            const thenning = Promise.resolve(value);
            thenning.then = () => {
                throw new RangeError('no then');
            };
            return [constructed, thenning];
        };
        for (const promise of odd(assistant('Done.'))) {
            const at = await world({ model: { complete: () => promise } });
            const result = await soon(at.session.prompt('Hi'), 'the end of the turn');
            ok(['success', 'error'].includes(result.outcome), JSON.stringify(result));
            await at.close();
        }
        same(rc.renderSystemPrompt([]), '');
    },

    async 'an aborted model that listens to its signal ends at once'() {
        const at = await world({ model: { complete: (request, { signal }) => aborted(signal) } });
        const controller = new AbortController();
        at.session.subscribe((event) => event.type === 'turn-start' && setTimeout(() => controller.abort(new Error('enough'))));
        same(await at.session.prompt('Hi', { signal: controller.signal }), Object.freeze({ outcome: 'cancelled', saved: true }));
        await at.close();
    },

    async 'errors of listeners are collected, and stop neither the session nor other listeners'() {
        const at = await world();
        const { session } = at;
        const heard = [];
        const things = [new Error('an error'), 'a text', { code: 5 }, null, undefined, Symbol('x'), 10n];
        for (const thing of things) {
            session.subscribe((event) => {
                if (event.type !== 'settings') return;
                heard.push(thing);
                throw thing;
            });
        }
        session.subscribe((event) => event.type === 'settings' && heard.push('last'));
        await session.setTitle('New');
        same(heard.length, things.length + 1);
        same(heard.at(-1), 'last');
        const { listenerErrors } = session.state;
        same(listenerErrors.slice(0, 4), ['an error', 'a text', '{"code":5}', 'null']);
        same(listenerErrors.length, things.length);
        ok(listenerErrors.every((text) => typeof text === 'string'), 'texts');
        for (let round = 0; round < 20; round++) await session.setPinned(round % 2 === 0);
        same(session.state.listenerErrors.length, 100);
        same(await session.prompt('Hi'), SUCCESS);
        await at.close();
    },

    async 'what a promise of a listener rejects with is collected too, and is nobody else\'s error'() {
        const at = await world();
        const { session } = at;
        session.subscribe(async () => 'fine');
        session.subscribe(async (event) => {
            if (event.type === 'settings') throw new Error('too late');
        });
        session.subscribe((event) => event.type === 'settings' && { then: (_, reject) => reject('of another kind') });
        at.runtime.subscribe(async () => {
            throw new Error('nobody asks');
        });
        await session.setTitle('Newer');
        await at.runtime.createSession();
        await tasks();
        same(session.state.listenerErrors, ['too late', 'of another kind']);
        await at.close();
    },

    async 'a tool is given the working directory of its session, not that of the host'() {
        const seen = [];
        const tools = [tool('look', (args, { workingDirectory }) => seen.push(workingDirectory) && 'seen')];
        const model = scripted(calling(['c1', 'look']), assistant('Done.'), calling(['c1', 'look']), assistant('Done.'));
        const at = await world({ model, tools, host: { cwd: '/host' }, session: { cwd: '/other' } });
        await at.session.prompt('Hi');
        await (await at.runtime.createSession({ id: 'plain', permissionPreset: 'workspace-write' })).prompt('Hi');
        same(seen, ['/other', '/host']);
        await at.close();
    },

    async 'a turn that was not dispatched can be cancelled, and cannot succeed or fail'() {
        const at = await world();
        const turn = await at.session.begin('Hi');
        for (const end of [undefined, { outcome: 'error', error: 'x' }]) {
            const error = await fails(() => turn.finish(end), 'invalid_argument');
            ok(/nothing was dispatched/.test(error.message), error.message);
        }
        same(at.session.state.isRunning, true);
        same(await turn.cancel(), Object.freeze({ outcome: 'cancelled', saved: true }));
        same([at.session.state.isRunning, at.session.messages.length], [false, 0]);
        await at.close();
    },

    async 'a listener that was unsubscribed hears nothing more, from inside a listener too'() {
        const at = await world();
        const { session } = at;
        const heard = [];
        const stops = {};
        stops.a = session.subscribe(() => {
            heard.push('a');
            stops.a();
            stops.b();
            session.subscribe(() => heard.push('late'));
        });
        stops.b = session.subscribe(() => heard.push('b'));
        stops.c = session.subscribe(() => heard.push('c'));
        await session.setPinned(true);
        // The first event reaches a, which ends itself and b; what subscribes in an event hears the next one.
        same(heard, ['a', 'c', 'c', 'late']);
        stops.c();
        stops.c();
        stops.a();
        heard.length = 0;
        await session.setPinned(false);
        same(heard, ['late', 'late']);
        const twice = () => heard.push('twice');
        const stop = session.subscribe(twice);
        session.subscribe(twice);
        stop();
        heard.length = 0;
        await session.setPinned(true);
        same(heard, ['late', 'twice', 'late', 'twice']);
        await at.close();
    },

    async 'events of a runtime come in order, and stop when they are told to'() {
        const at = await world({ session: false });
        const heard = [];
        const stop = at.runtime.subscribe((event) => heard.push(event));
        await at.runtime.createSession({ id: 'a' });
        await at.runtime.skills.add({ content: '---\nname: x\ndescription: y\n---\nz', location: '/x' });
        await at.runtime.skills.remove('personal:/x');
        await at.runtime.deleteSession('a');
        same(heard, [
            { type: 'session-created', sessionId: 'a' }, { type: 'skills-changed' }, { type: 'skills-changed' }, { type: 'session-deleted', sessionId: 'a' },
        ].map(Object.freeze));
        stop();
        await at.runtime.createSession({ id: 'b' });
        same(heard.length, 4);
        await at.close();
    },
};
