// Every callback calls every getter and starts every method. Each answers, or fails with a typed error; nothing is
// stuck, and the module lives on. Methods are found on the prototypes, so that new ones are called too.

import { faultOf, ok, same, soon } from './check.mjs';
import { assistant, calling, outcome, plainError, rc, resultOf, scripted, skillFile, tool } from './kit.mjs';
import { world } from './world.mjs';

/** Arguments that make a call do something; methods that are not here get none. */
const ARGUMENTS = {
    createSession: () => [{ cwd: '/n' }],
    openSession: () => ['s'],
    deleteSession: () => ['s'],
    add: () => [{ content: skillFile('late', 'Late.'), location: '/late/SKILL.md' }],
    remove: () => ['personal:/late/SKILL.md'],
    readMessages: () => [{ limit: 5 }],
    configure: () => [{ systemPrompt: 'Other.' }],
    setPermissionPreset: () => ['workspace-write'],
    systemPromptAt: () => [0],
    prompt: () => ['Again'],
    begin: () => ['Again'],
    setTitle: () => ['Title'],
    setEnabled: () => ['personal:/d/SKILL.md', true],
    addSource: () => [{ scope: 'storm', list: () => [] }],
    refresh: () => [{ onProgress: () => {} }],
    setPinned: () => [true],
    markRead: () => [1],
    subscribe: () => [() => {}],
    append: () => [assistant('Late.')],
    finish: () => [{ outcome: 'success' }],
    gate: () => [CALL],
    explain: () => [CALL],
    bypass: () => ['all', 60],
    setRunContext: () => [{ allow_fs_writes: ['logs'] }],
};
const CALL = { toolCallId: 'c9', toolName: 'patch', arguments: { text: 'a' } };
const QUESTION = { call: CALL, cwd: '/w', rules: [{ tool_pattern: '*', action: 'deny' }], resolved: [], runContext: { allow_fs_reads: ['x'] } };
/** A tool and a host with these callbacks. */
const asked = (extractPaths, resolvePaths) => ({
    tools: [tool('look', () => 'seen'), { name: 'patch', extractPaths }],
    host: { cwd: '/w', workspaceRoot: '/', resolvePaths },
});
const found = ({ text }) => [{ path: text, access: 'write' }];
const resolved = (base, paths) => paths.map((path) => ({ canonical: path.startsWith('/') ? path : `/w/${path}` }));
/** What a world with these does: gates now and in a turn, and explains. */
const gates = (storm) => async ({ session }) => {
    await session.gate(CALL);
    const turn = await session.begin('Hi');
    storm.targets.push(turn);
    await Promise.all([turn.gate(CALL), session.explain(CALL)]);
    return turn.cancel();
};
/** What ends something. A storm leaves these out, unless it is told to end everything. */
const ENDERS = new Set(['abort', 'dispose', 'close', 'deleteSession', 'cancel', 'finish', 'abandon']);

/** Names of what a class of the package offers. */
function membersOf(object) {
    const descriptors = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(object));
    const names = Object.keys(descriptors).filter((name) => name !== 'constructor' && name !== 'free' && !name.startsWith('__'));
    return {
        getters: names.filter((name) => descriptors[name].get),
        methods: names.filter((name) => typeof descriptors[name].value === 'function'),
    };
}

/** Calls everything, keeps what comes of it, and says in the end what was wrong. */
class Storm {
    constructor({ ending = false } = {}) {
        this.ending = ending;
        this.left = 8;
        this.raging = false;
        this.targets = [];
        this.functions = [];
        this.pending = [];
        this.faults = [];
        this.calls = 0;
        this.codes = {};
    }

    /** Called inside a callback. */
    rage = () => {
        if (this.raging || this.left === 0) return;
        this.raging = true;
        this.left--;
        try {
            for (const target of [...this.targets]) this.callAll(target);
            for (const call of [...this.functions]) this.call('a function that was handed out', call);
            this.call('decide', () => rc.decide(QUESTION).trace);
            this.call('compilePolicy', () => rc.compilePolicy(QUESTION.rules).decide(QUESTION).trace);
            this.call('pathsToResolve', () => rc.pathsToResolve(QUESTION));
            this.call('renderSystemPrompt', () => rc.renderSystemPrompt([{ name: 'preamble', content: 'x' }]));
            this.call('projectModelInput', () => rc.projectModelInput([{ role: 'user', content: 'x' }], []));
        } finally {
            this.raging = false;
        }
    };

    callAll(target) {
        const { getters, methods } = membersOf(target);
        const kind = target.constructor.name;
        for (const name of getters) this.call(`${kind}.${name}`, () => target[name]);
        for (const name of methods) {
            if (ENDERS.has(name) && !this.ending) continue;
            this.call(`${kind}.${name}`, () => target[name](...(ARGUMENTS[name]?.() ?? [])));
            this.call(`${kind}.${name} without arguments`, () => target[name]());
        }
    }

    call(name, work) {
        this.calls++;
        try {
            const returned = work();
            if (typeof returned === 'function') this.functions.push(returned);
            if (typeof returned?.then !== 'function') return;
            const settled = returned.then(
                (value) => {
                    if (value instanceof rc.Turn && !this.targets.includes(value)) this.targets.push(value);
                    this.codes.answered = (this.codes.answered ?? 0) + 1;
                },
                (error) => this.judge(name, error),
            );
            this.pending.push(soon(settled, `the end of ${name}`).catch((error) => this.faults.push(String(error))));
        } catch (error) {
            this.judge(name, error);
        }
    }

    judge(name, error) {
        const plain = plainError(error);
        const fault = faultOf(plain) ?? (plain.code === 'module_failed' ? 'the module failed' : undefined);
        if (fault) this.faults.push(`${name}: ${fault}`);
        this.codes[plain.code] = (this.codes[plain.code] ?? 0) + 1;
    }

    /** Waits until everything that was started has ended. */
    async over() {
        // What ends may call back and start more.
        for (let seen = -1; seen < this.pending.length; ) {
            seen = this.pending.length;
            await Promise.all(this.pending);
        }
        this.targets.length = 0;
        same(this.faults, [], `after ${this.calls} calls`);
        return this.calls;
    }
}

/** The module answers, and a new session in a new runtime works. */
async function alive() {
    const runtime = await rc.Runtime.open({ storage: 'memory', model: scripted(assistant('Done.')) });
    const session = await runtime.createSession();
    same(await session.prompt('Hello'), Object.freeze({ outcome: 'success', saved: true }));
    await runtime.close();
}

const getter = (storm, name, value) => ({
    get [name]() {
        storm.rage();
        return value;
    },
});

/** A copy of plain data that calls back whenever it is looked at in any way. */
function touchy(storm, target) {
    if (typeof target !== 'object' || target === null) return target;
    const handler = {};
    for (const trap of ['get', 'has', 'ownKeys', 'getOwnPropertyDescriptor', 'getPrototypeOf', 'isExtensible']) {
        handler[trap] = (target, ...rest) => {
            storm.rage();
            const found = Reflect[trap](target, ...rest);
            return trap === 'get' && Object.hasOwn(target, rest[0]) ? touchy(storm, found) : found;
        };
    }
    return new Proxy(target, handler);
}

/** An error that calls back when it is read. */
const touchyError = (storm) =>
    Object.defineProperty(new Error('x'), 'message', {
        get() {
            storm.rage();
            return 'touchy';
        },
    });

/** A promise-like that calls back when it is waited for. */
const thenable = (storm, value) => ({
    get then() {
        storm.rage();
        return (resolve) => {
            storm.rage();
            resolve(value);
        };
    },
});

/** Where a storm can break out. Each gets a storm, and gives what a world needs and what to do in it. */
const PLACES = {
    'a session listener': (storm) => ({ act: ({ session }) => (session.subscribe(storm.rage), session.prompt('Hi $demo')) }),
    'a session listener that throws something touchy': (storm) => ({
        act: ({ session }) => {
            session.subscribe(() => {
                throw touchyError(storm);
            });
            return session.prompt('Hi');
        },
    }),
    'a listener of settings': (storm) => ({ act: ({ session }) => (session.subscribe(storm.rage), session.setTitle('New')) }),
    'a runtime listener': (storm) => ({
        act: ({ runtime }) => {
            runtime.subscribe(storm.rage);
            return Promise.all([runtime.createSession(), runtime.skills.add(ARGUMENTS.add()[0])]);
        },
    }),
    now: (storm) => ({
        world: { now: () => (storm.rage(), 5) },
        act: async ({ session }) => {
            await outcome(() => session.setTitle('New'));
            return session.prompt('Hi $demo');
        },
    }),
    'model.check': (storm) => ({ world: { model: { check: storm.rage, complete: async () => assistant('Done.') } } }),
    'model.complete': (storm) => ({ world: { model: { complete: async () => (storm.rage(), assistant('Done.')) } } }),
    'onUpdate, at once and later': (storm) => ({
        world: {
            model: {
                async complete(request, { onUpdate }) {
                    storm.functions.push(() => onUpdate(assistant('I')));
                    storm.rage();
                    onUpdate({ ...assistant('I'), ...getter(storm, 'more', 1) });
                    await undefined;
                    storm.rage();
                    return assistant('Done.');
                },
            },
        },
        act: async ({ session }) => {
            session.subscribe(storm.rage);
            const result = await session.prompt('Hi');
            storm.rage();
            return result;
        },
    }),
    'a tool': (storm) => ({
        world: {
            tools: [tool('look', () => (storm.rage(), 'seen'))],
            model: scripted(calling(['c1', 'look'], ['c2', 'look']), assistant('Done.')),
        },
    }),
    'a tool that throws something touchy': (storm) => ({
        world: {
            tools: [tool('look', () => {
                throw touchyError(storm);
            })],
            model: scripted(calling(['c1', 'look']), assistant('Done.')),
        },
    }),
    'a result of a tool': (storm) => ({
        world: {
            tools: [tool('look', () => touchy(storm, { content: [{ type: 'text', text: 'x' }], details: { a: 1 } }))],
            model: scripted(calling(['c1', 'look']), assistant('Done.')),
        },
    }),
    'an answer of the model': (storm) => ({ world: { model: { complete: async () => touchy(storm, assistant('Done.')) } } }),
    'a thenable of the model': (storm) => ({
        world: { model: { check: () => thenable(storm), complete: () => thenable(storm, assistant('Done.')) } },
    }),
    'a thenable of a tool': (storm) => ({
        world: {
            tools: [{ name: 'look', access: 'none', execute: () => thenable(storm, 'seen') }],
            model: scripted(calling(['c1', 'look']), assistant('Done.')),
        },
    }),
    'a rejection of the model': (storm) => ({ world: { model: { complete: () => Promise.reject(touchyError(storm)) } } }),
    'a listener of a signal that fires': (storm) => ({
        world: {
            tools: [tool('wait', (args, { signal }) => {
                signal.addEventListener('abort', storm.rage);
                return new Promise(() => {});
            })],
            model: {
                async complete(request, { signal }) {
                    signal.addEventListener('abort', storm.rage);
                    return request.messages.length === 1 ? calling(['c1', 'wait'], ['c2', 'wait']) : assistant('Done.');
                },
            },
        },
        act: ({ session }) => {
            const controller = new AbortController();
            controller.signal.addEventListener('abort', storm.rage);
            const running = session.prompt('Hi', { signal: controller.signal });
            session.subscribe((event) => event.messageIndex === 1 && setTimeout(() => controller.abort()));
            return running;
        },
    }),
    'a signal that is none of the platform\'s': (storm) => ({
        act: ({ session }) =>
            session.prompt('Hi', {
                signal: {
                    get aborted() {
                        storm.rage();
                        return false;
                    },
                    get addEventListener() {
                        storm.rage();
                        return (name, listener) => {
                            storm.rage();
                            setTimeout(listener);
                        };
                    },
                    removeEventListener: storm.rage,
                },
            }),
    }),
    'a touchy message': (storm) => ({ act: ({ session }) => session.prompt(touchy(storm, { role: 'user', content: 'Hi' })) }),
    'touchy blocks': (storm) => ({ act: ({ session }) => session.prompt(touchy(storm, [{ type: 'text', text: 'Hi' }])) }),
    'touchy options of a prompt': (storm) => ({
        act: ({ session, skill }) => session.prompt('Hi', touchy(storm, { skills: [skill.id], mentions: true, signal: undefined })),
    }),
    'touchy options of a session': (storm) => ({
        act: ({ runtime }) => runtime.createSession(touchy(storm, { cwd: '/x', sections: [{ name: 'house', content: 'x' }] })),
    }),
    'touchy options of a runtime': (storm) => ({
        act: () => rc.Runtime.open(touchy(storm, {
            storage: 'memory', host: { cwd: '/x' }, strict: true, now: () => 5,
            tools: [{ name: 'look', access: 'none', parameters: {}, description: 'x', execute() {} }],
            model: { complete() {} },
        })),
    }),
    'a touchy change': (storm) => ({ act: ({ session }) => session.configure(touchy(storm, { systemPrompt: 'x', model: { provider: 'p', id: 'i' } })) }),
    'a touchy page': (storm) => ({ act: ({ session }) => session.readMessages(touchy(storm, { limit: 3 })) }),
    'a touchy filter': (storm) => ({ act: ({ runtime }) => runtime.listSessions(touchy(storm, { limit: 3, cwd: '/w' })) }),
    'a source of skills, when it is listed, read and chosen': (storm) => ({
        act: async ({ runtime, session }) => {
            const read = () => (storm.rage(), thenable(storm, skillFile('stormy', 'x')));
            const onProgress = storm.rage;
            await runtime.skills.addSource({ scope: 'own', list: () => (storm.rage(), thenable(storm, touchy(storm, [{ location: '/s', read }]))) }, { onProgress });
            await runtime.skills.refresh(touchy(storm, { onProgress }));
            return session.prompt('Hi $stormy');
        },
    }),
    'a touchy source': (storm) => ({ act: ({ runtime }) => runtime.skills.addSource(touchy(storm, { scope: 'own', list: () => [] })) }),
    'a touchy skill': (storm) => ({ act: ({ runtime }) => runtime.skills.add(touchy(storm, ARGUMENTS.add()[0])) }),
    'touchy messages of a turn': (storm) => ({
        world: { strict: false },
        act: async ({ session }) => {
            const turn = await session.begin('Hi');
            storm.targets.push(turn);
            await turn.request();
            storm.rage();
            await turn.dispatched();
            await turn.append(touchy(storm, calling(['c1', 'look'])));
            await turn.append(touchy(storm, resultOf('c1', 'look', 'seen')));
            return turn.finish(touchy(storm, { outcome: 'error', error: 'x' }));
        },
    }),
    resolvePaths: (storm) => ({
        world: asked(found, (base, paths) => (storm.rage(), resolved(base, paths))),
        act: gates(storm),
    }),
    'resolvePaths, later': (storm) => ({
        world: asked(found, async (base, paths) => {
            await undefined;
            storm.rage();
            return resolved(base, paths);
        }),
        act: gates(storm),
    }),
    'a thenable of resolvePaths': (storm) => ({
        world: asked(found, (base, paths) => thenable(storm, resolved(base, paths))),
        act: gates(storm),
    }),
    'touchy answers of resolvePaths': (storm) => ({
        world: asked(found, (base, paths) => touchy(storm, resolved(base, paths))),
        act: gates(storm),
    }),
    'resolvePaths that throws something touchy': (storm) => ({
        world: asked(found, () => {
            throw touchyError(storm);
        }),
        act: gates(storm),
    }),
    extractPaths: (storm) => ({
        world: asked((args) => (storm.rage(), found(args)), resolved),
        act: gates(storm),
    }),
    'touchy paths of extractPaths': (storm) => ({
        world: asked((args) => touchy(storm, found(args)), resolved),
        act: gates(storm),
    }),
    'extractPaths that throws something touchy': (storm) => ({
        world: asked(() => {
            throw touchyError(storm);
        }, resolved),
        act: async ({ session }) => session.gate(CALL),
    }),
    'now, while a call is decided': (storm) => ({
        world: { ...asked(found, resolved), now: () => (storm.rage(), 5) },
        act: gates(storm),
    }),
    'a touchy call': (storm) => ({ world: asked(found, resolved), act: ({ session }) => session.gate(touchy(storm, structuredClone(CALL))) }),
    'a touchy run context': (storm) => ({ act: ({ session }) => session.setRunContext(touchy(storm, { allow_fs_writes: ['a'], system_prompt: ['b'] })) }),
    'a touchy scope': (storm) => ({ act: async ({ session }) => session.bypass(touchy(storm, { category: 'a' }), 60) }),
    'a touchy host': (storm) => ({
        act: () => rc.Runtime.open({ storage: 'memory', host: touchy(storm, { cwd: '/x', workspaceRoot: '/', pathStyle: 'posix', resolvePaths() {} }), protectedNames: touchy(storm, ['a']) }),
    }),
    'a touchy declaration': (storm) => ({
        act: () => rc.Runtime.open({ storage: 'memory', tools: touchy(storm, [{ name: 't', paths: [{ argument: '/p', access: 'read', kind: 'tree' }], advisory: ['/a'], category: 'c' }]) }),
    }),
    'a touchy question': (storm) => ({
        act: async () => {
            const input = { ...structuredClone(QUESTION), tool: { name: 'patch', paths: [{ argument: '/text', access: 'read' }] } };
            rc.decide(touchy(storm, input)).trace;
            rc.compilePolicy(touchy(storm, input.rules)).decide(touchy(storm, input));
            rc.pathsToResolve(touchy(storm, input));
            rc.decide({ ...input, tool: { name: 'patch', extractPaths: (args) => (storm.rage(), touchy(storm, found(args))) } });
        },
    }),
    'everything at once': (storm) => ({
        world: {
            strict: false,
            now: () => (storm.rage(), 5),
            tools: [{ name: 'look', access: 'none', execute: () => (storm.rage(), thenable(storm, touchy(storm, { content: [] }))) }],
            model: {
                check: () => (storm.rage(), thenable(storm)),
                async complete(request, { onUpdate, signal }) {
                    signal.addEventListener('abort', storm.rage);
                    storm.functions.push(() => onUpdate(assistant('I')), () => onUpdate(touchy(storm, assistant('I'))));
                    storm.rage();
                    onUpdate(touchy(storm, assistant('I')));
                    return touchy(storm, request.messages.length === 1 ? calling(['c1', 'look']) : assistant('Done.'));
                },
            },
        },
        act: ({ session, runtime }) => {
            session.subscribe(storm.rage);
            runtime.subscribe(storm.rage);
            session.subscribe(() => {
                throw touchyError(storm);
            });
            return session.prompt(touchy(storm, [{ type: 'text', text: 'Hi $demo' }]), touchy(storm, { mentions: true }));
        },
        limit: 60,
    }),
    'touchy arguments of the pure functions': (storm) => ({
        act: async () => {
            rc.projectModelInput(touchy(storm, [{ role: 'user', content: 'x' }]), touchy(storm, []), touchy(storm, { dialect: 'loop' }));
            rc.diffSystemPrompt(touchy(storm, []), touchy(storm, [{ name: 'a', content: 'b' }]), 1, 1);
            rc.replaySystemPrompt(touchy(storm, []), 1);
            rc.renderSystemPrompt(touchy(storm, [{ name: 'a', content: 'b' }]));
            rc.findSkillMentions('$a', touchy(storm, [{ id: 'i', name: 'a' }]));
        },
    }),
};

/** Waits for what a place does. What it comes to is judged like everything else. */
async function breakOut(place, options) {
    const storm = new Storm(options);
    const { world: made, act = ({ session }) => session.prompt('Hi $demo'), limit } = place(storm);
    storm.left = limit ?? storm.left;
    // A call must not wait for a person, not even after `clearBypass()`.
    const at = await world({ session: { permissionPreset: 'workspace-write' }, ...made });
    storm.targets.push(at.runtime, at.session, at.runtime.skills);
    storm.call('what was going on', () => act(at));
    const calls = await storm.over();
    ok(calls > 50, `only ${calls} calls: the callback was not called`);
    await alive();
    return { storm, at };
}

export const cases = {};
for (const [name, place] of Object.entries(PLACES)) {
    cases[`${name} calls everything that ends nothing`] = async () => {
        const { at } = await breakOut(place);
        // The session goes on.
        await soon(at.session.abort(), 'the end of abort()');
        const result = await outcome(() => at.session.prompt('Still there?'));
        ok(result.gave?.saved === true, JSON.stringify(result));
    };
    cases[`${name} calls everything, what ends something too`] = async () => {
        await breakOut(place, { ending: true });
    };
}

/** A second prompt while one runs, from every callback of the first. */
cases['a second prompt() from inside a turn is session_busy'] = async () => {
    const busy = {};
    const asked = new Set();
    // Each once: a prompt that is started while the last commit is being saved finds the turn over.
    const again = (where) => {
        if (asked.has(where)) return;
        asked.add(where);
        const second = outcome(() => at.session.prompt('Second'));
        const third = outcome(() => at.session.begin('Third'));
        pending.push(Promise.all([second, third]).then((both) => (busy[where] = both.map((found) => found.rejected?.code))));
    };
    const pending = [];
    const at = await world({
        model: {
            check: () => again('check'),
            async complete(request, { onUpdate }) {
                again('complete');
                onUpdate({
                    ...assistant('I'),
                    get more() {
                        again('a getter of a partial answer');
                        return 1;
                    },
                });
                again('after onUpdate');
                return request.messages.length === 1 ? calling(['c1', 'look']) : assistant('Done.');
            },
        },
        tools: [tool('look', () => again('tool'))],
    });
    at.session.subscribe((event) => event.type !== 'turn-end' && again(event.type));
    same(await at.session.prompt('First'), Object.freeze({ outcome: 'success', saved: true }));
    await Promise.all(pending);
    const expected = ['check', 'complete', 'a getter of a partial answer', 'after onUpdate', 'tool', 'budget', 'turn-start', 'message', 'saved', 'update'];
    same(Object.keys(busy).sort(), expected.sort());
    for (const [where, codes] of Object.entries(busy)) same(codes, ['session_busy', 'session_busy'], where);
    same(at.session.messages.map((message) => message.role), ['user', 'assistant', 'toolResult', 'assistant']);
    await at.close();
};

cases['from the end of a turn on, the next prompt may begin'] = async () => {
    const at = await world();
    let next;
    const stop = at.session.subscribe((event) => {
        if (event.type !== 'turn-end') return;
        stop();
        next = at.session.prompt('Second');
    });
    await at.session.prompt('First');
    same(await next, Object.freeze({ outcome: 'success', saved: true }));
    same(at.session.state.messageCount, 4);
    await at.close();
};

cases['sixteen prompts at once: one runs, fifteen are session_busy'] = async () => {
    const at = await world();
    const all = await Promise.all(Array.from({ length: 16 }, () => outcome(() => at.session.prompt('Hi'))));
    same(all.filter((found) => found.gave).length, 1);
    same(all.filter((found) => found.rejected?.code === 'session_busy').length, 15);
    same(at.session.state.messageCount, 2);
    await at.close();
};

