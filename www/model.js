// A model client without a model: a script that reads the request it is given and tells what was in it.

/** What a person can type, for the help. */
export const COMMANDS = [
    ['/help', 'lists these commands'],
    ['/seen', 'answers with your message exactly as the request had it'],
    ['/slow', 'answers one word at a time, for half a minute: try Stop, or reload the page'],
    ['/tool your words', 'calls two tools, clock and word_count, then answers with their results'],
    ['/tool-slow', 'calls a tool that takes half a minute: try Stop, or reload the page'],
    ['/tool-error', 'calls a tool that fails; the turn goes on'],
    ['/list path', 'calls list_files: try . or docs'],
    ['/read path', 'calls read_file: try notes.md, secrets/key.txt, or shortcut/key.txt, which leads there'],
    ['/write path your words', 'calls write_file: try notes.md, memory/today.md, or outbox/a.md, which leads outside'],
    ['/load name', 'calls load_skill: try plain-language, or the name of a skill that you added'],
    ['/twice path your words', 'calls write_file twice at once, the second time for a copy'],
    ['/fail', 'begins an answer, then fails'],
    ['/fail at once', 'fails before the first word'],
];

const SELF = 'I am the offline script of this page, not a language model.';

/**
 * @param {object} [options]
 * @param {number} [options.pause] milliseconds between words
 */
export function scriptedModel({ pause = 30 } = {}) {
    return {
        async complete(request, { signal, onUpdate }) {
            const answer = answerTo(request);
            let text = '';
            for (const word of answer.text.match(/\s*\S+/gu) ?? []) {
                const wait = answer.slow ? Math.max(pause, 350) : pause;
                if (wait > 0) await sleep(wait, signal);
                text += word;
                onUpdate(message([{ type: 'text', text }]));
            }
            if (answer.fail !== undefined) throw new Error(answer.fail);
            const blocks = answer.text === '' ? [] : [{ type: 'text', text: answer.text }];
            const calls = answer.calls ?? [];
            return message([...blocks, ...calls], calls.length > 0 ? 'toolUse' : 'stop');
        },
    };
}

const message = (content, stopReason) => ({
    role: 'assistant',
    content,
    provider: 'demo',
    model: 'scripted',
    ...(stopReason && { stopReason }),
    timestamp: Date.now(),
});

/** What the script makes of a request. It looks at the request alone, as any model would. */
function answerTo({ systemPrompt, messages, tools }) {
    const last = messages.at(-1);
    const asked = messages.findLast(({ role }) => role === 'user');
    if (last.role === 'toolResult') return afterTools(messages);
    const typed = textsOf(asked).at(-1) ?? '';
    const command = /(?:^|\n\n)\/([a-z-]+)(?: ([^]*))?$/u.exec(typed);
    switch (command?.[1]) {
        case 'help':
            return { text: `${SELF} You can type:\n\n${COMMANDS.map(([name, what]) => `${name}  ${what}`).join('\n')}` };
        case 'seen':
            return { text: `${SELF} Your message reached me as ${shape(asked)}:\n\n${textsOf(asked).join('\n\n')}` };
        case 'slow':
            return { text: `${SELF} ${SLOW}`, slow: true };
        case 'tool':
            return {
                text: `${SELF} I call two tools.`,
                calls: [call('clock', {}), call('word_count', { text: command[2] ?? '' })],
            };
        case 'tool-slow':
            return { text: `${SELF} I call a slow tool.`, calls: [call('wait', { seconds: 30 })] };
        case 'tool-error':
            return { text: `${SELF} I call a tool the wrong way.`, calls: [call('word_count', {})] };
        case 'list':
            return { text: `${SELF} I list files.`, calls: [call('list_files', { path: command[2] ?? '.' })] };
        case 'read':
            return { text: `${SELF} I read a file.`, calls: [call('read_file', { path: command[2] ?? '' })] };
        case 'load':
            return { text: `${SELF} I load a skill.`, calls: [call('load_skill', { name: command[2] ?? '' })] };
        case 'write':
        case 'twice': {
            const [, path, content] = /^(\S*) ?([^]*)$/u.exec(command[2] ?? '');
            const paths = command[1] === 'twice' ? [path, `${path}.copy`] : [path];
            return { text: `${SELF} I write a file.`, calls: paths.map((path) => call('write_file', { path, content })) };
        }
        case 'fail':
            return command[2] === 'at once'
                ? { text: '', fail: 'the script was asked to fail at once' }
                : { text: `${SELF} This answer breaks off`, fail: 'the script was asked to fail' };
        default:
            return { text: `${SELF} ${whatWasThere(systemPrompt, messages, tools, asked)}` };
    }
}

function afterTools(messages) {
    const from = messages.findLastIndex(({ role }) => role === 'assistant') + 1;
    const results = messages.slice(from).map(({ toolName, content, isError }) => {
        const text = content.map((block) => block.text ?? `[${block.type}]`).join(' ');
        return `${toolName} ${isError ? 'failed' : 'answered'}: ${text}`;
    });
    return { text: `${SELF} ${results.join('; ')}.` };
}

function whatWasThere(systemPrompt, messages, tools, asked) {
    const skills = [...textsOf(asked).join('\n').matchAll(/<skill name="([^"]*)"/gu)].map(([, name]) => name);
    const preset = /^Permission preset: (.+)\.$/mu.exec(systemPrompt)?.[1];
    const images = blocksOf(asked).filter(({ type }) => type === 'image');
    const said = [
        `Your message was number ${messages.length} of the request and came as ${shape(asked)}.`,
        skills.length > 0
            ? `In front of it stood ${skills.length === 1 ? 'the skill' : 'the skills'} ${list(skills)}.`
            : 'No skill stood in front of it.',
        preset === undefined ? 'The system prompt named no permission preset.' : `The permission preset was ${preset}.`,
        images.length > 0 &&
            `I saw ${images.map((image) => `an image (${image.mimeType}, ${image.data.length} bytes)`).join(' and ')}.`,
        `I could have called ${list(tools.map(({ name }) => name))}.`,
        'Type /help for more.',
    ];
    return said.filter(Boolean).join(' ');
}

const SLOW =
    'This is a slow answer. You can press Stop or Escape while it is being written: what has arrived is kept, marked as ' +
    'stopped, and left out of the next request. You can also reload the page: the message you typed is already saved, the ' +
    'chat is shown as cut off, and you decide what becomes of it. If you do neither, it simply ends here.';

const blocksOf = ({ content }) => (typeof content === 'string' ? [{ type: 'text', text: content }] : content);
const textsOf = (asked) => blocksOf(asked).filter(({ type }) => type === 'text').map(({ text }) => text);
const shape = ({ content }) =>
    typeof content === 'string' ? 'one string' : `${content.length} block${content.length === 1 ? '' : 's'}`;
const list = (names) => names.map((name) => `“${name}”`).join(', ').replace(/, ([^,]*)$/u, ' and $1');
const call = (name, args) => ({ type: 'toolCall', id: `call_${crypto.randomUUID()}`, name, arguments: args });

function sleep(milliseconds, signal) {
    return new Promise((resolve, reject) => {
        if (signal.aborted) reject(signal.reason);
        const stop = () => {
            clearTimeout(timer);
            reject(signal.reason);
        };
        const timer = setTimeout(() => {
            signal.removeEventListener('abort', stop);
            resolve();
        }, milliseconds);
        signal.addEventListener('abort', stop, { once: true });
    });
}
