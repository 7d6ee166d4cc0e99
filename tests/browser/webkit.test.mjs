// The package in WebKitGTK. There is no way to set its quota from outside.

import { test } from 'node:test';

import { outlivesThePage } from '../support/life.mjs';
import { inBrowser } from '../support/run_cases.mjs';
import { driven, inDriven, webkit } from '../support/webdriver.mjs';

test('a session outlives the page', () => inDriven(webkit, outlivesThePage));

await inBrowser(['copies', 'sessions', 'stored_sessions', 'degraded', 'approvals', 'skills'], driven(webkit));
