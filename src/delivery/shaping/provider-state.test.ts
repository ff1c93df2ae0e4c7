/**
 * The transition table of providers is complete, and docs/delivery.md draws it. src/delivery/broker/broker.test.ts
 * shows which events happen.
 */
import { test } from 'node:test';
import { assertDrawn, assertOnly } from '../../../test/support/state-machines.ts';
import { PROVIDER_TRANSITIONS } from './provider-state.ts';

test('a provider changes its state only by the events of its table, which docs/delivery.md draws', async () => {
  assertOnly(PROVIDER_TRANSITIONS);
  await assertDrawn('Provider', PROVIDER_TRANSITIONS, { start: 'open' });
});
