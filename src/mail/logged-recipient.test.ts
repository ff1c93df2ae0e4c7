/** Shows how much of an address and of a reply a log line has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Address } from './address.ts';
import { loggedRecipient } from './logged-recipient.ts';

const ADDRESS = 'Jo.Smith+news@example.org' as Address;
const ABOUT = { address: ADDRESS, reply: `550 5.1.1 <${ADDRESS}> is unknown` };

test('by default a log line has the domain of a recipient, but not the local part or the reply', () => {
  assert.deepEqual(loggedRecipient('domain', ABOUT), { recipient_domain: 'example.org' });
  assert.deepEqual(loggedRecipient('none', ABOUT), {});
});

test('with `full`, a log line has the address and the beginning of the reply', () => {
  const full = { recipient_domain: 'example.org', recipient: ADDRESS };
  assert.deepEqual(loggedRecipient('full', ABOUT), { ...full, reply: ABOUT.reply });
  assert.deepEqual(loggedRecipient('full', { address: ADDRESS, reply: null }), full);
  const long = loggedRecipient('full', { address: ADDRESS, reply: 'x'.repeat(64 * 1024) });
  assert.equal(long.reply?.length, 500);
});
