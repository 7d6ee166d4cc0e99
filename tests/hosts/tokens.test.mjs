// The built-in estimate against a tokenizer, over every message and every skill of the sample data.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { after, before, test } from 'node:test';

import { encode as cl100k } from 'gpt-tokenizer/encoding/cl100k_base';
import { encode as o200k } from 'gpt-tokenizer/encoding/o200k_base';

import { dataFolder, installed } from '../support/project.mjs';
import { tokens } from '../support/tokens.mjs';

const folder = dataFolder();
const skip = existsSync(folder) ? false : `there is no folder ${path.basename(folder)}; RUNCONTEXT_DATA names the one of the test data`;
if (skip) console.log(`SKIPPED: tokens: ${skip}`);

let project, rc;
before(async () => {
    project = await installed();
    rc = await project.import('runcontext');
    await rc.init(readFile('runcontext.wasm'));
});
after(() => project?.remove());

const readFile = (name) => readFileSync(path.join(project.folder, 'node_modules/runcontext', name));
const text = (...names) => readFileSync(path.join(folder, ...names), 'utf8');
const isMessage = (value) => typeof value?.role === 'string' && value.content !== undefined;

function parsed(line) {
    try {
        return JSON.parse(line);
    } catch {
        return undefined;
    }
}

/** Every message of the sample data, with its dialect and what it is called. */
function* messages() {
    for (const name of readdirSync(path.join(folder, 'sessions')).filter((name) => /\.jsonl?$/.test(name))) {
        const whole = text('sessions', name);
        const found = name.endsWith('.jsonl') ? whole.split('\n').map((line) => parsed(line)?.message) : parsed(whole).messages;
        const dialect = name.startsWith('hostile') ? 'anthropic' : 'loop';
        for (const [at, message] of found.entries()) if (typeof message?.role === 'string') yield [`${name} ${at}`, message, dialect];
    }
    for (const name of readdirSync(path.join(folder, 'sessions', 'vercel-ai'))) {
        const response = parsed(text('sessions', 'vercel-ai', name));
        if (isMessage(response)) yield [name, { role: response.role, content: response.content }, 'anthropic'];
    }
    for (const top of ['skills', 'skills-broken']) {
        for (const name of readdirSync(path.join(folder, top), { recursive: true })) {
            if (name.endsWith('.md')) yield [name, { role: 'user', content: text(top, name) }, 'loop'];
        }
    }
}

/** What the model is given of a message: texts as they are, anything else as JSON. */
function said(message) {
    const { content } = message;
    if (typeof content === 'string') return [content];
    if (!Array.isArray(content)) return [JSON.stringify(message)];
    return content.flatMap((block) => {
        if (block.type === 'text') return [block.text];
        if (block.type === 'thinking') return [block.thinking];
        if (block.type === 'tool_result') return typeof block.content === 'string' ? [block.content] : said(block);
        return [JSON.stringify(block)];
    });
}

test('no message is estimated a tenth under what tokenizers count', { skip }, () => {
    const plain = { disallowedSpecial: new Set() };
    for (const [name, encode] of [['o200k_base', o200k], ['cl100k_base', cl100k]]) {
        const ratios = [];
        for (const [what, message, dialect] of messages()) {
            const counted = said(message).reduce((sum, part) => sum + encode(part, plain).length, 0);
            if (counted > 100) ratios.push([rc.estimateTokens(message, dialect) / counted, what]);
        }
        ratios.sort(([one], [other]) => one - other);
        const mean = ratios.reduce((sum, [ratio]) => sum + ratio, 0) / ratios.length;
        const [worst, where] = ratios[0];
        console.log(`estimate by ${name} of ${ratios.length} messages: least ${worst.toFixed(3)} (${where}), mean ${mean.toFixed(3)}, most ${ratios.at(-1)[0].toFixed(3)}`);
        assert.ok(ratios.length > 300, `${ratios.length}`);
        assert.ok(worst >= 0.9, `${worst} of ${where}`);
        assert.ok(mean < 1.25, `${mean}`);
    }
});

test('a message costs what its parts cost, halves of pairs and bytes too', () => {
    const estimate = (content, dialect) => rc.estimateTokens({ role: 'user', content }, dialect);
    const odd = 'Half \ud83d and \udd80, ZWJ \u{1f469}\u200d\u{1f467}, tabs\t\tand\r\nlines 12345 fooBar';
    assert.equal(estimate(odd), tokens(odd));
    assert.equal(estimate('\ud83d'), 2);
    const unknown = { type: 'x', 'half \ud83d': [1.5, null, true, 'é\u2028"\\'] };
    assert.equal(estimate([{ type: 'text', text: 'one' }, { type: 'text', text: 'two' }, unknown]), 2 + tokens(JSON.stringify(unknown)));
    for (const [dialect, block, cost] of [
        ['loop', { type: 'image', data: 'A'.repeat(100_000), mimeType: 'image/png' }, 1600],
        ['ai-sdk', { type: 'file', data: new Uint8Array(100_000), mediaType: 'image/png' }, 1600],
        ['ai-sdk', { type: 'file', data: new Uint8Array(100_000), mediaType: 'application/pdf' }, 3000],
        ['anthropic', { type: 'document', source: { type: 'base64', media_type: 'application/pdf', data: 'A'.repeat(100_000) } }, 3000],
        ['openai-chat', { type: 'input_audio', input_audio: { data: 'A'.repeat(100_000), format: 'wav' } }, 3000],
        ['openai-chat', { type: 'unknown', data: new Uint8Array(100_000) }, 3000],
    ]) {
        assert.equal(estimate([block], dialect), cost, `${dialect} ${block.type}`);
    }
    assert.throws(() => rc.estimateTokens({ content: 'x' }), { code: 'invalid_argument' });
    assert.throws(() => estimate('x', 'openai'), { code: 'invalid_argument' });
    assert.throws(() => rc.estimateTokens({ role: 'toolResult', toolCallId: 'c', content: [] }, 'anthropic'), { code: 'dialect_mismatch' });
});
