/** How long a prefix is kept; five minutes unless told otherwise. */
export interface CacheControlOptions {
    ttl?: '5m' | '1h' | null;
}

/** Ends a prefix that the provider keeps. */
export interface CacheControl {
    type: 'ephemeral';
    ttl?: '5m' | '1h';
}

/** Members of a request to Anthropic's Messages API. */
export interface CacheMarked<M> {
    /** Absent where the system prompt is blank. */
    system?: { type: 'text'; text: string; cache_control: CacheControl }[];
    messages: M[];
}

/**
 * A request of the dialect `anthropic` with markers for Anthropic's prompt cache: one at the end of the system prompt, which covers
 * the tools before it too, and up to three in the messages, four in all. The last is as far to the end as it may be; before it there is
 * one in every stretch of 20 blocks, since the provider looks back no further for what an earlier request marked. As a
 * conversation grows they stay where they are. None is on thinking, on a text without words, or on a block of an unknown kind.
 *
 * The request stays as it is: messages with a marker are shallow copies, all others are the very same. Markers that came with the
 * messages are left out, because more than four are refused.
 *
 * It decides nothing about what is sent. Throws `invalid_argument` for what is no request.
 *
 * @example
 * import Anthropic from '@anthropic-ai/sdk';
 * import type { ModelClient } from 'runcontext';
 * import { withCacheControl } from 'runcontext/integrations/anthropic-cache';
 *
 * const client = new Anthropic();
 * export const model: ModelClient = {
 *     async complete({ systemPrompt, messages, tools }, { signal }) {
 *         const { role, content } = await client.messages.create({
 *             model: 'claude-opus-5',
 *             max_tokens: 8_000,
 *             tools: tools.map(({ name, description, parameters }) => ({ name, description, input_schema: parameters }) as Anthropic.Tool),
 *             ...withCacheControl({ systemPrompt, messages: messages as unknown as Anthropic.MessageParam[] }),
 *         }, { signal });
 *         return { role, content };
 *     },
 * };
 */
export function withCacheControl<M extends object>(
    request: { readonly systemPrompt: string; readonly messages: readonly M[] },
    options?: CacheControlOptions | null,
): CacheMarked<M>;
