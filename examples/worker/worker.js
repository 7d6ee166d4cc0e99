// An agent on Cloudflare. The package's three Durable Objects keep what is stored: one per session, one for what sessions share, one
// for the directory. Where a session is live is an object of its own, `ChatObject`, so that its turn, the answers to its questions and
// what a person sets meanwhile meet in one place. What is asked of no one session is answered by the worker itself.

import { Runtime } from 'runcontext';
import { virtualHost } from 'runcontext/hosts/virtual';
import { durableObjects } from 'runcontext/storage/durable-objects';

export { DirectoryObject, SessionObject, SharedObject } from 'runcontext/storage/durable-objects';

/** A token that may do everything, and one that may look. Yours asks whoever knows your users. */
const may = (env, request, method) => {
    const [, token] = /^Bearer (.+)$/.exec(request.headers.get('authorization') ?? '') ?? [];
    return token !== undefined && (token === env.TOKEN || (token === env.READER && method === 'GET'));
};

function open(env) {
    const files = virtualHost({ tree: { work: {} }, cwd: '/work' });
    return Runtime.open({
        storage: durableObjects({ sessions: env.SessionObject, shared: env.SharedObject, directory: env.DirectoryObject }),
        authorize: (request, { method }) => may(env, request, method),
        host: files,
        model: script,
        tools: [
            { name: 'clock', access: 'none', category: 'time', execute: () => new Date().toISOString() },
            {
                name: 'write_file',
                paths: [{ argument: '/path', access: 'write' }],
                execute: ({ content }, { decision: { paths: [path] } }) => files.write(path.canonical, content),
            },
        ],
    });
}

export default {
    fetch(request, env) {
        const [, session] = /^\/(?:chat|api\/sessions)\/([\w-]+)(?:\/|$)/.exec(new URL(request.url).pathname) ?? [];
        const object = session === undefined ? env.DeskObject.get(env.DeskObject.idFromName('desk')) : live(env, session);
        return object.fetch(request);
    },
};

const live = (env, session) => env.ChatObject.get(env.ChatObject.idFromName(session));

/** An object with a runtime. One that cannot be opened is tried again. */
class WithRuntime {
    #opened;

    constructor(state, env) {
        this.env = env;
    }

    runtime() {
        this.#opened ??= open(this.env).catch((error) => {
            this.#opened = undefined;
            throw error;
        });
        return this.#opened;
    }
}

/** Answers what is asked of no one session. */
export class DeskObject extends WithRuntime {
    async fetch(request) {
        const runtime = await this.runtime();
        const [, answered] = /^\/api\/inbox\/approvals\/([\w-]+)\/resolve$/.exec(new URL(request.url).pathname) ?? [];
        if (answered !== undefined && may(this.env, request, request.method)) {
            // Who does not want to be asked again does not want it where the session is live.
            const asked = (await runtime.approvals.list()).find(({ requestId }) => requestId === answered);
            if (asked !== undefined) return live(this.env, asked.sessionId).fetch(request);
        }
        return runtime.fetch(request);
    }
}

/** Where one session is live. */
export class ChatObject extends WithRuntime {
    #session;

    async fetch(request) {
        const runtime = await this.runtime();
        const [, id] = /^\/chat\/([\w-]+)$/.exec(new URL(request.url).pathname) ?? [];
        if (id === undefined) return runtime.fetch(request);
        if (!may(this.env, request, request.method)) return new Response(null, { status: 403 });
        if (request.method !== 'POST') return new Response(null, { status: 405, headers: { allow: 'POST' } });
        // It stays open: what a person does not want to be asked about is kept nowhere else.
        this.#session ??= await runtime.openSession(id).catch((error) => {
            if (error.code === 'not_found') return runtime.createSession({ id });
            throw error;
        });
        return turn(this.#session, await request.text());
    }
}

/** A turn as a stream of the session's events, one JSON text to a line. Who stops reading stops the turn. */
function turn(session, text) {
    const stopped = new AbortController();
    const encoder = new TextEncoder();
    const body = new ReadableStream({
        async start(controller) {
            const tell = (event) => controller.enqueue(encoder.encode(`${JSON.stringify(event)}\n`));
            const done = session.subscribe(tell);
            try {
                await session.prompt(text, { signal: stopped.signal });
            } catch ({ code, message }) {
                if (!stopped.signal.aborted) tell({ type: 'refused', code, message });
            }
            done();
            if (!stopped.signal.aborted) controller.close();
        },
        cancel: () => stopped.abort(),
    });
    return new Response(body, { headers: { 'content-type': 'application/x-ndjson', 'cache-control': 'no-store' } });
}

/**
 * A script that stands in for a model, and says that it is one. Each line `call NAME ARGUMENTS` of what was typed is a call, one after
 * another; then it repeats what it was told about permissions.
 */
const script = {
    async complete({ messages, systemPrompt }, { onUpdate }) {
        const turn = messages.slice(messages.findLastIndex(({ role }) => role === 'user'));
        const calls = turn[0].content.split('\n').filter((line) => line.startsWith('call '));
        const called = turn.filter(({ role }) => role === 'toolResult').length;
        if (called < calls.length) {
            const [, name, args] = /^call (\w+) (.*)$/.exec(calls[called]);
            const toolCall = { type: 'toolCall', id: crypto.randomUUID(), name, arguments: JSON.parse(args) };
            return { role: 'assistant', content: [toolCall], stopReason: 'toolUse' };
        }
        const text = `I am a script, not a model.\n${systemPrompt.match(/<permissions>[^]*<\/permissions>/)}`;
        const message = (end) => ({ role: 'assistant', content: [{ type: 'text', text: text.slice(0, end) }], stopReason: 'stop' });
        for (const { index } of text.matchAll(/\s+/g)) onUpdate(message(index));
        return message();
    },
};
