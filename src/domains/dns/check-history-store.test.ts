/** The result of a check that is kept: what makes it another one. test/api/evidence.test.ts has it in case files. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { resultOf } from './check-history-store.ts';
import type { DmarcRecords } from './dmarc-records.ts';
import type { CheckedRecord } from './records.ts';

const SPF: CheckedRecord = {
  record: 'SPF',
  type: 'TXT',
  name: 'send.acme.com',
  value: 'v=spf1 mx -all',
  ttl: 3600,
  required: true,
  status: 'verified',
  found: ['v=spf1 mx -all', 'verification=1'],
  problem: null,
};
const dmarc = (...texts: string[]): DmarcRecords => ({ kind: 'records', at: 'acme.com', texts });

test('records that DNS returns in another order are the same result', () => {
  const result = resultOf([SPF], dmarc('v=DMARC1; p=none', 'v=DMARC1; p=reject'));
  const reversed = { ...SPF, found: SPF.found.toReversed() };
  assert.deepEqual(resultOf([reversed], dmarc('v=DMARC1; p=reject', 'v=DMARC1; p=none')), result);
  assert.notDeepEqual(resultOf([{ ...SPF, found: [] }], dmarc('v=DMARC1; p=none')), result);
});

test('a failure of DNS is the same result in any words', () => {
  const failure = (message: string) => resultOf([], { kind: 'error', message });
  assert.deepEqual(failure('192.0.2.1 did not answer'), failure('192.0.2.2 answered SERVFAIL'));
  assert.deepEqual(resultOf([], null).dmarc, null);
});
