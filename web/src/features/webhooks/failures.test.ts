/** Failures of a webhook, as the dashboard groups them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { WebhookDelivery } from '../../../../sdk/src/api.ts';
import { failureGroups, resultOf } from './failures.ts';

function delivery(at: number, result: object | null, status = 'pending'): WebhookDelivery {
  const last = result && { at: `2026-11-21T08:30:0${at}.000Z`, latency_ms: 5, ...result };
  return { id: String(at), status, last_attempt: last } as WebhookDelivery;
}

const said = (status: number, answer: string) => ({ status, answer, error: null });
const silent = { status: null, answer: null, error: 'The connection was refused.' };

test('failures of one kind are one group, with the newest of them', () => {
  const groups = failureGroups([
    delivery(1, silent),
    delivery(2, said(500, '{"error": "row 17"}')),
    delivery(4, said(500, '{"error":\n "row 23"}')),
    delivery(3, said(404, '')),
    delivery(5, null),
    delivery(6, said(200, 'OK'), 'delivered'),
  ]);
  assert.deepEqual(
    groups.map(({ what, count, newest }) => [what, count, newest.id]),
    [
      ['500 {"error": "row 23"}', 2, '4'],
      ['The connection was refused.', 1, '1'],
      ['404', 1, '3'],
    ],
  );
});

test('a delivery has no result before its first attempt', () => {
  assert.equal(resultOf(delivery(1, null)), null);
});
