/**
 * A node whose clock is wrong (chaos/faults/clocks.ts moves `Date` in its processes): from a minute it says so, from an
 * hour it accepts no mail, because the week in which an email is stored follows from the clock of the node.
 */
import assert from 'node:assert/strict';
import { hostname } from 'node:os';
import { test } from 'node:test';
import { makeClocks } from '../chaos/faults/clocks.ts';
import { startService } from '../support/service.ts';
import { idIn, openLoggedIn, submit, SUBMISSION_ENV } from '../support/submission.ts';
import { eventually, waitFor } from '../support/wait.ts';
import { DAY_MS } from '../../src/lib/units.ts';

test('a node that is 200 days behind accepts no mail and says why, until its clock is right', async () => {
  using clocks = makeClocks();
  clocks.set('a', -200 * DAY_MS);
  await using service = await startService({
    env: { ...clocks.envOf('a'), LETTERHAUS_LOG: 'info' },
    args: ['--workers', '2'],
  });
  const key = service.testKey;
  const body = { from: 'a@acme.test', to: 'delivered@simulator.test', subject: 'Hi', text: 'Hi' };
  const post = () => service.request('POST', '/v1/emails', { key, body });
  const ready = () => service.request('GET', '/readyz');
  const skew = async (): Promise<number> => {
    const [, value] = /^letterhaus_clock_skew_seconds (\S+)$/m.exec(
      (await service.metrics()).text,
    ) ?? [null, 'NaN'];
    return Number(value);
  };
  const why = /the clock of this machine is 200 days behind that of its database/;

  // From the first request on, at each worker.
  for (const response of await Promise.all(Array.from({ length: 8 }, post))) {
    assert.equal(response.status, 503, response.text);
    assert.equal(response.body.error.code, 'service_unavailable');
    assert.match(response.body.error.message, why);
  }
  assert.equal((await ready()).status, 503);
  assert.match((await ready()).text, why);
  assert.equal((await service.request('GET', '/v1/emails', { key })).status, 200, 'it still reads');
  await eventually(async () => assert.ok(Math.abs((await skew()) + (200 * DAY_MS) / 1_000) < 60));
  await service.logged(
    /"event":"clock.skewed".*No mail is accepted here until it is right.*NTP.*200 days behind/,
  );
  const conditions = () => service.sql('select type, subject from operator_conditions');
  await eventually(async () =>
    assert.deepEqual(await conditions(), [{ type: 'clock.skewed', subject: hostname() }]),
  );
  assert.deepEqual(await service.sql('select from emails'), []);

  clocks.set('a', 90_000);
  await waitFor(async () => (await ready()).status === 200, { what: 'the node to be ready' });
  // The supervisor sends it to both workers, and one may read it later than the other.
  await waitFor(async () => (await post()).status === 202, { what: 'mail to be accepted' });
  await waitFor(async () => (await skew()) > 60, { what: 'the metric' });
  await service.logged(/(?:89|90|91) seconds ahead/);

  clocks.set('a', 0);
  await waitFor(() => service.logs.includes('The clock of the machine is correct again.'), {
    what: 'the clock to be right',
  });
  assert.equal((await post()).status, 202);
  await waitFor(async () => (await conditions()).length === 0, { what: 'the condition to end' });
  const lines = service.logs.split('\n').filter((line) => /"msg":"The clock of/.test(line));
  assert.equal(lines.length, 3, 'each change is logged once');
});

test('a node that is two hours ahead replies 451 by SMTP and says why, until its clock is right', async () => {
  using clocks = makeClocks();
  clocks.set('a', 2 * 3_600_000);
  await using service = await startService({ env: { ...clocks.envOf('a'), ...SUBMISSION_ENV } });
  const [port = 0] = service.readyLine.submission_ports ?? [];
  // The log-in is not refused: clients take that for a wrong password.
  const dialogue = await openLoggedIn({ port, key: service.testKey });
  const to = ['delivered@simulator.test'];
  const lines = ['From: hello@acme.test', `To: ${to[0]}`, 'Subject: Hi', '', 'Hi'];
  assert.match(
    (await submit(dialogue, { to, lines })) ?? '',
    /^451[- ]4\.3\.[02] .*the clock of this machine is (?:119|120) minutes ahead of that of its database/,
  );
  assert.deepEqual(await service.sql('select from emails'), []);

  clocks.set('a', 0);
  const isReady = async () => (await service.request('GET', '/readyz')).status === 200;
  await waitFor(isReady, { what: 'the node to be ready' });
  const id = idIn(await submit(dialogue, { to, lines }));
  assert.equal((await service.email(id)).subject, 'Hi');
  await dialogue.ask('QUIT');
});
