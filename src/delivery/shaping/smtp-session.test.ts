/**
 * The transition table of sessions is complete, and docs/delivery.md draws it. smtp-connections.test.ts shows sessions
 * over real sockets.
 */
import { test } from 'node:test';
import { assertDrawn, assertOnly } from '../../../test/support/state-machines.ts';
import { SESSION_TRANSITIONS } from './smtp-session.ts';

test('a session changes its state only by the events of its table, which docs/delivery.md draws', async () => {
  assertOnly(SESSION_TRANSITIONS);
  await assertDrawn('Session', SESSION_TRANSITIONS, { start: 'connecting', end: 'closed' });
});
