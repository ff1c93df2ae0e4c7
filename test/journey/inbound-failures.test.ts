/** Reports during failures, and forged or mangled ones. */
import assert from 'node:assert/strict';
import { after, test } from 'node:test';
import fc from 'fast-check';
import { startFakeMx } from '../support/fake-mx.ts';
import { type Journey, startJourney } from '../support/journey.ts';
import { feedbackReport, deliverReport, statusReport } from '../support/reports.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { waitFor } from '../support/wait.ts';

const ENV = {
  LETTERHAUS_INBOUND_PORT: '0',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
  LETTERHAUS_LOG: 'warn',
};
const TAKEN = /^250 2\.6\.0 /;

const journey = await startJourney(ENV);
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

const portOf = (of: Journey): number => of.service.readyLine.inbound_port ?? 0;

async function delivered(domain: string) {
  const mx = await journey.mailServer(domain);
  const id = await journey.send({ to: `jo@${domain}` });
  await journey.ended(id);
  return { id, returnPath: mx.messages[0]?.envelopeFrom ?? '' };
}

/** Everything that a report could change. */
function state() {
  return service.sql(
    `select (select count(*)::int from events) as events,
            (select count(*)::int from suppressions) as suppressions,
            (select json_agg(status order by email_id, position) from recipients) as statuses`,
  );
}

test('a report that arrives during a database outage is deferred, and settled once when it is repeated', async () => {
  const { id, returnPath } = await delivered('outage.test');
  const message = statusReport({ recipient: 'jo@outage.test' });
  await service.setDatabaseReachable(false);
  assert.match(await deliverReport(portOf(journey), { to: returnPath, message }), /^451 4\.3\.0 /);
  await service.setDatabaseReachable(true);

  // It goes away between RCPT and the message.
  await using client = await Dialogue.greeted(portOf(journey));
  await client.ask('MAIL FROM:<>');
  const taken = async () => (await client.ask(`RCPT TO:<${returnPath}>`))?.startsWith('250');
  await waitFor(taken, { what: 'the database to be back' });
  await client.ask('DATA');
  await service.setDatabaseReachable(false);
  client.send(`${message}\r\n.\r\n`);
  assert.match((await client.readReply()) ?? '', /^451 4\.3\.0 /);
  await service.setDatabaseReachable(true);

  const settled = async () =>
    TAKEN.test(await deliverReport(portOf(journey), { to: returnPath, message }));
  await waitFor(settled, { what: 'the report to be taken' });
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'bounced']);
});

for (const [step, point, domain] of [
  ['before the commit', 'inbound_before_commit', 'uncommitted.test'],
  ['between the commit and its reply', 'inbound_after_commit', 'unanswered.test'],
] as const) {
  test(`when a worker is killed ${step}, no report is lost or settled twice`, async () => {
    const { id, returnPath } = await delivered(domain);
    await journey.story(id);
    service.env['LETTERHAUS_FAILPOINTS'] = `${point}=kill@1`;
    await service.restart();
    delete service.env['LETTERHAUS_FAILPOINTS'];
    const message = statusReport({ recipient: `jo@${domain}` });
    const [killed] = await service.workerPids();
    assert.equal(await deliverReport(portOf(journey), { to: returnPath, message }), 'hung up');
    // A connection that is made before the death is noticed would be given to the dead.
    const replaced = async () => {
      const [pid] = await service.workerPids();
      return pid !== undefined && pid !== killed;
    };
    await waitFor(replaced, { what: 'the next worker' });
    const again = async () => {
      const reply = await deliverReport(portOf(journey), { to: returnPath, message }).catch(
        () => '',
      );
      return TAKEN.test(reply);
    };
    await waitFor(again, { what: 'the next worker to take it' });
    assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'bounced']);
    const find = 'select change from inbound_messages where email_id = $1';
    const kept = await service.sql(find, [id]);
    assert.deepEqual(kept, [{ change: 'bounced' }]);
  });
}

test('a delivery confirmation changes an email from sent to delivered', async () => {
  await using relay = await startFakeMx();
  await using relayed = await startJourney({
    ...ENV,
    LETTERHAUS_RELAY_URL: `smtp://127.0.0.1:${relay.port}`,
  });
  const id = await relayed.send({ to: ['ann@far.test', 'bob@far.test'] });
  assert.equal((await relayed.ended(id)).status, 'sent');
  const confirm = async (name: string) => {
    const recipient = `${name}@far.test`;
    const sent = relay.messages.find(({ recipients }) => recipients.includes(recipient));
    const message = statusReport({ recipient, action: 'delivered', status: '2.0.0' });
    const reply = await deliverReport(portOf(relayed), { to: sent?.envelopeFrom ?? '', message });
    assert.match(reply, TAKEN);
  };
  await confirm('ann');
  assert.equal((await relayed.email(id)).status, 'sent');
  await confirm('bob');
  assert.equal((await relayed.email(id)).status, 'delivered');
  const story = ['queued', 'sent', 'sent', 'delivered', 'delivered'];
  assert.deepEqual(await relayed.story(id), story);
});

const MESSAGES = 1_200;

/** To whom, and whether it is a report with something broken or noise between words of no meaning. */
const attacks = fc.record({
  to: fc.constantFrom('fbl', 'abuse', 'postmaster', 'forged', 'real'),
  seed: fc.constantFrom('bounce', 'complaint'),
  at: fc.nat(700),
  removed: fc.nat(120),
  inserted: fc.oneof(
    fc.constantFrom('\r\n', '\r\n\r\n', '--b\r\n', '--b--\r\n', 'Final-Recipient: rfc822; ', '=?'),
    fc.string({ unit: 'binary-ascii', maxLength: 30 }),
  ),
  noise: fc.string({ unit: fc.constantFrom('0', '9', '-', ';', ' ', '\r\n', '='), maxLength: 60 }),
});

test('1,200 forged and mangled reports change nothing', async () => {
  const { id, returnPath } = await delivered('attacked.test');
  await journey.story(id);
  const before = await state();
  const forged = returnPath.replace(/^b-.{8}/, 'b-aaaaaaaa');
  const client = await Dialogue.greeted(portOf(journey));
  let session = client;
  const replies = new Set<string>();
  for (const [index, attack] of fc.sample(attacks, MESSAGES).entries()) {
    if (index % 4 === 3) {
      await session[Symbol.asyncDispose]();
      session = await Dialogue.greeted(portOf(journey));
    }
    const names = { real: returnPath, forged };
    const to = attack.to in names ? names[attack.to as 'real'] : `${attack.to}@send.acme.example`;
    const message = attack.to === 'real' ? `Subject: x\r\n\r\n${attack.noise}` : mangled(attack);
    assert.equal(await session.ask('MAIL FROM:<>'), '250 2.1.0 Ok');
    const rcpt = (await session.ask(`RCPT TO:<${to}>`)) ?? '';
    assert.equal(rcpt.startsWith('550 5.7.1'), attack.to === 'forged', rcpt);
    if (attack.to === 'forged') {
      await session.ask('RSET');
      continue;
    }
    await session.ask('DATA');
    session.send(`${message.replace(/^\./gm, '..')}\r\n.\r\n`);
    const reply = (await session.readReply()) ?? '';
    // One client may not fill the disk with what changes nothing.
    assert.match(reply, /^(?:250|451 4\.7\.1|5\d\d) /, JSON.stringify(message));
    replies.add(reply.slice(0, 3));
  }
  await session[Symbol.asyncDispose]();
  assert.ok(replies.has('250') && replies.has('451'), [...replies].join());
  assert.deepEqual(await state(), before);
  const message = statusReport({ recipient: 'jo@attacked.test' });
  assert.match(await deliverReport(portOf(journey), { to: returnPath, message }), TAKEN);
  assert.deepEqual(await journey.story(id), ['queued', 'delivered', 'bounced']);

  function mangled({ seed, at, removed, inserted }: Pick<typeof EXAMPLE, keyof typeof EXAMPLE>) {
    const whole =
      seed === 'bounce' ? statusReport({ recipient: 'jo@attacked.test' }) : feedbackReport(forged);
    const broken = `${whole.slice(0, at)}${inserted}${whole.slice(at + removed)}`;
    return broken.replace(/\r\n|\r|\n/g, '\r\n').replaceAll('\0', '');
  }
});

const EXAMPLE = { seed: 'bounce' as 'bounce' | 'complaint', at: 0, removed: 0, inserted: '' };
