// The tools of the demo: three that touch nothing, and say so by `access: 'none'`, and three that say which of their arguments
// are paths. Whether a call may run is decided before it gets here.

import { files } from './files.js';

const FILES = 'files';
const pathOf = (access) => [{ argument: '/path', access }];
const parameters = (...names) => ({
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])),
    required: names,
    additionalProperties: false,
});

/** Lets the tools that touch nothing run without a question, where no rule says so yet. */
export async function bringRules(permissions) {
    const rules = await permissions.listRules('default');
    for (const { name, access } of tools) {
        if (access !== 'none' || rules.some((rule) => rule.tool_pattern === name)) continue;
        await permissions.addRule({ tool_pattern: name, action: 'allow', note: 'it touches nothing' });
    }
}

export const tools = [
    {
        name: 'clock',
        description: 'The time of day on this machine, with its time zone.',
        parameters: { type: 'object', properties: {}, additionalProperties: false },
        access: 'none',
        execute: () => {
            const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
            return `${new Date().toLocaleTimeString([], { hour12: false })} (${timeZone})`;
        },
    },
    {
        name: 'word_count',
        description: 'Counts the words and characters of a text.',
        parameters: {
            type: 'object',
            properties: { text: { type: 'string' } },
            required: ['text'],
            additionalProperties: false,
        },
        access: 'none',
        execute: ({ text }) => {
            if (typeof text !== 'string') throw new Error('word_count needs a `text`');
            return { words: text.split(/\s+/u).filter(Boolean).length, characters: [...text].length };
        },
    },
    {
        name: 'wait',
        description: 'Waits for some seconds.',
        parameters: {
            type: 'object',
            properties: { seconds: { type: 'number' } },
            required: ['seconds'],
            additionalProperties: false,
        },
        access: 'none',
        execute: ({ seconds }, { signal }) =>
            new Promise((resolve, reject) => {
                const timer = setTimeout(() => resolve(`waited ${seconds} seconds`), seconds * 1000);
                signal.addEventListener('abort', () => {
                    clearTimeout(timer);
                    reject(signal.reason);
                });
            }),
    },
    {
        name: 'read_file',
        description: 'Reads a file.',
        parameters: parameters('path'),
        category: FILES,
        paths: pathOf('read'),
        execute: ({ path }) => String(files.read(path)),
    },
    {
        name: 'write_file',
        description: 'Writes a file, and makes the directories that are missing above it.',
        parameters: parameters('path', 'content'),
        category: FILES,
        paths: pathOf('write'),
        execute: ({ path, content }) => {
            files.write(path, content);
            return `wrote ${content.length} characters`;
        },
    },
    {
        name: 'list_files',
        description: 'Lists the names in a directory.',
        parameters: parameters('path'),
        category: FILES,
        paths: pathOf('read'),
        execute: ({ path }) => files.list(path).join(', ') || 'nothing is in it',
    },
];
