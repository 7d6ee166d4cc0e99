// @ts-check
// Where Anthropic's prompt cache may begin and end in a request. A marker ends a prefix that the provider keeps; from each marker
// it looks back over so many blocks for a prefix that an earlier request marked.

import { isRecord, listLength } from '../plain.js';
import { RunContextError } from '../shim.js';

/** So many markers may stand in a request. */
const MARKERS = 4;
/** So many blocks are looked at from a marker, its own included. */
const LOOK_BACK = 20;

/** What can hold a marker. Thinking cannot, and of other blocks it is not known. */
const MARKABLE = new Set([
    'text', 'image', 'document', 'search_result', 'tool_use', 'tool_result', 'server_tool_use', 'web_search_tool_result',
    'web_fetch_tool_result', 'code_execution_tool_result', 'bash_code_execution_tool_result', 'text_editor_code_execution_tool_result',
    'tool_search_tool_result', 'container_upload',
]);

/** @param {string} field @param {string} problem */
const invalid = (field, problem) => new RunContextError('invalid_argument', `\`${field}\` ${problem}`, { field });

/** @param {unknown} text */
const isBlank = (text) => typeof text !== 'string' || text.trim() === '';

/** @param {any} block */
const isMarkable = (block) => isRecord(block) && MARKABLE.has(block.type) && !(block.type === 'text' && isBlank(block.text));

/** The blocks of a content; a text is one. @param {any} content @returns {any[]} */
const blocksOf = (content) => (typeof content === 'string' ? [{ type: 'text', text: content }] : Array.isArray(content) ? content : []);

/** The same without markers; itself where it has none. @param {any} block @returns {any} */
function unmarked(block) {
    if (!isRecord(block)) return block;
    const { cache_control, ...rest } = block;
    const inner = Array.isArray(block.content) ? block.content.map(unmarked) : undefined;
    const isSame = inner === undefined || inner.every((/** @type {any} */ it, /** @type {number} */ at) => it === block.content[at]);
    if (cache_control === undefined && isSame) return block;
    return isSame ? rest : { ...rest, content: inner };
}

/**
 * The last places for markers, by whether each block can hold one: one in each whole stretch of blocks that a look back covers, and the
 * last of all. What is in a whole stretch stays as the conversation grows, so that its place does.
 *
 * @param {boolean[]} markable
 * @param {number} count
 */
function places(markable, count) {
    const found = new Set();
    for (let from = 0; from + LOOK_BACK <= markable.length; ) {
        const place = markable.lastIndexOf(true, from + LOOK_BACK - 1);
        if (place < from) from += LOOK_BACK;
        else from = found.add(place) && place + 1;
    }
    const last = markable.lastIndexOf(true);
    if (last >= 0) found.add(last);
    return new Set([...found].slice(-count));
}

/**
 * @param {any} request
 * @param {any} [options]
 * @returns {any}
 */
export function withCacheControl(request, options) {
    if (!isRecord(request) || listLength(request.messages) < 0) throw invalid('request.messages', 'must be a list');
    const ttl = options?.ttl ?? undefined;
    if (ttl !== undefined && ttl !== '5m' && ttl !== '1h') throw invalid('options.ttl', 'must be `5m` or `1h`');
    const cache_control = ttl === undefined ? { type: 'ephemeral' } : { type: 'ephemeral', ttl };
    const { systemPrompt, messages } = request;
    if (typeof (systemPrompt ?? '') !== 'string') throw invalid('request.systemPrompt', 'must be a text');
    const wrong = messages.findIndex((/** @type {unknown} */ message) => !isRecord(message));
    if (wrong >= 0) throw invalid(`request.messages[${wrong}]`, 'must be an object');
    const system = isBlank(systemPrompt) ? undefined : [{ type: 'text', text: systemPrompt, cache_control }];
    const markable = messages.flatMap((/** @type {any} */ message) => blocksOf(message.content).map(isMarkable));
    const chosen = places(markable, MARKERS - (system?.length ?? 0));
    let number = 0;
    const marked = messages.map((/** @type {any} */ message) => {
        const blocks = blocksOf(message.content);
        const shown = blocks.map((block) => (chosen.has(number++) ? { ...unmarked(block), cache_control } : unmarked(block)));
        return shown.every((block, at) => block === blocks[at]) ? message : { ...message, content: shown };
    });
    return system === undefined ? { messages: marked } : { system, messages: marked };
}
