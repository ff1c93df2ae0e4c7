/** Shows which next policy is proposed for which reports. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { dmarcProgress } from './dmarc-progress.ts';
import type { DmarcTotals } from './dmarc-store.ts';

const NOW = new Date('2026-11-27T00:00:00Z');
const OWN = { ip: '192.0.2.1', passed: 990, failed: 0 };
const GOOD: DmarcTotals = {
  reports: 30,
  organizations: 4,
  days: 14,
  firstAt: new Date('2026-11-13T00:00:00Z'),
  lastAt: NOW,
  now: NOW,
  sources: [OWN],
};
const NONE: DmarcTotals = { ...GOOD, reports: 0, days: 0, firstAt: null, sources: [] };

const progress = (totals: Partial<DmarcTotals> = {}, text = 'v=DMARC1; p=none; rua=mailto:a@b.c') =>
  dmarcProgress({
    at: 'acme.com',
    text,
    totals: { ...GOOD, ...totals },
    reportAddress: 'dmarc@send.acme.com',
    ownIps: ['192.0.2.1'],
  });

test('two weeks of reports in which all mail passes propose the next policy, and keep the rest of the record', () => {
  const ready = progress();
  assert.equal(ready.state, 'ready');
  assert.equal(ready.proposal, 'v=DMARC1; p=quarantine; rua=mailto:a@b.c');
  assert.match(
    ready.message,
    /Of 990 messages that 4 receivers reported in two weeks, 990 passed\./,
  );
  const next = progress({}, 'v=DMARC1;p=quarantine;sp=none');
  assert.equal(next.proposal, 'v=DMARC1;p=reject;sp=none');
  assert.deepEqual(
    [progress({}, 'v=DMARC1; p=reject').state, progress({}, 'v=DMARC1').state],
    ['strictest', 'invalid_record'],
  );
});

test('nothing is proposed by too few reports, too few days or too few messages', () => {
  const few: Partial<DmarcTotals>[] = [
    { firstAt: new Date('2026-11-20T00:00:00Z') },
    { days: 4 },
    { sources: [{ ...OWN, passed: 19 }] },
  ];
  for (const totals of few) {
    const { state, proposal } = progress(totals);
    assert.deepEqual([state, proposal], ['collecting', null]);
  }
});

test('without a report the sentence says how to get some', () => {
  const elsewhere = progress(NONE);
  assert.equal(elsewhere.state, 'no_reports');
  assert.match(elsewhere.message, /Add mailto:dmarc@send\.acme\.com to rua in the record/);
  const asked = progress(NONE, 'v=DMARC1; p=none; rua=mailto:x@y.z,mailto:dmarc@send.acme.com');
  assert.match(asked.message, /No report has arrived at dmarc@send\.acme\.com yet\./);
});

test('mail of our own that fails stops a stricter policy, and is named under the strictest one', () => {
  const sources = [{ ip: '192.0.2.1', passed: 900, failed: 100 }];
  const { state, proposal, message } = progress({ sources });
  assert.deepEqual([state, proposal], ['own_mail_fails', null]);
  assert.match(message, /100 of 1000 messages of this service failed/);
  assert.match(
    progress({ sources }, 'v=DMARC1; p=reject').message,
    /messages of this service failed/,
  );
});

test('failures of other addresses are named, because only the owner knows whether they are forgeries', () => {
  const others = progress({ sources: [OWN, { ip: '203.0.113.9', passed: 0, failed: 500 }] });
  assert.equal(others.state, 'others_fail');
  assert.match(others.message, /500 of 1490 messages failed, most from 203\.0\.113\.9/);
  assert.match(others.proposal ?? '', /p=quarantine/);
  const rare = progress({ sources: [OWN, { ip: '203.0.113.9', passed: 0, failed: 5 }] });
  assert.equal(rare.state, 'ready');
});
