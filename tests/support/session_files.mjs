// Real conversations of other programs as session files, and a long one that is made as it is read.

import { existsSync, readFileSync } from 'node:fs';
import path from 'node:path';

import { dataFolder } from './project.mjs';

const folder = path.join(dataFolder(), 'sessions');

/** Why there are none; false where there are. */
export const skip = existsSync(folder) ? false : 'there are no sample sessions; RUNCONTEXT_DATA names the folder of the test data';

const textOf = (name) => readFileSync(path.join(folder, name), 'utf8');
const linesOf = (name) => textOf(name).split('\n').filter((line) => line.trim() !== '');
const messagesOf = (name) => linesOf(name).map((line) => JSON.parse(line)).filter(({ type }) => type === 'message').map(({ message }) => message);

/** The messages of each conversation, by name. */
export const conversations = () => ({
    large: messagesOf('pi-large-session.jsonl'),
    replay: messagesOf('prompt-cache-replay-session.jsonl'),
    long: JSON.parse(textOf('web-ui-session-longSession.json')).messages,
    short: JSON.parse(textOf('web-ui-session-simpleHtml.json')).messages,
});

/** Lines that are no messages. */
export const hostileLines = () => linesOf('hostile-lines.jsonl');

export const HEADER = {
    format: 'loop-session', version: 2, id: 'in', cwd: '/w', createdAt: '2026-01-31T12:00:00.000Z', updatedAt: '2026-01-31T12:00:01.000Z',
};

/** A header with every field, for a conversation of so many messages. */
export const fullHeader = (count) => ({
    ...HEADER,
    permissionPreset: 'workspace-write',
    unread: true,
    pinnedAt: '2026-01-31T11:00:00Z',
    title: 'Notes \u{1f600}',
    model: { provider: 'p', id: 'm', contextWindow: 200000, maxTokens: 8000, api: 'responses' },
    runtimeContexts: [
        { userTurn: 0, content: 'older', timestamp: 1 },
        {
            userTurn: 0, content: '<skill name="a" location="/a">\nDo.\n</skill>', timestamp: 2, placement: 'user',
            skills: [{ id: 'a', name: 'a', path: '/a', content: 'Do.', revision: 'r', description: 'd', tags: ['x'] }],
        },
    ],
    promptTimings: [{ userTurn: 0, startedAt: 1, firstTokenMs: 12.5 }],
    compactions: [{ id: 'k', firstKeptMessageIndex: 1, historyMessageCount: count, summary: 's', timestamp: 3, provider: 'p', model: 'm', usage: { input: 1 } }],
    systemPromptCheckpoints: [{ messageCount: 1, timestamp: 2, sections: { preamble: 'Be brief.', cwd: '/w' } }],
    client: { version: '1.2.3', flags: [true, null] },
});

export const fileOf = (header, messages) => [header, ...messages].map((line) => `${JSON.stringify(line)}\n`).join('');
