/**
 * An address is suppressed while mail to it waits: scheduled, deferred, or under way to a slow server. By
 * request, by a click on the unsubscribe link, and by a complaint. The mail ends as suppressed.
 */
import { after, test } from 'node:test';
import assert from 'node:assert/strict';
import { type MailServer, startJourney } from '../support/journey.ts';
import { feedbackReport, deliverReport } from '../support/reports.ts';
import { waitFor } from '../support/wait.ts';

const PUBLIC_URL = 'https://mail.acme.example';

const journey = await startJourney({
  LETTERHAUS_PUBLIC_URL: PUBLIC_URL,
  LETTERHAUS_INBOUND_PORT: '0',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
});
after(() => journey[Symbol.asyncDispose]());
const { service } = journey;

type Recipient = { mx: MailServer; address: string; link: string; returnPath: string };

/** A recipient who got an email before. */
async function recipientAt(domain: string): Promise<Recipient> {
  const mx = await journey.mailServer(domain, {}, { provider: domain });
  const address = `kim@${domain}`;
  await journey.ended(await journey.send({ to: address, unsubscribe: true }));
  const [{ raw, envelopeFrom }] = mx.messages as [(typeof mx.messages)[number]];
  const [, link = ''] = /^List-Unsubscribe: <([^>]*)>/m.exec(raw.toString()) ?? [];
  return { mx, address, link: link.slice(PUBLIC_URL.length), returnPath: envelopeFrom };
}

type Suppress = (recipient: Recipient) => Promise<void>;

const WAYS: Record<string, Suppress> = {
  'by request': async ({ address }) => {
    const { status } = await journey.request('POST', '/v1/suppressions', {
      address: address.toUpperCase(),
    });
    assert.equal(status, 201);
  },
  'by a click': async ({ link }) => {
    const { status } = await service.request('POST', link, {
      key: null,
      body: 'List-Unsubscribe=One-Click',
      headers: { 'content-type': 'application/x-www-form-urlencoded' },
    });
    assert.equal(status, 200);
  },
  'by a complaint': async ({ returnPath }) => {
    const port = service.readyLine.inbound_port ?? 0;
    const message = feedbackReport('gone@elsewhere.test');
    assert.match(await deliverReport(port, { to: returnPath, message }), /^250 /);
  },
};

/** Has an email wait. @returns its id, and what lets it go on */
type Wait = (recipient: Recipient) => Promise<{ id: string; goOn: () => Promise<void> }>;

const WAITS: Record<string, Wait> = {
  'is scheduled': async ({ address }) => {
    const [{ at }] = await service.sql(`select app_now() + interval '40 hours' as at`);
    const id = await journey.send({ to: address, scheduled_at: at.toISOString() });
    assert.equal((await journey.email(id)).status, 'scheduled');
    return { id, goOn: () => journey.pass({ hours: 41 }) };
  },
  'is deferred': async ({ mx, address }) => {
    mx.set({ greylist: 1 });
    const id = await journey.send({ to: address });
    assert.equal((await journey.attempted(id)).status, 'deferred');
    return { id, goOn: () => journey.pass({ hours: 5 }) };
  },
  'is under way to a slow server': async ({ mx, address }) => {
    const gate = Promise.withResolvers<void>();
    mx.set({ phases: { rcpt: { after: gate.promise, afterMs: 3_000, reply: '250 2.1.5 Ok' } } });
    const acted = mx.acted;
    const id = await journey.send({ to: address });
    await waitFor(() => mx.acted > acted, { what: 'the envelope' });
    return { id, goOn: () => Promise.resolve(gate.resolve()) };
  },
};

for (const [how, suppress] of Object.entries(WAYS)) {
  for (const [state, wait] of Object.entries(WAITS)) {
    test(`mail that ${state} ends as suppressed when its address is suppressed ${how}`, async () => {
      const name = `${how} ${state}`.replaceAll(' ', '-');
      const recipient = await recipientAt(`${name}.test`);
      const { id, goOn } = await wait(recipient);
      await suppress(recipient);
      await goOn();
      const { status, recipients } = await journey.ended(id);
      assert.deepEqual([status, recipients[0].status], ['suppressed', 'suppressed']);
      assert.equal(recipient.mx.messages.length, 1);
      assert.equal((await journey.story(id)).at(-1), 'suppressed');
    });
  }
}

test('another recipient of the same email gets it', async () => {
  const recipient = await recipientAt('one-of-two.test');
  const { mx, address } = recipient;
  mx.set({ greylist: 1 });
  const id = await journey.send({ to: [address, 'lee@one-of-two.test'] });
  await journey.allAttempted(id);
  await WAYS['by a click']!(recipient);
  await journey.pass({ hours: 5 });
  const { recipients } = await journey.ended(id);
  const statuses = recipients.map((one: { status: string }) => one.status);
  assert.deepEqual(statuses, ['suppressed', 'delivered']);
});
