/**
 * A service in Europe/Berlin around both changes of its clocks. Nothing shifts, because all times are UTC:
 * schedules, retries, counts by day, searches, limits of time and templates.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { startJourney } from '../support/journey.ts';

const journey = await startJourney({ TZ: 'Europe/Berlin' });
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

/** By SQL's clock, which decides about all mail. */
async function nowMs(): Promise<number> {
  const [{ ms }] = await service.sql('select extract(epoch from app_now())::float8 * 1000 as ms');
  return ms;
}

async function passUntil(time: string): Promise<void> {
  await service.clock.advance({ seconds: (Date.parse(time) - (await nowMs())) / 1000 });
}

/** The last Sunday of a month of next year: Europe changes its clocks on those of March and October. */
function lastSunday(month: number): string {
  const day = new Date(Date.UTC(new Date().getUTCFullYear() + 1, month, 0));
  day.setUTCDate(day.getUTCDate() - day.getUTCDay());
  return day.toISOString().slice(0, 10);
}

const CHANGES = [
  // An hour is missing: 02:00 to 03:00.
  { day: lastSunday(3), before: '00:58', due: '03:10:00+02:00', early: '01:05', late: '01:11' },
  // An hour comes twice: 02:00 to 03:00.
  { day: lastSunday(10), before: '00:58', due: '02:10:00+01:00', early: '01:05', late: '01:11' },
];

for (const { day, before, due, early, late } of CHANGES) {
  test(`on ${day} mail leaves when it is due, and is counted on its day`, async () => {
    const domain = `on-${day}.test`;
    const mx = await journey.mailServer(domain, {
      recipients: { lee: ['450 4.2.1 Later', '250 Ok'] },
    });
    await passUntil(`${day}T${before}:00Z`);
    const scheduled = await journey.send({
      to: `kim@${domain}`,
      scheduled_at: `${day}T${due}`,
      expires_in: 600,
    });
    const retried = await journey.send({ to: `lee@${domain}` });
    const { recipients } = await journey.attempted(retried);
    const waitMs = Date.parse(recipients[0].next_attempt_at) - (await nowMs());
    assert.ok(waitMs > 0 && waitMs < 2 * 60_000, `${waitMs} ms until the next attempt`);

    await passUntil(`${day}T${early}:00Z`);
    assert.equal((await journey.ended(retried)).status, 'delivered');
    const { status, scheduled_at: scheduledAt } = await journey.email(scheduled);
    assert.deepEqual([status, scheduledAt], ['scheduled', `${day}T01:10:00.000Z`]);
    await passUntil(`${day}T${late}:00Z`);
    assert.equal((await journey.ended(scheduled)).status, 'delivered');
    assert.equal(mx.messages.length, 2);
    const [, date] = /^Date: (.*)\r$/m.exec(mx.messages[1]!.raw.toString()) ?? [];
    assert.equal(new Date(date!).toISOString(), `${day}T01:10:00.000Z`);
    assert.match(date!, /\+0000$/);

    const { body: stats } = await journey.request(
      'GET',
      `/v1/stats?granularity=day&from=${day}T00:00:00Z&to=${day}T23:59:59Z`,
    );
    const days = stats.data.map((row: Record<string, unknown>) => [row.period, row.delivered]);
    assert.deepEqual(days, [[`${day}T00:00:00.000Z`, 2]]);
    const query = encodeURIComponent(`after:${day} before:${day}T01:00Z`);
    const { body: found } = await journey.request('GET', `/v1/emails?q=${query}`);
    assert.equal(found.data?.length, 2, JSON.stringify(found));
  });
}

test('a template writes times in UTC, whether they have an offset or not', async () => {
  const { body: template } = await journey.request('POST', '/v1/templates', {
    name: 'Times',
    subject: '{{ at | date: "%Y-%m-%d %H:%M" }}',
    html: '{{ at | date: "%Y-%m-%d %H:%M" }}',
    variables: [{ name: 'at' }],
  });
  for (const [at, written] of [
    ['2027-03-28T01:30:00Z', '2027-03-28 01:30'],
    ['2027-03-28T02:30:00Z', '2027-03-28 02:30'],
    ['2027-03-28T02:30:00', '2027-03-28 02:30'],
    ['2027-10-31T00:30:00Z', '2027-10-31 00:30'],
    ['2027-10-31T03:30:00+02:00', '2027-10-31 01:30'],
    ['October 31, 2027 02:30', '2027-10-31 02:30'],
  ]) {
    const { body } = await journey.request('POST', `/v1/templates/${template.id}/preview`, {
      variables: { at },
    });
    assert.equal(body.subject, written, JSON.stringify(body));
  }
});
