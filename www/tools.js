// The tools of the demo. They touch nothing, and say so: `access: 'none'`.

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
];
