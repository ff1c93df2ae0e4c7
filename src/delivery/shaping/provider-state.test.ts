import { test } from 'node:test';
import { assertDrawn, assertOnly } from '../../../test/support/state-machines.ts';
import { PROVIDER_TRANSITIONS } from './provider-state.ts';

test('a provider changes its state by the events of the table only, as docs/delivery.md draws it', async () => {
  assertOnly(PROVIDER_TRANSITIONS);
  await assertDrawn('Provider', PROVIDER_TRANSITIONS, { start: 'open' });
});
