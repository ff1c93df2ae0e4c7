/** Strangers send unmatched mail to the addresses that every mail domain has, as much as they can. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { type Journey, startJourney } from '../support/journey.ts';
import { deliverReport, statusReport } from '../support/reports.ts';
import { Dialogue } from '../support/smtp-dialogue.ts';
import { MIB } from '../../src/lib/units.ts';

const RING_MB = 32;
const ENV = {
  LETTERHAUS_INBOUND_PORT: '0',
  LETTERHAUS_SMTP_HOST: '127.0.0.1',
  LETTERHAUS_UNMATCHED_MB: String(RING_MB),
};
const portOf = ({ service }: Journey): number => service.readyLine.inbound_port ?? 0;

/** Sends until the service defers a message. @returns the number of kept messages */
async function flood(port: number, from: string): Promise<number> {
  await using client = await Dialogue.greeted(port, { from });
  for (let count = 0; ; count += 1) {
    await client.ask('MAIL FROM:<ann@else.test>');
    await client.ask('RCPT TO:<postmaster@send.acme.example>');
    assert.match((await client.ask('DATA')) ?? '', /^354 /);
    // More than is kept of one, and nothing that PostgreSQL could make smaller.
    const lines =
      randomBytes(64 * 1024)
        .toString('base64')
        .match(/.{1,76}/g) ?? [];
    client.send(`Subject: Hello\r\n\r\n${lines.join('\r\n')}\r\n.\r\n`);
    const reply = (await client.readReply()) ?? '';
    if (reply.startsWith('451 4.7.1 ')) return count;
    assert.match(reply, /^250 2\.6\.0 /);
  }
}

test('a flood of unmatched mail uses a fixed amount of disk, and bounces are still accepted', async () => {
  await using journey = await startJourney(ENV, { args: ['--workers', '1'] });
  const { service } = journey;
  const mx = await journey.mailServer('flooded.test');
  const id = await journey.send({ to: 'jo@flooded.test' });
  await journey.ended(id);
  const diskBytes = async (): Promise<number> => {
    const [row] = await service.sql(
      `select sum(pg_total_relation_size(oid::regclass))::float8 as bytes from pg_class
        where relname like 'inbound\\_%' and relkind = 'r'`,
    );
    return row.bytes;
  };
  let keptBytes = 0;
  for (let round = 0; keptBytes < (RING_MB + 8) * MIB; round += 1) {
    for (let address = 1; address <= 9; address += 1) {
      const kept = await flood(portOf(journey), `127.0.9.${address}`);
      // 1 MB a minute of one client, 8 MB of all.
      assert.equal(kept, address < 9 ? 16 : 0, `client ${address} in round ${round}`);
      keptBytes += kept * 64 * 1024;
    }
    // With a new start the minute begins anew.
    await service.restart();
  }
  const bytes = await diskBytes();
  assert.ok(bytes <= RING_MB * MIB * 1.02, `${bytes / MIB} MB`);
  assert.ok(bytes >= (RING_MB / 2) * MIB, `${bytes / MIB} MB`);

  const message = statusReport({ recipient: 'jo@flooded.test' });
  const to = mx.messages[0]?.envelopeFrom ?? '';
  assert.match(await deliverReport(portOf(journey), { to, message }), /^250 2\.6\.0 /);
  assert.equal((await journey.ended(id)).status, 'bounced');
  const listed = await service.cliJson('inbound', 'list', '--limit', '2');
  assert.deepEqual(
    listed.data.map(({ kind }: { kind: string }) => kind),
    ['bounce', 'other'],
  );
  const { stdout } = await service.cli('inbound', 'show', listed.data[1].id);
  assert.match(stdout, /Subject: Hello/);
});
