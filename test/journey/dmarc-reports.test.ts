/** Reports about DMARC that receivers send: stored, summed, and turned into a proposal of the next policy. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import { gzipSync } from 'node:zlib';
import { zipSync } from 'fflate';
import { dmarcMessage, dmarcXml } from '../support/dmarc-reports.ts';
import { startJourney } from '../support/journey.ts';
import { deliverReport } from '../support/reports.ts';

const OWN_IP = '192.0.2.1';
const DAY_MS = 86_400_000;
const TO = 'dmarc@send.acme.example';

const journey = await startJourney({
  LETTERHAUS_INBOUND_PORT: '0',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
});
after(() => journey[Symbol.asyncDispose]());
const { service, dns } = journey;
const { data } = (await journey.request('GET', '/v1/domains')).body;
const domain = data.find(({ name }: { name: string }) => name === 'acme.example');

const publish = (text: string): void => dns.set('_dmarc.acme.example', 'TXT', [text]);
const status = async () => (await journey.request('GET', `/v1/domains/${domain.id}/dmarc`)).body;
const stored = async (): Promise<number> => {
  const [row] = await service.sql('select count(*)::int as count from dmarc_reports');
  return Number(row?.['count']);
};

async function report(daysAgo: number, options: { about?: string; failed?: number } = {}) {
  const { about = 'acme.example', failed = 0 } = options;
  const rows = [
    { ip: OWN_IP, count: 10, dkim: 'pass', spf: 'pass' },
    ...(failed > 0 ? [{ ip: '203.0.113.9', count: failed, dkim: 'fail', spf: 'fail' }] : []),
  ];
  const endsAtMs = Math.floor(Date.now() / 1_000) * 1_000 - daysAgo * DAY_MS;
  const xml = dmarcXml({ domain: about, endsAtMs, id: `${daysAgo} ${about}`, rows });
  // Large receivers use either.
  const body =
    daysAgo % 2 === 0 ? gzipSync(xml) : Buffer.from(zipSync({ 'a.xml': Buffer.from(xml) }));
  const message = dmarcMessage(body).toString();
  assert.match(
    await deliverReport(service.readyLine.inbound_port ?? 0, { to: TO, message }),
    /^250 /,
  );
}

test('without a record, and without a report, the status says what to do', async () => {
  assert.equal((await status()).state, 'no_record');
  publish('v=DMARC1; p=none; rua=mailto:me@acme.example');
  const { state, message, proposal } = await status();
  assert.deepEqual([state, proposal], ['no_reports', null]);
  assert.match(message, /Add mailto:dmarc@send\.acme\.example to rua/);
});

test('a report is stored once, however often it comes, and one about another domain is not', async () => {
  await report(0);
  await report(0);
  await report(0, { about: 'other.example' });
  await report(0, { about: 'xacme.example' });
  assert.equal(await stored(), 1);
  const { state, reports } = await status();
  assert.equal(state, 'collecting');
  assert.deepEqual(reports.sources, [{ ip: OWN_IP, passed: 10, failed: 0 }]);
});

test('after two weeks in which all mail passed the next policy is proposed, and then its reports count', async () => {
  for (let day = 1; day <= 13; day += 1) await report(day);
  const ready = await status();
  assert.equal(ready.state, 'ready', ready.message);
  assert.equal(ready.proposal, 'v=DMARC1; p=quarantine; rua=mailto:me@acme.example');
  assert.deepEqual([ready.reports.count, ready.reports.organizations], [14, 1]);
  publish(ready.proposal);
  assert.equal((await status()).state, 'no_reports', 'reports under p=none say nothing about it');
  publish('v=DMARC1; p=none; rua=mailto:me@acme.example');
});

test('addresses whose mail fails are named', async () => {
  await report(14, { failed: 900 });
  assert.equal((await status()).state, 'ready', 'that is too long ago');
  await service.sql(`update dmarc_reports set ends_at = ends_at + interval '2 days'`);
  const { state, message } = await status();
  assert.equal(state, 'others_fail');
  assert.match(message, /900 of 1050 messages failed, most from 203\.0\.113\.9/);
});

test('a project that has not verified the domain does not see its reports', async () => {
  const { body } = await journey.request('POST', '/v1/domains', { name: 'victim.example' });
  const other = await journey.request('GET', `/v1/domains/${body.id}/dmarc`);
  assert.deepEqual([other.body.state, other.body.reports], ['unverified', null]);
});
