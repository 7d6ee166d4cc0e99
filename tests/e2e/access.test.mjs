// The demo without a mouse, on a small screen, and read aloud.

import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';

import { Chats } from '../support/chat.mjs';
import { launch } from '../support/chromium.mjs';
import { demo } from '../support/demo.mjs';

let site, browser, chats;
before(async () => {
    [site, browser] = await Promise.all([demo(), launch()]);
    chats = new Chats(browser, site.url);
});
afterEach(() => chats.check());
after(async () => {
    await browser?.close();
    await site?.close();
});

/** What has the focus, by its name. */
const focused = (page) =>
    page.evaluate(() => {
        const { activeElement: it } = document;
        return it.getAttribute('aria-label') ?? it.labels?.[0]?.textContent.trim() ?? it.innerText.trim();
    });

/** Presses a key until something has the focus. */
async function reach(page, name, key = 'Tab') {
    for (let pressed = 0; pressed < 60; pressed++) {
        const now = await focused(page);
        if (typeof name === 'string' ? now === name : name.test(now)) return;
        await page.keyboard.press(key);
    }
    assert.fail(`no way to ${name} by ${key}`);
}

test('everything works with the keyboard alone', async () => {
    const { page, ...chat } = await chats.fresh({ pause: 15 });
    const { keyboard } = page;
    assert.equal(await focused(page), 'Message');

    await keyboard.type('First line');
    await keyboard.press('Shift+Enter');
    await keyboard.type('second $co');
    const options = page.getByRole('listbox', { name: 'Skills whose name matches' }).getByRole('option');
    assert.deepEqual(await options.locator('strong').allTextContents(), ['$code-review', '$commit-message']);
    await keyboard.press('ArrowDown');
    assert.equal(await options.nth(1).getAttribute('aria-selected'), 'true');
    await keyboard.press('Enter');
    assert.equal(await chat.box.inputValue(), 'First line\nsecond $commit-message ');
    await page.getByText('skill commit-message, by $ in the text').waitFor();
    await keyboard.type('and $');
    assert.equal(await options.count(), 5);
    await keyboard.press('Escape');
    assert.equal(await options.count(), 0);
    await keyboard.press('Backspace');
    await keyboard.press('Enter');
    await chat.stop.waitFor({ state: 'hidden' });
    assert.equal((await chat.articles.locator('.text').allTextContents())[0], 'First line\nsecond $commit-message and ');

    await reach(page, 'Skills');
    await keyboard.press('Enter');
    await reach(page, /^plain-language/, 'Shift+Tab');
    await keyboard.press('Space');
    await keyboard.press('Escape');
    assert.equal(await focused(page), 'Skills (1)');
    await reach(page, 'Message', 'Shift+Tab');
    await keyboard.type('/slow');
    await keyboard.press('Enter');
    await page.locator('.streaming .text').waitFor();
    await keyboard.press('Escape');
    await chat.stop.waitFor({ state: 'hidden' });

    await reach(page, 'What the model saw');
    await keyboard.press('Enter');
    await reach(page, 'Messages');
    await keyboard.press('ArrowRight');
    assert.equal(await focused(page), 'System prompt');
    await keyboard.press('ArrowLeft');
    await keyboard.press('ArrowLeft');
    assert.equal(await focused(page), 'JSON');

    await reach(page, /^Delete “First line”/);
    await keyboard.press('Enter');
    assert.equal(await focused(page), 'Keep it');
    await keyboard.press('Tab');
    await keyboard.press('Enter');
    await page.getByText('Nothing said yet').waitFor();
    assert.equal(await focused(page), 'Message');
});

test('in a narrow window the list and the panel cover the chat one at a time, and Escape gives the chat back', async () => {
    const { page, ...chat } = await chats.fresh({ viewport: { width: 360, height: 640 } });
    const shown = async () => [await chat.chats.isVisible(), await chat.panel.isVisible()];
    const covered = () => page.getByRole('main').evaluate((main) => main.inert);
    assert.deepEqual(await shown(), [false, false]);
    await page.getByRole('button', { name: 'Model view' }).click();
    assert.deepEqual(await shown(), [false, true]);
    await page.getByRole('button', { name: 'Chats', exact: true }).click();
    assert.deepEqual(await shown(), [true, false]);
    assert.equal(await covered(), true);
    await reach(page, 'New chat');
    await page.keyboard.press('Escape');
    assert.deepEqual(await shown(), [false, false]);
    assert.equal(await focused(page), 'Chats');
    assert.equal(await covered(), false);
    await page.setViewportSize({ width: 1000, height: 640 });
    await page.getByRole('button', { name: 'New chat' }).waitFor();
    await page.getByRole('button', { name: 'What the model saw' }).click();
    assert.deepEqual(await shown(), [false, true]);
    assert.equal(await covered(), false);
    await page.setViewportSize({ width: 1300, height: 640 });
    await page.getByRole('button', { name: 'New chat' }).waitFor();
    assert.deepEqual(await shown(), [true, true]);
});

for (const colorScheme of ['light', 'dark']) {
    test(`nothing is cut off or scrolls sideways at 360 pixels, ${colorScheme}`, async () => {
        const { page, ...chat } = await chats.fresh({ viewport: { width: 360, height: 640 }, colorScheme });
        const sideways = async (where) => {
            const wide = await page.evaluate(() =>
                [...document.querySelectorAll('body *')]
                    .filter((it) => it.checkVisibility() && !it.closest('.hidden-text, .skip'))
                    .filter((it) => it.getBoundingClientRect().right > innerWidth + 0.5)
                    .map((it) => `${it.tagName}.${it.className}#${it.id}`),
            );
            assert.deepEqual(wide, [], where);
            assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 360, where);
        };
        await sideways('an empty chat');
        await chat.box.fill(`$code-review ${'averylongwordwithoutanyblank'.repeat(20)}`);
        await sideways('a long draft');
        await chat.box.press('Enter');
        await chat.stop.waitFor({ state: 'hidden' });
        await chat.box.fill('/tool some words $nothing');
        await chat.box.press('Enter');
        await chat.stop.waitFor({ state: 'hidden' });
        await sideways('a conversation');
        await chat.box.fill(`/write outbox/${'averylongname'.repeat(20)} some words`);
        await chat.box.press('Enter');
        await chat.waiting.getByRole('form').waitFor();
        await sideways('a call that waits');
        await chat.waiting.getByRole('button', { name: /^Reject/ }).click();
        await chat.stop.waitFor({ state: 'hidden' });
        await page.getByRole('button', { name: 'Skills' }).click();
        await sideways('the skills');
        await page.getByRole('button', { name: 'Help' }).click();
        await sideways('the help');
        await page.keyboard.press('Escape');
        await page.getByRole('button', { name: 'Chats', exact: true }).click();
        await sideways('the chats');
        await page.getByRole('button', { name: 'Model view' }).click();
        for (const tab of await page.getByRole('tab').all()) {
            await tab.click();
            await sideways(await tab.textContent());
        }
    });
}

test('every control has a name of its own, and every region says what it is', async () => {
    const { page, ...chat } = await chats.fresh();
    await chat.box.fill('/tool $code-review');
    await chat.box.press('Enter');
    await chat.stop.waitFor({ state: 'hidden' });
    await page.getByRole('button', { name: 'New chat' }).click();
    await page.getByText('Nothing said yet').waitFor();
    await page.getByRole('button', { name: /^Skills/ }).click();
    await page.getByRole('button', { name: 'What the model saw' }).click();
    await chat.box.fill('/twice a.md b');
    await chat.box.press('Enter');
    await chat.waiting.getByRole('form').nth(1).waitFor();

    const session = await page.context().newCDPSession(page);
    const { nodes } = await session.send('Accessibility.getFullAXTree');
    const controls = nodes.filter(({ ignored, role }) =>
        !ignored && ['button', 'link', 'textbox', 'combobox', 'checkbox', 'tab', 'option', 'img', 'listbox', 'dialog'].includes(role.value));
    const names = controls.map(({ role, name }) => `${role.value} ${name?.value ?? ''}`);
    assert.deepEqual(names.filter((name) => /^\w+ *$/.test(name)), [], 'controls without a name');
    // An option is heard with the name of its box.
    const repeated = names.filter((name, at) => !name.startsWith('option ') && names.indexOf(name) !== at);
    assert.deepEqual(repeated, [], 'names that mean two things');
    for (const wanted of [
        'textbox Message', 'button Send', 'combobox Permissions', 'button Skills', 'button New chat', 'button Help',
        'button Rename “/tool $code-review”', 'button Delete “/tool $code-review”', 'tab Messages', 'link Skip to the message box',
        'button Approve write_file a.md', 'button Reject write_file a.md.copy', 'textbox Note for rejecting write_file a.md',
        'combobox After approving write_file a.md',
    ]) {
        assert.ok(names.includes(wanted), `${wanted} in ${names.join(', ')}`);
    }
    const regions = nodes.filter(({ ignored, role }) =>
        !ignored && ['navigation', 'main', 'complementary', 'log', 'status', 'tabpanel', 'banner'].includes(role.value));
    assert.deepEqual([...new Set(regions.map(({ role }) => role.value))].sort(), [
        'banner', 'complementary', 'log', 'main', 'navigation', 'status', 'tabpanel',
    ]);
    assert.equal(await page.getByRole('heading', { level: 1 }).count(), 1);
});

test('text has enough contrast in light and in dark', async () => {
    for (const colorScheme of ['light', 'dark']) {
        const { page, ...chat } = await chats.fresh({ colorScheme });
        await chat.box.fill('/fail $code-review $nothing');
        await chat.box.press('Enter');
        await chat.stop.waitFor({ state: 'hidden' });
        await page.getByRole('button', { name: 'What the model saw' }).click();
        await chat.box.fill('/write a.md b');
        await chat.box.press('Enter');
        await chat.waiting.getByRole('form').waitFor();
        const weak = await page.evaluate(() => {
            const parse = (color) => color.match(/[\d.]+/g).map(Number);
            const light = (rgb) => {
                const [r, g, b] = rgb.map((it) => it / 255).map((it) => (it <= 0.04045 ? it / 12.92 : ((it + 0.055) / 1.055) ** 2.4));
                return 0.2126 * r + 0.7152 * g + 0.0722 * b;
            };
            const behind = (it) => {
                for (let at = it; at; at = at.parentElement) {
                    const [r, g, b, a = 1] = parse(getComputedStyle(at).backgroundColor);
                    if (a === 1) return [r, g, b];
                }
                return [255, 255, 255];
            };
            return [...document.querySelectorAll('body *')]
                .filter((it) => it.checkVisibility() && !it.matches(':disabled, noscript'))
                .filter((it) => [...it.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ''))
                .map((it) => {
                    const [a, b] = [light(parse(getComputedStyle(it).color).slice(0, 3)), light(behind(it))].sort((x, y) => y - x);
                    return { text: it.textContent.slice(0, 30), ratio: (a + 0.05) / (b + 0.05) };
                })
                .filter(({ ratio }) => ratio < 4.5);
        });
        assert.deepEqual(weak, [], colorScheme);
        await chats.check();
    }
});
