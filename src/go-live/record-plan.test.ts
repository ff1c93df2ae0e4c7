/** Shows which DNS records may be added beside those of others, and what blocks the rest. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DnsRecord } from '../net/dns-provider/record-text.ts';
import { mergeSpf } from '../core/dns/spf-merge.ts';
import { planRecord, type WantedRecord, zoneFileText } from './record-plan.ts';

const SPF: WantedRecord = {
  purpose: 'SPF',
  name: 'send.acme.com',
  type: 'TXT',
  value: 'v=spf1 a:mail.acme.com ~all',
  ttlS: 3_600,
};
const MX: WantedRecord = { ...SPF, purpose: 'MX', type: 'MX', value: '10 mail.acme.com' };
const text = (value: string): DnsRecord => ({ ...SPF, value });

test('a record is added beside records that do not concern it, and only once', () => {
  assert.equal(planRecord(SPF, [text('verification=1')]).action, 'add');
  assert.equal(planRecord(SPF, [text('verification=1'), text(SPF.value)]).action, 'present');
  const upperCase = { ...MX, name: 'SEND.acme.com', value: '10 MAIL.acme.com.' };
  assert.equal(planRecord(MX, [upperCase]).action, 'present');
});

test('an SPF record of others is not replaced; the sentence has the merged one', () => {
  const { action, problem } = planRecord(SPF, [text('v=spf1 include:_spf.other.com -all')]);
  assert.equal(action, 'blocked');
  assert.match(
    problem ?? '',
    /Replace it with "v=spf1 a:mail\.acme\.com include:_spf\.other\.com -all"\.$/,
  );
  assert.equal(mergeSpf('v=spf1 a:mail.acme.com -all', SPF.value), 'v=spf1 a:mail.acme.com -all');
});

test('another MX, another key and an alias block the record with what to do', () => {
  const other = { ...MX, value: '10 mx.other.com' };
  assert.match(planRecord(MX, [other]).problem ?? '', /^send\.acme\.com already has "10 mx\.other/);
  const dkim: WantedRecord = { ...SPF, purpose: 'DKIM', value: 'v=DKIM1; p=AA' };
  assert.equal(planRecord(dkim, [text('v=DKIM1; p=BB')]).action, 'blocked');
  const alias: DnsRecord = { ...SPF, type: 'CNAME', value: 'other.com' };
  assert.match(planRecord(MX, [alias]).problem ?? '', /is an alias of other\.com/);
});

test('the zone file has complete names and splits long texts', () => {
  const long = { ...SPF, value: `v=DKIM1; p=${'A'.repeat(300)}` };
  const [mx, dkim] = zoneFileText([MX, long]).split('\n');
  assert.equal(mx, 'send.acme.com. 3600 IN MX 10 mail.acme.com.');
  assert.match(dkim ?? '', /^send\.acme\.com\. 3600 IN TXT "v=DKIM1; p=A{244}" "A{56}"$/);
});
