/** DNS records of a domain as a zone file. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { zoneFileOf } from './zone-file.ts';

test('records become lines of a zone file, long texts in several strings', () => {
  const record = { record: 'DKIM', name: 'k._domainkey.acme.test', status: 'missing', found: [] };
  const shared = { ...record, ttl: 'Auto', required: true, problem: null };
  const file = zoneFileOf({
    name: 'acme.test',
    records: [
      { ...shared, type: 'TXT', value: `${'a'.repeat(255)}"b` },
      { ...shared, type: 'MX', value: 'mx.acme.test', priority: 10, ttl: 300, required: false },
    ] as never,
  });
  assert.deepEqual(file.split('\n'), [
    '; Records for sending from acme.test',
    `k._domainkey.acme.test. IN TXT "${'a'.repeat(255)}" "\\"b"`,
    'k._domainkey.acme.test. 300 IN MX 10 mx.acme.test. ; optional',
    '',
  ]);
});
